// Winograd's minimal filtering F(m x m, 3 x 3) fused by chunks of tiles, channels last: the inputs
// of a chunk are transformed once, and each panel of output channels is (m + 2) x (m + 2) products,
// the transform of their sums, and the epilogue on lines of output pixels. Further taps in depth
// lie in the depth of the products. Relies on the weights being transformed in panels
// (winogradWeight).
#include "compiler/codegen/cpu/ConvWinograd.h"

#include "compiler/codegen/cpu/KernelFamily.h"
#include "compiler/codegen/cpu/WinogradTransforms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

class WinogradConv {
public:
  WinogradConv(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv, engine::CpuLevel level,
               const WinogradTiles &tiles)
      : kernel(kernel), conv(conv), t(tiles), g(t.g), side(t.side()),
        rowStride(t.depthChannels() + kStridePad), lineWidth(t.m * t.lineTiles),
        lanes(floatLanes(level)), vector(VectorType::get(lanes, kernel.builder.getF32Type())),
        epilogue(kernel, source, conv, conv.getBias()) {}

  FailureOr<AffineExpr> lower();

private:
  /// Tiles of a chunk: lines of tiles, or a part of one. All of index type.
  struct Part {
    Value firstLine, lines, firstTile, tiles;
  };
  /// A tile, or the line of it.
  struct Place {
    Value image, plane; ///< plane: of the output's depth
    Value line, column; ///< first output position
  };

  Part partOf(const IndexMath &math, const GridPoint &point) const;
  Place lineOf(const IndexMath &math, const GridPoint &point, Value line) const;
  Value startOf(const IndexMath &math, const ConvDim &dim, Value tile) const;
  void transformChunk(const IndexMath &math, const GridPoint &point);
  void transformTile(const IndexMath &math, const Place &place, Value kernelPlane, Value number);
  void fillPatch(const IndexMath &math, Value plane, Value line, Value column);
  void multiply(const IndexMath &math, const GridPoint &point, Value rows);
  void transformPanel(const IndexMath &math, const Part &part);
  LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  LogicalResult writeLine(const IndexMath &math, const GridPoint &point, Value from, Value row,
                          Value count);

  Value size(const IndexMath &math, AffineExpr expression) const {
    return math.size(kernel, expression);
  }
  Value element(const IndexMath &math, Value buffer, Value at) const {
    return math.pointer(buffer, at);
  }
  Value load(const IndexMath &math, Value address) const {
    return LLVM::LoadOp::create(math.builder, math.location, vector, address, /*alignment=*/4);
  }
  void store(const IndexMath &math, Value value, Value address) const {
    LLVM::StoreOp::create(math.builder, math.location, value, address, /*alignment=*/4);
  }
  Value isBelow(const IndexMath &math, Value a, Value b) const {
    return arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::ult, a, b);
  }
  Value both(const IndexMath &math, Value a, Value b) const {
    return a && b ? Value(arith::AndIOp::create(math.builder, math.location, a, b)) : a ? a : b;
  }
  Value select(const IndexMath &math, Value condition, Value a, Value b) const {
    return math.builder.createOrFold<arith::SelectOp>(math.location, condition, a, b);
  }
  void loop(const IndexMath &math, Value from, Value to,
            llvm::function_ref<void(const IndexMath &, Value)> body) const {
    scf::ForOp::create(math.builder, math.location, from, to, math.constant(1), ValueRange(),
                       [&](OpBuilder &inner, Location location, Value index, ValueRange) {
                         body(IndexMath(inner, location), index);
                         scf::YieldOp::create(inner, location);
                       });
  }
  /// Vectors of the input channels; the last begins before the one before it ends.
  void loopChannels(const IndexMath &math,
                    llvm::function_ref<void(const IndexMath &, Value)> body) const {
    loop(math, math.constant(0), math.constant(llvm::divideCeil(g.channels, lanes)),
         [&](const IndexMath &inner, Value number) {
           body(inner, inner.min(inner.mul(number, lanes), inner.constant(g.channels - lanes)));
         });
  }

  KernelBuilder &kernel;
  tn::ConvOp conv;
  WinogradTiles t;
  const Geometry &g;
  int64_t side;
  int64_t rowStride; ///< of transformed inputs, in elements
  int64_t lineWidth; ///< of outputs, in pixels
  int64_t lanes;
  VectorType vector;
  Epilogue epilogue;
  ContractionGrid grid;
  Value input, weights;
  Value image;   ///< pointer to the image that is read
  Value inputs;  ///< [side * side, tiles, rowStride]: transformed
  Value sums;    ///< [side * side, tiles, kPanel]
  Value outputs; ///< [lines of tiles, m, lineWidth, kPanel]
  Value patch;   ///< [side, side, channels]: the inputs of a tile that reaches beyond the image
  Value zeros;   ///< a pixel
};

