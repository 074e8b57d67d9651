// A look at all values of an input of a data set: numbers that are none, and an input that never
// changes. Values that are infinite are taken in additive masks only, which have nothing else but
// 0.

#pragma once

#include "runtime/tensors/Tensor.h"
#include "support/Status.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <string>

namespace tenon::tool {

class ValueCheck {
public:
  explicit ValueCheck(DType elementType) : dtype(elementType) {}

  /// The elements of a sample.
  void add(Bytes row, size_t sample);
  /// An error for the first value that is not allowed; `where` begins it.
  Status verdict(const std::string &where) const;
  /// Whether a floating-point input has one value in all samples; integers, as in masks, may.
  bool isConstant() const { return isFloating(dtype) && lowest == highest; }
  double low() const { return lowest; }

private:
  struct Place {
    size_t sample;
    size_t element;
  };
  template <typename T> void addAll(Bytes row, size_t sample);

  DType dtype;
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -std::numeric_limits<double>::infinity();
  bool hasOtherThanZero = false; ///< among finite values
  std::optional<Place> nan;
  std::optional<Place> infinite;
};

} // namespace tenon::tool
