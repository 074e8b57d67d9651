// Convolutions of 16-bit floats and 32-bit integers, channels last: the patches under a chunk of
// output pixels are copied side by side, widened, and multiplied with panels of the weights as rows
// of one product. Bounds are looked at once a tap and pixel, for all its channels.
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "compiler/dispatch/OpKinds.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <functional>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Fewest rows of a chunk worth a grid point of its own.
constexpr int64_t kMinPixels = 14;

class PatchConv {
public:
  PatchConv(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv, int64_t tileRows);

  FailureOr<AffineExpr> lower();

private:
  Value first(const IndexMath &math, const GridPoint &point) const;
  void copyPatches(const IndexMath &math, const GridPoint &point);
  void copyPatch(const IndexMath &math, Value pixel, Value row, Value group);
  void copyTap(const IndexMath &math, ArrayRef<Value> origin, Value image, Value row,
               ArrayRef<Value> taps, Value group);
  LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  Value packPanel(const IndexMath &math, Value panel, Value column, Value count);
  void copyColumns(const IndexMath &math, Value tap, Value column, Value to);

  KernelBuilder &kernel;
  tn::ConvOp conv;
  Type element; ///< in which sums are taken: f32 or i32
  Epilogue epilogue;
  TileWriter writer;
  tn::Dims in, out;
  SmallVector<int64_t> weight; ///< dims of the weight
  int64_t tileRows, spatial, channels, depth, columns;
  ContractionGrid grid;
  AffineExpr pixels;
  Value patches;   ///< [tileRows, depth]
  Value panelCopy; ///< scratch for a panel of narrow or computed weights, or null
};

PatchConv::PatchConv(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv, int64_t tileRows)
    : kernel(kernel), conv(conv),
      element(accumulatorType(storageType(getElementTypeOrSelf(conv.getType())))),
      epilogue(kernel, source, conv, conv.getBias()), writer(kernel, epilogue, tileRows, element),
      in(tn::getDims(conv.getX().getType())), out(tn::getDims(conv.getType())),
      weight(cast<RankedTensorType>(conv.getWeight().getType()).getShape()), tileRows(tileRows),
      spatial(static_cast<int64_t>(weight.size()) - 2), channels(weight[1]), depth(channels),
      columns(weight[0] / static_cast<int64_t>(conv.getGroups())) {
  for (int64_t size : ArrayRef(weight).drop_front(2)) {
    depth *= size;
  }
  MLIRContext *context = conv.getContext();
  pixels = tn::elementCount(context, ArrayRef<AffineExpr>(out).drop_back());
  grid.batches = getAffineConstantExpr(conv.getGroups(), context);
  grid.panels = getAffineConstantExpr(llvm::divideCeil(columns, kPanel), context);
  grid.chunks = chunkCount(pixels, tileRows, kMinPixels, grid.batches * grid.panels);
}

/// The first output pixel of a chunk; of the one behind the last, their number.
Value PatchConv::first(const IndexMath &math, const GridPoint &point) const {
  Value total = math.size(kernel, pixels), chunks = math.size(kernel, grid.chunks);
  return math.div(math.mul(point.chunk, total), chunks);
}

/// The channels under one tap, zeros where it lies outside.
void PatchConv::copyTap(const IndexMath &math, ArrayRef<Value> origin, Value image, Value row,
                        ArrayRef<Value> taps, Value group) {
  OpBuilder &b = math.builder;
  Location location = math.location;
  Value pixel = image, tap = math.constant(0), inside;
  for (int64_t i = 0; i < spatial; ++i) {
    Value place = math.add(origin[i], math.mul(taps[i], conv.getDilations()[i]));
    Value size = math.size(kernel, in[1 + i]);
    // One unsigned comparison sees both ends.
    Value here = arith::CmpIOp::create(b, location, arith::CmpIPredicate::ult, place, size);
    inside = inside ? Value(arith::AndIOp::create(b, location, inside, here)) : here;
    pixel = math.add(math.mul(pixel, size), place);
    tap = math.add(math.mul(tap, weight[2 + i]), taps[i]);
  }
  Value one = math.constant(1), count = math.constant(channels);
  Value to = math.view(patches, {row, math.mul(tap, channels)}, {one, count});
  Value x = math.asRows(kernel.input(cast<BlockArgument>(conv.getX()).getArgNumber()));
  scf::IfOp::create(
      b, location, inside,
      [&](OpBuilder &then, Location) {
        IndexMath inner(then, location);
        Value from = inner.view(x, {pixel, inner.mul(group, channels)}, {one, count});
        copyElements(inner, from, to, then.getMultiDimIdentityMap(2));
        scf::YieldOp::create(then, location);
      },
      [&](OpBuilder &otherwise, Location) {
        clear(IndexMath(otherwise, location), to);
        scf::YieldOp::create(otherwise, location);
      });
}

