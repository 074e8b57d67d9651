// `tenon registry token add|list|revoke`: who may do what.

#include "tools/tenon/cli/Options.h"
#include "tools/tenon/registry/Subcommands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>

namespace tenon::tool {
namespace {

struct TokenFlags {
  std::string what, name, role;
};

Status add(const TokenFlags &flags, registry::Registry &registry, Terminal &terminal) {
  TENON_ASSIGN(registry::Role role, registry::parseRole(flags.role));
  TENON_ASSIGN(std::string token, registry.addToken(flags.name, role));
  terminal.json()
      ? terminal.printJson("registry.token",
                           {{"name", flags.name}, {"role", flags.role}, {"token", token}})
      : terminal.print(fmt::format("{}\nthis is all that is ever shown of it: keep it, and put it "
                                   "into $TENON_REGISTRY_TOKEN\n",
                                   token));
  return Status::ok();
}

Json timeOf(int64_t time) { return time ? Json(registry::timeText(time)) : Json(); }

Status list(registry::Registry &registry, Terminal &terminal) {
  TENON_ASSIGN(std::vector<registry::Token> tokens, registry.tokens());
  Json rows = Json::array();
  std::string text = tokens.empty()
                         ? "there are no tokens: who reaches the registry may do everything\n"
                         : fmt::format("{:<24} {:<8} {:<24}  {:<24}  {}\n", "name", "role",
                                       "created", "used", "revoked");
  for (const registry::Token &token : tokens) {
    rows.push_back({{"name", token.name},
                    {"role", token.role},
                    {"created", timeOf(token.created)},
                    {"used", timeOf(token.used)},
                    {"revoked", timeOf(token.revoked)}});
    text += fmt::format("{:<24} {:<8} {:<24}  {:<24}  {}\n", token.name, token.role,
                        registry::timeText(token.created),
                        token.used ? registry::timeText(token.used) : "never",
                        token.revoked ? registry::timeText(token.revoked) : "");
  }
  terminal.json() ? terminal.printJson("registry.tokens", {{"tokens", rows}})
                  : terminal.print(text);
  return Status::ok();
}

Status revoke(const TokenFlags &flags, registry::Registry &registry, Terminal &terminal) {
  TENON_TRY(registry.revokeToken(flags.name));
  terminal.json() ? terminal.printJson("registry.token", {{"name", flags.name}, {"revoked", true}})
                  : terminal.print(fmt::format("'{}' opens nothing any more\n", flags.name));
  return Status::ok();
}

Status run(const TokenFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  if (flags.what == "list") {
    TENON_ASSIGN(registry::Registry registry, openRegistry(where));
    return list(registry, terminal);
  }
  if (flags.name.empty() || (flags.what == "add" && flags.role.empty())) {
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
  addChoice(command, "--role", flags->role, registry::kRoles,
            "What it allows; each role includes those before it: reading; pushing and gating; "
            "moving aliases and setting their rules; gc and tokens");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return run(*flags, where, terminal);
  };
}

} // namespace tenon::tool
