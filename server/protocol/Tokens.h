// The tokens of a server and what each may do. It relies on the file being readable by its owner
// alone.

#pragma once

#include "server/protocol/Routes.h"
#include "support/Result.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// The token of a value of `Authorization`, "Bearer TOKEN" in any case; empty where it is no such.
std::string_view bearerToken(std::string_view authorization);

class Tokens {
public:
  /// Lines `TOKEN ROLE[,ROLE...]` with the roles infer, read and admin (which has the others);
  /// empty lines and those that begin with # are passed over. TN0803 for a line that is no such, a
  /// token of fewer than 16 characters, and a file that others may read or write.
  static Result<Tokens> load(const std::string &path);
  static Result<Tokens> parse(std::string_view text, std::string_view file);

  /// Whether a request with this value of `Authorization` ("Bearer TOKEN") may call routes of
  /// `role`: ok, TN0815 without a known token, TN0816 where the token lacks the role. Takes as long
  /// for any wrong token.
  Status check(std::string_view authorization, Role role) const;

private:
  struct Token {
    std::string text;
    unsigned roles = 0; ///< bits by Role
  };
  std::vector<Token> tokens;
};

} // namespace tenon::server
