// Lets a kernel return what failed in it, as engine/KernelAbi.h numbers it.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tenon::codegen::cpu {

/// Replaces every tn.require of a kernel that is loops and scalars by now. A condition is looked at
/// outside of the loops that do not change it: once for a row of a table that an index chooses.
void returnFailures(mlir::func::FuncOp kernel);

} // namespace tenon::codegen::cpu
