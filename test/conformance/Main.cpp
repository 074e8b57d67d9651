// Runs ONNX's test suites, or the operator table, through compiled code: one row a case, a summary,
// and the comparison with the list of expected failures. See docs/explanation/data-way.md for what
// a case passes through.

#include "runtime/device/cpu/CpuFeatures.h"
#include "test/conformance/Case.h"
#include "test/conformance/Expected.h"
#include "test/conformance/PlantedFaults.h"
#include "test/conformance/Pool.h"
#include "test/ops/Cells.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <unistd.h>

#include <fstream>
#include <sstream>

using namespace tenon;
using namespace tenon::conformance;

namespace {

struct Flags {
  std::string suite;
  std::string expected;
  std::string target;
  std::string filter;
  std::string report;
  PoolOptions pool;
  unsigned threads = 1;
  bool update = false;
  bool compileOnly = false;
};

constexpr const char *kVerdicts[] = {"pass", "fail", "unsupported", "not run"};

std::string readText(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string table(const std::vector<Case> &cases, const std::vector<Outcome> &outcomes) {
  std::string text;
  for (size_t i = 0; i < cases.size(); ++i) {
    text += fmt::format("{:<12} {}{}{}\n", kVerdicts[static_cast<size_t>(outcomes[i].verdict)],
                        cases[i].name, outcomes[i].reason.empty() ? "" : "  ", outcomes[i].reason);
  }
  return text;
}

size_t count(const std::vector<Outcome> &outcomes, Verdict verdict) {
  size_t number = 0;
  for (const Outcome &outcome : outcomes) {
    number += outcome.verdict == verdict ? 1 : 0;
  }
  return number;
}

/// Writes what happened as the new list; the limit never grows.
void updateList(const Flags &flags, const std::vector<Case> &cases,
                const std::vector<Outcome> &outcomes) {
  std::vector<std::string> ignored;
  ExpectedFailures old = parseExpected(readText(flags.expected), ignored);
  ExpectedFailures fresh;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (outcomes[i].verdict != Verdict::Pass) {
      fresh.reasons[cases[i].name] = outcomes[i].reason;
    }
  }
  bool hadLimit = old.limit > 0 || !old.reasons.empty();
  fresh.limit = hadLimit ? std::min(old.limit, fresh.reasons.size()) : fresh.reasons.size();
  std::ofstream(flags.expected) << formatExpected(fresh);
}

/// Number of contradictions between the list and the outcomes, each printed.
size_t compareWithList(const Flags &flags, const std::vector<Case> &cases,
                       const std::vector<Outcome> &outcomes) {
  std::vector<std::string> faults;
  ExpectedFailures expected = parseExpected(readText(flags.expected), faults);
  if (!flags.filter.empty()) {
    std::erase_if(expected.reasons, [&](const auto &row) {
      return row.first.find(flags.filter) == std::string::npos;
    });
  }
  if (size_t left = count(outcomes, Verdict::NotRun)) {
    faults.push_back(fmt::format("{} cases were not run in the time given", left));
  }
  for (size_t i = 0; flags.compileOnly && i < cases.size(); ++i) {
    // What is listed for its numbers may well compile.
    if (outcomes[i].verdict == Verdict::Pass) {
      expected.reasons.erase(cases[i].name);
    }
  }
  for (const std::string &fault : contradictions(expected, cases, outcomes)) {
    faults.push_back(fault);
  }
  for (const std::string &fault : faults) {
    fmt::print("UNEXPECTED {}\n", fault);
  }
  return faults.size();
}

/// What stands for a folder to run the operator table, and the faults that a sanitizer must report.
constexpr const char *kOperators = "ops";
constexpr const char *kFaults = "faults";

/// The one target that is asked for, by default the best CPU level of this machine.
Result<tool::Targets> targetOf(const std::string &text) {
  std::optional<engine::CpuLevel> best = runtime::bestCpuLevel();
  if (text.empty() && best) {
    tool::Targets targets;
    targets.levels = {*best};
    return targets;
  }
  TENON_ASSIGN(tool::Targets targets, tool::parseTargets({text}));
  if (targets.levels.size() + targets.gpus.size() != 1) {
    return Status::error(ErrorId::UnsupportedTarget, fmt::format("'{}' is not one variant", text));
  }
  return targets;
}

int runSuite(const Flags &flags) {
  Result<tool::Targets> targets = targetOf(flags.target);
  if (!targets.isOk()) {
    fmt::print(stderr, "conformance: {}\n", targets.status().message());
    return 2;
  }
  bool isOperators = flags.suite == kOperators;
  bool isFaults = flags.suite == kFaults;
  std::vector<Case> cases = isOperators ? ops::opCells()
                            : isFaults  ? plantedFaults()
                                        : findCases(flags.suite);
  std::erase_if(cases,
                [&](const Case &one) { return one.name.find(flags.filter) == std::string::npos; });
  if (cases.empty()) {
    fmt::print(stderr, "conformance: no cases in {}\n", flags.suite);
    return 2;
  }
  CaseFunction function = [&](const Case &one, const std::string &scratch) {
    CaseOptions options{*targets, flags.threads, scratch, flags.compileOnly};
    return isOperators ? ops::runOpCell(one, options)
           : isFaults  ? runPlantedFault(one, options)
                       : runCase(one, options);
  };
  bool isTerminal = isatty(STDERR_FILENO);
  std::vector<Outcome> outcomes = runInChildren(cases, flags.pool, function, [&](size_t done) {
    if (isTerminal) {
      fmt::print(stderr, "\r{} of {}", done, cases.size());
    }
  });
  std::string rows = table(cases, outcomes);
  if (!flags.report.empty()) {
    std::ofstream(flags.report) << rows;
  }
  size_t left = count(outcomes, Verdict::NotRun);
  fmt::print("{}{} cases at {}: {} pass, {} fail, {} unsupported{}\n", rows, cases.size(),
             variantOf(*targets), count(outcomes, Verdict::Pass), count(outcomes, Verdict::Fail),
             count(outcomes, Verdict::Unsupported), left ? fmt::format(", {} not run", left) : "");
  if (flags.update) {
    updateList(flags, cases, outcomes);
    return 0;
  }
  if (flags.expected.empty()) {
    return 0;
  }
  return compareWithList(flags, cases, outcomes) == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  Flags flags;
  CLI::App app("Runs ONNX's test suites through compiled code.", "conformance");
  app.add_option("SUITE", flags.suite,
                 "Folder with cases below it, ops for the operator table, or faults for those "
                 "planted for a sanitizer")
      ->required();
  app.add_option("--expected", flags.expected, "List of cases that are known not to pass");
  CLI::Option *update =
      app.add_flag("--update", flags.update, "Write the list anew instead of comparing with it");
  app.add_option("--target", flags.target,
                 "cpu:avx512 or cuda:sm_90; the best CPU level here by default");
  app.add_flag("--compile-only", flags.compileOnly, "A case passes when it compiles");
  app.add_option("--filter", flags.filter, "Only cases whose names hold this");
  app.add_option("--report", flags.report, "Write the rows to this file too");
  app.add_option("--jobs", flags.pool.jobs, "Cases at a time");
  app.add_option("--batch", flags.pool.batch, "Cases that a process does one after the other");
  app.add_option("--threads", flags.threads, "Threads of each run");
  app.add_option("--timeout", flags.pool.secondsPerCase, "Seconds for a case");
  app.add_option("--seconds", flags.pool.seconds, "Begin no case after so many seconds in all")
      ->excludes(update);
  CLI11_PARSE(app, argc, argv);
  return runSuite(flags);
}
