// Positions computed from the data, and a map sampled at them.
#include "compiler/frontend/common/GridSample.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::frontend {
namespace {

/// The coordinates in [-1, 1] of the pixels along a dim.
Value pixelCoordinates(Emitter &c, AffineExpr size, bool alignCorners, Type real) {
  Value i = c.cast(c.positions(size), real);
  Value n = c.sizeValue(size, real);
  Value one = c.scalar(1, real), two = c.scalar(2, real);
  if (!alignCorners) {
    return c.sub(c.div(c.add(c.mul(i, two), one), n), one);
  }
  // A single pixel lies at -1.
  Value last = c.max(c.sub(n, one), one);
  return c.sub(c.div(c.mul(i, two), last), one);
}

/// One dim of the map that is sampled.
struct Line {
  AffineExpr size;
  bool alignCorners;
  Padding padding;
};

/// Reflected at the borders until it lies between them.
Value reflect(Emitter &c, Value x, const Line &line) {
  Type real = x ? getElementTypeOrSelf(x) : Type(c.builder().getF32Type());
  Value size = c.sizeValue(line.size, real), one = c.scalar(1, real), two = c.scalar(2, real);
  Value low = c.scalar(line.alignCorners ? 0 : -0.5, real);
  Value length = line.alignCorners ? c.sub(size, one) : size;
  // A map of one pixel between aligned corners has no length to reflect in.
  Value period = c.max(length, c.scalar(1e-30, real));
  Value distance = c.unary<tn::AbsOp>(c.sub(x, low));
  Value times = c.unary<tn::FloorOp>(c.div(distance, period));
  Value rest = c.sub(distance, c.mul(times, period));
  Value pairs = c.unary<tn::FloorOp>(c.div(times, two));
  Value isEven = c.compare(times, tn::Predicate::eq, c.mul(pairs, two));
  Value reflected = c.add(low, c.select(isEven, rest, c.sub(length, rest)));
  Value hasLength = c.compare(length, tn::Predicate::gt, c.scalar(0, real));
  return c.select(hasLength, reflected, c.scalar(0, real));
}

/// A position in pixels, brought to the map as the padding says. The border's pixels stand for
/// those beyond it in each tap of a cubic sample, as in PyTorch and ONNX Runtime, so that it stays.
Value positionOf(Emitter &c, Value coordinate, const Line &line, StringRef mode) {
  Type real = coordinate ? getElementTypeOrSelf(coordinate) : Type(c.builder().getF32Type());
  Value size = c.sizeValue(line.size, real), one = c.scalar(1, real), two = c.scalar(2, real);
  Value shifted = c.add(coordinate, one);
  Value x = line.alignCorners ? c.mul(c.div(shifted, two), c.sub(size, one))
                              : c.div(c.sub(c.mul(shifted, size), one), two);
  x = mode == "nearest" ? c.unary<tn::RoundOp>(x) : x;
  if (line.padding == Padding::Reflection) {
    return reflect(c, x, line);
  }
  if (line.padding == Padding::Zeros || mode == "cubic") {
    return x;
  }
  // Between the border pixels' outer edges a position stays as it is.
  double edge = line.alignCorners ? 0 : 0.5;
  Value isLow = c.compare(x, tn::Predicate::lt, c.scalar(-edge, real));
  Value isHigh = c.compare(x, tn::Predicate::gt, c.sub(size, c.scalar(1 - edge, real)));
  return c.select(c.make<tn::OrOp>(isLow, isHigh), clampPosition(c, x, line.size), x);
}

/// A pixel at a whole number that may lie outside.
Tap tapAt(Emitter &c, Value index, Value weight, const Line &line) {
  if (line.padding == Padding::Zeros) {
    return {index, isInside(c, index, line.size), weight};
  }
  if (line.padding == Padding::Reflection) {
    // Reflected halves lie on pixels; what is cut off is rounding.
    index = c.unary<tn::FloorOp>(c.add(reflect(c, index, line), c.scalarLike(0.25, index)));
  }
  return {index, Value(), weight};
}

/// The weights of Keys' cubic convolution for a part in [0, 1) of a pixel.
SmallVector<Value> cubicWeights(Emitter &c, Value part) {
  constexpr double a = -0.75;
  Value one = c.scalarLike(1, part);
  auto polynomial = [&](Value x, ArrayRef<double> factors) {
    Value sum = c.scalarLike(factors[0], x);
    for (double factor : factors.drop_front()) {
      sum = c.add(c.mul(sum, x), c.scalarLike(factor, x));
    }
    return sum;
  };
  const double near[] = {a + 2, -(a + 3), 0, 1}, far[] = {a, -5 * a, 8 * a, -4 * a};
  Value rest = c.sub(one, part);
  return {polynomial(c.add(part, one), far), polynomial(part, near), polynomial(rest, near),
          polynomial(c.add(rest, one), far)};
}

SmallVector<Tap> tapsOf(Emitter &c, Value coordinate, const Line &line, StringRef mode) {
  Value x = positionOf(c, coordinate, line, mode);
  if (mode == "nearest") {
    return {tapAt(c, x, Value(), line)};
  }
  if (mode == "padded nearest") {
    Value padded = line.padding == Padding::Zeros ? x : clampPosition(c, x, line.size);
    return {tapAt(c, c.unary<tn::RoundOp>(padded), Value(), line)};
  }
  Value first = c.unary<tn::FloorOp>(x);
  Value part = c.sub(x, first);
  bool isCubic = mode == "cubic";
  SmallVector<Value> weights =
      isCubic ? cubicWeights(c, part) : SmallVector<Value>{c.sub(c.scalarLike(1, x), part), part};
  SmallVector<Tap> taps;
  for (auto [i, weight] : llvm::enumerate(weights)) {
    double offset = static_cast<double>(i) - (isCubic ? 1 : 0);
    taps.push_back(tapAt(c, c.add(first, c.scalarLike(offset, x)), weight, line));
  }
  return taps;
}

} // namespace

