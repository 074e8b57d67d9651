#include "registry/Replay.h"

#include "registry/SearchIndex.h"
#include "registry/Sha256.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::registry {
namespace {

Status impossible(const Event &event, std::string_view why) {
  return Status::error(
      ErrorId::HistoryAltered, fmt::format("event {} {}", event.id, why),
      "restore the registry from a backup; something other than Tenon has changed its database");
}

std::string keyText(const Replay::Number &version) {
  return fmt::format("{}:{}", version.first, version.second);
}

/// The role that an action takes of its object; admin for what is unknown.
Role roleOf(std::string_view action) {
  if (action == "push" || action == "sign" || action == "tag" || action == "gate") {
    return Role::Push;
  }
  return action == "promote" || action == "rollback" || action == "rules" ? Role::Promote
                                                                          : Role::Admin;
}

} // namespace

Status Replay::mayDo(const Event &event) const {
  if (tokens.empty()) {
    return Status::ok(); // everybody might
  }
  std::map<std::string, Json>::const_iterator found = tokens.find(event.by);
  if (found == tokens.end() || found->second.value("revoked", false)) {
    return impossible(event, fmt::format("is by '{}', who had no token", event.by));
  }
  Result<Rights> rights = parseRights(found->second.value("role", ""));
  if (!rights.isOk() || rights->isExpired(event.time)) {
    return impossible(event, fmt::format("is by '{}', whose token had expired", event.by));
  }
  // A token is made and revoked by who is an admin of all that it allows; gc is of everything.
  std::vector<std::string> names = {event.action == "delete" ? "" : event.object};
  if (event.action == "token" || event.action == "revoke") {
    std::string name = event.detail.value("name", "");
    bool isKnown = event.action == "revoke" && tokens.contains(name);
    Result<Rights> others =
        parseRights(isKnown ? tokens.at(name).value("role", "") : event.detail.value("role", ""));
    names.assign(others.isOk() ? 0 : 1, "");
    for (const Grant &grant : others.isOk() ? others->grants : std::vector<Grant>()) {
      names.push_back(grant.space);
    }
  }
  Role role = roleOf(event.action);
  bool isAllowed = std::ranges::all_of(
      names, [&](const std::string &name) { return rights->allow(role, name); });
  return isAllowed ? Status::ok()
                   : impossible(event,
                                fmt::format("is a {} of '{}' by '{}', whose token had the "
                                            "role {}",
                                            event.action, event.object, event.by, rights->roles()));
}

std::vector<Blob> filesOf(const Json &pushed) {
  Blob first = {pushed.value("hash", ""), pushed.value("bytes", uint64_t(0))};
  if (!pushed.contains("files")) {
    return {first};
  }
  Result<std::vector<Part>> parts = partsOf(pushed["files"]);
  std::vector<Blob> blobs;
  for (const Part &part : parts.isOk() ? *parts : std::vector<Part>()) {
    blobs.push_back(part.blob);
  }
  first.bytes = parts.isOk() ? manifestOf(*parts).size() : 0;
  blobs.push_back(first);
  return blobs;
}

Version Replay::versionOf(const Number &version) const {
  const Json &pushed = versions.at(version);
  Version found;
  found.name = version.first;
  found.number = version.second;
  found.blob.hash = pushed.value("hash", "");
  found.file = pushed.value("file", "");
  if (pushed.contains("files")) {
    Result<std::vector<Part>> parts = partsOf(pushed["files"]); // as `push` has seen
    found.parts = parts ? std::move(*parts) : std::vector<Part>();
  }
  return found;
}

Status Replay::push(const Event &event) {
  if (event.detail.contains("files")) {
    Result<std::vector<Part>> parts = partsOf(event.detail["files"]);
    bool isWhole = parts.isOk() && isFolderName(event.detail.value("file", "")) &&
                   sha256Of(manifestOf(*parts)) == event.detail.value("hash", "") &&
                   bytesOf(*parts) == event.detail.value("bytes", uint64_t(0));
    if (!isWhole) {
      return impossible(event, "pushes files that do not match their hash");
    }
  }
  std::string kind = event.detail.value("kind", "");
  Object &object = objects.try_emplace(event.object, kind, 0).first->second;
  if (object.kind != kind || event.version != object.newest + 1) {
    return impossible(event,
                      fmt::format("pushes {}, which is not the next number or has another kind",
                                  keyText({event.object, event.version})));
  }
  object.newest = event.version;
  versions[{event.object, event.version}] = event.detail;
  return Status::ok();
}

