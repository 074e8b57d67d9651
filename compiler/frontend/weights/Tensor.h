// A tensor of a model's file: floats, or blocks of numbers. Relies on the file staying mapped.
#pragma once

#include "compiler/frontend/weights/Blocks.h"

#include <string>
#include <vector>

namespace tenon::weights {

struct Tensor {
  std::string name; ///< in the file
  /// Outermost first, as PyTorch has them: a matrix of a layer is [outputs, inputs].
  std::vector<int64_t> dims;
  const BlockType *type = nullptr;
  Bytes bytes;

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t dim : dims) {
      count *= dim;
    }
    return count;
  }
};

} // namespace tenon::weights