void PatchConv::copyPatch(const IndexMath &math, Value pixel, Value row, Value group) {
  SmallVector<Value> origin(spatial);
  Value rest = pixel;
  for (int64_t i = spatial; i-- > 0;) {
    Value size = math.size(kernel, out[1 + i]);
    Value place = math.mul(math.rem(rest, size), conv.getStrides()[i]);
    origin[i] = math.sub(place, math.constant(conv.getPads()[i]));
    rest = math.div(rest, size);
  }
  SmallVector<Value> taps;
  std::function<void(const IndexMath &)> nest = [&](const IndexMath &at) {
    size_t dim = taps.size();
    if (static_cast<int64_t>(dim) == spatial) {
      return copyTap(at, origin, rest, row, taps, group);
    }
    forEach(at, at.constant(0), at.constant(weight[2 + dim]), 1,
            [&](const IndexMath &inner, Value tap) {
              taps.push_back(tap);
              nest(inner);
              taps.pop_back();
            });
  };
  nest(math);
}

void PatchConv::copyPatches(const IndexMath &math, const GridPoint &point) {
  GridPoint next = point;
  next.chunk = math.add(point.chunk, math.constant(1));
  Value begin = first(math, point), count = math.sub(first(math, next), begin);
  forEach(math, math.constant(0), count, 1, [&](const IndexMath &inner, Value row) {
    copyPatch(inner, inner.add(begin, row), row, point.batch);
  });
}

/// The address of a panel of the weights, widened; its columns are `count` from `column` on.
Value PatchConv::packPanel(const IndexMath &math, Value panel, Value column, Value count) {
  Value packed = packedBuffer(kernel, conv.getWeight()), zero = math.constant(0);
  Value row = math.mul(panel, depth);
  if (packed && !panelCopy) {
    return math.pointer(packed, math.mul(row, kPanel));
  }
  if (packed) {
    Value from =
        math.view(math.asRows(packed), {row, zero}, {math.constant(depth), math.constant(kPanel)});
    copyElements(math, from, panelCopy, math.builder.getMultiDimIdentityMap(2));
    return math.pointer(panelCopy, zero);
  }
  clear(math, panelCopy);
  int64_t taps = depth / channels;
  forEach(math, math.constant(0), math.constant(taps), 1, [&](const IndexMath &inner, Value tap) {
    Value to =
        inner.view(panelCopy, {inner.mul(tap, channels), zero}, {inner.constant(channels), count});
    copyColumns(inner, tap, column, to);
  });
  return math.pointer(panelCopy, zero);
}

/// to(c, j) = weight(column + j, c, tap).
void PatchConv::copyColumns(const IndexMath &math, Value tap, Value column, Value to) {
  OpBuilder &b = math.builder;
  Value weights = math.asLine(kernel.input(cast<BlockArgument>(conv.getWeight()).getArgNumber()));
  AffineExpr channel = b.getAffineDimExpr(0), lane = b.getAffineDimExpr(1);
  AffineExpr place =
      (b.getAffineDimExpr(2) + lane) * depth + channel * (depth / channels) + b.getAffineDimExpr(3);
  SmallVector<utils::IteratorType> loops(2, utils::IteratorType::parallel);
  linalg::GenericOp::create(
      b, math.location, ValueRange(), ValueRange{to},
      ArrayRef<AffineMap>{b.getMultiDimIdentityMap(2)}, loops,
      [&](OpBuilder &body, Location location, ValueRange) {
        Value c = linalg::IndexOp::create(body, location, 0);
        Value j = linalg::IndexOp::create(body, location, 1);
        Value index = affine::AffineApplyOp::create(body, location, AffineMap::get(4, 0, place),
                                                    ValueRange{c, j, column, tap});
        Value single = memref::LoadOp::create(body, location, weights, index);
        linalg::YieldOp::create(body, location, widen(body, location, single));
      });
}

