// Clamps start and end as ONNX's Slice and NumPy do, for every size: as choices between sizes where
// the symbols' ranges decide nothing.
// Relies on steps other than zero and of moderate size, which the callers check.
#include "compiler/frontend/common/Slicing.h"

using namespace mlir;

namespace tenon::frontend {
namespace {

/// Constants this large mean "to the end", whatever the dim.
constexpr int64_t kOpen = int64_t{1} << 30;

bool proven(std::optional<bool> answer) { return answer.value_or(false); }

/// Whether nothing lies between start and end, whatever the dim: both count from the same side.
bool isEmpty(AffineExpr start, AffineExpr end, int64_t step) {
  std::optional<int64_t> from = tn::constantDim(start), to = tn::constantDim(end);
  return from && to && (*from < 0) == (*to < 0) && (step > 0 ? *to <= *from : *from <= *to);
}

/// x or, where it is negative, x + dim.
AffineExpr fromStart(Symbols &symbols, AffineExpr x, AffineExpr dim) {
  tn::SymbolList::Range range = symbols.bounds(x);
  if (range.min >= 0 || range.max < 0) {
    return range.min >= 0 ? x : addSizes(x, dim);
  }
  AffineExpr isCounted = subtractSizes(symbols.constant(1), symbols.step(x));
  return addSizes(x, multiplySizes(dim, isCounted));
}

/// Sizes that data decides have memory for the most that they may be, which sums of choices hide:
/// the index is held to [low, high].
AffineExpr heldIndex(Symbols &symbols, AffineExpr x, AffineExpr low, AffineExpr high) {
  bool isHeld = symbols.assume(tn::ConstraintKind::at_least, x, low) &&
                symbols.assume(tn::ConstraintKind::at_least, high, x);
  return isHeld ? symbols.canonical(x) : AffineExpr();
}

/// x, counted from the end if negative, in [low, high]. Null if that cannot be written.
AffineExpr clampIndex(Symbols &symbols, AffineExpr x, AffineExpr dim, AffineExpr low,
                      AffineExpr high) {
  std::optional<int64_t> constant = tn::constantDim(x);
  if (constant && (*constant >= kOpen || *constant <= -kOpen)) {
    return *constant > 0 ? high : low;
  }
  x = fromStart(symbols, x, dim);
  if (!x) {
    return nullptr;
  }
  if (proven(symbols.compare(x, Comparison::LessOrEqual, low))) {
    return low;
  }
  if (proven(symbols.compare(high, Comparison::LessOrEqual, x))) {
    return high;
  }
  if (symbols.dependsOnData(x) || symbols.dependsOnData(dim)) {
    return heldIndex(symbols, x, low, high);
  }
  // Where high is below low, as of an empty dim backwards, ONNX and NumPy give low.
  return symbols.greater(symbols.lesser(x, high), low);
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
  AffineExpr low = step > 0 ? zero : minusOne, high = step > 0 ? dim : last;
  AffineExpr first = clampIndex(symbols, start, dim, low, high);
  AffineExpr bound = clampIndex(symbols, end, dim, low, high);
  AffineExpr span = first && bound
                        ? (step > 0 ? subtractSizes(bound, first) : subtractSizes(first, bound))
                        : nullptr;
  if (!span) {
    return std::nullopt;
  }
  if (proven(symbols.compare(span, Comparison::LessOrEqual, zero))) {
    return AxisSlice{zero, zero};
  }
  bool isHeld = symbols.dependsOnData(span);
  span = isHeld ? span : symbols.greater(span, zero);
  if (!span || (isHeld && !symbols.assume(tn::ConstraintKind::at_least, span, zero))) {
    return std::nullopt;
  }
  int64_t stride = step > 0 ? step : -step;
  AffineExpr size = stride == 1 ? span
                                : divideSizes(symbols, addSizes(span, symbols.constant(stride - 1)),
                                              symbols.constant(stride));
  return size ? std::optional(AxisSlice{first, size}) : std::nullopt;
}

} // namespace tenon::frontend
