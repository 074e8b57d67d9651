// AffineGrid and GridSample: positions computed from the data, and a map sampled at them.
// Relies on Sampling.h for reading between pixels.
#include "compiler/frontend/onnx/Sampling.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// The coordinates in [-1, 1] of the pixels along a dim.
Value coordinates(NodeContext &c, AffineExpr size, bool alignCorners, Type real) {
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

void affineGrid(NodeContext &c) {
  std::optional<Sizes> size = c.requireSizes(1, "size of the grid");
  if (!size) {
    return;
  }
  int64_t spatial = static_cast<int64_t>(size->values.size()) - 2;
  tn::Dims theta = c.dims(0);
  if (spatial < 2 || spatial > 3 || theta.size() != 3) {
    return c.error(ErrorId::OnnxBadNode, "theta is not one matrix of 2 x 3 or 3 x 4 an image");
  }
  if (!requireDim(c, theta[1], spatial, "the height of theta") ||
      !requireDim(c, theta[2], spatial + 1, "the width of theta") ||
      !c.requireNotNegative(size->values, "a dimension of the grid")) {
    return;
  }
  Type real = sampleType(c, c.element(0));
  Value matrix = c.cast(c.value(0), real);
  // Column j of the matrices, [N, 1, ..., spatial], belongs to coordinate j: x first.
  auto column = [&](int64_t j) {
    tn::Dims dims(spatial + 2, c.constantSize(1));
    dims.front() = theta[0];
    dims.back() = c.constantSize(spatial);
    return c.reshape(c.sliceAxis(matrix, 2, c.constantSize(j), c.constantSize(1)), dims);
  };
  Value sum = column(spatial);
  for (int64_t j = 0; j < spatial; ++j) {
    int64_t dim = spatial - 1 - j;
    Value along =
        c.alongAxis(coordinates(c, size->values[2 + dim], c.integer("align_corners", 0) != 0, real),
                    1 + dim, spatial + 2);
    sum = c.add(c.mul(along, column(j)), sum);
  }
  tn::Dims dims = {theta[0]};
  dims.append(size->values.begin() + 2, size->values.end());
  dims.push_back(c.constantSize(spatial));
  c.setOutput(0, c.cast(c.broadcast(sum, dims), c.element(0)));
}

enum class Padding { Zeros, Border, Reflection };

/// One dim of the map that is sampled.
struct Line {
  AffineExpr size;
  bool alignCorners;
  Padding padding;
};

/// Reflected at the borders until it lies between them.
Value reflect(NodeContext &c, Value x, const Line &line) {
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

/// A position in pixels, brought to the map as the padding says.
Value positionOf(NodeContext &c, Value coordinate, const Line &line, bool nearest) {
  Type real = coordinate ? getElementTypeOrSelf(coordinate) : Type(c.builder().getF32Type());
  Value size = c.sizeValue(line.size, real), one = c.scalar(1, real), two = c.scalar(2, real);
  Value shifted = c.add(coordinate, one);
  Value x = line.alignCorners ? c.mul(c.div(shifted, two), c.sub(size, one))
                              : c.div(c.sub(c.mul(shifted, size), one), two);
  x = nearest ? c.unary<tn::RoundOp>(x) : x;
  if (line.padding == Padding::Reflection) {
    return reflect(c, x, line);
  }
  if (line.padding == Padding::Zeros) {
    return x;
  }
  // Between the border pixels' outer edges a position stays as it is.
  double edge = line.alignCorners ? 0 : 0.5;
  Value isLow = c.compare(x, tn::Predicate::lt, c.scalar(-edge, real));
  Value isHigh = c.compare(x, tn::Predicate::gt, c.sub(size, c.scalar(1 - edge, real)));
  return c.select(c.make<tn::OrOp>(isLow, isHigh), clampPosition(c, x, line.size), x);
}

/// A pixel at a whole number that may lie outside.
Tap tapAt(NodeContext &c, Value index, Value weight, const Line &line) {
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
SmallVector<Value> cubicWeights(NodeContext &c, Value part) {
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

SmallVector<Tap> tapsOf(NodeContext &c, Value coordinate, const Line &line, StringRef mode) {
  Value x = positionOf(c, coordinate, line, mode == "nearest");
  if (mode == "nearest") {
    return {tapAt(c, x, Value(), line)};
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

std::optional<Padding> paddingMode(NodeContext &c) {
  std::string name = c.text("padding_mode", "zeros");
  if (name == "zeros") {
    return Padding::Zeros;
  }
  if (name == "border") {
    return Padding::Border;
  }
  if (name == "reflection") {
    return Padding::Reflection;
  }
  c.error(ErrorId::OnnxBadAttribute, "attribute 'padding_mode' has an unknown value");
  return std::nullopt;
}

/// The names before opset 20 in those since.
std::optional<std::string> sampleMode(NodeContext &c) {
  std::string mode = c.text("mode", c.opset < 20 ? "bilinear" : "linear");
  mode = mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode;
  if (mode != "linear" && mode != "cubic" && mode != "nearest") {
    c.error(ErrorId::OnnxBadAttribute, "attribute 'mode' has an unknown value");
    return std::nullopt;
  }
  return mode;
}

void gridSample(NodeContext &c) {
  std::optional<std::string> mode = sampleMode(c);
  std::optional<Padding> padding = paddingMode(c);
  int64_t spatial = c.rank(0) - 2;
  tn::Dims dims = c.dims(0), grid = c.dims(1);
  if (!mode || !padding) {
    return;
  }
  if (spatial < 1 || static_cast<int64_t>(grid.size()) != spatial + 2) {
    return c.error(ErrorId::OnnxBadNode, "the grid does not hold a position of the map's rank");
  }
  if (!requireDim(c, grid.back(), spatial, "the length of the grid's positions")) {
    return;
  }
  if (spatial > 3 || c.element(0).isInteger(1)) {
    return c.gap("maps of more than three dimensions or of bools are not supported",
                 "sample numbers of one to three dimensions");
  }
  Type real = sampleType(c, c.element(0).isF64() ? c.element(0) : c.element(1));
  AffineExpr points = c.constantSize(1);
  for (AffineExpr size : ArrayRef<AffineExpr>(grid).drop_front().drop_back()) {
    points = multiplySizes(points, size);
  }
  if (!points) {
    return c.gap("the number of its points cannot be written as an expression",
                 "declare the dimensions with --shape");
  }
  Value flat = c.reshape(c.cast(c.value(1), real), {grid[0], points, grid.back()});
  Taps taps;
  for (int64_t i = 0; i < spatial; ++i) {
    // The grid names the last dim first.
    Value coordinate = c.sliceAxis(flat, 2, c.constantSize(spatial - 1 - i), c.constantSize(1));
    Line line{dims[2 + i], c.integer("align_corners", 0) != 0, *padding};
    taps.push_back(tapsOf(c, coordinate, line, *mode));
  }
  Value pixels = pixelsOf(c, c.value(0));
  Value sum = sumTaps(
      c, [&](Value numbers) { return readPixels(c, pixels, numbers); }, taps,
      ArrayRef<AffineExpr>(dims).drop_front(2), real);
  tn::Dims result = {dims[0], dims[1]};
  result.append(grid.begin() + 1, grid.end() - 1);
  c.setOutput(0, c.cast(c.reshape(c.transpose(sum, {0, 2, 1}), result), c.element(0)));
}

constexpr OpRow kRows[] = {
    {"AffineGrid", 20, 2, 2, 1, affineGrid, {{"align_corners", kInt}}},
    {"GridSample",
     16,
     2,
     2,
     1,
     gridSample,
     {{"align_corners", kInt}, {"mode", kString}, {"padding_mode", kString}}},
};

} // namespace

ArrayRef<OpRow> gridRows() { return kRows; }

} // namespace tenon::onnx
