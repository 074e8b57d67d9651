// Which steps of a bound plan run beside others on a GPU: sections of the plan whose steps fall into
// two groups that share no memory. Relies on the plan's order and on bound addresses, so that memory
// that the arena uses twice counts as shared.

#pragma once

#include "runtime/plan/BoundPlan.h"

#include <vector>

namespace tenon::runtime {

/// Seconds of a step on a GPU that is otherwise idle.
struct StepCost {
  double alone = 0; ///< from its start to its end
  double work = 0;  ///< the part of it in which it needs the whole GPU
};

/// Steps [first, end) of a plan run on two streams that part before `first` and meet again before
/// `end`.
struct BranchSection {
  uint32_t first = 0;
  uint32_t end = 0;
  std::vector<uint32_t> side; ///< the steps of the other stream, ascending

  bool isOnSide(uint32_t step) const;
};

/// What parting and meeting again take in a graph: 0.2 to 0.4 us were measured on an H200 (with a
/// third stream 1.0).
inline constexpr double kPartAndMeetSeconds = 0.4e-6;
/// Least gain for which a section is made: what stands behind it no longer starts early, which the
/// estimate does not see. A decode step was 3 us slower with one kernel of 0.7 us on the side, a
/// ResNet-50 2 us faster with three convolutions.
inline constexpr double kLeastGainSeconds = 1.5e-6;

/// What a step is estimated to take, by its operands' bytes and, for a product or a convolution, its
/// multiplications.
StepCost estimateCost(const engine::Plan &plan, const BoundPlan &bound, const BoundStep &step);

/// Whether two steps may not run at once: one writes bytes that the other reads or writes.
bool conflict(const engine::Plan &plan, const BoundPlan &bound, const BoundStep &a,
              const BoundStep &b);

/// Sections in the order of the plan, none of which overlap; `costs` by step, of as many of the first
/// steps as are looked at.
std::vector<BranchSection> findBranches(const engine::Plan &plan, const BoundPlan &bound,
                                        const std::vector<StepCost> &costs);

} // namespace tenon::runtime
