// A tensor in host memory with its name, as files hold it and runs take it: dense and row-major.
// It relies on nothing but support/.

#pragma once

#include "support/DType.h"
#include "support/memory/AlignedBuffer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct Tensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  AlignedBuffer data;

  /// A tensor of zeros; fails when a dim is negative, the size overflows or memory runs out.
  static Result<Tensor> create(std::string name, DType dtype, std::vector<int64_t> dims);
  int64_t elements() const;
  /// Those of the elements; `data` may have more room.
  Bytes bytes() const;
};

/// Whether elements can be read and written as doubles: real types of 8 bits (integers) and more.
bool isNumeric(DType dtype);
/// Whether a numeric type has fractions.
bool isFloating(DType dtype);
/// Element `index` of a tensor of numeric type.
double elementAsDouble(const Tensor &tensor, int64_t index);
/// Stores `value` in a tensor of numeric type, rounded to nearest even; integers must fit.
void setElement(Tensor &tensor, int64_t index, double value);

} // namespace tenon
