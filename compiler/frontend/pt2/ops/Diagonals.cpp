// Triangles of matrices, and diagonals, which are views: what is written to one is written into its
// place.
#include "compiler/frontend/pt2/Call.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

using frontend::Emitter;

template <bool isUpper> void triangle(Call &c) {
  c.setOutput(c.unary<tn::TriluOp>(c.value("self"), c.integer("diagonal", 0), isUpper));
}

/// Every `step`th of the elements of a matrix.
struct Diagonal {
  SmallVector<int64_t> order; ///< brings the two dims of the matrix to the end
  int64_t elements = 0;
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

/// x with the two dims of the matrix as one at the end.
mlir::Value flatMatrix(Emitter &e, mlir::Value x, const Diagonal &place) {
  x = e.transpose(x, place.order);
  tn::Dims dims = x ? tn::getDims(x.getType()) : tn::Dims();
  if (!x) {
    return x;
  }
  dims.pop_back();
  dims.back() = e.constantSize(place.elements);
  return e.reshape(x, dims);
}

mlir::Value takeDiagonal(Emitter &e, mlir::Value x, const Diagonal &place) {
  x = flatMatrix(e, x, place);
  if (!x) {
    return x;
  }
  tn::Dims dims = tn::getDims(x.getType());
  SmallVector<AffineExpr> starts(dims.size(), e.constantSize(0));
  SmallVector<int64_t> steps(dims.size(), 1);
  starts.back() = e.constantSize(place.start);
  steps.back() = place.step;
  dims.back() = e.constantSize(place.count);
  return e.makeTyped<tn::SliceOp>(tn::makeTensor(dims, getElementTypeOrSelf(x)), x,
                                  tn::symbolMap(starts, x.getContext()), steps);
}

mlir::Value putDiagonal(Emitter &e, mlir::Value x, mlir::Value values, const Diagonal &place) {
  mlir::Value flat = flatMatrix(e, x, place);
  mlir::Value turned = e.transpose(x, place.order);
  if (!flat || !turned) {
    return mlir::Value();
  }
  tn::Dims dims = tn::getDims(values.getType());
  int64_t rank = static_cast<int64_t>(dims.size());
  Type index = e.builder().getI64Type();
  mlir::Value places = e.add(e.mul(e.positions(e.constantSize(place.count)),
                                   e.scalar(static_cast<double>(place.step), index)),
                             e.scalar(static_cast<double>(place.start), index));
  places = e.broadcast(e.alongAxis(places, rank - 1, rank), dims);
  flat = e.make<tn::ScatterElementsOp>(flat, places, values, rank - 1, tn::ScatterKind::none);
  SmallVector<int64_t> inverse(place.order.size());
  for (auto [i, p] : llvm::enumerate(place.order)) {
    inverse[p] = static_cast<int64_t>(i);
  }
  flat = e.reshape(flat, tn::getDims(turned.getType()));
  return flat ? e.transpose(flat, inverse) : flat;
}

/// The diagonal as elements [i, i + offset]: rows and columns of one size, flat, every (n + 1)th.
void diagonal(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  int64_t rank = rankOf(x);
  bool isVector = c.target.name == "aten.diag" && rank == 1;
  int64_t first = c.axis("dim1", 0, rank), second = c.axis("dim2", isVector ? 0 : 1, rank);
  int64_t offset = c.integer(c.has("diagonal") ? "diagonal" : "offset", 0);
  SmallVector<int64_t> order;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != first && d != second) {
      order.push_back(d);
    }
  }
  order.append({first, second});
  std::optional<int64_t> rows = tn::constantDim(tn::getDims(x.getType())[first]);
  std::optional<int64_t> columns = tn::constantDim(tn::getDims(x.getType())[second]);
  if (isVector || !rows || !columns) {
    return c.gap("a diagonal of dims that are not constant, or a matrix of a diagonal",
                 "declare the input shapes with --shape");
  }
  int64_t row = std::max<int64_t>(0, -offset), column = std::max<int64_t>(0, offset);
  int64_t count = std::max<int64_t>(0, std::min(*rows - row, *columns - column));
  Diagonal place = {order, *rows * *columns, row * *columns + column, *columns + 1, count};
  auto read = [place](Emitter &e, mlir::Value base) { return takeDiagonal(e, base, place); };
  auto write = [place](Emitter &e, mlir::Value base, mlir::Value view) {
    return putDiagonal(e, base, view, place);
  };
  c.target.name == "aten.diag" ? c.setOutput(read(c, x)) : c.setView("self", {read, write});
}

constexpr OpRow kDiagonalOpRows[] = {
    {"aten.triu", triangle<true>}, {"aten.tril", triangle<false>},   {"aten.diagonal", diagonal},
    {"aten.diag", diagonal},       {"aten.diagonal_copy", diagonal},
};

} // namespace

ArrayRef<OpRow> diagonalRows() { return kDiagonalOpRows; }

} // namespace tenon::pt2
