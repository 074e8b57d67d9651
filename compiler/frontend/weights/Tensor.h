// A tensor of a model's file: floats, or blocks of numbers. Relies on the file staying mapped.
#pragma once

#include "compiler/frontend/weights/Blocks.h"

#include <string>
#include <vector>

namespace tenon::weights {

/// How a matrix lies in its bytes.
enum class Lying : uint8_t {
  Rows,    ///< row by row
  Columns, ///< column by column
  /// Row by row, those of a head's queries, keys and values behind each other; the tensor has the
  /// queries of all heads, then the keys, then the values.
  Heads,
};

struct Tensor {
  std::string name; ///< in the file
  /// Outermost first, as PyTorch has them: a matrix of a layer is [outputs, inputs].
  std::vector<int64_t> dims;
  const BlockType *type = nullptr;
  Bytes bytes;
  Lying lying = Lying::Rows;
  int64_t headWidth = 0;               ///< rows of a head's queries, of Lying::Heads
  int64_t firstRow = 0, wholeRows = 0; ///< of what `bytes` are, where that is not Lying::Rows

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t dim : dims) {
      count *= dim;
    }
    return count;
  }
};

} // namespace tenon::weights
