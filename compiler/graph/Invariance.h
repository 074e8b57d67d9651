// Models whose rows do not depend on each other's number (`--invariant`): which rows a batch holds
// beside one changes none of its bits. Relies on dispatch for kernels that keep it.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tenon::tn {

/// Unit attribute of a module of which a row's results may not depend on how many rows there are.
/// A region's module has it if the model's has.
inline constexpr llvm::StringLiteral kInvariant = "tn.invariant";

inline bool isInvariant(mlir::ModuleOp module) { return module->hasAttr(kInvariant); }
/// Of a function of such a module.
inline bool isInvariant(mlir::Operation *function) {
  return isInvariant(function->getParentOfType<mlir::ModuleOp>());
}

} // namespace tenon::tn
