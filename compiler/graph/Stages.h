// How many pipeline stages a cut module has. compiler/shard states it; a module without has one.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace tenon::tn {

/// On the module: an integer.
inline constexpr llvm::StringLiteral kStages = "tn.stages";

inline uint32_t stagesOf(mlir::ModuleOp module) {
  mlir::IntegerAttr count = module->getAttrOfType<mlir::IntegerAttr>(kStages);
  return count ? static_cast<uint32_t>(count.getInt()) : 1;
}

} // namespace tenon::tn
