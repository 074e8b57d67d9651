// Measures a version for the rules of a gate, beside the champion, by the functions of the verbs
// `accuracy`, `bench` and `compare`: what a gate says anybody can see again with them. It relies on
// running in a process that has used no GPU yet.

#pragma once

#include "registry/Rule.h"
#include "support/Result.h"
#include "tools/tenon/task/TaskListener.h"

#include <span>
#include <string>
#include <vector>

namespace tenon::tool {

struct GateSubjects {
  std::string candidate; ///< paths of engines or models
  std::string champion;  ///< empty where there is none
  std::string parent;    ///< what the candidate was made from; empty where it names none
  std::string data;      ///< of the data set; empty where none was given
  double seconds = 2;    ///< how long each pair is timed
};

/// A result for each rule, in their order. Rules that need data have some (Terms::needsData).
Result<std::vector<registry::RuleResult>> measureRules(std::span<const registry::Rule> rules,
                                                       const GateSubjects &subjects,
                                                       TaskListener &listener);

} // namespace tenon::tool
