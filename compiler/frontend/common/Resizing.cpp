// Positions are f32 [out]; smooth modes are sums of gathered neighbours, and averages a product
// with a matrix of weights, as the number of neighbours follows from the ratio.
// Relies on indices that are held inside of the axis.
#include "compiler/frontend/common/Resizing.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <tuple>

using namespace mlir;

namespace tenon::frontend {
namespace {

/// One axis of a tensor that is resized.
class Axis {
public:
  Axis(Emitter &emitter, Value tensor, int64_t number, AffineExpr outSize, const Reading &how)
      : c(emitter), x(tensor), axis(number), out(outSize), reading(how) {
    type = cast<RankedTensorType>(x.getType());
    in = tn::getDims(type)[axis];
    real = c.builder().getF32Type();
    zero = c.scalar(0, real);
    one = c.scalar(1, real);
    half = c.scalar(0.5, real);
    from = c.sizeValue(in, real);
    to = c.sizeValue(out, real);
    last = c.sub(from, one);
  }

  Value nearest() { return gather(inside(rounded(positions()))); }

  Value linear() {
    Value position = inside(positions());
    Value before = floorOf(position);
    Value weight = spread(c.sub(position, before));
    Value right = gather(inside(c.add(before, one)));
    Value rest = weight ? c.sub(c.scalarLike(1, weight), weight) : Value();
    return c.add(c.mul(gather(before), rest), c.mul(right, weight));
  }

  Value cubic() {
    Value position = positions();
    Value before = floorOf(position);
    Value part = c.sub(position, before);
    Value sum, total;
    for (double offset : {-1.0, 0.0, 1.0, 2.0}) {
      Value index = c.add(before, c.scalar(offset, real));
      Value weight = cubicWeight(absolute(c.sub(part, c.scalar(offset, real))));
      Value held = inside(index);
      if (reading.excludesOutside) {
        weight = c.select(c.compare(index, tn::Predicate::eq, held), weight, zero);
      }
      Value term = c.mul(gather(held), spread(weight));
      sum = sum ? c.add(sum, term) : term;
      total = total ? c.add(total, weight) : weight;
    }
    return reading.excludesOutside ? c.div(sum, spread(total)) : sum;
  }

  /// Row i of the matrix holds the weights of all elements for result i. Those of positions
  /// outside belong to the element at the edge, unless they are excluded.
  Value averaged() {
    Type index = c.builder().getI64Type();
    Value ratio = c.div(from, to);
    width = c.max(ratio, one);
    center = c.alongAxis(c.mul(c.add(c.cast(c.positions(out), real), half), ratio), 0, 2);
    Value element = c.positions(in);
    Value weights = weightsOf(c.cast(element, real));
    if (!reading.excludesOutside) {
      // The kernel is no wider than twice the axis on either side.
      Value beyond = c.cast(c.positions(multiplySizes(in, c.constantSize(2))), real);
      Value left = sumOf(weightsOf(c.sub(c.scalar(-1, real), beyond)));
      Value right = sumOf(weightsOf(c.add(from, beyond)));
      element = c.alongAxis(element, 1, 2);
      auto at = [&](Value place, Value weight) {
        return c.select(c.compare(element, tn::Predicate::eq, place), weight, zero);
      };
      weights = c.add(weights, at(c.scalar(0, index), left));
      weights = c.add(weights, at(c.cast(last, index), right));
    }
    weights = c.div(weights, sumOf(weights));
    SmallVector<int64_t> order;
    for (int64_t i = 0; i < type.getRank(); ++i) {
      order.push_back(i == axis ? type.getRank() - 1 : i == type.getRank() - 1 ? axis : i);
    }
    Value rows = c.transpose(x, order);
    weights = c.cast(c.transpose(weights, {1, 0}), type.getElementType());
    return c.transpose(c.make<tn::MatmulOp>(rows, weights), order);
  }

private:
  Value weightsOf(Value element) {
    Value distance = absolute(c.sub(c.alongAxis(c.add(element, half), 1, 2), center));
    distance = c.div(distance, width);
    return reading.mode == tn::ResizeMode::cubic ? cubicWeight(distance)
                                                 : c.max(c.sub(one, distance), zero);
  }
  Value sumOf(Value weights) { return c.reduce(tn::ReduceKind::sum, weights, {1}, true); }

  Value positions() {
    Value position = c.cast(c.positions(out), real);
    if (reading.coordinates == "align_corners") {
      return c.div(c.mul(position, last), c.max(c.sub(to, one), one));
    }
    auto scaled = [&](Value at) {
      return reading.multiplies ? c.mul(at, c.div(from, to)) : c.div(at, c.div(to, from));
    };
    if (reading.coordinates == "asymmetric") {
      return scaled(position);
    }
    Value middle = c.sub(scaled(c.add(position, half)), half);
    return reading.coordinates == "pytorch_half_pixel"
               ? c.select(c.compare(to, tn::Predicate::gt, one), middle, zero)
               : middle;
  }

