// Tokens of a registry: who has one may do what its role says, and is named by it in the history.
// They keep people from doing what they should not; who has the rights of the database has all.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::registry {

/// Each may do what those before it may: look; push and gate; move aliases and set their rules;
/// collect and give tokens.
enum class Role { Read, Push, Promote, Admin };
const char *nameOf(Role role);
extern const std::vector<std::string> kRoles;
/// TN0105.
Result<Role> parseRole(std::string_view text);

struct Token {
  std::string name;
  std::string role;
  int64_t created = 0; ///< milliseconds since 1970, as the others
  int64_t used = 0;    ///< 0: never; within a minute
  int64_t revoked = 0; ///< 0: it is good
};

} // namespace tenon::registry
