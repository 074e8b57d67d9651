// HTTP's form of what Api answers.

#include "server/http/Exchange.h"

#include "registry/Sha256.h"
#include "server/page/Page.h"
#include "server/protocol/ErrorMap.h"

#include <fmt/format.h>

#include <charconv>
#include <new>

namespace tenon::server {
namespace {

/// Smaller replies gain nothing.
constexpr uint64_t kMinCompressed = 1024;
/// Of outputs as JSON in one reply; some hundred MiB of text.
constexpr uint64_t kMaxElements = 16 << 20;

std::string_view textOf(Bytes bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

Result<HttpReply> inferReply(InferResult result, const InferRequest &request) {
  HttpReply reply;
  reply.begun = Clock::now();
  const Version &version = *result.version;
  std::vector<ReplyOutput> outputs;
  for (const AskedOutput &asked : askedOutputs(version, request)) {
    const ModelPort &port = version.ports.outputs[asked.port];
    Bytes elements = elementsOf(result, asked.port);
    outputs.push_back(
        {port.name, port.dtype, result.outputs[asked.port].dims, elements, asked.isBinary});
    if (asked.isBinary) {
      reply.tensors.push_back(elements);
    }
  }
  TENON_ASSIGN(InferReply written,
               writeInferReply(version.model, version.number, request.id, outputs, kMaxElements));
  if (written.hasBinary) {
    reply.contentType = "application/octet-stream";
    reply.fields.emplace_back("Inference-Header-Content-Length",
                              fmt::format("{}", written.json.size()));
  }
  reply.body = std::move(written.json);
  reply.result = std::move(result);
  return reply;
}

std::shared_ptr<Request> infer(Api &api, const HttpRequest &request,
                               std::function<void(HttpReply)> onReply) {
  Result<InferRequest> parsed =
      Status::error(ErrorId::OutOfMemory, "no memory for the request",
                    "send tensors as binary data, or fewer requests at once");
  try {
    parsed = parseInferRequest(request.body, request.jsonBytes);
  } catch (const std::bad_alloc &) {
    // The others are served on.
  }
  if (parsed.isOk() && parsed->listBytes() > request.maxLists) {
    parsed =
        Status::error(ErrorId::QueueFull, "the requests that wait take all memory that they may",
                      "try again later, or send tensors as binary data");
  }
  if (!parsed.isOk()) {
    api.note(request.match.model, parsed.status());
    onReply(errorReply(parsed.status()));
    return nullptr;
  }
  parsed->trace = request.trace;
  Result<std::shared_ptr<Request>> pending =
      api.infer(request.match, std::move(*parsed),
                [onReply](Result<InferResult> result, const InferRequest &asked) {
                  Result<HttpReply> reply =
                      Status::error(ErrorId::OutOfMemory, "no memory for the reply",
                                    "ask for fewer outputs, or for binary data");
                  try {
                    reply = result.isOk() ? inferReply(std::move(*result), asked)
                                          : Result<HttpReply>(result.takeStatus());
                  } catch (const std::bad_alloc &) {
                    // The others are served on.
                  }
                  onReply(reply.isOk() ? std::move(*reply) : errorReply(reply.status()));
                  return reply.takeStatus();
                });
  if (!pending.isOk()) {
    onReply(errorReply(pending.status()));
    return nullptr;
  }
  return std::move(*pending);
}

HttpReply pageReply(std::string_view path) {
  const PageFile &file = pageFile(path);
  HttpReply reply;
  reply.contentType = file.type;
  reply.body = file.text;
  reply.fields = {{"Content-Security-Policy", std::string(kPagePolicy)},
                  {"X-Content-Type-Options", "nosniff"},
                  {"Referrer-Policy", "no-referrer"},
                  {"Cross-Origin-Opener-Policy", "same-origin"},
                  {"Cross-Origin-Resource-Policy", "same-origin"},
                  {"Cache-Control", "no-cache"}};
  return reply;
}

} // namespace

uint64_t HttpReply::bytes() const {
  uint64_t sum = body.size();
  for (Bytes tensor : tensors) {
    sum += tensor.size();
  }
  return sum;
}

void HttpReply::compress(Encoding encoding) {
  if (encoding == Encoding::Identity || bytes() < kMinCompressed) {
    return;
  }
  std::string compressed;
  try {
    Compressor compressor(encoding);
    compressor.append(body, tensors.empty(), compressed);
    for (Bytes &tensor : tensors) {
      compressor.append(textOf(tensor), &tensor == &tensors.back(), compressed);
    }
  } catch (const std::bad_alloc &) {
    return; // it goes as it is
  }
  body = std::move(compressed);
  tensors.clear();
  fields.emplace_back("Content-Encoding", nameOf(encoding));
}

HttpReply errorReply(const Status &status, bool closes) {
  HttpReply reply;
  reply.status = wireStatusOf(status.id()).http;
  reply.body = errorBody(status);
  reply.closes = closes;
  if (reply.status == 429 || reply.status == 503) {
    reply.fields.emplace_back("Retry-After", "1");
  } else if (reply.status == 401) {
    reply.fields.emplace_back("WWW-Authenticate", "Bearer");
  }
  return reply;
}

Status checkRights(const Tokens *tokens, std::string_view authorization,
                   const Result<RouteMatch> &match) {
  return tokens ? tokens->check(authorization, match.isOk() ? match->route->role : Role::Read)
                : Status::ok();
}

Status readHead(const HttpHead &head, const Tokens *tokens, bool onlyLocalNames,
                HttpRequest &request) {
  TENON_TRY(checkSite(head, onlyLocalNames));
  Result<RouteMatch> match = matchRoute(head.method, head.target);
  TENON_TRY(checkRights(tokens, head.authorization, match));
  if (!match.isOk()) {
    return match.takeStatus();
  }
  request.match = std::move(*match);
  if (request.match.route->role == Role::Admin) {
    std::string hash = tokens ? registry::sha256Of(bearerToken(head.authorization)) : "";
    request.by = tokens ? "serve, token " + hash.substr(0, 8)
                        : "serve, without token"; // which token it was, not the token
  }
  request.trace = parseTraceParent(head.traceparent);
  std::string_view jsonBytes = head.inferenceHeaderLength;
  if (!jsonBytes.empty()) {
    uint64_t bytes = 0;
    std::from_chars_result result =
        std::from_chars(jsonBytes.data(), jsonBytes.data() + jsonBytes.size(), bytes);
    if (result.ec != std::errc() || result.ptr != jsonBytes.data() + jsonBytes.size()) {
      return Status::error(
          ErrorId::BadRequest,
          "the request is not valid HTTP: Inference-Header-Content-Length is not a number");
    }
    request.jsonBytes = bytes;
  }
  return Status::ok();
}

std::shared_ptr<Request> performHttp(Api &api, const HttpRequest &request,
                                     std::function<void(HttpReply)> onReply) {
  Operation operation = request.match.route->operation;
  if (operation == Operation::ModelInfer) {
    return infer(api, request, std::move(onReply));
  }
  if (operation == Operation::Page) {
    onReply(pageReply(request.match.route->path));
    return nullptr;
  }
  bool isUnready = operation == Operation::ServerReady && !api.isReady();
  api.perform(
      request.match, request.body,
      [onReply, operation, isUnready](Result<std::string> answer) {
        if (!answer.isOk()) {
          onReply(errorReply(answer.status()));
          return;
        }
        HttpReply reply;
        reply.status = isUnready ? 503 : 200;
        reply.body = std::move(*answer);
        if (operation == Operation::Metrics) {
          reply.contentType = "text/plain; version=0.0.4; charset=utf-8";
        }
        onReply(std::move(reply));
      },
      request.by);
  return nullptr;
}

} // namespace tenon::server
