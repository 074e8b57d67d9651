// `tenon registry gate`: the rules of an alias, and measuring a version by them.

#include "registry/Rule.h"
#include "support/files/ScratchFolder.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/gate/MeasureRules.h"
#include "tools/tenon/registry/Stage.h"
#include "tools/tenon/registry/Subcommands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <memory>

namespace tenon::tool {
namespace {

using registry::GateOutcome;
using registry::Registry;
using registry::Rule;
using registry::RuleResult;

constexpr std::string_view kScheme = "registry:";

struct GateFlags {
  std::string what, alias, data;
  std::vector<std::string> rules;
  bool clears = false;
  double seconds = 2;
};

void printRules(const registry::Reference &reference, const std::vector<Rule> &rules,
                Terminal &terminal) {
  Json texts = Json::array();
  std::string text =
      rules.empty()
          ? fmt::format("{} has no rules: every version may be promoted to it\n", reference.text())
          : "";
  for (const Rule &rule : rules) {
    texts.push_back(rule.text);
    text += rule.text + "\n";
  }
  terminal.json()
      ? terminal.printJson("registry.rules",
                           {{"name", reference.name}, {"alias", reference.alias}, {"rules", texts}})
      : terminal.print(text);
}

Status rulesOf(const GateFlags &flags, Registry &registry, Terminal &terminal) {
  TENON_ASSIGN(registry::Reference reference, parseAliasReference(flags.what));
  TENON_TRY(registry.object(reference.name).takeStatus());
  if (flags.clears || !flags.rules.empty()) {
    std::vector<Rule> wanted;
    for (const std::string &text : flags.rules) {
      TENON_ASSIGN(Rule rule, registry::parseRule(text));
      wanted.push_back(std::move(rule));
    }
    TENON_TRY(registry.setRules(reference.name, reference.alias, wanted));
  }
  TENON_ASSIGN(std::vector<Rule> rules, registry.rules(reference.name, reference.alias));
  printRules(reference, rules, terminal);
  return Status::ok();
}

Json describe(const std::vector<RuleResult> &results) {
  Json rows = Json::array();
  for (const RuleResult &each : results) {
    Json row = {{"rule", each.rule.text},   {"verdict", nameOf(each.outcome)},
                {"value", Json()},          {"interval_95", Json()},
                {"limit", each.rule.limit}, {"reason", each.reason}};
    if (each.measured) {
      row["value"] = std::isfinite(each.measured->value) ? Json(each.measured->value) : Json();
      row["interval_95"] = {std::isfinite(each.measured->low) ? Json(each.measured->low) : Json(),
                            std::isfinite(each.measured->high) ? Json(each.measured->high)
                                                               : Json()};
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// What the caller is told besides the rows: nothing where the gate is passed.
Status statusOf(GateOutcome outcome, const std::vector<RuleResult> &results,
                const std::string &what) {
  if (outcome == GateOutcome::Passed) {
    return Status::ok();
  }
  std::string reasons;
  for (const RuleResult &each : results) {
    if (each.outcome == outcome) {
      reasons +=
          fmt::format("{}'{}': {}", reasons.empty() ? "" : "; ", each.rule.text, each.reason);
    }
  }
  return outcome == GateOutcome::Refused
             ? Status::error(ErrorId::GateRefused,
                             fmt::format("{} is refused by {}", what, reasons),
                             "promote a version that keeps the rules, or change them")
             : Status::error(ErrorId::GateUndecided,
                             fmt::format("{} is undecided by {}", what, reasons),
                             "more data or a longer --seconds narrows the interval");
}

/// What a gate measures, in files that stay whatever happens to the registry meanwhile.
struct Staged {
  ScratchFolder folder;
  GateSubjects subjects;
  int64_t champion = 0;
};

Result<Staged> stageAll(const GateFlags &flags, const registry::Version &candidate,
                        Registry &registry) {
  TENON_ASSIGN(registry::FilesLock lock, registry.keepFiles());
  TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create(registry.filesFolder(), "gate"));
  Staged staged = {std::move(folder), {}, 0};
  TENON_ASSIGN(staged.subjects.candidate, stage(registry, candidate, staged.folder));
  TENON_ASSIGN(staged.champion, registry.aliasOf(candidate.name, flags.alias));
  if (staged.champion == candidate.number) {
    staged.subjects.champion = staged.subjects.candidate;
  } else if (staged.champion != 0) {
    TENON_ASSIGN(registry::Version champion, registry.find({candidate.name, staged.champion, ""}));
    TENON_ASSIGN(staged.subjects.champion, stage(registry, champion, staged.folder));
  }
  staged.subjects.data = flags.data;
  if (flags.data.starts_with(kScheme)) {
    TENON_ASSIGN(registry::Reference named,
                 registry::parseReference(std::string_view(flags.data).substr(kScheme.size())));
    TENON_ASSIGN(registry::Version data, registry.find(named));
    TENON_ASSIGN(staged.subjects.data, stage(registry, data, staged.folder));
  }
  staged.subjects.seconds = flags.seconds;
  return staged;
}

void printResult(const registry::Version &candidate, const registry::GateResult &result,
                 const std::vector<RuleResult> &results, Terminal &terminal) {
  if (terminal.json()) {
    Json champion = result.champion ? Json(result.champion) : Json();
    terminal.printJson("registry.gate", {{"name", candidate.name},
                                         {"version", candidate.number},
                                         {"alias", result.alias},
                                         {"champion", champion},
                                         {"verdict", nameOf(result.outcome)},
                                         {"rules", result.figures}});
    return;
  }
  std::string text =
      fmt::format("{} for {}{}: {}\n", candidate.text(), result.alias,
                  result.champion ? fmt::format(", beside version {}", result.champion) : "",
                  nameOf(result.outcome));
  for (const RuleResult &each : results) {
    text += fmt::format("  {:<9}  {:<32}  {}\n", nameOf(each.outcome), each.rule.text, each.reason);
  }
  terminal.print(text);
}

Status measure(const GateFlags &flags, const registry::Reference &reference, Registry &registry,
               Terminal &terminal) {
  TENON_TRY(registry::checkAlias(flags.alias));
  TENON_ASSIGN(registry::Version candidate, registry.find(reference));
  TENON_ASSIGN(std::vector<Rule> rules, registry.rules(candidate.name, flags.alias));
  if (rules.empty()) {
    return Status::error(ErrorId::BadGateRule,
                         fmt::format("'{}@{}' has no rules", candidate.name, flags.alias),
                         fmt::format("tenon registry gate {}@{} --rule 'top1 >= 85%' sets one",
                                     candidate.name, flags.alias));
  }
  TENON_ASSIGN(Staged staged, stageAll(flags, candidate, registry));
  TENON_ASSIGN(std::vector<RuleResult> results, measureRules(rules, staged.subjects, terminal));
  registry::GateResult result;
  result.version = candidate.number;
  result.alias = flags.alias;
  result.champion = staged.champion;
  result.outcome = registry::outcomeOf(results);
  result.figures = describe(results);
  for (const Rule &rule : rules) {
    result.rules.push_back(rule.text);
  }
  TENON_TRY(registry.record(candidate.name, result));
  printResult(candidate, result, results, terminal);
  return statusOf(result.outcome, results,
                  fmt::format("{} for '{}'", candidate.text(), flags.alias));
}

Status gate(const GateFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  bool setsRules = flags.clears || !flags.rules.empty();
  if ((flags.clears && !flags.rules.empty()) || (setsRules && !flags.alias.empty())) {
    return Status::error(ErrorId::BadArgument,
                         "--rule, --no-rules and ALIAS are three different things to do",
                         "gate NAME@ALIAS sets rules, gate REF ALIAS measures");
  }
  TENON_ASSIGN(Registry registry, openRegistry(where));
  if (flags.alias.empty()) {
    return rulesOf(flags, registry, terminal);
  }
  TENON_ASSIGN(registry::Reference reference, registry::parseReference(flags.what));
  return measure(flags, reference, registry, terminal);
}

} // namespace

RegistryTask declareRegistryGate(CLI::App &command) {
  std::shared_ptr<GateFlags> flags = std::make_shared<GateFlags>();
  command
      .add_option(
          "REF", flags->what,
          "NAME@ALIAS, whose rules are shown or set, or with ALIAS the version that is measured")
      ->required();
  command.add_option("ALIAS", flags->alias,
                     "The alias whose rules the version is measured by, beside what is there");
  command
      .add_option("--rule", flags->rules,
                  "A rule, such as 'top1 >= 85%' or 'p50 <= champion + 10%'; all that are given "
                  "take the place of those that were (repeat for more)")
      ->allow_extra_args(false);
  command.add_flag("--no-rules", flags->clears, "Take all rules away");
  command.add_option("--data", flags->data,
                     "Samples and labels as `accuracy` takes them, or registry:NAME:VERSION");
  addSeconds(command, "--seconds", {0.01, 3600}, flags->seconds,
             "How long to time both; 2s by default");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return gate(*flags, where, terminal);
  };
}

} // namespace tenon::tool
