// Who may do what: tokens are given, taken back and asked for.

#include "registry/Registry.h"
#include "registry/Sha256.h"
#include "support/Environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/random.h>

namespace tenon::registry {

namespace {

constexpr const char *kTokenVariable = "TENON_REGISTRY_TOKEN";
constexpr int64_t kUseMilliseconds = 60'000; ///< how exactly the last use is kept
constexpr size_t kTokenBytes = 32;

Status wrongToken(std::string_view what, std::string_view hint) {
  return Status::error(ErrorId::RegistryTokenWrong, what, hint);
}

/// 256 random bits: nobody guesses what has this hash, so no salt is needed.
Result<std::string> makeToken() {
  unsigned char bytes[kTokenBytes];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    return Status::error(
        ErrorId::InternalError,
        fmt::format("the system provides no random numbers: {}", std::strerror(errno)),
        "see its log");
  }
  std::string token = "tenon_";
  for (unsigned char byte : bytes) {
    token += fmt::format("{:02x}", byte);
  }
  return token;
}

/// Whether tokens can be made with it as long as the registry is there.
bool isLasting(const Rights &rights) {
  return rights.allow(Role::Admin, "") && rights.expires == 0;
}

} // namespace

Status Registry::enter() {
  if (options.token.empty() && options.takesEnvironment) {
    options.token = environment(kTokenVariable);
  }
  TENON_TRY(identify());
  if (tokenName.empty()) {
    return Status::ok();
  }
  // Whoever may only read the database may use its tokens too: the time is not kept then.
  static_cast<void>(Query(*database, "UPDATE token SET used = $1 WHERE name = $2 AND used < $3",
                          options.clock(), tokenName, options.clock() - kUseMilliseconds)
                        .run());
  return Status::ok();
}

Status Registry::identify() {
  Query any(*database, "SELECT 1 FROM token LIMIT 1");
  TENON_ASSIGN(bool hasTokens, any.next());
  if (!hasTokens) {
    return Status::ok();
  }
  if (options.token.empty()) {
    return wrongToken(
        fmt::format("'{}' requires a token", where),
        fmt::format(
            "set ${}; a user with the role admin creates tokens with `tenon registry token add`",
            kTokenVariable));
  }
  Query found(*database, "SELECT name, role, revoked FROM token WHERE hash = $1",
              sha256Of(options.token));
  TENON_ASSIGN(bool isKnown, found.next());
  if (!isKnown || found.number(2) != 0) {
    return wrongToken(
        isKnown ? fmt::format("the token '{}' has been revoked", found.text(0))
                : fmt::format("'{}' does not recognize the token", where),
        fmt::format("set ${} to what `tenon registry token add` printed", kTokenVariable));
  }
  TENON_ASSIGN(rights, parseRights(found.text(1)));
  tokenName = found.text(0);
  options.by = tokenName;
  if (rights.expires != 0) {
    TENON_ASSIGN(int64_t time, now());
    if (rights.isExpired(time)) {
      return wrongToken(
          fmt::format("the token '{}' expired at {}", tokenName, timeText(rights.expires)),
          "a user with the role admin creates a new one with `tenon registry token add`");
    }
  }
  return Status::ok();
}

Status Registry::allow(Role role, const std::string &name) {
  TENON_TRY(identify());
  if (rights.allow(role, name)) {
    return Status::ok();
  }
  std::string what = name.empty() ? "on everything" : fmt::format("of '{}'", name);
  return wrongToken(fmt::format("the token '{}' has the role {}, but this needs {} {}", tokenName,
                                rights.roles(), nameOf(role), what),
                    "ask somebody with that role");
}

std::string Registry::isSeen(std::string_view column) const {
  std::vector<std::string> conditions;
  for (const Grant &grant : rights.grants) {
    conditions.push_back(isBelow(column, grant.space));
  }
  return fmt::format("({})", fmt::join(conditions, " OR "));
}

Result<std::string> Registry::addToken(const std::string &name, const Rights &given) {
  TENON_TRY(checkName(name));
  TENON_ASSIGN(std::string token, makeToken());
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  for (const Grant &grant : given.grants) {
    TENON_TRY(allow(Role::Admin, grant.space));
  }
  TENON_ASSIGN(std::vector<Token> present, allTokens());
  if (std::ranges::find(present, name, &Token::name) != present.end()) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("the token name '{}' is already taken", name),
                         "choose another name: the history identifies tokens by name");
  }
  if (present.empty() && !isLasting(given)) {
    return Status::error(ErrorId::BadArgument,
                         "the first token must have the role admin on everything, without expiry; "
                         "otherwise nobody could create another one",
                         "add one with --role admin first");
  }
  std::string hash = sha256Of(token);
  TENON_ASSIGN(int64_t created, now());
  TENON_TRY(Query(*database, "INSERT INTO token VALUES ($1, $2, $3, $4, 0, 0)", name, given.text(),
                  hash, created)
                .run());
  Event event;
  event.action = "token";
  event.detail = {{"name", name}, {"role", given.text()}, {"hash", hash}, {"created", created}};
  TENON_TRY(add(std::move(event)));
  TENON_TRY(finish(transaction));
  return token;
}

Result<std::vector<Token>> Registry::allTokens() {
  std::vector<Token> tokens;
  Query query(*database, "SELECT name, role, created, used, revoked FROM token ORDER BY name");
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return tokens;
    }
    TENON_ASSIGN(Rights given, parseRights(query.text(1)));
    tokens.push_back(
        {query.text(0), std::move(given), query.number(2), query.number(3), query.number(4)});
  }
}

Result<std::vector<Token>> Registry::tokens() {
  TENON_ASSIGN(std::vector<Token> tokens, allTokens());
  std::erase_if(tokens, [&](const Token &token) {
    return !std::ranges::all_of(token.rights.grants, [&](const Grant &grant) {
      return rights.allow(Role::Read, grant.space);
    });
  });
  return tokens;
}

Status Registry::revokeToken(const std::string &name) {
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  TENON_TRY(identify());
  TENON_ASSIGN(std::vector<Token> present, tokens());
  std::vector<Token>::iterator token = std::ranges::find(present, name, &Token::name);
  if (token == present.end() || token->revoked != 0) {
    return Status::error(ErrorId::NoSuchObject,
                         fmt::format("there is no token '{}'", checkName(name).isOk() ? name : ""),
                         "`tenon registry token list` shows all tokens");
  }
  for (const Grant &grant : token->rights.grants) {
    TENON_TRY(allow(Role::Admin, grant.space));
  }
  bool isLast = isLasting(token->rights) && std::ranges::count_if(present, [](const Token &each) {
                                              return each.revoked == 0 && isLasting(each.rights);
                                            }) == 1;
  if (isLast) {
    return Status::error(
        ErrorId::BadArgument,
        fmt::format("'{}' is the last token with the role admin on everything and without expiry",
                    name),
        "add another one first");
  }
  TENON_ASSIGN(int64_t time, now());
  TENON_TRY(Query(*database, "UPDATE token SET revoked = $1 WHERE name = $2", time, name).run());
  Event event;
  event.action = "revoke";
  event.detail = {{"name", name}};
  TENON_TRY(add(std::move(event)));
  return finish(transaction);
}

} // namespace tenon::registry
