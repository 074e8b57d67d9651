#include "server/api/RegistryRequests.h"

#include "registry/BlobFolder.h"
#include "registry/Describe.h"
#include "server/protocol/Json.h"
#include "support/WallClock.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>

namespace tenon::server {
namespace {

constexpr int64_t kMaxPage = 1000, kUsualPage = 100;
constexpr size_t kMaxFileName = 200, kMaxRules = 100;

Status badParameter(std::string_view what, std::string_view hint) {
  return Status::error(ErrorId::BadRequest, withoutControls(what), hint);
}

Result<std::string> decodeParameter(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = static_cast<unsigned char>(text[i] == '+' ? ' ' : text[i]);
    if (text[i] == '%') {
      std::from_chars_result parsed =
          i + 2 < text.size() ? std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16)
                              : std::from_chars_result{text.data(), std::errc::invalid_argument};
      if (parsed.ec != std::errc() || parsed.ptr != text.data() + i + 3) {
        return badParameter("a parameter has '%' without two hexadecimal digits", "");
      }
      i += 2;
    }
    decoded += static_cast<char>(byte);
  }
  return decoded;
}

/// The parameters of a target, in their order.
class Parameters {
public:
  /// TN0806 for one that the operation does not have.
  static Result<Parameters> parse(std::string_view query,
                                  std::initializer_list<std::string_view> names) {
    Parameters parameters;
    while (!query.empty()) {
      std::string_view part = query.substr(0, query.find('&'));
      query.remove_prefix(std::min(part.size() + 1, query.size()));
      size_t equals = part.find('=');
      TENON_ASSIGN(std::string name, decodeParameter(part.substr(0, equals)));
      TENON_ASSIGN(std::string value,
                   decodeParameter(equals == part.npos ? "" : part.substr(equals + 1)));
      if (std::ranges::find(names, name) == names.end()) {
        return badParameter(fmt::format("the request has no parameter '{}'", name.substr(0, 100)),
                            "docs/guides/registry-interfaces.md lists them");
      }
      parameters.all.emplace_back(std::move(name), std::move(value));
    }
    return parameters;
  }

  std::vector<std::string> values(std::string_view name) const {
    std::vector<std::string> found;
    for (const auto &[key, value] : all) {
      if (key == name) {
        found.push_back(value);
      }
    }
    return found;
  }
  /// Empty where it is missing.
  std::string value(std::string_view name) const {
    std::vector<std::string> found = values(name);
    return found.empty() ? "" : found.back();
  }
  Result<int64_t> most() const {
    std::string text = value("most");
    int64_t number = kUsualPage;
    std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    bool isNumber = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
    return text.empty() || (isNumber && number >= 1 && number <= kMaxPage)
               ? Result<int64_t>(number)
               : badParameter("'most' must be a number from 1 to 1000", "");
  }

private:
  std::vector<std::pair<std::string, std::string>> all;
};

/// A number, an alias, or "newest".
Result<registry::Reference> referenceOf(const Question &asked) {
  TENON_TRY(registry::checkName(asked.object));
  std::string mark = !asked.alias.empty()        ? "@" + asked.alias
                     : asked.version == "newest" ? ""
                                                 : ":" + asked.version;
  return registry::parseReference(asked.object + mark);
}

Result<std::string> listObjects(registry::Registry &registry, const Question &asked) {
  TENON_ASSIGN(Parameters given, Parameters::parse(asked.query, {"after", "most"}));
  TENON_ASSIGN(int64_t most, given.most());
  TENON_ASSIGN(std::vector<registry::Object> objects, registry.objects(given.value("after"), most));
  Json rows = Json::array();
  for (const registry::Object &object : objects) {
    rows.push_back(registry::describe(object));
  }
  bool hasMore = static_cast<int64_t>(objects.size()) == most;
  return dumpJson({{"objects", rows}, {"next", hasMore ? Json(objects.back().name) : Json()}});
}

Result<std::string> search(registry::Registry &registry, const Question &asked) {
  TENON_ASSIGN(Parameters given,
               Parameters::parse(asked.query, {"where", "name", "kind", "alias", "since", "before",
                                               "after", "most"}));
  registry::Search search;
  for (const std::string &each : given.values("where")) {
    TENON_TRY(registry::addCondition(each, search));
  }
  search.name = given.value("name");
  search.kind = given.value("kind");
  search.alias = given.value("alias");
  TENON_ASSIGN(search.most, given.most());
  if (std::string since = given.value("since"); !since.empty()) {
    TENON_ASSIGN(search.since, registry::parseTime(since, wallClock()));
  }
  if (std::string before = given.value("before"); !before.empty()) {
    TENON_ASSIGN(search.before, registry::parseTime(before, wallClock()));
  }
  if (std::string after = given.value("after"); !after.empty()) {
    TENON_ASSIGN(search.after, registry::parsePlace(after));
  }
  TENON_ASSIGN(registry::Found found, registry.search(search));
  return dumpJson(registry::describe(found));
}

