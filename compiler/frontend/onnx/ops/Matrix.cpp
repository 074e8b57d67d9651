// Determinants and inverses by elimination, unrolled over the rows of matrices of constant size,
// and distances between rows.
// Relies on matrices being small: each row adds operations to the graph.
#include "compiler/frontend/onnx/ops/Matrix.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::onnx {
Value solve(NodeContext &c, Value a, Value b, int64_t size) {
  AffineExpr own = c.constantSize(size), one = c.constantSize(1);
  if (!a || !b) {
    return Value();
  }
  Value x = c.concat({a, b}, 2);
  Value rows = c.alongAxis(c.positions(own), 1, 3);
  Type real = getElementTypeOrSelf(a);
  Value zero = c.scalar(0, real);
  for (int64_t i = 0; i < size && x; ++i) {
    Value at = c.scalarLike(static_cast<double>(i), rows);
    Value column = c.sliceAxis(x, 2, c.constantSize(i), one);
    // Rows above the diagonal have had their pivots.
    Value open = c.compare(rows, tn::Predicate::ge, at);
    Value magnitude = c.select(open, c.unary<tn::AbsOp>(column), c.scalar(-1, real));
    Value best = c.make<tn::ArgReduceOp>(magnitude, int64_t{1}, true, true, false);
    Value isBest = c.compare(rows, tn::Predicate::eq, best);
    Value isOwn = c.compare(rows, tn::Predicate::eq, at);
    Value pivotRow = c.reduce(tn::ReduceKind::sum, c.select(isBest, x, zero), {1}, true);
    Value ownRow = c.sliceAxis(x, 1, c.constantSize(i), one);
    pivotRow = c.div(pivotRow, c.sliceAxis(pivotRow, 2, c.constantSize(i), one));
    x = c.select(isBest, ownRow, x);
    Value factor = c.sliceAxis(x, 2, c.constantSize(i), one);
    x = c.select(isOwn, pivotRow, c.sub(x, c.mul(factor, pivotRow)));
  }
  return x ? c.sliceAxis(x, 2, own, tn::getDims(b.getType())[2]) : x;
}

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

/// The size of the square matrices that input 0 is made of; none after a failure.
std::optional<int64_t> squareSize(NodeContext &c) {
  int64_t rank = c.rank(0);
  tn::Dims dims = c.dims(0);
  std::optional<int64_t> size = rank < 2 ? 0 : tn::constantDim(dims.back());
  std::optional<int64_t> rows = rank < 2 ? 1 : tn::constantDim(dims[rank - 2]);
  if (size && rows && size != rows) {
    c.error(ErrorId::OnnxBadNode, "its input is not made of square matrices");
  } else if (!size || !rows || *size < 1 || *size > kMaxRows) {
    c.gap("only matrices of 1 to 32 rows, a constant number, are supported",
          "declare the dimension with --shape");
  }
  return c.failed() ? std::nullopt : size;
}

void det(NodeContext &c) {
  std::optional<int64_t> size = squareSize(c);
  if (!size) {
    return;
  }
  tn::Dims dims = c.dims(0);
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

void inverse(NodeContext &c) {
  std::optional<int64_t> size = squareSize(c);
  if (!size) {
    return;
  }
  tn::Dims dims = c.dims(0);
  AffineExpr own = dims.back();
  AffineExpr count =
      tn::elementCount(c.builder().getContext(), tn::Dims(dims.begin(), dims.end() - 2));
  Type real = c.element(0).isF64() ? c.element(0) : Type(c.builder().getF32Type());
  Value rows = c.alongAxis(c.positions(own), 1, 3), columns = c.alongAxis(c.positions(own), 2, 3);
  Value identity = c.cast(c.compare(rows, tn::Predicate::eq, columns), real);
  Value y = solve(c, c.reshape(c.cast(c.value(0), real), {count, own, own}),
                  c.broadcast(identity, {count, own, own}), *size);
  c.setOutput(0, c.cast(c.reshape(y, dims), c.element(0)));
}

/// The distances of all rows of one matrix from all of another.
void distances(NodeContext &c) {
  std::string metric = c.text("metric", "sqeuclidean");
  bool isSquared = metric == "sqeuclidean";
  if (!isSquared && metric != "euclidean") {
    return c.gap("metric " + metric + " is not supported", "use euclidean or sqeuclidean");
  }
  if (c.rank(0) != 2 || c.rank(1) != 2) {
    return c.error(ErrorId::OnnxBadNode, "its inputs are not matrices");
  }
  AffineExpr one = c.constantSize(1);
  Value a = c.reshape(c.value(0), {c.dims(0)[0], one, c.dims(0)[1]});
  Value b = c.reshape(c.value(1), {one, c.dims(1)[0], c.dims(1)[1]});
  Value apart = c.sub(a, b);
  Value sum = c.reduce(tn::ReduceKind::sum, c.mul(apart, apart), {2}, false);
  c.setOutput(0, isSquared ? sum : c.unary<tn::SqrtOp>(sum));
}

constexpr OpRow kMatrixOpRows[] = {
    {"CDist", 1, 2, 2, 1, distances, {{"metric", kString}}, kMicrosoft},
    {"Det", 11, 1, 1, 1, det},
    {"Inverse", 1, 1, 1, 1, inverse, {}, kMicrosoft},
};

} // namespace

ArrayRef<OpRow> matrixRows() { return kMatrixOpRows; }

} // namespace tenon::onnx
