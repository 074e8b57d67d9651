// Reductions over axes, arg-reductions, running sums and softmax.
// Relies on `tn.reduce` wanting sorted, non-negative axes; the rarer reductions are compositions of
// it.
#include "compiler/frontend/onnx/NodeContext.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

enum class Before : uint8_t { None, Abs, Square };
enum class After : uint8_t { None, Sqrt, Log };

/// The axes to reduce; empty optional after a failure or if nothing is to be reduced.
std::optional<SmallVector<int64_t>> reducedAxes(NodeContext &c, int64_t inputSince, bool &noop) {
  std::optional<SmallVector<int64_t>> axes = c.axes(inputSince, 1, c.rank(0));
  bool keepsAll = c.integer("noop_with_empty_axes", 0) != 0;
  noop = false;
  if (axes && axes->empty()) {
    noop = keepsAll;
    for (int64_t axis = 0; axis < c.rank(0); ++axis) {
      axes->push_back(axis);
    }
  }
  return axes;
}

/// Bools reduce as numbers: the maximum is "any", the minimum "all".
Value reduceTyped(NodeContext &c, tn::ReduceKind kind, Value x, ArrayRef<int64_t> axes,
                  bool keepdims) {
  if (!x || !cast<RankedTensorType>(x.getType()).getElementType().isInteger(1)) {
    return c.reduce(kind, x, axes, keepdims);
  }
  Value number = c.reduce(kind, c.cast(x, c.builder().getI32Type()), axes, keepdims);
  return c.cast(number, c.builder().getI1Type());
}

/// What roots and logarithms are computed in: of integers the float64 that ONNX's reference takes.
Value realOf(NodeContext &c, Value x) {
  bool isInteger = x && isa<IntegerType>(getElementTypeOrSelf(x));
  return isInteger ? c.cast(x, c.builder().getF64Type()) : c.widened(x);
}

template <tn::ReduceKind kind, int64_t inputSince, Before before, After after>
void reduction(NodeContext &c) {
  bool noop = false;
  std::optional<SmallVector<int64_t>> axes = reducedAxes(c, inputSince, noop);
  if (!axes) {
    return;
  }
  constexpr bool isPlain = before == Before::None && after == After::None;
  Value x = isPlain ? c.value(0) : c.widened(c.value(0));
  if (After::None != after && isa<IntegerType>(c.element(0))) {
    x = c.cast(x, c.builder().getF64Type());
  }
  bool keepdims = c.integer("keepdims", 1) != 0;
  if (before == Before::Abs) {
    x = c.unary<tn::AbsOp>(x);
  } else if (before == Before::Square) {
    x = c.mul(x, x);
  }
  if (!noop) {
    x = reduceTyped(c, kind, x, *axes, keepdims);
  }
  if (after != After::None) {
    x = realOf(c, x);
  }
  if (after == After::Sqrt) {
    x = c.unary<tn::SqrtOp>(x);
  } else if (after == After::Log) {
    x = c.unary<tn::LogOp>(x);
  }
  c.setOutput(0, isPlain ? x : c.cast(x, c.element(0)));
}

void logSumExp(NodeContext &c) {
  bool noop = false;
  std::optional<SmallVector<int64_t>> axes = reducedAxes(c, 18, noop);
  if (!axes) {
    return;
  }
  bool keepdims = c.integer("keepdims", 1) != 0;
  if (noop) {
    return c.forward(0, 0);
  }
  Value x = realOf(c, c.value(0));
  // Rows with nothing finite at their top have their exponentials as they are: -inf - -inf is none.
  auto finite = [&](Value top) {
    Value isInfinite = top ? c.make<tn::IsInfOp>(top, true, true) : Value();
    return isInfinite ? c.select(isInfinite, c.scalarLike(0, top), top) : Value();
  };
  Value largest = finite(c.reduce(tn::ReduceKind::max, x, *axes, true));
  Value sum = c.reduce(tn::ReduceKind::sum, c.unary<tn::ExpOp>(c.sub(x, largest)), *axes, keepdims);
  Value offset = keepdims ? largest : finite(c.reduce(tn::ReduceKind::max, x, *axes, false));
  c.setOutput(0, c.cast(c.add(c.unary<tn::LogOp>(sum), offset), c.element(0)));
}

template <bool largest> void argReduce(NodeContext &c) {
  int64_t axis = c.axis("axis", 0, c.rank(0));
  c.setOutput(0, c.make<tn::ArgReduceOp>(c.value(0), axis, c.integer("keepdims", 1) != 0, largest,
                                         c.integer("select_last_index", 0) != 0));
}

void cumsum(NodeContext &c) {
  std::optional<SmallVector<int64_t>> axis = c.requireIntegers(1, "axis");
  if (!axis || axis->size() != 1) {
    return;
  }
  int64_t normal = c.normalizeAxis((*axis)[0], c.rank(0));
  c.setOutput(0, c.unary<tn::CumsumOp>(c.value(0), normal, c.integer("exclusive", 0) != 0,
                                       c.integer("reverse", 0) != 0));
}

/// Hardmax: 1 at the first largest element along the axis.
Value hardmax(NodeContext &c, Value x, int64_t axis) {
  if (!x || c.failed()) {
    return Value();
  }
  RankedTensorType type = cast<RankedTensorType>(x.getType());
  Type index = c.builder().getI64Type();
  tn::Dims dims = tn::getDims(type);
  Value best = c.make<tn::ArgReduceOp>(x, axis, true, true, false);
  Value positions = c.makeTyped<tn::IotaOp>(tn::makeTensor({dims[axis]}, index), c.scalar(0, index),
                                            c.scalar(1, index));
  Value hit = c.compare(c.alongAxis(positions, axis, type.getRank()), tn::Predicate::eq, best);
  return c.cast(hit, type.getElementType());
}

