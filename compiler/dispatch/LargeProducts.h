// Which products a GPU computes by a kernel of its own on warpgroups' tensor cores, because what
// follows them is not in a library's call: dispatch forms regions by this rule, codegen relies on
// it.
#pragma once

#include "compiler/dispatch/FewRows.h"
#include "compiler/target/Target.h"

namespace tenon::dispatch {

/// A block's tile of the result, and the depth of a stage of its operands.
inline constexpr int64_t kLargeRows = 128, kLargeColumns = 256, kLargeDepth = 64;
/// Tiles from which on an H200 is busy long enough for the kernel to gain on a library's call with
/// a pass over memory behind it.
inline constexpr int64_t kLeastLargeTiles = 300;

/// By sizes and types alone.
inline bool isLargeRoot(mlir::Operation *root, const target::Target &device) {
  tn::MatmulOp matmul = llvm::dyn_cast_or_null<tn::MatmulOp>(root);
  std::optional<HalfProduct> product =
      matmul && device.has(target::Feature::WarpgroupMma) ? halfProductOf(matmul) : std::nullopt;
  return product && product->depth % kLargeDepth == 0 && product->columns % kLargeColumns == 0 &&
         (product->rows + kLargeRows - 1) / kLargeRows * (product->columns / kLargeColumns) >=
             kLeastLargeTiles;
}

/// Whether the operations of a region are such a product with what no call ends with: GELU of erf.
inline bool isOwnProduct(llvm::ArrayRef<mlir::Operation *> ops) {
  return llvm::any_of(ops, [](mlir::Operation *op) {
    tn::GeluOp gelu = llvm::dyn_cast<tn::GeluOp>(op);
    return gelu && !gelu.getApproximate();
  });
}

} // namespace tenon::dispatch
