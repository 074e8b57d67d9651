// The observers of calibration: what ranges are estimated from, computed in the engine where the
// values are made, so that none of them is stored.
#pragma once

#include "compiler/opt/precision/HistogramGrid.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Status.h"

#include <string>
#include <vector>

namespace tenon::opt {

/// The results of the module become, for each of `names` (inputs or results of @main, of float
/// types) in turn, its minimum, its maximum and its histogram, f32 [1], f32 [1] and i32 [1, kBins];
/// NAME:min, NAME:max and NAME:histogram are their names.
Status observe(mlir::ModuleOp module, const std::vector<std::string> &names);

} // namespace tenon::opt
