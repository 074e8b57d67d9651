// Reductions over axes, running sums, and what is built of them.
#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

mlir::Value reduceIn(Call &c, tn::ReduceKind kind, mlir::Value x) {
  if (!x) {
    return x;
  }
  SmallVector<int64_t> axes = c.axes("dim", rankOf(x));
  bool keeps = c.truth("keepdim", false);
  return axes.empty() ? x : c.reduce(kind, x, axes, keeps);
}

template <tn::ReduceKind kind> void reduce(Call &c) {
  c.elementNamed("dtype", c.resultElement());
  c.setOutput(reduceIn(c, kind, c.toResult(c.value("self"))));
}

/// The largest or smallest element of all, along an axis with its index, or of two tensors.
template <tn::ReduceKind kind> void extremum(Call &c) {
  constexpr bool isMax = kind == tn::ReduceKind::max;
  if (c.has("other")) {
    Type element = c.promoted({"self", "other"});
    mlir::Value a = c.operand("self", element), b = c.operand("other", element);
    return c.setOutput(isMax ? c.max(a, b) : c.min(a, b));
  }
  mlir::Value x = c.value("self");
  if (!c.has("dim")) {
    return c.setOutput(reduceIn(c, kind, x));
  }
  if (!x || rankOf(x) == 0) {
    c.setOutput(0, x);
    return c.setOutput(1, x ? c.scalar(0, c.builder().getI64Type()) : x);
  }
  int64_t axis = c.axis("dim", -1, rankOf(x));
  bool keeps = c.truth("keepdim", false);
  c.setOutput(0, c.reduce(kind, x, {axis}, keeps));
  c.setOutput(1, c.make<tn::ArgReduceOp>(x, axis, keeps, isMax, /*lastIndex=*/false));
}

/// amax and amin: over axes, without indices.
template <tn::ReduceKind kind> void extremes(Call &c) {
  c.setOutput(reduceIn(c, kind, c.value("self")));
}

template <bool isMax> void argExtremum(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  if (getElementTypeOrSelf(x).isInteger(1)) {
    x = c.cast(x, c.builder().getI32Type());
  }
  bool keeps = c.truth("keepdim", false);
  if (!c.has("dim")) {
    AffineExpr count = tn::elementCount(x.getContext(), tn::getDims(x.getType()));
    int64_t rank = rankOf(x);
    mlir::Value y = c.make<tn::ArgReduceOp>(c.reshape(x, {count}), int64_t{0}, false, isMax, false);
    return c.setOutput(keeps ? c.reshape(y, tn::Dims(rank, c.constantSize(1))) : y);
  }
  int64_t rank = rankOf(x);
  int64_t axis = c.axis("dim", -1, rank);
  c.setOutput(rank == 0 ? c.scalar(0, c.builder().getI64Type())
                        : c.make<tn::ArgReduceOp>(x, axis, keeps, isMax, false));
}

/// Whether all or any elements are not zero: the least or largest of 0 and 1. Of no elements these
/// are the limits of the type.
template <tn::ReduceKind kind> void truths(Call &c) {
  mlir::Value x = c.value("self");
  Type narrow = c.builder().getI32Type(), truth = c.builder().getI1Type();
  mlir::Value y = x ? reduceIn(c, kind, c.cast(c.cast(x, truth), narrow)) : x;
  c.setOutput(y ? c.toResult(c.compare(y, tn::Predicate::gt, c.scalarLike(0, y))) : y);
}

/// The number of elements that are reduced, as a scalar like x.
mlir::Value countOf(Call &c, mlir::Value x, ArrayRef<int64_t> axes) {
  AffineExpr count = c.constantSize(1);
  tn::Dims dims = tn::getDims(x.getType());
  for (int64_t axis : axes) {
    count = frontend::multiplySizes(count, dims[axis]);
  }
  if (!count) {
    c.gap("the number of elements cannot be written as an expression",
          "declare the input shapes with --shape");
    return mlir::Value();
  }
  return c.sizeValue(count, getElementTypeOrSelf(x));
}

struct Moments {
  mlir::Value mean;
  mlir::Value variance;
};

/// Mean and variance; `correction` (1 unless it says otherwise) is taken off the count.
Moments moments(Call &c, mlir::Value x) {
  if (!x) {
    return {};
  }
  x = c.widened(x);
  SmallVector<int64_t> axes = c.axes("dim", rankOf(x));
  bool keeps = c.truth("keepdim", false);
  double correction =
      c.has("unbiased") ? (c.truth("unbiased", true) ? 1 : 0) : c.real("correction", 1);
  mlir::Value mean = axes.empty() ? x : c.reduce(tn::ReduceKind::mean, x, axes, true);
  mlir::Value distance = c.sub(x, mean);
  mlir::Value squares = c.mul(distance, distance);
  mlir::Value sum = axes.empty() ? squares : c.reduce(tn::ReduceKind::sum, squares, axes, keeps);
  mlir::Value count = countOf(c, x, axes);
  mlir::Value divisor =
      c.max(c.sub(count, c.scalarLike(correction, count)), c.scalarLike(0, count));
  mlir::Value narrow =
      axes.empty() || keeps ? mean : c.reduce(tn::ReduceKind::mean, x, axes, false);
  return {narrow, c.div(sum, divisor)};
}
void var(Call &c) { c.setOutput(c.toResult(moments(c, c.value("self")).variance)); }
void standardDeviation(Call &c) {
  c.setOutput(c.toResult(c.unary<tn::SqrtOp>(moments(c, c.value("self")).variance)));
}
void varMean(Call &c) {
  Moments m = moments(c, c.value("self"));
  c.setOutput(0, c.toResult(m.variance));
  c.setOutput(1, c.toResult(m.mean));
}
void stdMean(Call &c) {
  Moments m = moments(c, c.value("self"));
  c.setOutput(0, c.toResult(c.unary<tn::SqrtOp>(m.variance)));
  c.setOutput(1, c.toResult(m.mean));
}

