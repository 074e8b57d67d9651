// How versions are named: NAME:VERSION, NAME@ALIAS, or NAME for the newest. Names become parts of
// paths, pages and logs, and are checked before they do.

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

/// Letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 128: TN1004.
Status checkName(std::string_view name);
/// The same, and not a number alone.
Status checkAlias(std::string_view alias);
/// TN1004 where it is none of the three forms.
Result<Reference> parseReference(std::string_view text);

/// Text that people add: UTF-8 without control characters, at most 1,000 bytes. `what` begins the
/// error, TN1004.
Status checkRemark(std::string_view what, std::string_view text);

} // namespace tenon::registry
