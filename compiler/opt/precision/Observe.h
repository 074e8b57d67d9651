// The observers of calibration: what ranges are estimated from, computed in the engine where the
// values are made, so that none of them is stored.
#pragma once

#include "compiler/opt/precision/Observation.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Status.h"

#include <vector>

namespace tenon::opt {

/// The results of the module become what the observations ask for, one after the other. They are of
/// inputs or results of @main, of float types.
Status observe(mlir::ModuleOp module, const std::vector<Observation> &observations);

} // namespace tenon::opt
