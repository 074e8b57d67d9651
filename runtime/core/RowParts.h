// A run of several rows as runs of some of them each, which pass the stages of a plan at the same
// time (micro-batches). Private to runtime/core.

#pragma once

#include "engine/Plan.h"
#include "runtime/core/Session.h"

#include <span>
#include <vector>

namespace tenon::runtime {

class RowParts {
public:
  /// Cuts the tensors of a run along the rows that the plan says may go in parts. Whether there are
  /// several; not where the session keeps an output, which is one array, nor where one has no room
  /// of `outputBytes`.
  bool cut(const engine::Plan &plan, const RunTensors &whole,
           std::span<const int64_t> outputBytes);
  /// Valid as long as the tensors.
  std::span<const RunTensors> runs() const { return parts; }

private:
  // Kept to allocate nothing in a run of rows seen before.
  std::vector<InputBinding> inputs;
  std::vector<OutputBinding> outputs;
  std::vector<std::vector<int64_t>> dims;
  std::vector<RunTensors> parts;
};

} // namespace tenon::runtime
