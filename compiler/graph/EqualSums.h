// Models whose numbers do not depend on how many ranks run them (`--invariant` with `--tp`): what
// is fused with what must then change no rounding either, since it differs between numbers of
// ranks.
#pragma once

#include "compiler/graph/Invariance.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace tenon::tn {

inline constexpr llvm::StringLiteral kOnAnyRanks = "ranks"; ///< value of kInvariant

inline void setEqualSums(mlir::ModuleOp module) {
  module->setAttr(kInvariant, mlir::StringAttr::get(module.getContext(), kOnAnyRanks));
}
/// Of a function of such a module, or of a region's.
inline bool hasEqualSums(mlir::Operation *function) {
  return isa_and_nonnull<mlir::StringAttr>(
      function->getParentOfType<mlir::ModuleOp>()->getAttr(kInvariant));
}

} // namespace tenon::tn
