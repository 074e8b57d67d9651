#include "registry/Subscriber.h"

#include "registry/Sha256.h"
#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "support/web/WebClient.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <span>

namespace tenon::registry {
namespace {

constexpr int64_t kBatch = 100; // events that are read, and sent in one request of OTLP
constexpr std::chrono::seconds kPatience{10};

Json attribute(std::string_view key, const std::string &value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}

Json attribute(std::string_view key, int64_t value) {
  return {{"key", key}, {"value", {{"intValue", std::to_string(value)}}}}; // as OTLP's JSON has it
}

Json logRecord(const Event &event) {
  constexpr int kInfo = 9;
  std::string time = fmt::format("{}000000", event.time); // nanoseconds
  Json attributes = {attribute("tenon.event.id", event.id),
                     attribute("tenon.event.hash", event.hash),
                     attribute("tenon.action", event.action), attribute("enduser.id", event.by)};
  if (!event.object.empty()) {
    attributes.push_back(attribute("tenon.object", event.object));
  }
  if (event.version != 0) {
    attributes.push_back(attribute("tenon.version", event.version));
  }
  if (!event.alias.empty()) {
    attributes.push_back(attribute("tenon.alias", event.alias));
    attributes.push_back(attribute("tenon.from", event.from));
  }
  return {{"timeUnixNano", time},
          {"observedTimeUnixNano", time},
          {"severityNumber", kInfo},
          {"severityText", "INFO"},
          {"eventName", "tenon.registry." + event.action},
          {"body", {{"stringValue", dumpJson(describe(event))}}},
          {"attributes", std::move(attributes)}};
}

Status otherRegistry(const Registry &registry, int64_t event) {
  return Status::error(
      ErrorId::HistoryAltered,
      fmt::format("event {} of '{}' differs from the one delivered last", event, registry.shown()),
      "this is another registry, or one restored from an older backup: check its history, remove "
      "the state file, and continue with --from");
}

} // namespace

std::string otlpLogs(const std::vector<Event> &events, const std::string &where,
                     const std::string &version) {
  Json records = Json::array();
  for (const Event &event : events) {
    records.push_back(logRecord(event));
  }
  Json resource = {{"attributes",
                    {attribute("service.name", "tenon-registry"),
                     attribute("service.version", version), attribute("tenon.registry", where)}}};
  Json scope = {{"scope", {{"name", "tenon.registry"}}}, {"logRecords", std::move(records)}};
  return dumpJson({{"resourceLogs", Json::array({{{"resource", std::move(resource)},
                                                  {"scopeLogs", Json::array({scope})}}})}});
}

Result<Subscriber> Subscriber::open(Subscription subscription) {
  std::string &url = subscription.url;
  size_t host = url.starts_with("http://") || url.starts_with("https://") ? url.find("//") + 2 : 0;
  if (host == 0 || host == url.size()) {
    return Status::error(ErrorId::BadArgument, fmt::format("'{}' is not a URL", url),
                         "for example https://example.org/events");
  }
  size_t path = url.find('/', host);
  if (subscription.isOtlp && (path == url.npos || path + 1 == url.size())) {
    url = url.substr(0, path) + "/v1/logs";
  }
  TENON_ASSIGN(FolderLock lock, FolderLock::take(subscription.state + ".lock", LockKind::Alone,
                                                 std::chrono::milliseconds(0)));
  Subscriber subscriber(std::move(subscription), std::move(lock));
  const std::string &state = subscriber.subscription.state;
  std::error_code ignored;
  if (std::filesystem::exists(state, ignored)) {
    TENON_ASSIGN(MappedFile file, MappedFile::open(state));
    Json kept =
        parseJson({reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size()});
    bool isValid = kept.is_object() && kept.value("event", Json()).is_number_integer() &&
                   kept.value("hash", Json()).is_string();
    if (!isValid) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("'{}' is not a state file of a subscription", state),
                           "give --state a file of its own");
    }
    subscriber.last = kept["event"].get<int64_t>();
    subscriber.hash = kept["hash"].get<std::string>();
  }
  return subscriber;
}

Status Subscriber::save(int64_t event, const std::string &itsHash) {
  std::string text = dumpJson({{"event", event}, {"hash", itsHash}}) + "\n";
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(subscription.state));
  TENON_TRY(file.append(std::as_bytes(std::span(text))));
  TENON_TRY(file.commit());
  last = event;
  hash = itsHash;
  return Status::ok();
}

Status Subscriber::begin(Registry &registry) {
  if (last) {
    TENON_ASSIGN(std::string present, registry.hashOfEvent(*last));
    return present == hash ? Status::ok() : otherRegistry(registry, *last);
  }
  TENON_ASSIGN(int64_t newest, registry.newestEvent());
  int64_t before = std::min(subscription.first.value_or(newest + 1) - 1, newest);
  TENON_ASSIGN(std::string present, registry.hashOfEvent(before));
  return save(before, present);
}

bool Subscriber::isTold(const Event &event) const {
  return subscription.actions.empty() ||
         std::ranges::find(subscription.actions, event.action) != subscription.actions.end();
}

Status Subscriber::send(const std::vector<Event> &events, const std::string &where) const {
  WebRequest request;
  request.method = "POST";
  request.url = subscription.url;
  request.headers = {"Content-Type: application/json"};
  if (!subscription.authorization.empty()) {
    request.headers.push_back("Authorization: " + subscription.authorization);
  }
  request.patience = kPatience;
  if (subscription.isOtlp) {
    request.body = otlpLogs(events, where, subscription.version);
  } else {
    request.body = dumpJson(describe(events.front()));
    request.headers.push_back("X-Tenon-Event: " + events.front().action);
    request.headers.push_back("Idempotency-Key: " + events.front().hash);
    if (!subscription.secret.empty()) {
      request.headers.push_back("X-Tenon-Signature-256: sha256=" +
                                hmacSha256(subscription.secret, request.body));
    }
  }
  TENON_ASSIGN(WebReply reply, fetch(request));
  return reply.status >= 200 && reply.status < 300
             ? Status::ok()
             : Status::error(ErrorId::WebFailed,
                             fmt::format("{} answered event {} with status {}", subscription.url,
                                         events.front().id, reply.status),
                             "check that the URL accepts the events");
}

Result<int64_t> Subscriber::deliver(Registry &registry) {
  TENON_TRY(begin(registry));
  for (int64_t told = 0;;) {
    TENON_ASSIGN(std::vector<Event> events, registry.eventsAfter(*last, kBatch));
    if (events.empty()) {
      return told;
    }
    std::vector<Event> due;
    for (const Event &event : events) {
      bool isDue = isTold(event);
      if (isDue) {
        due.push_back(event);
      }
      bool isSent = subscription.isOtlp ? event.id == events.back().id : isDue;
      if (isSent && !due.empty()) {
        TENON_TRY(send(due, registry.shown()));
        told += static_cast<int64_t>(due.size());
        due.clear();
        TENON_TRY(save(event.id, event.hash));
      }
    }
    if (*last != events.back().id) { // what nobody wants to be told
      TENON_TRY(save(events.back().id, events.back().hash));
    }
  }
}

} // namespace tenon::registry
