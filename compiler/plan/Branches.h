// Which instructions of a plan for a GPU run beside others: sections whose instructions fall into
// two groups that share no memory. Relies on the plan's order and on where the arena lies, so that
// memory that it uses twice counts as shared.
#pragma once

#include "compiler/target/Target.h"
#include "engine/Plan.h"

#include <cstdint>
#include <vector>

namespace tenon::plan {

/// Seconds of an instruction on a GPU that is otherwise idle.
struct StepCost {
  double alone = 0; ///< from its start to its end
  double work = 0;  ///< the part of it in which it needs the whole GPU
};

/// Least gain for which a section is made: what stands behind it no longer starts early, which the
/// estimate does not see. A decode step was 3 us slower with one kernel of 0.7 us on the side, a
/// ResNet-50 2 us faster with three convolutions.
inline constexpr double kMinGainSeconds = 1.5e-6;

/// Sets the plan's sections and their queues by what its instructions take on `gpu`, with each
/// symbol at 128 or the nearest size allowed.
void partBranches(engine::Plan &plan, const target::Target &gpu);

/// The same by given costs, of as many of the first instructions as may be parted.
void partBranches(engine::Plan &plan, const std::vector<StepCost> &costs);

/// What each instruction before the first Size is estimated to take, by its bytes and operations.
/// Empty where the plan cannot be evaluated.
std::vector<StepCost> estimateCosts(const engine::Plan &plan, const target::Target &gpu);

} // namespace tenon::plan
