// What the verbs `debug` and `compare` need, free of MLIR: see docs/reference/command-line.md for
// what each does.
#pragma once

#include "compiler/api/CompileOptions.h"
#include "runtime/tensors/Tensor.h"
#include "support/Result.h"
#include "tools/debug/Outcome.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::debug {

struct DebugRequest {
  pipeline::CompileOptions compile; ///< model, shapes, targets, precision; the rest is not read
  std::vector<Tensor> inputs;       ///< by their names; none for seeded ones
  uint64_t seed = 0;
  double seconds = 60; ///< after which nothing more is tried
  std::function<void(std::string_view what, double fraction)> progress;
};

/// A part of a model that fails as the model does.
struct Reduction {
  Outcome outcome;        ///< of the model; nothing else is set if that is no failure
  Outcome smallest;       ///< of the part
  bool isReduced = false; ///< false if no part of the model fails by itself
  bool isInTime = true;
  size_t nodesBefore = 0;
  size_t nodesAfter = 0;
  size_t trials = 0;
  std::vector<std::string> nodes;  ///< of the part: "Conv '/layer1/conv1'"
  std::vector<std::string> shapes; ///< arguments of --shape for the part
};

/// Writes the part and its inputs into the two files. An error if the model cannot be read, has
/// gaps, or a file cannot be written.
Result<Reduction> reduceModel(const DebugRequest &request, const std::string &model,
                              const std::string &inputs);

/// Where a model's numbers first go wrong.
struct Bisection {
  Outcome outcome;     ///< of the model; nothing else is set if that is no failure
  std::string phase;   ///< "optimize"; as --stop-after names phases, "run" for the runtime
  std::string pass;    ///< "simplify (the third)"; empty where a phase has no passes
  std::string site;    ///< the operation or region, with the nodes that it is made of
  std::string pattern; ///< the rewrite that makes the difference; empty where it is no pattern
  std::string why;     ///< what differs there
  bool isInTime = true;
};

Result<Bisection> bisectModel(const DebugRequest &request);

} // namespace tenon::debug
