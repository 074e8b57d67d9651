// `tenon registry gc` and `verify`.

#include "tools/tenon/cli/Options.h"
#include "tools/tenon/print/Format.h"
#include "tools/tenon/registry/Subcommands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

namespace tenon::tool {
namespace {

struct MaintainFlags {
  std::optional<int64_t> keep;
  bool isDryRun = false;
  std::string head;
};

Status collect(const MaintainFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  TENON_ASSIGN(registry::Registry registry, openRegistry(where));
  TENON_ASSIGN(registry::Collected collected, registry.collect(flags.keep, flags.isDryRun));
  if (terminal.json()) {
    terminal.printJson("registry.gc", {{"deleted_versions", collected.versions},
                                       {"deleted_files", collected.files},
                                       {"deleted_bytes", collected.bytes},
                                       {"dry_run", flags.isDryRun}});
    return Status::ok();
  }
  terminal.print(fmt::format(
      "{} {} versions{}{} and {} files of {}\n", flags.isDryRun ? "would delete" : "deleted",
      collected.versions.size(), collected.versions.empty() ? "" : ": ",
      fmt::join(collected.versions, ", "), collected.files, formatBytes(collected.bytes)));
  return Status::ok();
}

Status verify(const MaintainFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  TENON_ASSIGN(registry::Registry registry, openRegistry(where));
  TENON_ASSIGN(registry::Verified verified, registry.verify(flags.head));
  Json problems = Json::array();
  for (const Status &problem : verified.problems) {
    problems.push_back({{"code", nameOf(problem.id())}, {"message", problem.message()}});
  }
  if (terminal.json()) {
    terminal.printJson("registry.verify", {{"versions", verified.versions},
                                           {"files", verified.files},
                                           {"bytes", verified.bytes},
                                           {"events", verified.events},
                                           {"signatures", verified.signatures},
                                           {"head", verified.head},
                                           {"problems", problems}});
  } else if (verified.problems.empty()) {
    terminal.print(
        fmt::format("{} versions, {} files of {}, {} events: all as they were written\nhead {}\n",
                    verified.versions, verified.files, formatBytes(verified.bytes), verified.events,
                    verified.head));
  }
  if (verified.problems.empty()) {
    return Status::ok();
  }
  for (size_t i = 1; i < verified.problems.size(); ++i) {
    terminal.note(verified.problems[i].toString());
  }
  return verified.problems.front();
}

} // namespace

RegistryTask declareRegistryCollect(CLI::App &command) {
  std::shared_ptr<MaintainFlags> flags = std::make_shared<MaintainFlags>();
  addNumber(
      command, "--keep", {0, 1'000'000},
      [flags](uint64_t number) { flags->keep = static_cast<int64_t>(number); },
      "Keep the newest N versions of each object, and those that an alias or a rollback points to");
  command.add_flag("--dry-run", flags->isDryRun, "Only show what would be deleted");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return collect(*flags, where, terminal);
  };
}

RegistryTask declareRegistryVerify(CLI::App &command) {
  std::shared_ptr<MaintainFlags> flags = std::make_shared<MaintainFlags>();
  command.add_option(
      "--head", flags->head,
      "The hash of an event that must be in the history, as an earlier verify printed it");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return verify(*flags, where, terminal);
  };
}

} // namespace tenon::tool