Value affineGrid(Emitter &c, Value matrices, ArrayRef<AffineExpr> size, bool alignCorners) {
  if (!matrices) {
    return Value();
  }
  Type element = getElementTypeOrSelf(matrices);
  int64_t spatial = static_cast<int64_t>(size.size()) - 2;
  tn::Dims dims0 = tn::getDims(matrices.getType());
  if (spatial < 2 || spatial > 3 || dims0.size() != 3) {
    c.error(ErrorId::OnnxBadNode, "theta is not one matrix of 2 x 3 or 3 x 4 per image");
    return Value();
  }
  if (!requireDim(c, dims0[1], spatial, "the height of theta") ||
      !requireDim(c, dims0[2], spatial + 1, "the width of theta") ||
      !c.requireNotNegative(size, "a dimension of the grid")) {
    return Value();
  }
  Type real = sampleType(c, element);
  Value matrix = c.cast(matrices, real);
  // Column j of the matrices, [N, 1, ..., spatial], belongs to coordinate j: x first.
  auto column = [&](int64_t j) {
    tn::Dims dims(spatial + 2, c.constantSize(1));
    dims.front() = dims0[0];
    dims.back() = c.constantSize(spatial);
    return c.reshape(c.sliceAxis(matrix, 2, c.constantSize(j), c.constantSize(1)), dims);
  };
  Value sum = column(spatial);
  for (int64_t j = 0; j < spatial; ++j) {
    int64_t dim = spatial - 1 - j;
    Value along =
        c.alongAxis(pixelCoordinates(c, size[2 + dim], alignCorners, real), 1 + dim, spatial + 2);
    sum = c.add(c.mul(along, column(j)), sum);
  }
  tn::Dims dims = {dims0[0]};
  dims.append(size.begin() + 2, size.end());
  dims.push_back(c.constantSize(spatial));
  return c.cast(c.broadcast(sum, dims), element);
}

Value sampleGrid(Emitter &c, Value map, Value positions, StringRef mode, Padding padding,
                 bool alignCorners) {
  if (!map || !positions) {
    return Value();
  }
  tn::Dims dims = tn::getDims(map.getType()), grid = tn::getDims(positions.getType());
  int64_t spatial = static_cast<int64_t>(dims.size()) - 2;
  Type element = getElementTypeOrSelf(map);
  if (spatial < 1 || static_cast<int64_t>(grid.size()) != spatial + 2) {
    c.error(ErrorId::OnnxBadNode, "the grid's positions do not have the rank of the map");
    return Value();
  }
  if (!requireDim(c, grid.back(), spatial, "the length of the grid's positions")) {
    return Value();
  }
  if (spatial > 3 || element.isInteger(1)) {
    c.gap("maps of more than three dimensions or of bools are not supported",
          "sample numbers of one to three dimensions");
    return Value();
  }
  Type real = sampleType(c, element.isF64() ? element : getElementTypeOrSelf(positions));
  AffineExpr points = c.constantSize(1);
  for (AffineExpr size : ArrayRef<AffineExpr>(grid).drop_front().drop_back()) {
    points = multiplySizes(points, size);
  }
  if (!points) {
    c.gap("the number of its points cannot be written as an expression",
          "declare the dimensions with --shape");
    return Value();
  }
  Value flat = c.reshape(c.cast(positions, real), {grid[0], points, grid.back()});
  Taps taps;
  for (int64_t i = 0; i < spatial; ++i) {
    // The grid names the last dim first.
    Value coordinate = c.sliceAxis(flat, 2, c.constantSize(spatial - 1 - i), c.constantSize(1));
    Line line{dims[2 + i], alignCorners, padding};
    taps.push_back(tapsOf(c, coordinate, line, mode));
  }
  Value pixels = pixelsOf(c, map);
  Value sum = sumTaps(
      c, [&](Value numbers) { return readPixels(c, pixels, numbers); }, taps,
      ArrayRef<AffineExpr>(dims).drop_front(2), real);
  tn::Dims result = {dims[0], dims[1]};
  result.append(grid.begin() + 1, grid.end() - 1);
  return c.cast(c.reshape(c.transpose(sum, {0, 2, 1}), result), element);
}

} // namespace tenon::frontend
