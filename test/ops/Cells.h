// The cells of the table as cases of a suite: each is compiled to an engine for one variant and run
// by the runtime, as a model would be. What a machine with a GPU runs; OpsTest runs the same cells
// region by region on CPU levels.
#pragma once

#include "test/conformance/Case.h"

#include <vector>

namespace tenon::ops {

/// Every row in all forms for its first dtype, and in the dynamic form for the others:
/// "tn.add.4/f32/dynamic".
std::vector<conformance::Case> opCells();

/// Compares the engine with the reference interpreter.
conformance::Outcome runOpCell(const conformance::Case &cell,
                               const conformance::CaseOptions &options);

} // namespace tenon::ops
