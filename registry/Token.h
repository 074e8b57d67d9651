// Tokens of a registry: who has one may do what its rights say, and is named by it in the history.
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

/// A role for the objects of a namespace.
struct Grant {
  Role role = Role::Read;
  std::string space; ///< "vision/": names that begin with it; empty: everything

  /// "push:vision/"; "push" for everything.
  std::string text() const;
};
/// ROLE, or ROLE:NAMESPACE with or without its last slash. TN0105, TN1004.
Result<Grant> parseGrant(std::string_view text);

/// What a token allows. Its text is one column of the table, and one member of the event: a Tenon
/// that does not know a part of it refuses the token, where it would not miss another column.
struct Rights {
  std::vector<Grant> grants;
  int64_t expires = 0; ///< milliseconds since 1970, from when on it allows nothing; 0: never

  /// `name` is that of an object, or "vision/" for all of a namespace, or empty for all there is.
  bool allow(Role role, std::string_view name) const;
  bool isExpired(int64_t time) const { return expires != 0 && time >= expires; }
  /// Without the end: "read,push:vision/".
  std::string roles() const;
  /// "read,push:vision/ until 2027-01-31T00:00:00.000Z".
  std::string text() const;
};
/// TN0105 for what `text` did not give.
Result<Rights> parseRights(std::string_view text);

/// From --expires: a date, 2027-01-31 or 2027-01-31T12:00:00Z, or a time from `now` on: 30d, 12h,
/// 15m. TN0105.
Result<int64_t> parseExpiry(std::string_view text, int64_t now);

struct Token {
  std::string name;
  Rights rights;
  int64_t created = 0; ///< milliseconds since 1970, as the others
  int64_t used = 0;    ///< 0: never; within a minute
  int64_t revoked = 0; ///< 0: it is good
};

} // namespace tenon::registry
