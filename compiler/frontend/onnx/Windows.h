// The window attributes that convolutions and pools share: kernel, strides, dilations and padding.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

struct Windows {
  llvm::SmallVector<int64_t> kernel;
  llvm::SmallVector<int64_t> strides;
  llvm::SmallVector<int64_t> dilations;
  llvm::SmallVector<int64_t> pads; ///< all begins, then all ends
  /// What "SAME" adds to a dim besides `pads`: expressions over its size, which decides how far
  /// strided windows reach.
  struct FreePad {
    int64_t axis;
    mlir::AffineExpr begin, total;
    int64_t most; ///< of the total
  };
  llvm::SmallVector<FreePad> freePads = {};
};

/// Reads and checks the attributes for the spatial dims of input 0; none after a failure. `kernel`
/// is the weight's spatial shape, or empty where the attribute kernel_shape must say it. There are
/// free pads only if `padsFreely`, where the caller adds them.
std::optional<Windows> readWindows(NodeContext &c, llvm::ArrayRef<int64_t> kernel,
                                   bool transposed = false, bool padsFreely = false);
/// x with the free pads around it, of elements that are `fill`; x itself if there are none.
mlir::Value padFreely(NodeContext &c, const Windows &w, mlir::Value x, mlir::Value fill);

} // namespace tenon::onnx