WinogradConv::Part WinogradConv::partOf(const IndexMath &math, const GridPoint &point) const {
  Part part;
  Value all = size(math, t.lines);
  part.firstTile = math.constant(0);
  if (tn::constantDim(t.segments) == 1) {
    Value chunks = size(math, grid.chunks);
    part.firstLine = math.div(math.mul(point.chunk, all), chunks);
    Value next = math.div(math.mul(math.add(point.chunk, math.constant(1)), all), chunks);
    part.lines = math.sub(next, part.firstLine);
    part.tiles = math.constant(t.lineTiles);
    return part;
  }
  Value parts = size(math, t.segments);
  part.firstLine = math.div(point.chunk, parts);
  part.lines = math.constant(1);
  part.firstTile = math.mul(math.rem(point.chunk, parts), t.lineTiles);
  Value left = math.sub(size(math, t.columns), part.firstTile);
  part.tiles = math.min(math.constant(t.lineTiles), left);
  return part;
}

Value WinogradConv::startOf(const IndexMath &math, const ConvDim &dim, Value tile) const {
  Value dilation = math.constant(dim.dilation);
  return math.add(math.rem(tile, dilation), math.mul(math.div(tile, dilation), dim.dilation * t.m));
}

/// `line` counts the lines of tiles of a plane of the grid.
WinogradConv::Place WinogradConv::lineOf(const IndexMath &math, const GridPoint &point,
                                         Value line) const {
  Value rows = size(math, t.rows), depth = size(math, g.depth.out);
  Value plane = t.skipsPlanes ? point.batch : math.div(line, rows);
  Value row = t.skipsPlanes ? line : math.rem(line, rows);
  return {math.div(plane, depth), math.rem(plane, depth), startOf(math, g.height, row), Value()};
}