LogicalResult PatchConv::buildTile(const IndexMath &math, const GridPoint &point) {
  GridPoint next = point;
  next.chunk = math.add(point.chunk, math.constant(1));
  Value begin = first(math, point), count = math.sub(first(math, next), begin);
  Value panels = math.size(kernel, grid.panels);
  Value inGroup = math.mul(point.panel, kPanel), group = math.mul(point.batch, columns);
  Value most = math.constant(kPanel), rest = math.sub(math.constant(columns), inGroup);
  Value panel = packPanel(math, math.add(math.mul(point.batch, panels), point.panel),
                          math.add(group, inGroup), math.min(most, rest));
  Value a = math.pointer(patches, math.constant(0)), k = math.constant(depth);
  AffineExpr width = getAffineConstantExpr(columns, conv.getContext());
  return writer.write(
      math, begin, count, {math.mul(point.batch, columns), point.panel, width},
      [&](const IndexMath &inner, const Sums &sums) {
        callProduct(inner, kernel.function(),
                    {a, k, panel, inner.constant(kPanel), sums.pointer, sums.stride, k, count,
                     Value(), isa<IntegerType>(element) ? ProductType::I32 : ProductType::F32});
      });
}

FailureOr<AffineExpr> PatchConv::lower() {
  IndexMath math(kernel.builder, kernel.location);
  patches = allocate(kernel, {math.constant(tileRows), math.constant(depth)}, element);
  bool isNarrow = element != storageType(getElementTypeOrSelf(conv.getType()));
  if (isNarrow || !packedBuffer(kernel, conv.getWeight())) {
    panelCopy = allocate(kernel, {math.constant(depth), math.constant(kPanel)}, element);
  }
  if (failed(buildGridLoop(
          kernel, grid,
          [&](const IndexMath &inner, const GridPoint &point) { copyPatches(inner, point); },
          [&](const IndexMath &inner, const GridPoint &point) {
            return buildTile(inner, point);
          }))) {
    return failure();
  }
  return grid.points();
}

FamilyMatch matchPatchConv(Region &region) {
  tn::ConvOp conv = firstOp<tn::ConvOp>(region.source);
  if (!conv || !conv.getChannelsLast() || dispatch::isDepthwise(conv) ||
      !isa<BlockArgument>(conv.getX())) {
    return FamilyMatch::refuse("no convolution of an input, or with channels first or depthwise");
  }
  Type stored = getElementTypeOrSelf(conv.getType());
  if (stored != getElementTypeOrSelf(conv.getX().getType())) {
    return FamilyMatch::refuse("of elements narrower than their sums");
  }
  return stored.isF16() || stored.isBF16() || storageType(stored).isInteger(32)
             ? FamilyMatch::take(conv)
             : FamilyMatch::refuse("neither of 16-bit floats nor of 32-bit integers");
}

/// Operations in whose time an element of a patch is widened and copied. Measured of bf16, pixels
/// of 32 channels.
constexpr double kOfCopy = 24;

/// What is multiplied is f32, whatever it was.
double patchSeconds(Region &region, const tn::ConvOp &, const dispatch::KernelChoice &) {
  return secondsWithWork(region, [](Operation &op) {
    tn::ConvOp conv = cast<tn::ConvOp>(op);
    int64_t outputs = cast<RankedTensorType>(conv.getWeight().getType()).getDimSize(0);
    return 1 + kOfCopy * double(conv.getGroups()) / double(outputs);
  });
}

std::optional<dispatch::WeightLayout> patchWeights(Region &, const tn::ConvOp &op) {
  tn::ConvOp conv = op;
  return layoutInPanels(conv, kPanel, conv.getGroups());
}

FailureOr<AffineExpr> lowerPatchConv(KernelBuilder &kernel, Region &region, const tn::ConvOp &conv,
                                     int64_t tileRows) {
  return PatchConv(kernel, region.source, conv, tileRows).lower();
}

} // namespace

constexpr KernelFamily kConvPatches = {
    .name = "conv_patches",
    .what = "convolution as a GEMM of copied patches (im2col by tiles), widened on the way",
    .strategies = {dispatch::kContraction},
    .needs = {"conv"},
    .needsElements = true,
    .match = matchPatchConv,
    .parameter = "tile_rows",
    .candidates = {64, 128, 32, 16},
    .seconds = on<patchSeconds>,
    .weights = on<patchWeights>,
    .emit = emitKernel<lowerPatchConv>};

} // namespace tenon::codegen::cpu
