// One model through compiler and runtime, against the reference: the oracle of the verbs under
// `debug`.
#pragma once

#include "compiler/pipeline/Pipeline.h"
#include "tools/debug/Debug.h"
#include "tools/debug/Outcome.h"
#include "tools/debug/ReferenceModel.h"

namespace tenon::debug {

struct Trial {
  pipeline::CompileOptions compile; ///< with a place for the engine
  pipeline::CompileHooks hooks;
  std::vector<NamedTensor> inputs;
  unsigned threads = 1;
  uint64_t seed = 0;
};

/// Compiles, runs and compares, in this process. A crash inside of the compiler is a Fault.
Outcome evaluateTrial(const Trial &trial);

/// The error of a compilation, or what it means for a trial.
Outcome outcomeOf(const Status &compiled);

/// The trial that the flags ask for, in a folder for engines; its inputs are those given, or seeded
/// ones. Of several CPU levels it is for the best that this machine runs.
Result<Trial> makeTrial(const pipeline::CompileOptions &compile,
                        const std::vector<NamedTensor> &given, uint64_t seed,
                        const std::string &scratch);
Result<Trial> makeTrial(const DebugRequest &request, const std::string &scratch);

Result<std::vector<NamedTensor>> fromArrays(const std::vector<Tensor> &arrays);
std::vector<Tensor> toArrays(const std::vector<NamedTensor> &tensors);

} // namespace tenon::debug
