// How the code of a region tells that it failed: bodies state what must hold (tn.require on
// scalars), and a kernel's frame collects in one register what did not.
#pragma once

#include "compiler/graph/Tn.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tenon::codegen {

/// `x`, which may be used whether `condition` (i1) holds or not; if it does not, the kernel fails.
/// Nothing is made of a condition that is known to hold.
mlir::Value require(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x,
                    mlir::Value condition, tn::Failure failure);

/// The bit of a kernel's failures that stands for one of them.
inline int32_t failureBit(tn::Failure failure) {
  return int32_t(1) << static_cast<int32_t>(failure);
}

/// Replaces every tn.require in `function` by an update of a word in its frame, which LLVM keeps in
/// a register; the word is 0 at first and gets the bits of what failed. Gives the word's address,
/// or null where nothing can fail. `place` may move what a condition is computed from and gives
/// where it is looked at.
mlir::Value collectFailures(mlir::FunctionOpInterface function,
                            llvm::function_ref<mlir::OpBuilder(tn::RequireOp)> place);

} // namespace tenon::codegen