Status Replay::move(const Event &event) {
  Alias &alias = aliases[{event.object, event.alias}];
  std::string name = fmt::format("{}@{}", event.object, event.alias);
  if (alias.at != event.from) {
    return impossible(event, fmt::format("moves '{}' from version {}, but it was at {}", name,
                                         event.from, alias.at));
  }
  if (!has({event.object, event.version})) {
    return impossible(
        event, fmt::format("moves '{}' to version {}, which did not exist", name, event.version));
  }
  if (event.action == "promote") {
    Number version = {event.object, event.version};
    Status isSigned = requireSigners(alias.terms, signatures[version], versionOf(version));
    if (!isSigned.isOk()) {
      return impossible(
          event, fmt::format("promotes an unsigned version to '{}': {}", name, isSigned.message()));
    }
    if (!alias.terms.rules.empty()) {
      Status allowed = standing(alias.terms, alias.results[event.version], event.from, name);
      if (!allowed.isOk()) {
        return impossible(event,
                          fmt::format("promotes a version to '{}' that its gate did not pass: {}",
                                      name, allowed.message()));
      }
    }
    alias.origins.push_back(event.from);
  } else {
    if (alias.origins.empty() || alias.origins.back() != event.version) {
      return impossible(event,
                        fmt::format("rolls '{}' back to version {}, where it had not been before",
                                    name, event.version));
    }
    alias.origins.pop_back();
  }
  alias.at = event.version;
  return Status::ok();
}

Status Replay::gate(const Event &event) {
  Alias &alias = aliases[{event.object, event.alias}];
  GateResult result = resultOf(event);
  if (!has({event.object, event.version}) || result.champion != alias.at) {
    return impossible(event, "is a gate of a version, or against a champion, that did not exist");
  }
  Status follows = checkResult(alias.terms, result);
  if (!follows.isOk()) {
    return impossible(event, fmt::format("is an impossible gate: {}", follows.message()));
  }
  for (const auto &[name, value] : metricsOf(result.figures)) {
    metrics[{event.object, event.version}][name] = value;
  }
  alias.results[event.version].push_back(std::move(result));
  return Status::ok();
}

Status Replay::token(const Event &event) {
  std::string name = event.detail.value("name", "");
  bool isKnown = tokens.contains(name);
  if (event.action == "token") {
    tokens[name] = {{"role", event.detail.value("role", "")},
                    {"hash", event.detail.value("hash", "")},
                    {"created", event.detail.value("created", int64_t(0))},
                    {"revoked", false}};
    return isKnown ? impossible(event, "creates a token that already existed") : Status::ok();
  }
  if (!isKnown) {
    return impossible(event, "revokes a token that did not exist");
  }
  tokens[name]["revoked"] = true;
  return Status::ok();
}

Status Replay::take(const Event &event) {
  TENON_TRY(mayDo(event));
  Number version = {event.object, event.version};
  if (event.action == "push") {
    return push(event);
  }
  if (event.action == "promote" || event.action == "rollback") {
    return move(event);
  }
  if (event.action == "gate") {
    return gate(event);
  }
  if (event.action == "token" || event.action == "revoke") {
    return token(event);
  }
  if (event.action == "rules") {
    std::vector<std::string> texts = event.detail.value("rules", std::vector<std::string>());
    Result<Terms> terms = parseTerms(texts);
    bool isSound = terms.isOk() && objects.contains(event.object) &&
                   (!terms->asksToLoad() || objects.at(event.object).kind == "engine");
    if (!isSound) {
      return impossible(event, "sets invalid rules");
    }
    Alias &alias = aliases[{event.object, event.alias}];
    alias.terms = std::move(*terms);
    alias.results.clear();
    return Status::ok();
  }
  if (event.action == "delete") {
    bool isAtAlias = std::ranges::any_of(aliases, [&](const auto &each) {
      return each.first.first == version.first && each.second.at == version.second;
    });
    return has(version) && !isAtAlias && deleted.insert(version).second
               ? Status::ok()
               : impossible(
                     event,
                     fmt::format("deletes {}, which an alias points to or which did not exist",
                                 keyText(version)));
  }
  if (event.action == "tag") {
    bool isKnown = event.version == 0 ? objects.contains(event.object) : versions.contains(version);
    return isKnown ? Status::ok() : impossible(event, "tags a version that did not exist");
  }
  if (event.action == "sign") {
    std::vector<std::string> &bundles = signatures[version];
    bundles.insert(bundles.begin(), event.detail.value("bundle", ""));
    ++signatureCount;
    return has(version) ? Status::ok() : impossible(event, "signs a version that did not exist");
  }
  return impossible(event, fmt::format("has the unknown kind '{}'", event.action));
}

} // namespace tenon::registry
