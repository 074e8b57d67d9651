// The inputs of Winograd's filtering: squares of m + 2 pixels of each tile are transformed in
// vectors of channels. Those that reach beyond the image are first copied with zeros around.
#include "compiler/codegen/cpu/conv/ConvWinograd.h"
#include "compiler/codegen/cpu/conv/WinogradTransforms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

Value isBelow(const IndexMath &math, Value a, Value b) {
  return math.builder.createOrFold<arith::CmpIOp>(math.location, arith::CmpIPredicate::ult, a, b);
}

/// Either may be null.
Value both(const IndexMath &math, Value a, Value b) {
  return a && b ? math.builder.createOrFold<arith::AndIOp>(math.location, a, b) : a ? a : b;
}

Value select(const IndexMath &math, Value condition, Value a, Value b) {
  return math.builder.createOrFold<arith::SelectOp>(math.location, condition, a, b);
}

} // namespace

/// Vectors of the input channels; the last begins before the one before it ends.
void WinogradConv::loopChannels(const IndexMath &math,
                                llvm::function_ref<void(const IndexMath &, Value)> body) const {
  Value count = math.constant(llvm::divideCeil(g.channels, lanes));
  forEach(math, math.constant(0), count, 1, [&](const IndexMath &inner, Value number) {
    body(inner, inner.min(inner.mul(number, lanes), inner.constant(g.channels - lanes)));
  });
}

/// The inputs of all tiles of a chunk, of all taps of the depth.
void WinogradConv::transformChunk(const IndexMath &math, const GridPoint &point) {
  Part part = partOf(math, point);
  Value zero = math.constant(0);
  forEach(math, zero, part.lines, 1, [&](const IndexMath &a, Value line) {
    Place place = lineOf(a, point, a.add(part.firstLine, line));
    std::pair<Value, Value> planes = {zero, a.constant(g.depth.kernel)};
    if (t.skipsPlanes) {
      planes = tapsInside(a, kernel, g.depth, place.plane);
    }
    forEach(a, zero, part.tiles, 1, [&](const IndexMath &b, Value tile) {
      place.column = startOf(b, g.width, b.add(part.firstTile, tile));
      Value number = b.add(b.mul(line, part.tiles), tile);
      forEach(b, planes.first, planes.second, 1,
              [&](const IndexMath &c, Value plane) { transformTile(c, place, plane, number); });
    });
  });
}

/// Copies what lies inside the image, and zeros.
void WinogradConv::fillPatch(const IndexMath &math, Value plane, Value line, Value column) {
  Value zero = math.constant(0), count = math.constant(side);
  Value depth = size(math, g.depth.in), height = size(math, g.height.in);
  Value width = size(math, g.width.in);
  Value isPlane;
  if (g.depth.isPadded() && !t.skipsPlanes) {
    // Of the images' planes the first was taken off.
    isPlane = isBelow(math, plane, depth);
  }
  forEach(math, zero, count, 1, [&](const IndexMath &a, Value i) {
    Value y = a.add(line, a.mul(i, g.height.dilation));
    Value isLine = both(a, isBelow(a, y, height), isPlane);
    forEach(a, zero, count, 1, [&](const IndexMath &b, Value j) {
      Value x = b.add(column, b.mul(j, g.width.dilation));
      Value isInside = both(b, isBelow(b, x, width), isLine);
      Value pixel = b.add(b.mul(b.add(b.mul(plane, height), y), width), x);
      Value from =
          select(b, isInside, b.offset(image, b.mul(pixel, g.channels)), b.pointer(zeros, zero));
      Value to = b.pointer(patch, b.mul(b.add(b.mul(i, side), j), g.channels));
      loopChannels(b, [&](const IndexMath &c, Value channel) {
        store(c, load(c, c.offset(from, channel)), c.offset(to, channel));
      });
    });
  });
}

void WinogradConv::transformTile(const IndexMath &math, const Place &place, Value kernelPlane,
                                 Value number) {
  OpBuilder &builder = math.builder;
  Value zero = math.constant(0);
  auto begin = [&](const ConvDim &dim, Value position) {
    return math.sub(position, math.constant(dim.padBegin));
  };
  Value plane = math.add(begin(g.depth, math.mul(place.plane, g.depth.stride)),
                         math.mul(kernelPlane, g.depth.dilation));
  Value line = begin(g.height, place.line), column = begin(g.width, place.column);
  // Of a dim the first and the last input lie inside.
  auto isInside = [&](const ConvDim &dim, Value first) {
    Value last = math.add(first, math.constant((side - 1) * dim.dilation));
    Value end = size(math, dim.in);
    return both(math, isBelow(math, first, end), isBelow(math, last, end));
  };
  Value isWhole = both(math, isInside(g.height, line), isInside(g.width, column));
  if (g.depth.isPadded() && !t.skipsPlanes) {
    isWhole = both(math, isWhole, isBelow(math, plane, size(math, g.depth.in)));
  }
  Value planes = size(math, g.depth.in), height = size(math, g.height.in);
  Value width = size(math, g.width.in);
  Value pixels = math.mul(math.mul(math.mul(place.image, planes), height), width);
  image = math.pointer(input, math.mul(pixels, g.channels));
  scf::IfOp::create(
      builder, math.location, isWhole,
      [](OpBuilder &then, Location location) { scf::YieldOp::create(then, location); },
      [&](OpBuilder &otherwise, Location location) {
        fillPatch(IndexMath(otherwise, location), plane, line, column);
        scf::YieldOp::create(otherwise, location);
      });
  Value pixel = math.add(math.mul(math.add(math.mul(plane, height), line), width), column);
  Value from = select(math, isWhole, math.offset(image, math.mul(pixel, g.channels)),
                      math.pointer(patch, zero));
  Value lineStride = select(math, isWhole, math.mul(math.mul(width, g.height.dilation), g.channels),
                            math.constant(side * g.channels));
  Value pixelStride = select(math, isWhole, math.constant(g.width.dilation * g.channels),
                             math.constant(g.channels));
  Value to = math.add(math.mul(number, rowStride), math.mul(kernelPlane, g.channels));
  Square square{from, lineStride, pixelStride, to};
  loopChannels(math, [&](const IndexMath &inner, Value channel) {
    transformSquare(inner, square, channel);
  });
}

/// Along columns, then along lines.
void WinogradConv::transformSquare(const IndexMath &math, const Square &square, Value channel) {
  SmallVector<Vectors> columns(side);
  for (int64_t j = 0; j < side; ++j) {
    Vectors values;
    for (int64_t i = 0; i < side; ++i) {
      Value at = math.add(math.mul(square.lineStride, i), math.mul(square.pixelStride, j));
      values.push_back(load(math, math.offset(math.offset(square.from, at), channel)));
    }
    columns[j] = transformInputs(math.builder, math.location, values);
  }
  Value start = math.pointer(inputs, math.add(square.to, channel));
  for (int64_t i = 0; i < side; ++i) {
    Vectors values;
    for (int64_t j = 0; j < side; ++j) {
      values.push_back(columns[j][i]);
    }
    values = transformInputs(math.builder, math.location, values);
    for (int64_t j = 0; j < side; ++j) {
      int64_t at = (i * side + j) * t.mostTiles() * rowStride;
      store(math, values[j], math.offset(start, math.constant(at)));
    }
  }
}

} // namespace tenon::codegen::cpu
