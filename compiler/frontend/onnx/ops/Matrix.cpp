// Determinants by elimination, unrolled over the rows of matrices of constant size.
// Relies on matrices being small: each row adds operations to the graph.
#include "compiler/frontend/onnx/NodeContext.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr int64_t kMaxRows = 32;

/// Rows [first, size) and columns [first, size) of each matrix.
Value rest(NodeContext &c, Value x, int64_t axis, int64_t first, int64_t size) {
  return c.sliceAxis(x, axis, c.constantSize(first), c.constantSize(size - first));
}

/// Eliminates the first column of matrices [n, size, size] and returns what is left below the pivot
/// rows; `product` takes the pivots, with the sign of the exchange.
Value eliminate(NodeContext &c, Value x, int64_t size, Value &product) {
  Type real = getElementTypeOrSelf(x);
  Value zero = c.scalar(0, real);
  Value column = c.sliceAxis(x, 2, c.constantSize(0), c.constantSize(1));
  Value best = c.make<tn::ArgReduceOp>(c.unary<tn::AbsOp>(column), int64_t{1}, true, true, false);
  Value rows = c.alongAxis(c.positions(c.constantSize(size)), 1, 3);
  Value isBest = c.compare(rows, tn::Predicate::eq, best);
  Value pivotRow = c.reduce(tn::ReduceKind::sum, c.select(isBest, x, zero), {1}, true);
  Value top = c.sliceAxis(x, 1, c.constantSize(0), c.constantSize(1));
  Value pivot = c.sliceAxis(pivotRow, 2, c.constantSize(0), c.constantSize(1));
  Value isFirst = c.compare(best, tn::Predicate::eq, c.scalarLike(0, best));
  Value sign = c.select(isFirst, c.scalar(1, real), c.scalar(-1, real));
  product = c.mul(product, c.mul(pivot, sign));
  if (size == 1) {
    return Value();
  }
  // The pivot's row and the first change places.
  Value below = rest(c, c.select(isBest, top, x), 1, 1, size);
  Value factor = c.div(c.sliceAxis(below, 2, c.constantSize(0), c.constantSize(1)), pivot);
  // Without a pivot the determinant is 0 already.
  factor = c.select(c.compare(pivot, tn::Predicate::eq, zero), zero, factor);
  return rest(c, c.sub(below, c.mul(factor, pivotRow)), 2, 1, size);
}

void det(NodeContext &c) {
  int64_t rank = c.rank(0);
  tn::Dims dims = c.dims(0);
  std::optional<int64_t> size = rank < 2 ? 0 : tn::constantDim(dims.back());
  std::optional<int64_t> rows = rank < 2 ? 1 : tn::constantDim(dims[rank - 2]);
  if (size && rows && size != rows) {
    return c.error(ErrorId::OnnxBadNode, "its input is not made of square matrices");
  }
  if (!size || !rows || *size < 1 || *size > kMaxRows) {
    return c.gap("only matrices of 1 to 32 rows, a constant number, are supported",
                 "declare the dimension with --shape");
  }
  tn::Dims outer(dims.begin(), dims.end() - 2);
  AffineExpr count = tn::elementCount(c.builder().getContext(), outer);
  Type real = c.element(0).isF64() ? c.element(0) : Type(c.builder().getF32Type());
  Value x = c.reshape(c.cast(c.value(0), real), {count, dims.back(), dims.back()});
  Value product = c.scalar(1, real);
  for (int64_t left = *size; left > 0 && x; --left) {
    x = eliminate(c, x, left, product);
  }
  c.setOutput(0, c.cast(c.reshape(product, outer), c.element(0)));
}

constexpr OpRow kMatrixOpRows[] = {
    {"Det", 11, 1, 1, 1, det},
};

} // namespace

ArrayRef<OpRow> matrixRows() { return kMatrixOpRows; }

} // namespace tenon::onnx