/// Before opset 13 the dims from `axis` on are one row; since then only `axis` is.
template <typename Emit> void alongRows(NodeContext &c, const Emit &emit) {
  int64_t rank = c.rank(0);
  if (rank == 0) {
    c.ignore("axis");
    return c.setOutput(0, emit(c, c.reshape(c.value(0), {c.constantSize(1)}), 0));
  }
  int64_t axis = c.opset < 13 && c.integer("axis", 1) == rank
                     ? rank
                     : c.axis("axis", c.opset < 13 ? 1 : -1, rank);
  if (c.opset >= 13 || axis == rank - 1) {
    return c.setOutput(0, emit(c, c.value(0), axis));
  }
  tn::Dims dims = c.dims(0);
  AffineExpr outer = c.constantSize(1);
  AffineExpr inner = c.constantSize(1);
  for (int64_t i = 0; i < rank; ++i) {
    AffineExpr &product = i < axis ? outer : inner;
    product = multiplySizes(product, dims[i]);
  }
  if (!outer || !inner) {
    return c.gap("the sizes of its rows cannot be written as expressions",
                 "declare the input shapes with --shape");
  }
  Value rows = emit(c, c.reshape(c.value(0), {outer, inner}), 1);
  c.setOutput(0, c.reshape(rows, dims));
}

void softmax(NodeContext &c) {
  alongRows(c, [](NodeContext &n, Value x, int64_t axis) {
    return n.unary<tn::SoftmaxOp>(x, axis, false);
  });
}
void logSoftmax(NodeContext &c) {
  alongRows(c, [](NodeContext &n, Value x, int64_t axis) {
    return n.unary<tn::SoftmaxOp>(x, axis, true);
  });
}
void importHardmax(NodeContext &c) { alongRows(c, hardmax); }

using K = tn::ReduceKind;
constexpr Attributes kArgReduction = {
    {"axis", kInt}, {"keepdims", kInt}, {"select_last_index", kInt, 12}};
constexpr Attributes kReduction = {{"axes", kInts}, {"keepdims", kInt}};
constexpr Attributes kReduction18 = {{"keepdims", kInt}, {"noop_with_empty_axes", kInt}};

constexpr OpRow kReductionOpRows[] = {
    {"ArgMax", 1, 1, 1, 1, argReduce<true>, kArgReduction},
    {"ArgMin", 1, 1, 1, 1, argReduce<false>, kArgReduction},
    {"CumSum", 11, 2, 2, 1, cumsum, {{"exclusive", kInt}, {"reverse", kInt}}},
    {"Hardmax", 1, 1, 1, 1, importHardmax, {{"axis", kInt}}},
    {"LogSoftmax", 1, 1, 1, 1, logSoftmax, {{"axis", kInt}}},
    {"ReduceL1", 1, 1, 1, 1, reduction<K::sum, 18, Before::Abs, After::None>, kReduction},
    {"ReduceL1", 18, 1, 2, 1, reduction<K::sum, 18, Before::Abs, After::None>, kReduction18},
    {"ReduceL2", 1, 1, 1, 1, reduction<K::sum, 18, Before::Square, After::Sqrt>, kReduction},
    {"ReduceL2", 18, 1, 2, 1, reduction<K::sum, 18, Before::Square, After::Sqrt>, kReduction18},
    {"ReduceLogSum", 1, 1, 1, 1, reduction<K::sum, 18, Before::None, After::Log>, kReduction},
    {"ReduceLogSum", 18, 1, 2, 1, reduction<K::sum, 18, Before::None, After::Log>, kReduction18},
    {"ReduceLogSumExp", 1, 1, 1, 1, logSumExp, kReduction},
    {"ReduceLogSumExp", 18, 1, 2, 1, logSumExp, kReduction18},
    {"ReduceMax", 1, 1, 1, 1, reduction<K::max, 18, Before::None, After::None>, kReduction},
    {"ReduceMax", 18, 1, 2, 1, reduction<K::max, 18, Before::None, After::None>, kReduction18},
    {"ReduceMean", 1, 1, 1, 1, reduction<K::mean, 18, Before::None, After::None>, kReduction},
    {"ReduceMean", 18, 1, 2, 1, reduction<K::mean, 18, Before::None, After::None>, kReduction18},
    {"ReduceMin", 1, 1, 1, 1, reduction<K::min, 18, Before::None, After::None>, kReduction},
    {"ReduceMin", 18, 1, 2, 1, reduction<K::min, 18, Before::None, After::None>, kReduction18},
    {"ReduceProd", 1, 1, 1, 1, reduction<K::prod, 18, Before::None, After::None>, kReduction},
    {"ReduceProd", 18, 1, 2, 1, reduction<K::prod, 18, Before::None, After::None>, kReduction18},
    {"ReduceSum", 1, 1, 1, 1, reduction<K::sum, 13, Before::None, After::None>, kReduction},
    {"ReduceSum", 13, 1, 2, 1, reduction<K::sum, 13, Before::None, After::None>, kReduction18},
    {"ReduceSumSquare", 1, 1, 1, 1, reduction<K::sum, 18, Before::Square, After::None>, kReduction},
    {"ReduceSumSquare", 18, 1, 2, 1, reduction<K::sum, 18, Before::Square, After::None>,
     kReduction18},
    {"Softmax", 1, 1, 1, 1, softmax, {{"axis", kInt}}},
};

} // namespace

ArrayRef<OpRow> reductionRows() { return kReductionOpRows; }

} // namespace tenon::onnx
