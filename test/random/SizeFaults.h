// Planted faults of what the engine must check: it then takes sizes for which it has no right
// result.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace tenon::random {

std::vector<std::string> sizeFaultNames();

/// Changes an imported module if it is this fault's and it applies; true if something was changed.
bool plantSizeFault(const std::string &name, mlir::ModuleOp module);

} // namespace tenon::random
