// `tenon registry token add|list|revoke`: who may do what.

#include "tools/tenon/cli/Options.h"
#include "tools/tenon/registry/Subcommands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>

namespace tenon::tool {
namespace {

struct TokenFlags {
  std::string what, name, space, expires;
  std::vector<std::string> roles;
};

Json timeOf(int64_t time) { return time ? Json(registry::timeText(time)) : Json(); }

Status add(const TokenFlags &flags, registry::Registry &registry, Terminal &terminal) {
  registry::Rights rights;
  for (const std::string &role : flags.roles) {
    TENON_ASSIGN(registry::Grant grant, registry::parseGrant(role));
    if (!flags.space.empty() && grant.space.empty()) {
      TENON_ASSIGN(grant.space, registry::parseNamespace(flags.space));
    }
    rights.grants.push_back(std::move(grant));
  }
  if (!flags.expires.empty()) {
    TENON_ASSIGN(int64_t now, registry.now());
    TENON_ASSIGN(rights.expires, registry::parseExpiry(flags.expires, now));
  }
  TENON_ASSIGN(std::string token, registry.addToken(flags.name, rights));
  terminal.json() ? terminal.printJson("registry.token", {{"name", flags.name},
                                                          {"role", rights.roles()},
                                                          {"expires", timeOf(rights.expires)},
                                                          {"token", token}})
                  : terminal.print(fmt::format("{}\nthis is the only time that it is shown: keep "
                                               "it, and put it in $TENON_REGISTRY_TOKEN\n",
                                               token));
  return Status::ok();
}

Status list(registry::Registry &registry, Terminal &terminal) {
  TENON_ASSIGN(std::vector<registry::Token> tokens, registry.tokens());
  Json rows = Json::array();
  std::string text = tokens.empty()
                         ? "there are no tokens: whoever reaches the registry may do everything\n"
                         : fmt::format("{:<24} {:<16} {:<24}  {:<24}  {:<24}  {}\n", "name", "role",
                                       "created", "used", "expires", "revoked");
  for (const registry::Token &token : tokens) {
    rows.push_back({{"name", token.name},
                    {"role", token.rights.roles()},
                    {"expires", timeOf(token.rights.expires)},
                    {"created", timeOf(token.created)},
                    {"used", timeOf(token.used)},
                    {"revoked", timeOf(token.revoked)}});
    text += fmt::format("{:<24} {:<16} {:<24}  {:<24}  {:<24}  {}\n", token.name,
                        token.rights.roles(), registry::timeText(token.created),
                        token.used ? registry::timeText(token.used) : "never",
                        token.rights.expires ? registry::timeText(token.rights.expires) : "never",
                        token.revoked ? registry::timeText(token.revoked) : "");
  }
  terminal.json() ? terminal.printJson("registry.tokens", {{"tokens", rows}})
                  : terminal.print(text);
  return Status::ok();
}

Status revoke(const TokenFlags &flags, registry::Registry &registry, Terminal &terminal) {
  TENON_TRY(registry.revokeToken(flags.name));
  terminal.json() ? terminal.printJson("registry.token", {{"name", flags.name}, {"revoked", true}})
                  : terminal.print(fmt::format("'{}' is revoked\n", flags.name));
  return Status::ok();
}

Status run(const TokenFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  if (flags.what == "list") {
    TENON_ASSIGN(registry::Registry registry, openRegistry(where));
    return list(registry, terminal);
  }
  if (flags.name.empty() || (flags.what == "add" && flags.roles.empty())) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("`tenon registry token {}` lacks {}", flags.what,
                                     flags.name.empty() ? "the name of a token" : "--role"),
                         "for example `tenon registry token add ci --role push`");
  }
  TENON_ASSIGN(registry::Registry registry,
               flags.what == "add" ? createRegistry(where) : openRegistry(where));
  return flags.what == "add" ? add(flags, registry, terminal) : revoke(flags, registry, terminal);
}

} // namespace

RegistryTask declareRegistryToken(CLI::App &command) {
  std::shared_ptr<TokenFlags> flags = std::make_shared<TokenFlags>();
  addChoice(command, "WHAT", flags->what, {"add", "list", "revoke"}, "What to do")->required();
  command.add_option("NAME", flags->name, "The token's name in the history");
  command
      .add_option("--role", flags->roles,
                  "What it allows: read, push (and gate), promote (and set rules) or admin (gc and "
                  "tokens); each role includes those before it. ROLE:NAMESPACE/ allows it for the "
                  "objects of a namespace (repeat for more)")
      ->allow_extra_args(false);
  command.add_option("--namespace", flags->space, "The namespace of roles that name none");
  command.add_option("--expires", flags->expires,
                     "When it expires: 2027-01-31, 2027-01-31T12:00:00Z, or after 30d, 12h, 15m");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return run(*flags, where, terminal);
  };
}

} // namespace tenon::tool
