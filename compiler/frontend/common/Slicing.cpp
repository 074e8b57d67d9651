// Clamps start and end as ONNX's Slice does, by proofs over the symbols' ranges and by constraints.
// Relies on steps other than zero and of moderate size, which the callers check.
#include "compiler/frontend/common/Slicing.h"

using namespace mlir;

namespace tenon::frontend {
namespace {

/// Constants this large mean "to the end", whatever the dim.
constexpr int64_t kOpen = int64_t{1} << 30;

bool proven(std::optional<bool> answer) { return answer.value_or(false); }

/// By proof, or as a constraint: half of a size less one is meant to be a size.
bool isNotNegative(Symbols &symbols, AffineExpr x) {
  AffineExpr zero = symbols.constant(0);
  return proven(symbols.compare(zero, Comparison::LessOrEqual, x)) ||
         (!symbols.dependsOnData(x) && symbols.assume(tn::ConstraintKind::at_least, x, zero));
}

/// A number against a size that varies, as a constraint. One that may cut off what is too long does
/// so or not as in a run of likely sizes; others are meant to lie inside.
AffineExpr settle(Symbols &symbols, AffineExpr x, AffineExpr high, bool mayCut) {
  std::optional<int64_t> constant = tn::constantDim(x), likely = symbols.likely(high);
  if (!constant || !likely) {
    return nullptr;
  }
  bool isInside = !mayCut || *constant <= *likely;
  bool holds = isInside ? symbols.assume(tn::ConstraintKind::at_least, high, x)
                        : symbols.assume(tn::ConstraintKind::at_least, x, high);
  return holds ? symbols.canonical(isInside ? x : high) : nullptr;
}

/// Whether nothing lies between start and end, whatever the dim: both count from the same side.
bool isEmpty(AffineExpr start, AffineExpr end, int64_t step) {
  std::optional<int64_t> from = tn::constantDim(start), to = tn::constantDim(end);
  return from && to && (*from < 0) == (*to < 0) && (step > 0 ? *to <= *from : *from <= *to);
}

/// x, counted from the end if negative, in [low, high]. Where only symbols decide whether it is
/// inside, it is taken to be, as a constraint: it is what the model's author meant. Null if that
/// cannot be said.
AffineExpr clampIndex(Symbols &symbols, AffineExpr x, AffineExpr dim, AffineExpr low,
                      AffineExpr high, bool mayCut) {
  std::optional<int64_t> constant = tn::constantDim(x);
  if (constant && (*constant >= kOpen || *constant <= -kOpen)) {
    return *constant > 0 ? high : low;
  }
  tn::SymbolList::Range range = symbols.bounds(x);
  if (range.max < 0) {
    x = addSizes(x, dim);
  } else if (range.min < 0 && !isNotNegative(symbols, x)) {
    return nullptr;
  }
  if (!x) {
    return nullptr;
  }
  if (proven(symbols.compare(x, Comparison::LessOrEqual, low))) {
    return low;
  }
  if (proven(symbols.compare(high, Comparison::LessOrEqual, x))) {
    return high;
  }
  if (!symbols.assume(tn::ConstraintKind::at_least, x, low)) {
    return nullptr;
  }
  return symbols.atMost(x, high) ? symbols.canonical(x) : settle(symbols, x, high, mayCut);
}

} // namespace

std::optional<AxisSlice> clampSlice(Symbols &symbols, AffineExpr dim, AffineExpr start,
                                    AffineExpr end, int64_t step) {
  AffineExpr zero = symbols.constant(0);
  AffineExpr minusOne = symbols.constant(-1);
  AffineExpr last = addSizes(dim, minusOne);
  if (!last) {
    return std::nullopt;
  }
  if (isEmpty(start, end, step)) {
    return AxisSlice{zero, zero};
  }
  // Of a slice that has items in a run of likely sizes the far side may cut off what is too long.
  std::optional<int64_t> near = tn::constantDim(step > 0 ? start : end),
                         likely = symbols.likely(dim);
  bool mayCut = !near || !likely || *near < *likely;
  AffineExpr first = step > 0 ? clampIndex(symbols, start, dim, zero, dim, /*mayCut=*/false)
                              : clampIndex(symbols, start, dim, minusOne, last, mayCut);
  AffineExpr bound = step > 0 ? clampIndex(symbols, end, dim, zero, dim, mayCut)
                              : clampIndex(symbols, end, dim, minusOne, last, /*mayCut=*/false);
  AffineExpr span = first && bound
                        ? (step > 0 ? subtractSizes(bound, first) : subtractSizes(first, bound))
                        : nullptr;
  if (!span) {
    return std::nullopt;
  }
  if (proven(symbols.compare(span, Comparison::LessOrEqual, zero))) {
    return AxisSlice{zero, zero};
  }
  if (!isNotNegative(symbols, span)) {
    return std::nullopt;
  }
  int64_t stride = step > 0 ? step : -step;
  AffineExpr size = stride == 1 ? span
                                : divideSizes(symbols, addSizes(span, symbols.constant(stride - 1)),
                                              symbols.constant(stride));
  return size ? std::optional(AxisSlice{first, size}) : std::nullopt;
}

} // namespace tenon::frontend
