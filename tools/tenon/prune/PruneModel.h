// A model becomes a narrower one, whose channels, attention heads and FFN widths that matter least
// are gone; by a ratio, or by the latency that it is to have.

#pragma once

#include "tools/tenon/prune/Report.h"
#include "tools/tenon/target/TargetFlags.h"
#include "tools/tenon/task/TaskListener.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

struct PruneRequest {
  std::string model;
  std::string output;                   ///< the pruned model
  std::string recipe;                   ///< what is kept of each tensor, as JSON; empty for none
  std::string importance = "magnitude"; ///< or "bn-scale", or "scores"
  std::string scores;                   ///< an npz with an array for each parameter
  std::optional<double> ratio, latency; ///< one of both: of 1, and ms
  std::vector<std::string> shapes;      ///< of inputs with free sizes
  std::vector<std::string> keep;        ///< nodes whose widths stay
  uint64_t multiple = 0; ///< of widths; 0 for what a kernel of the target computes at once
  TargetFlags target;    ///< that both models are measured on: one of this machine
  runtime::SessionOptions session;
  double seconds = 1; ///< of measuring each model
  bool isTimed = true;
  bool useCache = true;
};

/// Writes the output and the recipe. TN0105 for what cannot be asked; the errors of pruning are
/// those of prune::Pruner.
Result<PruneOutcome> pruneModel(const PruneRequest &request, TaskListener &listener);

} // namespace tenon::tool
