// Which sections of a plan a bound plan takes: where memory that the arena uses twice lies so that
// two queues share it, they stay one behind the other. Relies on bound addresses.

#pragma once

#include "runtime/plan/BoundPlan.h"

#include <vector>

namespace tenon::runtime {

/// Whether two steps may not run at once: one writes bytes that the other reads or writes.
bool conflict(const engine::Plan &plan, const BoundPlan &bound, const BoundStep &a,
              const BoundStep &b);

/// The plan's sections whose queues both have something to do and do not conflict; steps are
/// numbered as instructions.
std::vector<engine::Section> sectionsOf(const engine::Plan &plan, const BoundPlan &bound);

} // namespace tenon::runtime
