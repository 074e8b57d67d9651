// Windows over height and width of [batch, height, width, channels].
#pragma once

#include "compiler/frontend/tflite/Node.h"

namespace tenon::tflite {

/// As `tn` has them.
struct Window {
  llvm::SmallVector<int64_t> kernel, strides, pads, dilations;
};

/// None after an error: strides and dilations are at least 1.
std::optional<Window> windowOf(Node &c, llvm::ArrayRef<int64_t> dims,
                               llvm::ArrayRef<int64_t> kernel, llvm::ArrayRef<int64_t> strides,
                               llvm::ArrayRef<int64_t> dilations, fb::Padding padding);

} // namespace tenon::tflite