  Value rounded(Value position) {
    if (reading.nearest == "floor" || reading.nearest == "round_prefer_ceil") {
      return floorOf(reading.nearest == "floor" ? position : c.add(position, half));
    }
    position = reading.nearest == "ceil" ? position : c.sub(position, half);
    return position ? c.unary<tn::CeilOp>(position) : position;
  }

  /// Keys' kernel at a distance.
  Value cubicWeight(Value distance) {
    auto number = [&](double value) { return c.scalar(value, real); };
    double a = reading.cubic;
    Value square = c.mul(distance, distance);
    Value near = c.mul(square, c.sub(c.mul(distance, number(a + 2)), number(a + 3)));
    Value far = c.sub(c.mul(distance, number(a)), number(5 * a));
    far = c.sub(c.mul(c.add(c.mul(far, distance), number(8 * a)), distance), number(4 * a));
    far = c.select(c.compare(distance, tn::Predicate::lt, number(2)), far, zero);
    return c.select(c.compare(distance, tn::Predicate::le, one), c.add(near, one), far);
  }

  Value inside(Value position) { return c.min(c.max(position, zero), last); }
  Value floorOf(Value position) { return position ? c.unary<tn::FloorOp>(position) : position; }
  Value absolute(Value value) { return value ? c.unary<tn::AbsOp>(value) : value; }
  Value gather(Value position) {
    return c.make<tn::GatherOp>(x, c.cast(position, c.builder().getI64Type()), axis);
  }
  /// Weights of positions in the type of the elements, along their axis.
  Value spread(Value weights) {
    return c.cast(c.alongAxis(weights, axis, type.getRank()), type.getElementType());
  }

