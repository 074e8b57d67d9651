// Elements that lie side by side in a buffer, moved by accesses of 16 bytes wherever the run begins
// and ends: vectors are aligned in the buffer, and those across a border move element by element.
#pragma once

#include "compiler/codegen/cuda/base/ThreadBuilder.h"

namespace tenon::codegen::cuda {

/// Elements of a type in 16 bytes.
int64_t lanesOf(mlir::Type storage);

class ElementRun {
public:
  using Value = mlir::Value;

  /// Of elements `begin` to below `end` (i64) of what begins at `buffer`, on a 16-byte border.
  ElementRun(const ThreadBuilder &t, Value buffer, mlir::Type element, Value begin, Value end);

  /// Vectors that hold the run (i64).
  Value vectors() const { return count; }
  /// The number in the run of the first element of a vector; negative where that lies before it.
  Value numberOf(const ThreadBuilder &t, Value vector) const;
  /// The elements of a vector (i64, any number), `other` for those that are not of the run.
  ThreadBuilder::Values load(const ThreadBuilder &t, Value vector, Value other) const;
  void store(const ThreadBuilder &t, Value vector, mlir::ValueRange elements) const;

  const int64_t lanes;

private:
  /// Whether the element is of the run.
  Value holds(const ThreadBuilder &t, Value place) const;

  Value buffer;
  mlir::Type element;
  Value begin, end, first, count;
};

} // namespace tenon::codegen::cuda
