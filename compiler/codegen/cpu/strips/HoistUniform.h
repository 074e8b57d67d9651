// What all vectors of a strip share is computed once, before its loop: statistics of a row and what
// follows from them.
#pragma once

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tenon::codegen::cpu {

/// Moves out of the loop what does not depend on it: operations without effects, and loads from
/// buffers that it does not write. LLVM cannot move the loads, for it must expect that buffers
/// overlap.
void hoistUniform(mlir::scf::ForOp loop);

} // namespace tenon::codegen::cpu
