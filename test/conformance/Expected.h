// The list of cases that are known not to pass, one line each with the reason. The list may only
// shrink: its first lines state the most cases that it may ever hold.

#pragma once

#include "test/conformance/Case.h"

#include <map>
#include <string>
#include <vector>

namespace tenon::conformance {

struct ExpectedFailures {
  size_t limit = 0;
  std::map<std::string, std::string> reasons; ///< by case
};

/// Lines that are not understood come back in `faults`.
ExpectedFailures parseExpected(const std::string &text, std::vector<std::string> &faults);
std::string formatExpected(const ExpectedFailures &expected);

/// Every way in which the outcomes contradict the list, in words.
std::vector<std::string> contradictions(const ExpectedFailures &expected,
                                        const std::vector<Case> &cases,
                                        const std::vector<Outcome> &outcomes);

} // namespace tenon::conformance
