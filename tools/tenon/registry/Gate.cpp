// `tenon registry gate`: the rules of an alias, and measuring a version by them.

#include "registry/Gate.h"
#include "registry/Sha256.h"
#include "registry/signing/PublicKeys.h"
#include "support/files/FileError.h"
#include "support/files/MappedFile.h"
#include "support/files/ScratchFolder.h"
#include "support/text/Printable.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/engines/ChildProcess.h"
#include "tools/tenon/gate/MeasureRules.h"
#include "tools/tenon/registry/Stage.h"
#include "tools/tenon/registry/Subcommands.h"
#include "tools/tenon/target/CpuInfo.h"
#include "tools/tenon/target/LocalGpu.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

namespace tenon::tool {
namespace {

using registry::GateOutcome;
using registry::Registry;
using registry::Rule;
using registry::RuleResult;

constexpr std::string_view kScheme = "registry:";
constexpr std::string_view kAnyInterface = "interface any", kSignature = "signature ";

struct GateFlags {
  std::string what, alias, data, machine;
  std::vector<std::string> rules;
  bool clears = false, onlyChanged = false;
  double seconds = 0; ///< 0: not given
  uint64_t repetitions = 1;
};

/// The files of a gate, which stay whatever happens to the registry meanwhile.
struct Staged {
  ScratchFolder folder;
  GateSubjects subjects;
  registry::Conditions conditions;
  int64_t champion = 0;
};

/// What times are measured on: the models of the processor and, where there is one, the GPU. The
/// driver is asked in a process of its own: measuring relies on this one having used no GPU yet.
std::string machineText() {
  auto work = [] {
    Result<target::Target> gpu = localGpu();
    return Json{{"gpu", gpu.isOk() ? gpu->name : ""}};
  };
  Result<Json> asked =
      inChild(work, Status::error(ErrorId::UnsupportedTarget, "the driver does not answer"));
  std::string gpu = asked.isOk() ? asked->value("gpu", "") : "";
  return withoutControls(cpuInfo("model name") + (gpu.empty() ? "" : ", " + gpu));
}

Result<std::string> hashOf(const std::string &path) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  registry::Sha256 sum;
  sum.update(file.bytes());
  return sum.finish();
}

/// Puts the data that are named where nobody changes them while they are measured on, and says what
/// they are.
Status stageData(const std::string &named, Registry &registry, Staged &staged) {
  std::string path = named;
  staged.conditions.data = std::filesystem::path(named).filename().string();
  if (named.starts_with(kScheme)) {
    TENON_ASSIGN(registry::Reference reference,
                 registry::parseReference(std::string_view(named).substr(kScheme.size())));
    TENON_ASSIGN(registry::Version version, registry.find(reference));
    TENON_ASSIGN(path, stage(registry, version, staged.folder));
    staged.conditions.data = std::string(kScheme) + version.text();
    staged.conditions.dataHash = version.blob.hash; // which `stage` has checked
  } else {
    std::error_code error;
    std::string copy = fmt::format("{}/data{}", staged.folder.path(),
                                   std::filesystem::path(named).extension().string());
    TENON_ASSIGN(MappedFile file, MappedFile::open(named)); // with its own errors
    if (!std::filesystem::copy_file(named, copy, error)) {
      return writeError(error.value(), "copy", copy);
    }
    path = copy;
    TENON_ASSIGN(staged.conditions.dataHash, hashOf(path));
  }
  staged.subjects.data = path;
  return Status::ok();
}

void printTerms(const registry::Reference &reference, const registry::Terms &terms,
                Terminal &terminal) {
  std::string text =
      terms.texts.empty()
          ? fmt::format("{} has no rules: any version can be promoted to it\n", reference.text())
          : "";
  for (const std::string &each : terms.texts) {
    text += each + "\n";
  }
  terminal.json() ? terminal.printJson("registry.rules", {{"name", reference.name},
                                                          {"alias", reference.alias},
                                                          {"rules", terms.texts}})
                  : terminal.print(text);
}

/// The texts that the flags ask for, with what they pin.
Result<std::vector<std::string>> textsOf(const GateFlags &flags, const registry::Object &object,
                                         Registry &registry) {
  std::vector<std::string> texts;
  bool hasInterface = false;
  for (const std::string &text : flags.rules) {
    bool isAny = text == kAnyInterface, isKey = text.starts_with(kSignature);
    hasInterface = hasInterface || isAny || text.starts_with("interface");
    if (isKey) {
      TENON_ASSIGN(std::string line, signing::lineOfKeys(text.substr(kSignature.size())));
      texts.push_back(fmt::format("{}= {}", kSignature, line));
    } else if (!isAny) {
      TENON_ASSIGN(Rule rule, registry::parseRule(text));
      texts.push_back(rule.text);
    }
  }
  if (object.kind == "engine" && !hasInterface) {
    texts.emplace_back("interface >= champion");
  }
  if (!flags.data.empty()) {
    TENON_ASSIGN(registry::FilesLock lock, registry.keepFiles());
    TENON_ASSIGN(ScratchFolder folder, scratchOf(registry, "gate"));
    Staged staged = {std::move(folder), {}, {}, 0};
    TENON_TRY(stageData(flags.data, registry, staged));
    texts.push_back(registry::dataPin(staged.conditions.data, staged.conditions.dataHash));
  }
  if (flags.seconds > 0) {
    texts.push_back(fmt::format("seconds >= {}", flags.seconds));
  }
  if (flags.repetitions > 1) {
    texts.push_back(fmt::format("repetitions >= {}", flags.repetitions));
  }
  if (!flags.machine.empty()) {
    texts.push_back("machine = " + (flags.machine == "this" ? machineText() : flags.machine));
  }
  return texts;
}

Status rulesOf(const GateFlags &flags, Registry &registry, Terminal &terminal) {
  TENON_ASSIGN(registry::Reference reference, parseAliasReference(flags.what));
  TENON_ASSIGN(registry::Object object, registry.object(reference.name));
  if (flags.clears || !flags.rules.empty()) {
    std::vector<std::string> texts;
    if (!flags.clears) {
      TENON_ASSIGN(texts, textsOf(flags, object, registry));
    }
    TENON_ASSIGN(registry::Terms wanted, registry::parseTerms(texts));
    TENON_ASSIGN(registry::Terms present, registry.terms(reference.name, reference.alias));
    if (!flags.onlyChanged || !registry::areSame(present, wanted)) {
      TENON_TRY(registry.setTerms(reference.name, reference.alias, wanted));
    }
  }
  TENON_ASSIGN(registry::Terms terms, registry.terms(reference.name, reference.alias));
  printTerms(reference, terms, terminal);
  return Status::ok();
}

/// What the caller is told besides the rows: nothing where the gate is passed.
Status statusOf(const registry::GateResult &result, const std::string &what) {
  if (result.outcome == GateOutcome::Passed) {
    return Status::ok();
  }
  std::string reasons = registry::reasonsOf(result.figures, result.outcome);
  return result.outcome == GateOutcome::Refused
             ? Status::error(ErrorId::GateRefused,
                             fmt::format("{} is refused by {}", what, reasons),
                             "promote a version that meets the rules, or change them")
             : Status::error(ErrorId::GateUndecided,
                             fmt::format("{} is undecided by {}", what, reasons),
                             "more data or a longer --seconds narrows the interval");
}

Result<Staged> stageAll(const GateFlags &flags, const registry::Terms &terms,
                        const registry::Version &candidate, Registry &registry) {
  TENON_ASSIGN(registry::FilesLock lock, registry.keepFiles());
  TENON_ASSIGN(ScratchFolder folder, scratchOf(registry, "gate"));
  Staged staged = {std::move(folder), {}, {}, 0};
  TENON_ASSIGN(staged.subjects.candidate, stage(registry, candidate, staged.folder));
  TENON_ASSIGN(staged.champion, registry.aliasOf(candidate.name, flags.alias));
  if (staged.champion == candidate.number) {
    staged.subjects.champion = staged.subjects.candidate;
  } else if (staged.champion != 0) {
    TENON_ASSIGN(registry::Version champion, registry.find({candidate.name, staged.champion, ""}));
    TENON_ASSIGN(staged.subjects.champion, stage(registry, champion, staged.folder));
  }
  bool asksParent = std::ranges::any_of(
      terms.rules, [](const Rule &rule) { return rule.baseline == registry::Baseline::Parent; });
  Json parent = candidate.facts.value("parent", Json());
  if (asksParent && parent.is_string()) {
    TENON_ASSIGN(registry::Reference named, registry::parseReference(parent.get<std::string>()));
    TENON_ASSIGN(registry::Version version, registry.find(named));
    TENON_ASSIGN(staged.subjects.parent, stage(registry, version, staged.folder));
  }
  // What is pinned as a file of somebody's has to be named again: only its hash is known.
  std::string data = !flags.data.empty()               ? flags.data
                     : terms.data.starts_with(kScheme) ? terms.data
                                                       : "";
  if (!data.empty()) {
    TENON_TRY(stageData(data, registry, staged));
  } else if (terms.needsData() && !terms.data.empty()) {
    return Status::error(
        ErrorId::BadGateRule,
        fmt::format("the gate measures on the file {} (sha256 {}), which is not in "
                    "the registry",
                    terms.data, terms.dataHash.substr(0, 12)),
        fmt::format("--data {}", terms.data));
  }
  constexpr double kSeconds = 2;
  staged.subjects.seconds = flags.seconds > 0 ? flags.seconds : std::max(kSeconds, terms.seconds);
  staged.conditions.seconds = staged.subjects.seconds;
  staged.conditions.machine = machineText();
  staged.conditions.compiler = TENON_VERSION;
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
                                         {"conditions", registry::detailOf(result)["conditions"]},
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
  TENON_ASSIGN(registry::Terms terms, registry.terms(candidate.name, flags.alias));
  if (terms.texts.empty()) {
    return Status::error(ErrorId::BadGateRule,
                         fmt::format("'{}@{}' has no rules", candidate.name, flags.alias),
                         fmt::format("set one with tenon registry gate {}@{} --rule 'top1 >= 85%'",
                                     candidate.name, flags.alias));
  }
  TENON_ASSIGN(std::vector<std::string> bundles, registry.signatures(candidate));
  TENON_TRY(registry::requireSigners(terms, bundles, candidate));
  TENON_ASSIGN(Staged staged, stageAll(flags, terms, candidate, registry));
  registry::GateResult result;
  result.version = candidate.number;
  result.alias = flags.alias;
  result.champion = staged.champion;
  result.terms = terms.texts;
  result.conditions = staged.conditions;
  // Before the time is spent; what the rules do not pin yet is pinned by this result.
  TENON_TRY(registry::checkConditions(terms, result.conditions));
  TENON_ASSIGN(std::vector<RuleResult> results,
               measureRules(terms.rules, staged.subjects, terminal));
  result.outcome = registry::outcomeOf(results);
  result.figures = registry::figuresOf(results);
  TENON_TRY(registry.record(candidate.name, result));
  printResult(candidate, result, results, terminal);
  return statusOf(result, fmt::format("{} for '{}'", candidate.text(), flags.alias));
}

Status gate(const GateFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  bool setsRules = flags.clears || !flags.rules.empty();
  if ((flags.clears && !flags.rules.empty()) || (setsRules && !flags.alias.empty())) {
    return Status::error(ErrorId::BadArgument, "--rule, --no-rules and ALIAS exclude each other",
                         "gate NAME@ALIAS sets rules, gate REF ALIAS measures");
  }
  bool pins =
      !flags.data.empty() || flags.seconds > 0 || flags.repetitions > 1 || !flags.machine.empty();
  if (flags.alias.empty() ? pins && flags.rules.empty()
                          : flags.repetitions > 1 || !flags.machine.empty()) {
    return Status::error(ErrorId::BadArgument,
                         "the data and machine of a gate are set together with its rules",
                         "gate NAME@ALIAS --rule 'top1 >= 85%' --data registry:REF --machine this");
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
      .add_option("REF", flags->what,
                  "NAME@ALIAS to show or set its rules, or with ALIAS the version to measure")
      ->required();
  command.add_option("ALIAS", flags->alias,
                     "The alias whose rules apply; its current version is measured too");
  command
      .add_option("--rule", flags->rules,
                  "A rule, such as 'top1 >= 85%', 'p50 <= champion + 10%', 'signature PUBLIC.pem' "
                  "or 'loads'; the given rules replace all earlier ones (repeat for more)")
      ->allow_extra_args(false);
  command.add_flag("--if-changed", flags->onlyChanged,
                   "With --rule: keep the rules, and the results by them, where they are the same");
  command.add_flag("--no-rules", flags->clears, "Remove all rules");
  command.add_option("--data", flags->data,
                     "Samples and labels as for `accuracy`, or registry:NAME:VERSION; with --rule "
                     "the gate measures only on these");
  addSeconds(command, "--seconds", {0.01, 3600}, flags->seconds,
             "How long to time both; 2s by default; with --rule the minimum");
  addNumber(
      command, "--repetitions", {1, 100}, [flags](uint64_t count) { flags->repetitions = count; },
      "With --rule: the number of results that must have passed");
  command.add_option("--machine", flags->machine,
                     "With --rule: the machine to measure on, by its name in results, or `this`");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return gate(*flags, where, terminal);
  };
}

} // namespace tenon::tool
