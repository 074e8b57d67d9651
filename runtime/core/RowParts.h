// A run of several rows as runs of some of them each, which pass the stages of a plan at the same
// time (micro-batches). Private to runtime/core.

#pragma once

#include "engine/Plan.h"
#include "runtime/core/Session.h"

#include <memory>
#include <span>
#include <vector>

namespace tenon::runtime {

class RowParts {
public:
  /// Cuts the tensors of a run along the rows that the plan says may go in parts. Whether there are
  /// several; not where the session keeps an output, which is one array, nor where one has no room
  /// of `outputBytes`.
  bool cut(const engine::Plan &plan, const RunTensors &whole, std::span<const int64_t> outputBytes);
  /// Valid as long as the tensors.
  std::span<const RunTensors> runs() const { return {parts.get(), count}; }

private:
  std::unique_ptr<InputBinding[]> inputs;
  std::unique_ptr<OutputBinding[]> outputs;
  std::vector<int64_t> dims;
  std::unique_ptr<RunTensors[]> parts;
  size_t count = 0;
};

} // namespace tenon::runtime
