// `tenon registry search`: versions by tags, metrics of gates, kind, name, dates and alias.

#include "registry/Describe.h"
#include "support/WallClock.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/registry/Subcommands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

namespace tenon::tool {
namespace {

constexpr uint64_t kMaxPage = 1000;

struct SearchFlags {
  std::vector<std::string> conditions;
  std::string since, before, after;
  registry::Search search;
};

std::string metricsText(const std::map<std::string, double> &metrics) {
  std::vector<std::string> texts;
  for (const auto &[name, value] : metrics) {
    texts.push_back(fmt::format("{} {:.4g}", name, value));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

Status search(const SearchFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  registry::Search search = flags.search;
  for (const std::string &each : flags.conditions) {
    TENON_TRY(addCondition(each, search));
  }
  if (!flags.since.empty()) {
    TENON_ASSIGN(search.since, registry::parseTime(flags.since, wallClock()));
  }
  if (!flags.before.empty()) {
    TENON_ASSIGN(search.before, registry::parseTime(flags.before, wallClock()));
  }
  if (!flags.after.empty()) {
    TENON_ASSIGN(search.after, registry::parsePlace(flags.after));
  }
  TENON_ASSIGN(registry::Registry registry, openRegistry(where));
  TENON_ASSIGN(registry::Found found, registry.search(search));
  if (terminal.json()) {
    terminal.printJson("registry.search", registry::describe(found));
    return Status::ok();
  }
  std::string text = found.versions.empty()
                         ? "no version matches all of that\n"
                         : fmt::format("{:<28} {:<7} {:<24}  {:<20}  {}\n", "version", "kind",
                                       "created", "aliases", "metrics");
  for (const registry::FoundVersion &each : found.versions) {
    text +=
        fmt::format("{:<28} {:<7} {:<24}  {:<20}  {}\n", each.version.text(), each.version.kind,
                    registry::timeText(each.version.created),
                    fmt::format("{}", fmt::join(each.aliases, ", ")), metricsText(each.metrics));
  }
  text += found.next ? fmt::format("more: --after {}\n", found.next->text()) : "";
  terminal.print(text);
  return Status::ok();
}

} // namespace

RegistryTask declareRegistrySearch(CLI::App &command) {
  std::shared_ptr<SearchFlags> flags = std::make_shared<SearchFlags>();
  command.add_option("CONDITION", flags->conditions,
                     "KEY=VALUE that `push --meta` gave, or what a gate measured, such as 'top1 >= "
                     "90%' or 'p50 <= 5ms'; versions have all of them");
  command.add_option("--name", flags->search.name, "The object, or a pattern with * and ?");
  command.add_option("--kind", flags->search.kind, "model, engine, data, report or tuning");
  command.add_option("--alias", flags->search.alias, "Versions that this alias is at");
  command.add_option("--since", flags->since,
                     "Pushed since 2026-11-01, 2026-11-01T12:30:00Z, or 7d or 12h ago");
  command.add_option("--before", flags->before, "Pushed before, as --since");
  command.add_option("--after", flags->after, "The next page: what the one before ended with");
  addNumber(
      command, "--most", {1, kMaxPage},
      [flags](uint64_t number) { flags->search.most = static_cast<int64_t>(number); },
      "At most this many versions, the newest; 100 by default");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return search(*flags, where, terminal);
  };
}

} // namespace tenon::tool