Result<std::string> history(registry::Registry &registry, const Question &asked) {
  TENON_ASSIGN(Parameters given, Parameters::parse(asked.query, {"alias", "most"}));
  TENON_ASSIGN(int64_t most, given.most());
  if (!asked.object.empty()) {
    TENON_TRY(registry.object(asked.object).takeStatus());
  }
  TENON_ASSIGN(std::vector<registry::Event> events,
               registry.history(asked.object, given.value("alias"), most));
  Json rows = Json::array();
  for (const registry::Event &event : events) {
    rows.push_back(registry::describe(event));
  }
  return dumpJson({{"events", rows}});
}

Result<std::string> showObject(registry::Registry &registry, const Question &asked) {
  TENON_ASSIGN(Parameters given, Parameters::parse(asked.query, {"most"}));
  TENON_ASSIGN(int64_t most, given.most());
  TENON_ASSIGN(registry::Object object, registry.object(asked.object));
  TENON_ASSIGN(std::vector<registry::Version> versions, registry.versions(asked.object));
  Json rows = Json::array();
  versions.resize(std::min(versions.size(), static_cast<size_t>(most)));
  for (const registry::Version &version : versions) {
    rows.push_back(registry::describe(version, registry::aliasesAt(object, version.number)));
  }
  Json answer = registry::describe(object);
  answer["versions"] = std::move(rows);
  return dumpJson(answer);
}

Result<std::string> showVersion(registry::Registry &registry, const Question &asked) {
  TENON_ASSIGN(registry::Reference reference, referenceOf(asked));
  TENON_ASSIGN(registry::Version version, registry.find(reference));
  TENON_ASSIGN(registry::Object object, registry.object(version.name));
  return dumpJson(registry::describe(version, registry::aliasesAt(object, version.number)));
}

/// {"version": 3, "expected": 2, "reason": "..."}; `expected` may be null: the alias is at none.
Result<std::string> moveAlias(registry::Registry &registry, const Question &asked,
                              std::string_view body) {
  Json value;
  TENON_TRY(parseRequestJson(body.empty() ? "{}" : body, value));
  bool goesBack = asked.operation == Operation::RegistryAliasRollback;
  bool isValid = value.is_object() && (goesBack || value.contains("version"));
  int64_t version = 0;
  std::optional<int64_t> expected;
  std::string reason;
  for (const auto &[key, member] : value.items()) {
    bool isNumber = member.is_number_integer() && member >= 1 && member <= INT64_MAX;
    if (key == "reason" && member.is_string()) {
      reason = member.get<std::string>();
    } else if (key == "version" && isNumber && !goesBack) {
      version = member.get<int64_t>();
    } else if (key == "expected" && (isNumber || member.is_null())) {
      expected = isNumber ? member.get<int64_t>() : 0;
    } else {
      isValid = false;
    }
  }
  if (!isValid) {
    return Status::error(ErrorId::BadRequest, "the request does not describe a move of an alias",
                         R"(for example {"version": 3, "expected": 2, "reason": "more accurate"})");
  }
  TENON_TRY(registry::checkAlias(asked.alias));
  TENON_TRY(registry::checkName(asked.object));
  TENON_ASSIGN(registry::Move move,
               goesBack
                   ? registry.rollback(asked.object, asked.alias, expected, reason)
                   : registry.promote({asked.object, version, ""}, asked.alias, expected, reason));
  return dumpJson(registry::describe(move));
}

