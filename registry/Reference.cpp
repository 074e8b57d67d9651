#include "registry/Reference.h"

#include "support/json/Json.h"
#include "support/text/Printable.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace tenon::registry {
namespace {

constexpr size_t kMaxPart = 128;
constexpr int64_t kMaxParts = 8;
constexpr size_t kMaxName = 255;
constexpr size_t kMaxRemark = 1000;
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// A name as a message can repeat it.
std::string shown(std::string_view text) { return withoutControls(text.substr(0, kMaxName)); }

Status badName(std::string_view what, std::string_view name) {
  return Status::error(ErrorId::BadObjectName,
                       fmt::format("'{}' cannot be the name of {}", shown(name), what),
                       "names consist of letters, digits, '.', '_' and '-', begin with a letter or "
                       "digit, and have at most 128 characters; '/' separates namespaces");
}

bool isPart(std::string_view name) {
  bool isOfLetters = std::ranges::all_of(name, [](char c) {
    return kLetters.find(c) != kLetters.npos || c == '.' || c == '_' || c == '-';
  });
  return !name.empty() && name.size() <= kMaxPart && kLetters.find(name[0]) != kLetters.npos &&
         isOfLetters;
}

bool isName(std::string_view name) {
  bool isShort = name.size() <= kMaxName && std::ranges::count(name, '/') < kMaxParts;
  while (isShort) {
    size_t slash = name.find('/');
    if (!isPart(name.substr(0, slash)) || slash == name.npos) {
      return isPart(name);
    }
    name.remove_prefix(slash + 1);
  }
  return false;
}

} // namespace

std::string Reference::text() const {
  return !alias.empty() ? fmt::format("{}@{}", name, alias)
         : version      ? fmt::format("{}:{}", name, version)
                        : name;
}

Status checkName(std::string_view name) {
  return isName(name) ? Status::ok() : badName("an object", name);
}

Status checkAlias(std::string_view alias) {
  bool isNumber = alias.find_first_not_of(kDigits) == alias.npos;
  return isPart(alias) && !isNumber ? Status::ok() : badName("an alias", alias);
}

Result<std::string> parseNamespace(std::string_view text) {
  std::string_view name = text.substr(0, text.size() - (text.ends_with('/') ? 1 : 0));
  return isName(name) ? Result<std::string>(std::string(name) + '/') : badName("a namespace", text);
}

std::string isBelow(std::string_view column, std::string_view space) {
  // '0' follows '/', and both databases compare byte by byte; no name holds a quote.
  return space.empty() ? "1 = 1"
                       : fmt::format("({0} >= '{1}/' AND {0} < '{1}0')", column,
                                     space.substr(0, space.size() - 1));
}

Result<Reference> parseReference(std::string_view text) {
  Reference reference;
  size_t mark = text.find_first_of(":@");
  reference.name = text.substr(0, mark);
  TENON_TRY(checkName(reference.name));
  if (mark == text.npos) {
    return reference;
  }
  std::string_view rest = text.substr(mark + 1);
  if (text[mark] == '@') {
    TENON_TRY(checkAlias(rest));
    reference.alias = rest;
    return reference;
  }
  std::from_chars_result parsed =
      std::from_chars(rest.data(), rest.data() + rest.size(), reference.version);
  if (parsed.ec != std::errc() || parsed.ptr != rest.data() + rest.size() ||
      reference.version < 1) {
    return Status::error(ErrorId::BadObjectName,
                         fmt::format("'{}' is not a version number", shown(rest)),
                         "use NAME:VERSION, NAME@ALIAS, or NAME for the newest version");
  }
  return reference;
}

Status checkRemark(std::string_view what, std::string_view text) {
  if (text.size() <= kMaxRemark && dumpUtf8(text) && withoutControls(text) == text) {
    return Status::ok();
  }
  return Status::error(ErrorId::BadObjectName, fmt::format("{} is not a single line of text", what),
                       "at most 1000 bytes of UTF-8 without control characters");
}

} // namespace tenon::registry
