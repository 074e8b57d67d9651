// Tokens are compared in full and all of them, so that time tells nothing of how much of one was
// right.

#include "server/protocol/Tokens.h"

#include "support/files/MappedFile.h"

#include <fmt/format.h>

#include <algorithm>

#include <sys/stat.h>
#include <unistd.h>

namespace tenon::server {
namespace {

constexpr size_t kMinToken = 16;
constexpr uint64_t kMaxFile = 1 << 20;

unsigned bit(Role role) { return 1u << static_cast<unsigned>(role); }

bool isEqual(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return difference == 0;
}

Result<unsigned> parseRoles(std::string_view text) {
  unsigned roles = 0;
  while (!text.empty()) {
    size_t comma = text.find(',');
    std::string_view name = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    if (name == "admin") {
      roles |= bit(Role::Admin) | bit(Role::Read) | bit(Role::Infer);
    } else if (name == "read") {
      roles |= bit(Role::Read);
    } else if (name == "infer") {
      roles |= bit(Role::Infer);
    } else {
      return Status::error(ErrorId::BadTokenFile,
                           fmt::format("'{}' is not a role", name.substr(0, 32)),
                           "the roles are infer, read and admin");
    }
  }
  return roles;
}

} // namespace

std::string_view bearerToken(std::string_view authorization) {
  constexpr std::string_view kScheme("bearer ");
  for (char expected : kScheme) {
    bool isLetter = expected != ' ';
    if (authorization.empty() || (authorization[0] | (isLetter ? ' ' : 0)) != expected) {
      return {};
    }
    authorization.remove_prefix(1);
  }
  return authorization.substr(std::min(authorization.find_first_not_of(' '), authorization.size()));
}

Result<Tokens> Tokens::load(const std::string &path) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  struct stat info = {};
  bool isKnown = fstat(file.descriptor(), &info) == 0;
  // What root lets a group read, such as a mounted secret, this process can read in no other way.
  mode_t refused = isKnown && info.st_uid == 0 && geteuid() != 0 ? S_IWGRP | S_IXGRP | S_IRWXO
                                                                 : S_IRWXG | S_IRWXO;
  if (!isKnown || (info.st_mode & refused) != 0) {
    return Status::error(ErrorId::BadTokenFile,
                         fmt::format("others than the owner can read or write '{}'", path),
                         fmt::format("chmod 600 {}", path));
  }
  if (file.size() > kMaxFile) {
    return Status::error(ErrorId::BadTokenFile,
                         fmt::format("'{}' is too large for a token file", path));
  }
  std::string text(file.size(), '\0');
  TENON_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  return parse(text, path);
}

Result<Tokens> Tokens::parse(std::string_view text, std::string_view file) {
  Tokens result;
  for (unsigned line = 1; !text.empty(); ++line) {
    size_t end = text.find('\n');
    std::string_view row = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    row = row.substr(0, row.find_last_not_of(" \t\r") + 1);
    if (row.empty() || row.starts_with('#')) {
      continue;
    }
    size_t space = row.find_first_of(" \t");
    std::string_view token = row.substr(0, space);
    std::string_view roles =
        space == std::string_view::npos ? "" : row.substr(row.find_first_not_of(" \t", space));
    if (token.size() < kMinToken || roles.empty()) {
      // The token itself stays out of logs.
      return Status::error(
          ErrorId::BadTokenFile,
          fmt::format("{}:{}: a line must have a token of at least {} characters and its roles",
                      file, line, kMinToken),
          "for example `openssl rand -hex 32`, a space and `infer,read`");
    }
    Result<unsigned> parsed = parseRoles(roles);
    if (!parsed.isOk()) {
      return parsed.takeStatus().prefix(fmt::format("{}:{}", file, line));
    }
    result.tokens.push_back({std::string(token), *parsed});
  }
  if (result.tokens.empty()) {
    return Status::error(ErrorId::BadTokenFile, fmt::format("'{}' contains no token", file),
                         "add a line with a token and its roles");
  }
  return result;
}

Status Tokens::check(std::string_view authorization, Role role) const {
  if (role == Role::Open) {
    return Status::ok();
  }
  std::string_view given = bearerToken(authorization);
  bool isKnown = false;
  unsigned roles = 0;
  for (const Token &token : tokens) {
    if (isEqual(given, token.text)) {
      isKnown = true;
      roles |= token.roles;
    }
  }
  if (!isKnown) {
    return Status::error(ErrorId::NotAuthenticated, "the request has no valid token",
                         "send the header 'Authorization: Bearer TOKEN'");
  }
  if ((roles & bit(role)) == 0) {
    return Status::error(ErrorId::NotAuthorized,
                         fmt::format("the token lacks the role '{}'", nameOf(role)),
                         "use a token that has this role in the server's token file");
  }
  return Status::ok();
}

} // namespace tenon::server
