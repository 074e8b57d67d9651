// Softmax along the rows of a block of scores in scratch, with a running maximum: each block of
// keys raises a row's largest score, by which what was summed up before is scaled down.
#pragma once

#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/base/KernelBuilder.h"
#include "mlir/IR/BuiltinTypes.h"

#include <limits>

namespace tenon::codegen::cpu {

/// Where the running maximum starts: finite, so that scores of minus infinity give exponentials of
/// 0 and no NaN.
inline constexpr double kLowestScore = std::numeric_limits<float>::lowest();

/// The state of the rows of a block of queries, and the steps that change it.
class OnlineSoftmax {
protected:
  using Body = llvm::function_ref<void(const IndexMath &, mlir::Value)>;
  /// The elements of a vector of columns, of which all or the first `active` count.
  using Elements =
      llvm::function_ref<mlir::Value(const IndexMath &, mlir::Value column, mlir::Value active)>;

  OnlineSoftmax(KernelBuilder &kernel, int64_t lanes);

  /// Scratch for blocks of so many rows and columns, and results of `width` columns, in whole
  /// panels. The exponentials of elements narrower than f32 get a buffer of their own.
  void allocateRows(const IndexMath &math, int64_t rows, int64_t columns, mlir::AffineExpr width,
                    mlir::Type element);

  /// The scale of the attention. With `isRounded`, queries that are stored narrow again, they get a
  /// power of two, which does not round them, and scores what is left.
  void setScale(double whole, bool isRounded);
  /// Queries times their scale, as matrices of one shape.
  void scaleQueries(const IndexMath &math, mlir::Value from, mlir::Value to) const;
  /// The sums of the rows [row, row + count), times their totals, which are inverted by now, to a
  /// matrix of as many columns.
  void writeSums(const IndexMath &math, mlir::Value row, mlir::Value count, mlir::Value columns,
                 mlir::Value to) const;

  void startRow(const IndexMath &math, mlir::Value row);
  /// exp(score - shift) of the columns [first, end), both multiples of the lanes; their sum.
  mlir::Value sumOfExponentials(const IndexMath &math, mlir::Value row, mlir::Value first,
                                mlir::Value end, mlir::Value shift);
  void storeExponentials(const IndexMath &math, mlir::Value x, mlir::Value row,
                         mlir::Value column) const;
  /// Zeros as the exponentials of the columns [first, end), both multiples of the lanes.
  void clearExponentials(const IndexMath &math, mlir::Value row, mlir::Value first,
                         mlir::Value end) const;
  /// Brings a row to a new largest score, and adds the sum of a block's exponentials.
  void addToRow(const IndexMath &math, mlir::Value row, mlir::Value before, mlir::Value most,
                mlir::Value sum);
  mlir::Value largestOf(const IndexMath &math, mlir::Value count, Elements element) const;

  mlir::Value lanesOf(const IndexMath &math, mlir::Value active) const;
  mlir::Value larger(const IndexMath &math, mlir::Value a, mlir::Value b) const;
  mlir::Value reduceLargest(const IndexMath &math, mlir::Value x) const;
  mlir::Value broadcast(const IndexMath &math, mlir::Value scalar) const;
  mlir::Value number(const IndexMath &math, double value) const;
  mlir::Value lanes(const IndexMath &math) const { return math.constant(vector.getDimSize(0)); }
  /// The next multiple of the lanes.
  mlir::Value wholeLanes(const IndexMath &math, mlir::Value count) const;
  void forEach(const IndexMath &math, mlir::Value count, Body body) const;
  /// `body` where `condition` holds, without a branch where that is known.
  void when(const IndexMath &math, mlir::Value condition,
            llvm::function_ref<void(const IndexMath &)> body) const;

  KernelBuilder &kernel;
  mlir::VectorType vector;
  double scoreFactor = 1;     ///< what of the attention's scale the queries have not
  mlir::Value scores;         ///< [most rows, keys of a block and a panel]
  mlir::Value exponentials;   ///< the same in words; of f32 the scores themselves
  mlir::Value sums;           ///< [most rows, value panels * 32]
  mlir::Value largest, total; ///< [most rows]: the largest score so far; the exponentials' sum

private:
  void rescale(const IndexMath &math, mlir::Value row, mlir::Value factor);

  double scale = 1; ///< of the queries
};

} // namespace tenon::codegen::cpu
