// Two reductions of a row in one round of its threads: each thread takes the second around what the
// first comes to over its own elements, and moves it when what all elements come to is known.
#pragma once

#include "compiler/codegen/cuda/rows/RowsCombine.h"
#include "compiler/codegen/cuda/rows/RowsWork.h"

#include <optional>

namespace tenon::codegen::cuda {

/// Moments: sum, and squares of what is left without the mean. Or exponentials: maximum, and sum of
/// the exponentials below it (Milakov, Gimelshein 2018).
class JointReduction {
public:
  /// Nothing if the reductions of `work` (over `length` elements) are not two of a known kind.
  static std::optional<JointReduction> of(const RowsWork &work, int64_t length);

  /// The tensor whose sum and squares around the mean the reductions are; null of exponentials.
  mlir::Value momentsOf() const { return source; }
  /// What a thread takes for the first's result while it reduces `count` elements that come to
  /// `first`; and what its second result is then, without elements that say nothing (-inf).
  mlir::Value assumed(mlir::OpBuilder &builder, mlir::Location location, mlir::Value first,
                      int64_t count) const;
  mlir::Value reduced(mlir::OpBuilder &builder, mlir::Location location, mlir::Value first,
                      mlir::Value second) const;
  /// Of exponentials: those of a part below `first`, its maximum, as those below `whole`.
  mlir::Value move(mlir::OpBuilder &builder, mlir::Location location, mlir::Value second,
                   mlir::Value first, mlir::Value whole) const;

private:
  JointReduction(int64_t length, mlir::Value source) : length(length), source(source) {}

  int64_t length;
  mlir::Value source;
};

} // namespace tenon::codegen::cuda
