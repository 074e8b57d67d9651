// Each task opens the registry anew, which takes a millisecond: whoever is behind a request stands
// in the history, and a registry that went away and came back is found again.

#include "server/api/RegistryAdmin.h"

#include "server/protocol/Json.h"
#include "server/repository/RegistryRepository.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <map>
#include <optional>

namespace tenon::server {
namespace {

constexpr int64_t kMaxRows = 200;

/// Null where it has none: a history that somebody altered is shown as far as it goes.
Json memberOf(const Json &value, const char *key) {
  return value.is_object() && value.contains(key) ? value.at(key) : Json();
}

/// What a person asks for.
struct MoveRequest {
  int64_t version = 0; ///< 0: none was named
  std::optional<int64_t> expected;
  std::string reason;
};

Result<MoveRequest> parseMove(std::string_view text) {
  Json value;
  TENON_TRY(parseRequestJson(text.empty() ? "{}" : text, value));
  MoveRequest move;
  bool isValid = value.is_object();
  for (const auto &[key, member] : value.items()) {
    bool isNumber = member.is_number_integer() && member >= 0 && member <= INT64_MAX;
    if (key == "reason" && member.is_string()) {
      move.reason = member.get<std::string>();
    } else if (key == "version" && isNumber) {
      move.version = member.get<int64_t>();
    } else if (key == "expected" && isNumber) {
      move.expected = member.get<int64_t>();
    } else {
      isValid = false;
    }
  }
  if (!isValid) {
    return Status::error(ErrorId::BadRequest, "the request does not describe a move of an alias",
                         R"(for example {"version": 3, "expected": 2, "reason": "more accurate"})");
  }
  return move;
}

/// The last result of the gate for each version: `events` are the alias's, the newest first.
std::map<int64_t, Json> gatesOf(const std::vector<registry::Event> &events, const Json &rules) {
  std::map<int64_t, Json> gates;
  for (const registry::Event &event : events) {
    if (event.action != "gate") {
      continue;
    }
    Json figures = memberOf(event.detail, "figures"), asked = Json::array();
    for (const Json &row : figures) {
      asked.push_back(memberOf(row, "rule"));
    }
    gates.emplace(event.version, Json{{"verdict", memberOf(event.detail, "verdict")},
                                      {"of_present_rules", asked == rules},
                                      {"figures", figures}});
  }
  return gates;
}

Result<std::string> describe(registry::Registry &registry, const registry::Reference &served) {
  TENON_ASSIGN(int64_t at, registry.aliasOf(served.name, served.alias));
  TENON_ASSIGN(registry::Terms terms, registry.terms(served.name, served.alias));
  TENON_ASSIGN(std::vector<registry::Version> present, registry.versions(served.name));
  TENON_ASSIGN(std::vector<registry::Event> history,
               registry.history(served.name, served.alias, kMaxRows));
  Json rules = Json::array(), signers = Json::array(), versions = Json::array(),
       events = Json::array();
  for (const registry::Rule &rule : terms.rules) {
    rules.push_back(rule.text);
  }
  for (const signing::Trust &signer : terms.signers) {
    signers.push_back(signer.text());
  }
  std::map<int64_t, Json> gates = gatesOf(history, rules);
  for (const registry::Version &version : present) {
    if (versions.size() == kMaxRows) {
      break;
    }
    versions.push_back({{"version", version.number},
                        {"created", version.created},
                        {"bytes", version.blob.bytes},
                        {"note", version.note},
                        {"deleted", version.isDeleted},
                        {"gate", gates[version.number]}});
  }
  for (const registry::Event &event : history) {
    events.push_back({{"id", event.id},
                      {"time", event.time},
                      {"by", event.by},
                      {"action", event.action},
                      {"version", event.version},
                      {"from", event.from},
                      {"reason", memberOf(event.detail, "reason")},
                      {"verdict", memberOf(event.detail, "verdict")}});
  }
  return dumpJson({{"name", served.name},
                   {"alias", served.alias},
                   {"version", at},
                   {"rules", rules},
                   {"signers", signers},
                   {"versions", versions},
                   {"events", events}});
}

Result<std::string> describeMove(Result<registry::Move> moved) {
  if (!moved.isOk()) {
    return moved.takeStatus();
  }
  return dumpJson(
      {{"name", moved->name}, {"alias", moved->alias}, {"from", moved->from}, {"to", moved->to}});
}

} // namespace

std::unique_ptr<RegistryAdmin> RegistryAdmin::of(const std::optional<Selection> &selection,
                                                 RegistryAddress address,
                                                 std::vector<std::string> trusted,
                                                 PushFile pushFile,
                                                 boost::asio::any_io_executor executor) {
  return selection ? std::unique_ptr<RegistryAdmin>(
                         new RegistryAdmin(*selection, std::move(address), std::move(trusted),
                                           std::move(pushFile), std::move(executor)))
                   : nullptr;
}

RegistryAdmin::~RegistryAdmin() {
  threads.stop();
  threads.join();
}

template <typename Value>
void RegistryAdmin::submit(std::function<Result<Value>()> work,
                           std::function<void(Result<Value>)> onAnswer) {
  boost::asio::post(
      threads, [this, work = std::move(work), onAnswer = std::move(onAnswer)]() mutable {
        std::shared_ptr<Result<Value>> answer = std::make_shared<Result<Value>>(work());
        std::function<void()> reply = [onAnswer = std::move(onAnswer), answer] {
          onAnswer(std::move(*answer));
        };
        boost::asio::post(executor, std::move(reply));
      });
}

void RegistryAdmin::submit(std::string by,
                           std::function<Result<std::string>(registry::Registry &)> work,
                           OnAnswer onAnswer) {
  submit<std::string>(
      [this, by = std::move(by), work = std::move(work)]() -> Result<std::string> {
        TENON_ASSIGN(registry::Registry registry,
                     registry::Registry::open(
                         address.where,
                         {.by = by, .caller = by, .clock = {}, .cacheSize = address.cacheSize}));
        return work(registry);
      },
      std::move(onAnswer));
}

Result<registry::Registry> RegistryAdmin::openFor(const Question &asked) const {
  TENON_ASSIGN(registry::Registry registry,
               registry::Registry::open(address.where, {.by = asked.by.empty() ? "serve" : asked.by,
                                                        .caller = asked.isTrusted ? asked.by : "",
                                                        .clock = {},
                                                        .token = asked.token,
                                                        .takesEnvironment = asked.isTrusted,
                                                        .cacheSize = address.cacheSize}));
  // Where the registry asks nobody who they are, the server's own tokens do.
  return asked.isUnknown && !registry.knowsWhoAsks()
             ? unknownToken()
             : Result<registry::Registry>(std::move(registry));
}

void RegistryAdmin::ask(const Question &asked, std::string body, OnAnswer onAnswer) {
  submit<std::string>(
      [this, asked, body = std::move(body)]() -> Result<std::string> {
        TENON_ASSIGN(registry::Registry registry, openFor(asked));
        return answerRegistry(registry, asked, body);
      },
      std::move(onAnswer));
}

void RegistryAdmin::file(const Question &asked, std::function<void(Result<RegistryFile>)> onFile) {
  submit<RegistryFile>(
      [this, asked]() -> Result<RegistryFile> {
        TENON_ASSIGN(registry::Registry registry, openFor(asked));
        return openRegistryFile(registry, asked);
      },
      std::move(onFile));
}

void RegistryAdmin::admit(const Question &asked, std::function<void(Result<PushCall>)> onCall) {
  submit<PushCall>(
      [this, asked]() -> Result<PushCall> {
        TENON_ASSIGN(registry::Registry registry, openFor(asked));
        TENON_TRY(registry.allow(registry::Role::Push, asked.object));
        TENON_ASSIGN(PushCall call, parsePush(asked));
        call.registry = address.where;
        return call;
      },
      std::move(onCall));
}

void RegistryAdmin::push(PushCall call, std::string path, OnAnswer onAnswer) {
  submit<std::string>(
      [this, call = std::move(call), path = std::move(path)]() -> Result<std::string> {
        TENON_TRY(checkPushed(call, path));
        return pushFile(call, path);
      },
      std::move(onAnswer));
}

Status RegistryAdmin::checkServed(registry::Registry &registry,
                                  const registry::Reference &version) const {
  std::optional<signing::Trust> trust;
  if (!trusted.empty()) {
    TENON_ASSIGN(trust, signing::Trust::open(trusted));
  }
  TENON_ASSIGN(registry::Version found, registry.find(version));
  return server::checkServed(registry, found, trust ? &*trust : nullptr, true);
}

void RegistryAdmin::query(const std::string &model, OnAnswer onAnswer) {
  submit(
      "serve",
      [followed = served.of(model).front()](registry::Registry &registry) {
        return describe(registry, followed);
      },
      std::move(onAnswer));
}

void RegistryAdmin::lineage(const std::string &model, OnAnswer onAnswer) {
  submit(
      "serve",
      [followed = served.of(model).front()](registry::Registry &registry) -> Result<std::string> {
        TENON_ASSIGN(registry::Version version, registry.find(followed));
        TENON_ASSIGN(registry::Lineage lineage, registry.lineage(version, kMaxRows));
        return dumpJson(registry::describe(lineage));
      },
      std::move(onAnswer));
}

void RegistryAdmin::promote(const std::string &model, std::string_view settings, std::string by,
                            OnAnswer onAnswer) {
  Result<MoveRequest> asked = parseMove(settings);
  if (asked.isOk() && asked->version == 0) {
    asked = Status::error(ErrorId::BadRequest, "the request does not name a version to promote");
  }
  if (!asked.isOk()) {
    onAnswer(asked.takeStatus());
    return;
  }
  submit(
      std::move(by),
      [this, followed = served.of(model).front(),
       asked = std::move(*asked)](registry::Registry &registry) -> Result<std::string> {
        registry::Reference version = {followed.name, asked.version, ""};
        TENON_TRY(checkServed(registry, version));
        return describeMove(
            registry.promote(version, followed.alias, asked.expected, asked.reason));
      },
      std::move(onAnswer));
}

void RegistryAdmin::rollback(const std::string &model, std::string_view settings, std::string by,
                             OnAnswer onAnswer) {
  Result<MoveRequest> asked = parseMove(settings);
  if (!asked.isOk()) {
    onAnswer(asked.takeStatus());
    return;
  }
  submit(
      std::move(by),
      [followed = served.of(model).front(),
       asked = std::move(*asked)](registry::Registry &registry) -> Result<std::string> {
        return describeMove(
            registry.rollback(followed.name, followed.alias, asked.expected, asked.reason));
      },
      std::move(onAnswer));
}

} // namespace tenon::server
