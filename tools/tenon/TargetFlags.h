// The flags that several verbs share: what a model is compiled to, and how it is run.

#pragma once

#include "support/Status.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tenon::tool {

struct CompileRequest;
class Terminal;

/// What a model becomes, as the command line has it.
struct TargetFlags {
  std::vector<std::string> targets = {"cpu"};
  std::string precision = "keep";
  std::vector<std::string> allow;
  std::vector<std::string> states;
  std::string deviceProfile; ///< a file; empty for none
};

void declareTargetFlags(CLI::App &command, TargetFlags &flags);
/// `--variant avx2`, also called `--isa`.
void declareVariantFlag(CLI::App &command, std::string &variant);
void declareThreadsFlag(CLI::App &command, unsigned &threads, const std::string &description);
/// `--budget 5s` (or 2m, or seconds without a unit).
void declareBudgetFlag(CLI::App &command, double &seconds);
/// Tells the compiler what the flags say, and the user what was assumed.
Status applyTarget(const TargetFlags &flags, CompileRequest &request, Terminal &terminal);

} // namespace tenon::tool
