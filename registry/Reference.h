// How versions are named: NAME:VERSION, NAME@ALIAS, or NAME for the newest, where NAME may be in
// namespaces: TEAM/MODEL. Names become parts of paths, pages and logs, and are checked before they
// do.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::registry {

struct Reference {
  std::string name;
  int64_t version = 0; ///< 0 where an alias is given, or neither
  std::string alias;

  std::string text() const;
};

/// At most 8 parts between slashes, 255 characters in all. A part has letters, digits, '.', '_' and
/// '-', begins with a letter or digit, and is at most 128 characters long: TN1004.
Status checkName(std::string_view name);
/// One part, and not a number alone.
Status checkAlias(std::string_view alias);
/// The namespace that a name or "vision/" means, with its slash: "vision/". TN1004.
Result<std::string> parseNamespace(std::string_view text);
/// As a condition of SQL: the names in `column` that are in a namespace; all where it is empty.
std::string isBelow(std::string_view column, std::string_view space);
/// TN1004 where it is none of the three forms.
Result<Reference> parseReference(std::string_view text);

/// Text that people add: UTF-8 without control characters, at most 1,000 bytes. `what` begins the
/// error, TN1004.
Status checkRemark(std::string_view what, std::string_view text);

} // namespace tenon::registry
