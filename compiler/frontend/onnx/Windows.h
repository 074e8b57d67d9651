// The window attributes that convolutions and pools share: kernel, strides, dilations and padding.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

struct Windows {
  llvm::SmallVector<int64_t> kernel;
  llvm::SmallVector<int64_t> strides;
  llvm::SmallVector<int64_t> dilations;
  llvm::SmallVector<int64_t> pads; ///< all begins, then all ends
};

/// Reads and checks the attributes for the spatial dims of input 0; none after a failure. `kernel`
/// is the weight's spatial shape, or empty where the attribute kernel_shape must say it.
std::optional<Windows> readWindows(NodeContext &c, llvm::ArrayRef<int64_t> kernel,
                                   bool transposed = false);

} // namespace tenon::onnx
