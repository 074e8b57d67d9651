// Implements the list of expected failures and its comparison with what happened.

#include "test/conformance/Expected.h"

#include <fmt/format.h>

#include <set>
#include <sstream>

namespace tenon::conformance {
namespace {

constexpr std::string_view kLimitLine = "# at most ";

} // namespace

ExpectedFailures parseExpected(const std::string &text, std::vector<std::string> &faults) {
  ExpectedFailures expected;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kLimitLine)) {
      expected.limit = std::strtoul(line.c_str() + kLimitLine.size(), nullptr, 10);
      continue;
    }
    if (line.empty() || line[0] == '#') {
      continue;
    }
    size_t space = line.find(' ');
    if (space == std::string::npos || line.find_first_not_of(' ', space) == std::string::npos) {
      faults.push_back(fmt::format("'{}' has no reason", line));
      continue;
    }
    std::string name = line.substr(0, space);
    if (!expected.reasons.emplace(name, line.substr(line.find_first_not_of(' ', space))).second) {
      faults.push_back(fmt::format("{} is listed twice", name));
    }
  }
  if (expected.reasons.size() > expected.limit) {
    faults.push_back(fmt::format("{} cases are listed, at most {} may be: the list may only shrink",
                                 expected.reasons.size(), expected.limit));
  }
  return expected;
}

std::string formatExpected(const ExpectedFailures &expected) {
  std::string text =
      "# Cases that do not pass yet, each with its reason. The list may only shrink.\n";
  text += fmt::format("{}{}\n", kLimitLine, expected.limit);
  for (const auto &[name, reason] : expected.reasons) {
    text += fmt::format("{} {}\n", name, reason);
  }
  return text;
}

std::vector<std::string> contradictions(const ExpectedFailures &expected,
                                        const std::vector<Case> &cases,
                                        const std::vector<Outcome> &outcomes) {
  std::vector<std::string> faults;
  std::set<std::string> known;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string &name = cases[i].name;
    known.insert(name);
    if (outcomes[i].verdict == Verdict::NotRun) {
      continue;
    }
    bool isListed = expected.reasons.count(name) > 0;
    bool passed = outcomes[i].verdict == Verdict::Pass;
    if (passed && isListed) {
      faults.push_back(fmt::format("{} passes now: take it off the list", name));
    }
    if (!passed && !isListed) {
      faults.push_back(fmt::format("{} does not pass: {}", name, outcomes[i].reason));
    }
  }
  for (const auto &[name, reason] : expected.reasons) {
    if (known.count(name) == 0) {
      faults.push_back(fmt::format("{} is listed, but there is no such case", name));
    }
  }
  return faults;
}

} // namespace tenon::conformance
