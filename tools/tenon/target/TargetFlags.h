// What a model is compiled to, as verbs and other callers name it.

#pragma once

#include "compiler/api/CompileOptions.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// Of --precision and --allow.
const std::vector<std::string> kPrecisions = {"keep", "fp16", "bf16", "fp8"};
const std::vector<std::string> kAllowances = {"tf32", "tanh-gelu", "int8-activations"};

class TaskListener;

/// What a model becomes, as the command line has it.
struct TargetFlags {
  std::vector<std::string> targets = {"cpu"};
  std::string precision = "keep";
  std::vector<std::string> allow;
  std::vector<std::string> states;
  std::string deviceProfile; ///< a file; empty for none
};

/// Notes and progress of a compilation go to the listener, which outlives the options.
void listen(pipeline::CompileOptions &options, TaskListener &listener);
/// Tells the compiler what the flags say, and the user what was assumed.
Status applyTarget(const TargetFlags &flags, pipeline::CompileOptions &request,
                   const std::function<void(std::string_view)> &notice);

} // namespace tenon::tool