Result<std::string> rules(registry::Registry &registry, const Question &asked,
                          std::string_view body) {
  TENON_TRY(registry::checkAlias(asked.alias));
  TENON_TRY(registry.object(asked.object).takeStatus());
  if (asked.operation == Operation::SetRegistryRules) {
    Json value;
    TENON_TRY(parseRequestJson(body, value));
    Json given = value.is_object() && value.size() == 1 ? value.value("rules", Json()) : Json();
    bool areTexts = given.is_array() && given.size() <= kMaxRules &&
                    std::ranges::all_of(given, [](const Json &each) { return each.is_string(); });
    if (!areTexts) {
      return Status::error(ErrorId::BadRequest, "the request does not contain rules",
                           R"(for example {"rules": ["top1 >= 85%", "p99 <= champion + 10%"]})");
    }
    TENON_ASSIGN(registry::Terms terms,
                 registry::parseTerms(given.get<std::vector<std::string>>()));
    TENON_TRY(registry.setTerms(asked.object, asked.alias, terms));
  }
  TENON_ASSIGN(registry::Terms terms, registry.terms(asked.object, asked.alias));
  return dumpJson({{"name", asked.object}, {"alias", asked.alias}, {"rules", terms.texts}});
}

/// A name that a file can have anywhere.
bool isFileName(const std::string &name) {
  return !name.empty() && name.size() <= kMaxFileName && name != "." && name != ".." &&
         name.find_first_of("/\\") == name.npos && withoutControls(name) == name;
}

} // namespace

Status unknownToken() {
  return Status::error(
      ErrorId::NotAuthenticated, "the token of the request is unknown",
      "send 'Authorization: Bearer TOKEN' with a token of the server or of the registry");
}

Result<std::string> answerRegistry(registry::Registry &registry, const Question &asked,
                                   std::string_view body) {
  switch (asked.operation) {
  case Operation::RegistryObjects:
    return listObjects(registry, asked);
  case Operation::RegistrySearch:
    return search(registry, asked);
  case Operation::RegistryEvents:
    return history(registry, asked);
  case Operation::RegistryObject:
    return showObject(registry, asked);
  case Operation::RegistryVersion:
    return showVersion(registry, asked);
  case Operation::RegistryAliasPromote:
  case Operation::RegistryAliasRollback:
    return moveAlias(registry, asked, body);
  case Operation::RegistryRules:
  case Operation::SetRegistryRules:
    return rules(registry, asked, body);
  default:
    return Status::error(ErrorId::InternalError, "the registry has no such operation");
  }
}

Result<RegistryFile> openRegistryFile(registry::Registry &registry, const Question &asked) {
  TENON_ASSIGN(registry::Reference reference, referenceOf(asked));
  TENON_ASSIGN(registry::Version version, registry.find(reference));
  if (version.isDeleted) {
    return Status::error(ErrorId::NoSuchObject, fmt::format("gc deleted {}", version.text()),
                         "only its metadata is left");
  }
  TENON_TRY(registry.check(version));
  std::string path = registry.pathOf(version);
  return RegistryFile{std::move(version), std::move(path)};
}

Result<PushCall> parsePush(const Question &asked) {
  TENON_ASSIGN(Parameters given, Parameters::parse(asked.query, {"file", "kind", "note", "parent",
                                                                 "data", "meta", "sha256"}));
  PushCall call;
  call.name = asked.object;
  call.file = given.value("file");
  call.kind = given.value("kind");
  call.note = given.value("note");
  call.parent = given.value("parent");
  call.data = given.value("data");
  call.meta = given.values("meta");
  call.hash = given.value("sha256");
  call.token = asked.token;
  call.caller = asked.isTrusted ? asked.by : "";
  TENON_TRY(registry::checkName(call.name));
  TENON_TRY(registry::checkRemark("the note", call.note));
  for (const std::string &each : call.meta) {
    TENON_TRY(registry::parseTag(each).takeStatus());
    TENON_TRY(registry::checkRemark("a tag", each));
  }
  for (const std::string *reference : {&call.parent, &call.data}) {
    if (!reference->empty()) {
      TENON_TRY(registry::parseReference(*reference).takeStatus());
    }
  }
  if (!call.kind.empty() &&
      std::ranges::find(registry::kKinds, call.kind) == registry::kKinds.end()) {
    return badParameter("'kind' must be model, engine, data, report or tuning", "");
  }
  return isFileName(call.file)
             ? Result<PushCall>(std::move(call))
             : badParameter("the request does not name a file",
                            "for example ?file=model.tenon, a name without a folder");
}

Status checkPushed(const PushCall &call, const std::string &path) {
  if (call.hash.empty()) {
    return Status::ok();
  }
  std::error_code error;
  uint64_t bytes = std::filesystem::file_size(path, error);
  TENON_ASSIGN(std::string difference, registry::differenceOf(path, {call.hash, bytes}));
  return difference.empty()
             ? Status::ok()
             : Status::error(ErrorId::BlobMismatch,
                             fmt::format("the received file differs from the one that was sent: {}",
                                         difference),
                             "send it again");
}

} // namespace tenon::server