/// The inputs of all tiles of a chunk, of all taps of the depth.
void WinogradConv::transformChunk(const IndexMath &math, const GridPoint &point) {
  Part part = partOf(math, point);
  Value zero = math.constant(0);
  loop(math, zero, part.lines, [&](const IndexMath &a, Value line) {
    Place place = lineOf(a, point, a.add(part.firstLine, line));
    std::pair<Value, Value> planes = {zero, a.constant(g.depth.kernel)};
    if (t.skipsPlanes) {
      planes = tapsInside(a, kernel, g.depth, place.plane);
    }
    loop(a, zero, part.tiles, [&](const IndexMath &b, Value tile) {
      place.column = startOf(b, g.width, b.add(part.firstTile, tile));
      Value number = b.add(b.mul(line, part.tiles), tile);
      loop(b, planes.first, planes.second,
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
  loop(math, zero, count, [&](const IndexMath &a, Value i) {
    Value y = a.add(line, a.mul(i, g.height.dilation));
    Value isLine = both(a, isBelow(a, y, height), isPlane);
    loop(a, zero, count, [&](const IndexMath &b, Value j) {
      Value x = b.add(column, b.mul(j, g.width.dilation));
      Value isInside = both(b, isBelow(b, x, width), isLine);
      Value pixel = b.add(b.mul(b.add(b.mul(plane, height), y), width), x);
      Value from =
          select(b, isInside, b.offset(image, b.mul(pixel, g.channels)), element(b, zeros, zero));
      Value to = element(b, patch, b.mul(b.add(b.mul(i, side), j), g.channels));
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
  image = element(math, input, math.mul(pixels, g.channels));
  scf::IfOp::create(
      builder, math.location, isWhole,
      [](OpBuilder &then, Location location) { scf::YieldOp::create(then, location); },
      [&](OpBuilder &otherwise, Location location) {
        fillPatch(IndexMath(otherwise, location), plane, line, column);
        scf::YieldOp::create(otherwise, location);
      });
  Value pixel = math.add(math.mul(math.add(math.mul(plane, height), line), width), column);
  Value from = select(math, isWhole, math.offset(image, math.mul(pixel, g.channels)),
                      element(math, patch, zero));
  Value lineStride = select(math, isWhole, math.mul(math.mul(width, g.height.dilation), g.channels),
                            math.constant(side * g.channels));
  Value pixelStride = select(math, isWhole, math.constant(g.width.dilation * g.channels),
                             math.constant(g.channels));
  Value to = math.add(math.mul(number, rowStride), math.mul(kernelPlane, g.channels));
  loopChannels(math, [&](const IndexMath &inner, Value channel) {
    SmallVector<Vectors> columns(side), rows(side);
    for (int64_t j = 0; j < side; ++j) {
      Vectors values;
      for (int64_t i = 0; i < side; ++i) {
        Value at = inner.add(inner.mul(lineStride, i), inner.mul(pixelStride, j));
        values.push_back(load(inner, inner.offset(inner.offset(from, at), channel)));
      }
      columns[j] = transformInputs(inner.builder, inner.location, values);
    }
    Value start = element(inner, inputs, inner.add(to, channel));
    for (int64_t i = 0; i < side; ++i) {
      Vectors values;
      for (int64_t j = 0; j < side; ++j) {
        values.push_back(columns[j][i]);
      }
      values = transformInputs(inner.builder, inner.location, values);
      for (int64_t j = 0; j < side; ++j) {
        int64_t at = (i * side + j) * t.mostTiles() * rowStride;
        store(inner, values[j], inner.offset(start, inner.constant(at)));
      }
    }
  });
}

/// A product for each point, of the channels of all taps of the depth that lie inside.
void WinogradConv::multiply(const IndexMath &math, const GridPoint &point, Value rows) {
  Value zero = math.constant(0), panel = math.constant(kPanel);
  Value first = zero, depth = math.constant(t.depthChannels());
  if (t.skipsPlanes) {
    Value plane = math.rem(point.batch, size(math, g.depth.out));
    auto [firstTap, endTap] = tapsInside(math, kernel, g.depth, plane);
    first = math.mul(firstTap, g.channels);
    depth = math.mul(math.max(math.sub(endTap, firstTap), zero), g.channels);
  }
  int64_t points = side * side;
  loop(math, zero, math.constant(points), [&](const IndexMath &inner, Value number) {
    Value row = inner.add(inner.mul(point.panel, points), number);
    Value b = inner.add(inner.mul(row, t.depthChannels()), first);
    Value a = inner.add(inner.mul(number, t.mostTiles() * rowStride), first);
    callProduct(inner, kernel.function(),
                {element(inner, inputs, a), inner.constant(rowStride),
                 element(inner, weights, inner.mul(b, kPanel)), panel,
                 element(inner, sums, inner.mul(number, t.mostTiles() * kPanel)), panel, depth,
                 rows, Value()});
  });
}

/// The sums of all tiles of a chunk to output pixels.
void WinogradConv::transformPanel(const IndexMath &math, const Part &part) {
  Value zero = math.constant(0);
  loop(math, zero, part.lines, [&](const IndexMath &a, Value line) {
    loop(a, zero, part.tiles, [&](const IndexMath &b, Value tile) {
      Value from = b.mul(b.add(b.mul(line, part.tiles), tile), kPanel);
      // Lines begin at the chunk's first pixel; dilated ones are whole.
      Value pixel = b.add(b.mul(line, t.m * lineWidth), startOf(b, g.width, tile));
      Value to = b.mul(pixel, kPanel);
      loop(b, zero, b.constant(kPanel / lanes), [&](const IndexMath &c, Value number) {
        Value column = c.mul(number, lanes);
        Value source = element(c, sums, c.add(from, column));
        Value target = element(c, outputs, c.add(to, column));
        SmallVector<Vectors> lines;
        for (int64_t i = 0; i < side; ++i) {
          Vectors values;
          for (int64_t j = 0; j < side; ++j) {
            int64_t at = (i * side + j) * t.mostTiles() * kPanel;
            values.push_back(load(c, c.offset(source, c.constant(at))));
          }
          lines.push_back(transformSums(c.builder, c.location, values));
        }
        for (int64_t j = 0; j < t.m; ++j) {
          Vectors values;
          for (int64_t i = 0; i < side; ++i) {
            values.push_back(lines[i][j]);
          }
          values = transformSums(c.builder, c.location, values);
          for (int64_t i = 0; i < t.m; ++i) {
            int64_t at = (i * lineWidth + j * g.width.dilation) * kPanel;
            store(c, values[i], c.offset(target, c.constant(at)));
          }
        }
      });
    });
  });
}

/// The epilogue on `count` output pixels from `row` on.
LogicalResult WinogradConv::writeLine(const IndexMath &math, const GridPoint &point, Value from,
                                      Value row, Value count) {
  Value zero = math.constant(0);
  int64_t panels = g.panelsPerGroup(), tail = g.outChannels - (panels - 1) * kPanel;
  Value first = math.mul(point.panel, kPanel);
  auto write = [&](const IndexMath &at, int64_t columns) {
    Value width = at.constant(columns);
    return epilogue.emit(at, at.view(at.asRows(outputs), {from, zero}, {count, width}),
                         {row, count, first, width});
  };
  if (panels == 1 || tail == kPanel) {
    return write(math, tail);
  }
  Value isTail = arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::eq,
                                       point.panel, math.constant(panels - 1));
  bool failedInside = false;
  auto branch = [&](int64_t columns) {
    return [&, columns](OpBuilder &body, Location location) {
      failedInside |= failed(write(IndexMath(body, location), columns));
      scf::YieldOp::create(body, location);
    };
  };
  scf::IfOp::create(math.builder, math.location, isTail, branch(tail), branch(kPanel));
  return failure(failedInside);
}

LogicalResult WinogradConv::buildTile(const IndexMath &math, const GridPoint &point) {
  Part part = partOf(math, point);
  multiply(math, point, math.mul(part.lines, part.tiles));
  transformPanel(math, part);
  Value width = size(math, g.width.out), height = size(math, g.height.out), count = width;
  Value firstPixel = math.mul(part.firstTile, t.m);
  if (tn::constantDim(t.segments) != 1) {
    count = math.min(math.mul(part.tiles, t.m), math.sub(width, firstPixel));
  }
  LogicalResult status = success();
  Value zero = math.constant(0);
  loop(math, zero, part.lines, [&](const IndexMath &a, Value line) {
    Place place = lineOf(a, point, a.add(part.firstLine, line));
    Value plane = a.add(a.mul(place.image, size(a, g.depth.out)), place.plane);
    loop(a, zero, a.constant(t.m), [&](const IndexMath &b, Value i) {
      Value y = b.add(place.line, b.mul(i, g.height.dilation));
      scf::IfOp::create(b.builder, b.location, b.isLess(y, height),
                        [&](OpBuilder &then, Location location) {
                          IndexMath c(then, location);
                          Value from = c.mul(c.add(c.mul(line, t.m), i), lineWidth);
                          Value row = c.mul(c.add(c.mul(plane, height), y), width);
                          status = writeLine(c, point, from, c.add(row, firstPixel), count);
                          scf::YieldOp::create(then, location);
                        });
    });
  });
  return status;
}

FailureOr<AffineExpr> WinogradConv::lower() {
  IndexMath math(kernel.builder, kernel.location);
  grid.batches = t.planes;
  grid.panels = math.builder.getAffineConstantExpr(g.panelsPerGroup());
  grid.chunks = tn::constantDim(t.segments) == 1
                    ? chunkCount(t.lines, t.mostLines, t.leastLines(), grid.batches * grid.panels)
                    : t.lines * t.segments;
  input = kernel.input(cast<BlockArgument>(conv.getX()).getArgNumber());
  weights = packedBuffer(kernel, conv.getWeight());
  auto scratch = [&](ArrayRef<int64_t> sizes) {
    SmallVector<Value> values;
    for (int64_t value : sizes) {
      values.push_back(math.constant(value));
    }
    return allocate(kernel, values);
  };
  inputs = scratch({side * side, t.mostTiles(), rowStride});
  sums = scratch({side * side, t.mostTiles(), kPanel});
  outputs = scratch({t.mostLines * t.m * lineWidth, kPanel});
  patch = scratch({side * side, g.channels});
  zeros = scratch({g.channels});
  clear(math, zeros);
  auto prepare = [&](const IndexMath &at, const GridPoint &point) { transformChunk(at, point); };
  if (failed(buildGridLoop(kernel, grid, prepare, [&](const IndexMath &at, const GridPoint &point) {
        return buildTile(at, point);
      }))) {
    return failure();
  }
  return grid.points();
}

} // namespace

FailureOr<AffineExpr> lowerWinograd(KernelBuilder &kernel, func::FuncOp source,
                                    engine::CpuLevel level, int64_t m, int64_t mostTiles) {
  tn::ConvOp conv = *source.getOps<tn::ConvOp>().begin();
  if (!refuseWinograd(source, m).empty() || failed(checkBuffers(conv)) ||
      !packedBuffer(kernel, conv.getWeight())) {
    return source.emitError("no convolution of 3 x 3 whose weight is transformed");
  }
  return WinogradConv(kernel, source, conv, level, WinogradTiles(conv, m, mostTiles)).lower();
}

} // namespace tenon::codegen::cpu
