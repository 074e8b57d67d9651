// `tenon registry promote` and `rollback`: an alias moves.

#include "registry/Describe.h"
#include "tools/tenon/registry/Subcommands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <memory>

namespace tenon::tool {
namespace {

struct MoveFlags {
  std::string what, alias, expect, reason;
  std::vector<std::string> trusted;
};

/// Of --expect; none where it was not given.
Result<std::optional<int64_t>> parseExpected(const std::string &text) {
  if (text.empty() || text == "none") {
    return text.empty() ? std::optional<int64_t>() : std::optional<int64_t>(0);
  }
  int64_t number = 0;
  std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || number < 1) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("--expect takes a version number or 'none', not '{}'", text),
                         "`tenon registry list` shows the versions of aliases");
  }
  return std::optional<int64_t>(number);
}

void print(const registry::Move &move, const char *did, Terminal &terminal) {
  if (terminal.json()) {
    terminal.printJson(fmt::format("registry.{}", did), registry::describe(move));
    return;
  }
  std::string from = move.from && move.from != move.to ? fmt::format(", was {}", move.from) : "";
  terminal.print(fmt::format("{}@{} is version {}{}\n", move.name, move.alias, move.to, from));
}

Status promote(const MoveFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  TENON_ASSIGN(registry::Reference reference, registry::parseReference(flags.what));
  TENON_ASSIGN(std::optional<int64_t> expected, parseExpected(flags.expect));
  TENON_ASSIGN(registry::Registry registry, openRegistry(where));
  if (!flags.trusted.empty()) {
    TENON_ASSIGN(signing::Trust trust, signing::Trust::open(flags.trusted));
    TENON_ASSIGN(registry::Version version, registry.find(reference));
    TENON_TRY(registry.requireSignature(version, trust));
    reference = {version.name, version.number, ""}; // an alias may be elsewhere by now
  }
  TENON_ASSIGN(registry::Move move,
               registry.promote(reference, flags.alias, expected, flags.reason));
  print(move, "promote", terminal);
  return Status::ok();
}

Status rollback(const MoveFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  TENON_ASSIGN(registry::Reference reference, parseAliasReference(flags.what));
  TENON_ASSIGN(registry::Registry registry, openRegistry(where));
  TENON_ASSIGN(registry::Move move,
               registry.rollback(reference.name, reference.alias, std::nullopt, flags.reason));
  print(move, "rollback", terminal);
  return Status::ok();
}

} // namespace

RegistryTask declareRegistryPromote(CLI::App &command) {
  std::shared_ptr<MoveFlags> flags = std::make_shared<MoveFlags>();
  command.add_option("REF", flags->what, "NAME:VERSION, NAME@OTHER, or NAME for the newest")
      ->required();
  command.add_option("ALIAS", flags->alias, "The alias to move, such as production")->required();
  command.add_option("--expect", flags->expect, "Move only from this version, or from 'none'");
  command
      .add_option("--require-signature", flags->trusted,
                  "PEM file with public keys and certificates of authorities: move only to a "
                  "version that one of them has signed (repeat for more)")
      ->allow_extra_args(false);
  command.add_option("--reason", flags->reason, "A line for the history");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return promote(*flags, where, terminal);
  };
}

RegistryTask declareRegistryRollback(CLI::App &command) {
  std::shared_ptr<MoveFlags> flags = std::make_shared<MoveFlags>();
  command.add_option("NAME@ALIAS", flags->what, "The alias that goes back to where it was before")
      ->required();
  command.add_option("--reason", flags->reason, "A line for the history");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return rollback(*flags, where, terminal);
  };
}

} // namespace tenon::tool
