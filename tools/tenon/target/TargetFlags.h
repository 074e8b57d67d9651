// The flags that several verbs share: what a model is compiled to, and how it is run.

#pragma once

#include "compiler/api/CompileOptions.h"

#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace tenon::tool {

/// Of --precision and --allow.
const std::vector<std::string> kPrecisions = {"keep", "fp16", "bf16", "fp8"};
const std::vector<std::string> kAllowances = {"tf32", "tanh-gelu"};

struct OpenRequest;
class Terminal;

/// What a model becomes, as the command line has it.
struct TargetFlags {
  std::vector<std::string> targets = {"cpu"};
  std::string precision = "keep";
  std::vector<std::string> allow;
  std::vector<std::string> states;
  std::string deviceProfile; ///< a file; empty for none
};

/// Notes and progress of a compilation go to the terminal.
void listen(pipeline::CompileOptions &options, Terminal &terminal);
void declareTargetFlags(CLI::App &command, TargetFlags &flags);
/// How an engine is opened: `--variant avx2`, also called `--isa`, and `--no-verify-weights`.
void declareOpenFlags(CLI::App &command, OpenRequest &request);
void declareThreadsFlag(CLI::App &command, unsigned &threads, const std::string &description);
/// `--budget 5s` (or 2m, or seconds without a unit).
void declareBudgetFlag(CLI::App &command, double &seconds);
/// Tells the compiler what the flags say, and the user what was assumed.
Status applyTarget(const TargetFlags &flags, pipeline::CompileOptions &request,
                   const std::function<void(std::string_view)> &notice);

} // namespace tenon::tool
