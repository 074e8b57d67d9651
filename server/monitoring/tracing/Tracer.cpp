// The stages are placed behind one another from the request's arrival, copy_out before its end:
// what is between is the way to the worker and back.

#include "server/monitoring/tracing/Tracer.h"

#include "server/protocol/JsonText.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <random>

namespace tenon::server {
namespace {

constexpr size_t kBatch = 512;     // requests in one message
constexpr size_t kMaxBatches = 16; // that wait
constexpr std::chrono::seconds kPeriod{1};

uint64_t seed() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

std::string withPath(std::string url) {
  size_t host = url.find("://");
  size_t slash = url.find('/', host == std::string::npos ? 0 : host + 3);
  if (slash == std::string::npos || slash + 1 == url.size()) {
    url = url.substr(0, slash) + "/v1/traces";
  }
  return url;
}

std::string hex(std::span<const uint8_t> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

void appendAttribute(std::string &out, std::string_view key, std::string_view value) {
  fmt::format_to(std::back_inserter(out), R"({{"key":"{}","value":{{"stringValue":)", key);
  appendJsonString(out, value);
  out += "}}";
}

void appendNumber(std::string &out, std::string_view key, uint64_t value) {
  fmt::format_to(std::back_inserter(out), R"({{"key":"{}","value":{{"intValue":"{}"}}}})", key,
                 value);
}

void appendSpan(std::string &out, const TracedRequest &request, uint64_t span,
                std::string_view parent, std::string_view name, int kind, uint64_t start,
                uint64_t end) {
  fmt::format_to(std::back_inserter(out), R"({{"traceId":"{}","spanId":"{:016x}",)",
                 hex(request.context.trace), span);
  if (!parent.empty()) {
    fmt::format_to(std::back_inserter(out), R"("parentSpanId":"{}",)", parent);
  }
  fmt::format_to(std::back_inserter(out),
                 R"("name":"{}","kind":{},"startTimeUnixNano":"{}","endTimeUnixNano":"{}")", name,
                 kind, start, end);
}

std::string_view spanName(const TracedRequest &request) {
  return !request.text ? "infer" : request.text->isChat ? "chat" : "text_completion";
}

void appendTokens(std::string &out, const TextRecord &text) {
  const std::pair<std::string_view, uint64_t> numbers[] = {
      {"gen_ai.usage.input_tokens", text.promptTokens},
      {"gen_ai.usage.cache_read.input_tokens", text.cachedTokens},
      {"gen_ai.usage.output_tokens", text.answerTokens}};
  for (const auto &[key, value] : numbers) {
    out += ',';
    appendNumber(out, key, value);
  }
  const std::pair<std::string_view, std::string_view> texts[] = {
      {"gen_ai.response.id", text.id}, {"gen_ai.response.finish_reasons", text.end}};
  for (const auto &[key, value] : texts) {
    out += ',';
    appendAttribute(out, key, value);
  }
}

using Stages = std::array<std::pair<std::string_view, uint64_t>, 3>;
/// Those behind one another from the beginning, with their nanoseconds.
Stages stagesOf(const TracedRequest &request) {
  if (const std::optional<TextRecord> &text = request.text) {
    uint64_t decode = text->answerTokens > 0
                          ? text->total - std::min(text->queue + text->prefill, text->total)
                          : 0;
    return {{{"queue", text->queue}, {"prefill", text->prefill}, {"decode", decode}}};
  }
  return {{{"queue", request.times.queue},
           {"copy_in", request.times.copyIn},
           {"compute", request.times.compute}}};
}

void appendRequest(std::string &out, const TracedRequest &request, Random &random) {
  constexpr int kInternal = 1, kServer = 2;
  uint64_t end = static_cast<uint64_t>(
               std::chrono::duration_cast<std::chrono::nanoseconds>(request.end.time_since_epoch())
                   .count()),
           start = end - request.total;
  uint64_t root = random.next() | 1;
  bool hasParent = request.context.isGiven;
  appendSpan(out, request, root, hasParent ? hex(request.context.parent) : "", spanName(request),
             kServer, start, end);
  out += R"(,"attributes":[)";
  appendAttribute(out, "tenon.model", request.model);
  out += ',';
  appendAttribute(out, "tenon.version", request.version);
  if (request.batchRows > 0) {
    out += ',';
    appendNumber(out, "tenon.stack_rows", request.batchRows);
  }
  if (request.text) {
    appendTokens(out, *request.text);
  }
  out += request.isFailed ? R"(],"status":{"code":2}})" : R"(],"status":{}})";
  std::string parent = fmt::format("{:016x}", root);
  uint64_t at = start;
  for (const auto &[name, duration] : stagesOf(request)) {
    uint64_t next = std::min(at + duration, end);
    if (duration > 0) {
      out += ',';
      appendSpan(out, request, random.next() | 1, parent, name, kInternal, at, next);
      out += '}';
    }
    at = next;
  }
  if (request.times.copyOut > 0) {
    out += ',';
    appendSpan(out, request, random.next() | 1, parent, "copy_out", kInternal,
               std::max(at, end - std::min(request.times.copyOut, request.total)), end);
    out += '}';
  }
}

} // namespace

std::string otlpText(const std::vector<TracedRequest> &requests, std::string_view serverVersion,
                     Random &random) {
  std::string out = R"({"resourceSpans":[{"resource":{"attributes":[)";
  appendAttribute(out, "service.name", "tenon");
  out += ',';
  appendAttribute(out, "service.version", serverVersion);
  out += R"(]},"scopeSpans":[{"scope":{"name":"tenon.serve"},"spans":[)";
  for (const TracedRequest &request : requests) {
    out += &request == requests.data() ? "" : ",";
    appendRequest(out, request, random);
  }
  return out + "]}]}]}";
}

Tracer::Tracer(std::string url, double share, std::string serverVersion,
               std::function<void(const Status &)> onFailure)
    : url(withPath(std::move(url))), serverVersion(std::move(serverVersion)), share(share),
      random(seed()), queue(kMaxBatches, std::move(onFailure)) {}

bool Tracer::isTraced(TraceContext &context) {
  if (context.isGiven) {
    return context.isSampled;
  }
  if (!random.chance(share)) {
    return false;
  }
  for (size_t i = 0; i < context.trace.size(); ++i) {
    context.trace[i] = static_cast<uint8_t>(random.next() >> 8);
  }
  context.trace[0] |= 1; // never zero
  return true;
}

void Tracer::replied(const InferResult &result, uint64_t copyOutNanoseconds) {
  TracedRequest request = {
      .context = result.trace, .model = {}, .version = {}, .end = {}, .times = result.times};
  if (!isTraced(request.context)) {
    return;
  }
  request.model = result.version->model;
  request.version = result.version->number;
  request.total = nanosecondsSince(result.arrival);
  request.times.copyOut = copyOutNanoseconds;
  request.batchRows = result.batchRows;
  add(std::move(request));
}

void Tracer::failed(const Request &request) {
  TracedRequest traced = {.context = request.payload.trace,
                          .model = {},
                          .version = {},
                          .end = {},
                          .times = request.times,
                          .isFailed = true};
  if (!isTraced(traced.context)) {
    return;
  }
  traced.model = request.version->model;
  traced.version = request.version->number;
  traced.total = nanosecondsSince(request.arrival);
  add(std::move(traced));
}

void Tracer::continued(const TextRecord &record) {
  TracedRequest request = {.context = record.trace,
                           .model = record.model,
                           .version = record.version,
                           .end = {},
                           .total = record.total,
                           .times = {},
                           .isFailed = record.isFailed,
                           .text = record};
  if (isTraced(request.context)) {
    add(std::move(request));
  }
}

void Tracer::add(TracedRequest request) {
  request.end = std::chrono::system_clock::now();
  traced.push_back(std::move(request));
  if (traced.size() >= kBatch) {
    flush();
  }
}

void Tracer::tick(Clock::time_point now) {
  if (now - last >= kPeriod) {
    last = now;
    flush();
  }
}

void Tracer::flush() {
  if (traced.empty()) {
    return;
  }
  std::shared_ptr<std::vector<TracedRequest>> requests =
      std::make_shared<std::vector<TracedRequest>>(std::exchange(traced, {}));
  uint64_t count = requests->size();
  queue.post({[requests, url = url, version = serverVersion, ids = random.next()] {
                Random random(ids);
                WebRequest request;
                request.method = "POST";
                request.url = url;
                request.headers = {"Content-Type: application/json"};
                request.body = otlpText(*requests, version, random);
                request.patience = std::chrono::seconds(5);
                return request;
              },
              count});
}

} // namespace tenon::server
