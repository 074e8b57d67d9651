// The flags that say what a model is compiled to, which `compile`, `run` and `bench` share.

#pragma once

#include "support/Status.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tenon::tool {

struct CompileRequest;

/// What a model becomes, as the command line has it.
struct TargetFlags {
  std::vector<std::string> targets = {"cpu"};
  std::string precision = "keep";
  std::vector<std::string> allow;
  std::vector<std::string> states;
};

void declareTargetFlags(CLI::App &command, TargetFlags &flags);
/// `--budget 5s` (or 2m, or seconds without a unit).
void declareBudgetFlag(CLI::App &command, double &seconds);
/// Tells the compiler what the flags say.
Status applyTarget(const TargetFlags &flags, CompileRequest &request);

} // namespace tenon::tool