void logSumExp(Call &c) {
  mlir::Value x = c.widened(c.toResult(c.value("self")));
  if (!x) {
    return;
  }
  SmallVector<int64_t> axes = c.axes("dim", rankOf(x));
  bool keeps = c.truth("keepdim", false);
  mlir::Value most = c.reduce(tn::ReduceKind::max, x, axes, true);
  // Rows of minus infinity alone have no distance from it.
  mlir::Value infinite = c.makeTyped<tn::IsInfOp>(
      most ? Type(tn::withElement(most.getType(), c.builder().getI1Type())) : Type(), most, true,
      true);
  mlir::Value shift = c.select(infinite, c.scalarLike(0, x), most);
  mlir::Value sum = c.reduce(tn::ReduceKind::sum, c.unary<tn::ExpOp>(c.sub(x, shift)), axes, true);
  mlir::Value y = c.add(c.unary<tn::LogOp>(sum), shift);
  y = keeps || axes.empty() ? y : c.reduce(tn::ReduceKind::sum, y, axes, false);
  c.setOutput(c.toResult(y));
}

mlir::Value powerSum(Call &c, mlir::Value x, double order) {
  mlir::Value size = c.unary<tn::AbsOp>(x);
  if (order == 1) {
    return reduceIn(c, tn::ReduceKind::sum, size);
  }
  if (order == 2) {
    return c.unary<tn::SqrtOp>(reduceIn(c, tn::ReduceKind::sum, c.mul(x, x)));
  }
  mlir::Value sum =
      reduceIn(c, tn::ReduceKind::sum, c.make<tn::PowOp>(size, c.scalarLike(order, x)));
  return c.make<tn::PowOp>(sum, c.scalarLike(1 / order, x));
}
void vectorNorm(Call &c) {
  mlir::Value x = c.widened(c.toResult(c.value("self")));
  c.elementNamed("dtype", c.resultElement());
  double order = c.has("ord") ? c.real("ord", 2) : c.real("p", 2);
  mlir::Value size = c.unary<tn::AbsOp>(x);
  if (std::isinf(order)) {
    tn::ReduceKind kind = order > 0 ? tn::ReduceKind::max : tn::ReduceKind::min;
    return c.setOutput(c.toResult(reduceIn(c, kind, size)));
  }
  if (order == 0) {
    mlir::Value nonzero =
        x ? c.cast(c.cast(x, c.builder().getI1Type()), getElementTypeOrSelf(x)) : x;
    return c.setOutput(c.toResult(reduceIn(c, tn::ReduceKind::sum, nonzero)));
  }
  c.setOutput(c.toResult(powerSum(c, x, order)));
}

/// Without an order, or of one axis, it is a vector's norm.
void linalgNorm(Call &c) {
  if (c.has("ord") && c.integers("dim").size() != 1) {
    return c.gap("norms of matrices are not supported", "use the norm of a vector");
  }
  vectorNorm(c);
}

void cumsum(Call &c) {
  mlir::Value x = c.toResult(c.value("self"));
  c.elementNamed("dtype", c.resultElement());
  if (x && rankOf(x) > 0) {
    x = c.unary<tn::CumsumOp>(x, c.axis("dim", 0, rankOf(x)), false, false);
  }
  c.ignore({"dim"});
  c.setOutput(x);
}

constexpr OpRow kReductionOpRows[] = {
    {"aten.sum", reduce<tn::ReduceKind::sum>},
    {"aten.mean", reduce<tn::ReduceKind::mean>},
    {"aten.prod", reduce<tn::ReduceKind::prod>},
    {"aten.max", extremum<tn::ReduceKind::max>},
    {"aten.min", extremum<tn::ReduceKind::min>},
    {"aten.amax", extremes<tn::ReduceKind::max>},
    {"aten.amin", extremes<tn::ReduceKind::min>},
    {"aten.argmax", argExtremum<true>},
    {"aten.argmin", argExtremum<false>},
    {"aten.all", truths<tn::ReduceKind::min>},
    {"aten.any", truths<tn::ReduceKind::max>},
    {"aten.var", var},
    {"aten.std", standardDeviation},
    {"aten.var_mean", varMean},
    {"aten.std_mean", stdMean},
    {"aten.logsumexp", logSumExp},
    {"aten.linalg_vector_norm", vectorNorm},
    {"aten.norm", vectorNorm},
    {"aten.linalg_norm", linalgNorm},
    {"aten.cumsum", cumsum},
};

} // namespace

ArrayRef<OpRow> reductionRows() { return kReductionOpRows; }

} // namespace tenon::pt2