  Emitter &c;
  Value x;
  int64_t axis;
  AffineExpr in, out;
  const Reading &reading;
  RankedTensorType type;
  Type real;
  Value zero, one, half, from, to, last;
  Value width, center; ///< of averages: of the kernel, and [out, 1] its middles
};

/// Whether `resizeAlong` has this form for elements of the type.
bool canResizeAlong(const Reading &reading, Type element) {
  bool isKnown = llvm::is_contained(
      {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}, reading.coordinates);
  bool isSmooth = reading.mode != tn::ResizeMode::nearest;
  return isKnown && (!isSmooth || isa<FloatType>(element)) &&
         (!reading.isAveraged || !isSmooth || reading.coordinates.ends_with("half_pixel"));
}

/// x with `out` elements along the axis; null after a failure.
Value resizeAlong(Emitter &c, Value x, int64_t axis, AffineExpr out, const Reading &reading) {
  AffineExpr in = x ? tn::getDims(x.getType())[axis] : AffineExpr();
  if (!x || !c.require(tn::ConstraintKind::at_least, in, c.constantSize(1),
                       "a resized dimension and 1")) {
    return Value();
  }
  Axis resized(c, x, axis, c.symbols().canonical(out), reading);
  return reading.mode == tn::ResizeMode::nearest ? resized.nearest()
         : reading.isAveraged                    ? resized.averaged()
         : reading.mode == tn::ResizeMode::cubic ? resized.cubic()
                                                 : resized.linear();
}

} // namespace

std::optional<double> constantRatio(const Symbols &symbols, AffineExpr out, AffineExpr in) {
  std::optional<int64_t> above = tn::constantDim(out), below = tn::constantDim(in);
  if (above && below) {
    return *below > 0 ? std::optional(static_cast<double>(*above) / static_cast<double>(*below))
                      : std::nullopt;
  }
  for (bool isGrown : {true, false}) {
    AffineExpr large = isGrown ? out : in, small = isGrown ? in : out;
    AffineExpr quotient = divideProducts(symbols, {large}, {small});
    std::optional<int64_t> whole = quotient ? tn::constantDim(quotient) : std::nullopt;
    if (whole && *whole > 0 && tn::sameDim(multiplySizes(quotient, small), large)) {
      return isGrown ? static_cast<double>(*whole) : 1.0 / static_cast<double>(*whole);
    }
  }
  return std::nullopt;
}

/// size * scale as the exporter's arithmetic rounds it.
static double scaledNumber(int64_t size, double scale, bool inDoubles) {
  return inDoubles ? static_cast<double>(size) * scale
                   : double(static_cast<float>(size) * static_cast<float>(scale));
}

namespace {

/// A fraction of a size, and the largest size up to which its floor is that of the exporter's
/// arithmetic.
struct Fraction {
  int64_t above = 0, below = 1, last = -1;
};

/// The convergent of the scale's continued fraction that holds for most of the values that a size
/// may have, from the least on.
Fraction fractionOf(tn::SymbolList::Range range, double scale, bool inDoubles) {
  constexpr int64_t kMaxValues = int64_t{1} << 20;
  constexpr int64_t kMaxTerm = int64_t{1} << 24;
  Fraction best;
  if (range.min < 0 || range.max - range.min > kMaxValues || scale <= 0 || scale >= kMaxTerm) {
    return best;
  }
  auto lastOf = [&](int64_t above, int64_t below) {
    int64_t n = range.min;
    while (n <= range.max && n * above / below == static_cast<int64_t>(std::floor(
                                                      scaledNumber(n, scale, inDoubles)))) {
      ++n;
    }
    return n - 1;
  };
  double rest = scale;
  int64_t above = 1, below = 0, lastAbove = 0, lastBelow = 1;
  while (best.last < range.max) {
    double term = std::floor(rest);
    std::tie(above, lastAbove) = std::pair(static_cast<int64_t>(term) * above + lastAbove, above);
    std::tie(below, lastBelow) = std::pair(static_cast<int64_t>(term) * below + lastBelow, below);
    if (above > kMaxTerm || below > kMaxTerm) {
      break;
    }
    if (int64_t last = lastOf(above, below); last > best.last) {
      best = {above, below, last};
    }
    if (rest == term || 1 / (rest - term) > kMaxTerm) {
      break;
    }
    rest = 1 / (rest - term);
  }
  return best;
}

} // namespace

std::optional<int64_t> largestScaled(const Symbols &symbols, AffineExpr size, double scale) {
  tn::SymbolList::Range range = symbols.bounds(size);
  int64_t last = fractionOf(range, scale, /*inDoubles=*/false).last;
  return last > range.min ? std::optional(last) : std::nullopt;
}

AffineExpr scaledSize(const Symbols &symbols, AffineExpr size, double scale, bool inDoubles) {
  if (std::optional<int64_t> known = tn::constantDim(size)) {
    double product = scaledNumber(*known, scale, inDoubles);
    return std::abs(product) < 1e15 ? symbols.constant(static_cast<int64_t>(std::floor(product)))
                                    : AffineExpr();
  }
  if (scale >= 1 && scale == std::floor(scale) && scale < 1e6) {
    return multiplySizes(size, symbols.constant(static_cast<int64_t>(scale)));
  }
  double inverse = 1 / scale;
  if (inverse >= 1 && inverse == std::floor(inverse) && inverse < 1e6) {
    return divideSizes(symbols, size, symbols.constant(static_cast<int64_t>(inverse)));
  }
  // Powers of two as denominators: floats are exact where sizes are no larger than 2^24 / 64.
  constexpr int64_t kDenominator = 64;
  double numerator = scale * kDenominator;
  if (numerator != std::floor(numerator) || std::abs(numerator) > kDenominator * 64) {
    tn::SymbolList::Range range = symbols.bounds(size);
    Fraction fraction = fractionOf(range, scale, inDoubles);
    return fraction.last < range.max
               ? AffineExpr()
               : divideSizes(symbols, multiplySizes(size, symbols.constant(fraction.above)),
                             symbols.constant(fraction.below));
  }
  AffineExpr product = multiplySizes(size, symbols.constant(static_cast<int64_t>(numerator)));
  return divideSizes(symbols, product, symbols.constant(kDenominator));
}

Value resize(Emitter &c, Value x, Resized to, const Reading &reading) {
  if (!x || c.failed()) {
    return Value();
  }
  Type element = getElementTypeOrSelf(x);
  bool isComputed = llvm::is_contained(to.scales, std::nullopt);
  if (isComputed && !canResizeAlong(reading, element)) {
    c.gap("the ratio of new to old size is not a constant", "declare the dimension with --shape");
    return Value();
  }
  SmallVector<double> scales;
  for (auto [axis, scale] : llvm::enumerate(to.scales)) {
    if (!scale) {
      x = resizeAlong(c, x, static_cast<int64_t>(axis), to.dims[axis], reading);
      if (!x) {
        return x;
      }
      to.dims[axis] = tn::getDims(x.getType())[axis];
    }
    scales.push_back(scale.value_or(1));
  }
  if (isComputed && llvm::all_of(scales, [](double scale) { return scale == 1; })) {
    return x;
  }
  return c.makeTyped<tn::ResizeOp>(tn::makeTensor(c.symbols().canonical(to.dims), element), x,
                                   reading.mode, reading.coordinates, reading.nearest, scales,
                                   llvm::APFloat(reading.cubic), reading.excludesOutside,
                                   reading.isAveraged, llvm::APFloat(to.outside), to.region);
}

} // namespace tenon::frontend
