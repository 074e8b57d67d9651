// The RMS norm of a product's rows, of which there are few: every block norms all of them into
// shared memory while its weights are on their way, one or more warps a row. Relies on 16-bit
// elements and rows of a multiple of eight.
#pragma once

#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "compiler/graph/TnRare.h"

#include <functional>
#include <optional>

namespace tenon::codegen::cuda {

/// The RMS norm of A's rows before the product.
struct GemvNorm {
  std::optional<uint32_t> scale; ///< a buffer of `depth` elements
  double epsilon = 0;
};

/// Of a norm whose scale, if it has one, is an input.
GemvNorm gemvNormOf(tn::RmsNormOp op);

/// What the rows of a product are the norm of, if it is one that every block can do: `a` itself
/// without a norm, null if it is another one.
mlir::Value readStreamedNorm(mlir::Value a, std::optional<GemvNorm> &norm);

/// Elements from a normed row to the next, in shared memory: neighbours lie in different banks.
inline int64_t normedPitchOf(int64_t depth) { return depth + kRowPadding / 2; }

class RowNorm {
public:
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;
  /// Of a lane's eight neighbours, as four words of two: what is stored in their place.
  using Order = Values (*)(const ThreadBuilder &, llvm::ArrayRef<Value>);

  struct Rows {
    int64_t count, depth; ///< rows at most
    bool mayBeFewer;      ///< than that
    int64_t warps;        ///< of the block
    mlir::Type element;
  };

  RowNorm(KernelFrame &kernel, const GemvNorm &norm, const Rows &rows, Order order = nullptr)
      : kernel(kernel), norm(norm), p(rows), order(order) {}

  /// Sees a lane's eight neighbours of a row, normed and rounded, unless null: their place in the
  /// row, and whether they are there (null: always), which is so for all of a warp or none if rows
  /// are whole warps of parts.
  std::function<void(const ThreadBuilder &, Value row, Value place, llvm::ArrayRef<Value> words,
                     Value isThere)>
      reader;

  /// Scales are weights: they may be read before the rows are there.
  void fetchScales();
  /// Norms the rows behind `input` to `normed`. Partial sums lie at `scratch` in between.
  void normRows(Value input, Value rowCount, Value scratch, Value normed);

private:
  int64_t warpsOfRow() const;
  int64_t steps() const;
  Value placeOf(const ThreadBuilder &t, int64_t step, Value &isInside) const;
  void pass(const ThreadBuilder &t, Value pass) const;
  Values numbersOf(const ThreadBuilder &t, Value vector) const;
  Values normalized(const ThreadBuilder &t, Value words, Value factor, Value factors) const;
  Value rowFactor(const ThreadBuilder &t, Value square, Value row, Value part) const;

  KernelFrame &kernel;
  const GemvNorm &norm;
  Rows p;
  Order order;
  Value inputPointer, rowCount, shared, normedPointer;
  Values scales; ///< this lane's
};

} // namespace tenon::codegen::cuda
