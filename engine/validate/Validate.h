// Checks a plan completely before any of it is used: the loader for what it read, the compiler's
// export for what it made. It relies on nothing but the plan, so both see the same rules.

#pragma once

#include "engine/Plan.h"
#include "support/Status.h"

#include <span>

namespace tenon::engine {

/// Ok, or the first broken rule with its own error: TN0509 expressions, TN0510 ports and symbols,
/// TN0511 buffers, TN0512 overlapping buffers, TN0513 and TN0514 instructions.
/// `device` is that of the variant: everything in its plan is there.
Status validatePlan(const Plan &plan, std::span<const Weight> weights, size_t kernelCount,
                    uint16_t device = kHost);

/// Of a plan that a session may run in place of another one where sizes are those that it knows:
/// TN0510 unless its inputs and outputs have the same names, types and ranks, and both are without
/// state.
Status validateSameModel(const Plan &general, const Plan &plan);

} // namespace tenon::engine
