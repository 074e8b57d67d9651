// Winograd's minimal filtering F(m x m, 3 x 3) fused by chunks of tiles, channels last: the inputs
// of a chunk are transformed once, and each panel of output channels is (m + 2) x (m + 2) products,
// the transform of their sums, and the epilogue on lines of output pixels. Further taps in depth
// lie in the depth of the products. Relies on the weights being transformed in panels
// (winogradWeight).
#include "compiler/codegen/cpu/conv/ConvWinograd.h"

#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/conv/WinogradTransforms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// The buffer of the transformed filters; null if the weight is not transformed.
Value filtersOf(KernelBuilder &kernel, tn::ConvOp conv) {
  tn::WinogradTapsOp taps = conv.getWeight().getDefiningOp<tn::WinogradTapsOp>();
  return taps ? packedBuffer(kernel, taps.getFilter()) : Value();
}

bool readsBuffers(tn::ConvOp conv) {
  return llvm::all_of(conv->getOperands(), [&](Value operand) {
    return operand == conv.getWeight() || isa<BlockArgument>(operand);
  });
}

} // namespace

WinogradConv::WinogradConv(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv,
                           engine::CpuLevel level, const WinogradTiles &tiles)
    : kernel(kernel), conv(conv), t(tiles), g(t.g), side(t.side()),
      rowStride(t.depthChannels() + kStridePad), lineWidth(t.m * t.lineTiles),
      lanes(floatLanes(level)), vector(VectorType::get(lanes, kernel.builder.getF32Type())),
      epilogue(kernel, source, conv, conv.getBias()) {}

Value WinogradConv::load(const IndexMath &math, Value address) const {
  return LLVM::LoadOp::create(math.builder, math.location, vector, address, /*alignment=*/4);
}

void WinogradConv::store(const IndexMath &math, Value value, Value address) const {
  LLVM::StoreOp::create(math.builder, math.location, value, address, /*alignment=*/4);
}

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
  forEach(math, zero, math.constant(points), 1, [&](const IndexMath &inner, Value number) {
    Value row = inner.add(inner.mul(point.panel, points), number);
    Value b = inner.add(inner.mul(row, t.depthChannels()), first);
    Value a = inner.add(inner.mul(number, t.mostTiles() * rowStride), first);
    callProduct(inner, kernel.function(),
                {inner.pointer(inputs, a), inner.constant(rowStride),
                 inner.pointer(weights, inner.mul(b, kPanel)), panel,
                 inner.pointer(sums, inner.mul(number, t.mostTiles() * kPanel)), panel, depth, rows,
                 Value()});
  });
}

/// The sums of all tiles of a chunk to output pixels.
void WinogradConv::transformPanel(const IndexMath &math, const Part &part) {
  Value zero = math.constant(0);
  forEach(math, zero, part.lines, 1, [&](const IndexMath &a, Value line) {
    forEach(a, zero, part.tiles, 1, [&](const IndexMath &b, Value tile) {
      Value from = b.mul(b.add(b.mul(line, part.tiles), tile), kPanel);
      // Lines begin at the chunk's first pixel; dilated ones are whole.
      Value pixel = b.add(b.mul(line, t.m * lineWidth), startOf(b, g.width, tile));
      Value to = b.mul(pixel, kPanel);
      forEach(b, zero, b.constant(kPanel / lanes), 1, [&](const IndexMath &c, Value number) {
        Value column = c.mul(number, lanes);
        Value source = c.pointer(sums, c.add(from, column));
        Value target = c.pointer(outputs, c.add(to, column));
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
  forEach(math, zero, part.lines, 1, [&](const IndexMath &a, Value line) {
    Place place = lineOf(a, point, a.add(part.firstLine, line));
    Value plane = a.add(a.mul(place.image, size(a, g.depth.out)), place.plane);
    forEach(a, zero, a.constant(t.m), 1, [&](const IndexMath &b, Value i) {
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
  weights = filtersOf(kernel, conv);
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

namespace {

/// The predictions for convolutions of one kind are nearer to each other than those of others.
constexpr double kAlsoConvolutions = 0.95;
/// Those of F(4 x 4) take 2.25 times the memory of those of F(2 x 2).
constexpr double kLargerWeights = 0.85;

constexpr dispatch::Approximation kRounding{
    "conv", "winograd",
    "Winograd's filtering in FP32: off by some 1e-6 of the largest result, as sums in another "
    "order are; --disable-family conv_winograd4 or conv_winograd2"};

template <int64_t m> FamilyMatch matchWinograd(Region &region) {
  tn::ConvOp conv = firstOp<tn::ConvOp>(region.source);
  StringRef refusal = refuseWinograd(conv, m);
  return refusal.empty() ? FamilyMatch::take(conv) : FamilyMatch::refuse(refusal);
}

template <int64_t m>
double winogradSeconds(Region &region, const tn::ConvOp &conv, const dispatch::KernelChoice &) {
  dispatch::CostModel costs(region.source->getParentOfType<ModuleOp>(), region.target());
  // The rates of a profile need not agree with each other.
  double direct = ratedSeconds(region), least = 0.1 * direct;
  return std::max(direct - winogradSavings(conv, m, costs), least);
}

template <int64_t m>
std::optional<dispatch::WeightLayout> winogradWeights(Region &, const tn::ConvOp &conv) {
  return winogradWeight(conv, m);
}

template <int64_t m>
FailureOr<AffineExpr> lowerWinograd(KernelBuilder &kernel, Region &region, const tn::ConvOp &op,
                                    int64_t mostTiles) {
  tn::ConvOp conv = op;
  if (!readsBuffers(conv) || !filtersOf(kernel, conv)) {
    return region.source.emitError("no convolution of 3 x 3 whose weight is transformed");
  }
  return WinogradConv(kernel, region.source, conv, region.level(),
                      WinogradTiles(conv, m, mostTiles))
      .lower();
}

} // namespace

constexpr KernelFamily kConvWinograd2 = {
    .name = "conv_winograd2",
    .what = "Winograd F(2 x 2, 3 x 3): transformed tiles, a product for each point, their sums "
            "transformed before the epilogue",
    .strategies = {dispatch::kContraction},
    .needs = {"conv"},
    .needsElements = true,
    .match = matchWinograd<2>,
    .parameter = "tiles",
    .candidates = {28, 14, 56, 112},
    .seconds = on<winogradSeconds<2>>,
    .weights = on<winogradWeights<2>>,
    .emit = emitKernel<lowerWinograd<2>>,
    .switchMargin = kAlsoConvolutions,
    .approximation = &kRounding};

constexpr KernelFamily kConvWinograd4 = {
    .name = "conv_winograd4",
    .what = "Winograd F(4 x 4, 3 x 3): transformed tiles, a product for each point, their sums "
            "transformed before the epilogue",
    .strategies = {dispatch::kContraction},
    .needs = {"conv"},
    .needsElements = true,
    .match = matchWinograd<4>,
    .parameter = "tiles",
    .candidates = {28, 14, 56, 112},
    .seconds = on<winogradSeconds<4>>,
    .weights = on<winogradWeights<4>>,
    .emit = emitKernel<lowerWinograd<4>>,
    .switchMargin = kLargerWeights,
    .approximation = &kRounding};

} // namespace tenon::codegen::cpu
