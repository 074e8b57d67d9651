// Direct convolutions over one to three dims, channels last: a tile is some lines of output pixels
// or a part of one, and a kernel line's weights meet the pixels under it in one product, because
// both lie side by side. Padded input is copied to scratch a strip at a time.
#include "compiler/codegen/cpu/ConvLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {

ConvLowering::ConvLowering(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv,
                           int64_t tileRows)
    : ConvTiles(kernel, conv, tileRows), epilogue(kernel, source, conv, conv.getBias()) {
  stripWidth = g.width.reach(linePixels);
  int64_t apart = (mostLines - 1) * g.height.stride + 1;
  stripPitch = std::min(g.height.dilation, apart);
  stripLines = (g.height.kernel - 1) * stripPitch + apart;
}

void ConvLowering::buildProducts(const IndexMath &math, const Sums &sums, const Part &part,
                                 Value group, Value panel) {
  OpBuilder &builder = math.builder;
  int64_t steps = g.joinsKernelLine() ? 1 : g.width.kernel;
  Value depth = math.constant(g.groupChannels() * g.width.kernel / steps);
  Value zero = math.constant(0), one = math.constant(1);
  Value source = strip ? strip : input;
  Value lineStride = strip ? math.constant(stripWidth * g.channels)
                           : math.mul(size(math, g.width.in), g.channels);
  // Lines from one plane and one line of the kernel to the next.
  Value planePitch = strip ? math.constant(stripLines)
                           : math.mul(size(math, g.height.in), g.depth.dilation);
  Value linePitch = math.constant(strip ? stripPitch : g.height.dilation);
  // The first input element of the chunk's first output pixel.
  Value origin = math.mul(group, g.groupChannels());
  if (!strip) {
    origin = math.add(origin, math.mul(inputPixel(math, part, part.firstLine), g.channels));
  }
  auto loop = [&](OpBuilder &b, Value count,
                  llvm::function_ref<void(const IndexMath &, Value)> body) {
    if (getConstantIntValue(count) == 1) {
      body(IndexMath(b, math.location), zero);
      return;
    }
    scf::ForOp::create(b, math.location, zero, count, one, ValueRange(),
                       [&](OpBuilder &inner, Location location, Value index, ValueRange) {
                         body(IndexMath(inner, location), index);
                         scf::YieldOp::create(inner, location);
                       });
  };
  Value count = math.constant(g.depth.kernel * g.height.kernel * steps);
  // Lines within weights: a line's weights stay in cache while they meet all output lines.
  loop(builder, count, [&](const IndexMath &outer, Value step) {
    Value kernelLine = outer.div(step, outer.constant(steps));
    Value kernelColumn = outer.rem(step, outer.constant(steps));
    Value kernelPlane = outer.div(kernelLine, outer.constant(g.height.kernel));
    kernelLine = outer.rem(kernelLine, outer.constant(g.height.kernel));
    Value weight = LLVM::GEPOp::create(
        outer.builder, outer.location, panel.getType(), builder.getF32Type(), panel,
        ArrayRef<LLVM::GEPArg>{outer.word(outer.mul(outer.mul(step, depth), kPanel))});
    Value skipped =
        outer.add(outer.mul(kernelPlane, planePitch), outer.mul(kernelLine, linePitch));
    Value begin = outer.add(origin, outer.mul(skipped, lineStride));
    begin = outer.add(begin, outer.mul(kernelColumn, g.width.dilation * g.channels));
    Value accumulate =
        arith::CmpIOp::create(outer.builder, outer.location, arith::CmpIPredicate::ne, step, zero);
    loop(outer.builder, part.lines, [&](const IndexMath &inner, Value line) {
      Value at = inner.add(begin, inner.mul(inner.mul(line, g.height.stride), lineStride));
      Value to = inner.mul(inner.mul(line, part.pixels), sums.stride);
      Value sum = LLVM::GEPOp::create(inner.builder, inner.location, sums.pointer.getType(),
                                      inner.builder.getF32Type(), sums.pointer,
                                      ArrayRef<LLVM::GEPArg>{inner.word(to)});
      callProduct(inner, kernel.function(),
                  {inner.pointer(source, at), inner.constant(g.width.stride * g.channels), weight,
                   inner.constant(kPanel), sum, sums.stride, depth, part.pixels, accumulate});
    });
  });
}

LogicalResult ConvLowering::buildTile(const IndexMath &math, const GridPoint &point) {
  Part part = partOf(math, point);
  Value perGroup = math.constant(g.panelsPerGroup());
  Value group = math.div(point.panel, perGroup), number = math.rem(point.panel, perGroup);
  int64_t panelElements = g.taps() * g.groupChannels() * kPanel;
  Value panel = weights ? math.pointer(weights, math.mul(point.panel, panelElements))
                        : packPanel(math, group, number);
  Value first = firstRow(math, point, part);
  Value rows = math.mul(part.lines, part.pixels);
  TileWriter::Columns columns{math.mul(group, g.groupOutChannels()), number,
                              getAffineConstantExpr(g.groupOutChannels(), context)};
  return writer->write(
      math, first, rows, columns, [&](const IndexMath &inner, const Sums &sums) {
        if (!g.isPointwise()) {
          buildProducts(inner, sums, part, group, panel);
          return;
        }
        Value stride = inner.constant(g.channels + (pixels ? kStridePad : 0));
        Value begin = pixels ? inner.constant(0) : inner.mul(first, stride);
        begin = inner.add(begin, inner.mul(group, g.groupChannels()));
        callProduct(inner, kernel.function(),
                    {inner.pointer(pixels ? pixels : input, begin), stride, panel,
                     inner.constant(kPanel), sums.pointer, sums.stride,
                     inner.constant(g.groupChannels()), rows, Value()});
      });
}

LogicalResult ConvLowering::lower() {
  IndexMath math(kernel.builder, kernel.location);
  input = kernel.input(cast<BlockArgument>(conv.getX()).getArgNumber());
  weights = packedBuffer(kernel, conv.getWeight());
  writer.emplace(kernel, epilogue, mostLines * linePixels);
  if (!weights) {
    SmallVector<Value> sizes;
    RankedTensorType type = cast<RankedTensorType>(conv.getWeight().getType());
    for (int64_t taps : type.getShape().drop_front(2)) {
      sizes.push_back(math.constant(taps));
    }
    sizes.append({math.constant(g.groupChannels()), math.constant(kPanel)});
    panelCopy = allocate(kernel, sizes);
  }
  auto tile = [&](const IndexMath &inner, const GridPoint &point) {
    return buildTile(inner, point);
  };
  llvm::function_ref<void(const IndexMath &, const GridPoint &)> none;
  if (g.copiesPixels()) {
    pixels = allocate(
        kernel, {math.constant(mostLines * linePixels), math.constant(g.channels + kStridePad)});
    auto copy = [&](const IndexMath &inner, const GridPoint &point) { copyPixels(inner, point); };
    return buildGridLoop(kernel, grid, copy, tile);
  }
  if (!g.isPadded()) {
    return buildGridLoop(kernel, grid, none, tile);
  }
  strip = allocate(kernel, {math.constant(g.depth.kernel * stripLines),
                            math.constant(stripWidth), math.constant(g.channels)});
  auto prepare = [&](const IndexMath &inner, const GridPoint &point) { copyStrip(inner, point); };
  return buildGridLoop(kernel, grid, prepare, tile);
}

bool hasWeight(tn::ConvOp conv, int64_t panel, int64_t groups) {
  tn::UnpackOp unpack = conv.getWeight().getDefiningOp<tn::UnpackOp>();
  return unpack ? static_cast<int64_t>(unpack.getPanel()) == panel &&
                      static_cast<int64_t>(unpack.getGroups()) == groups
                : isa<BlockArgument>(conv.getWeight());
}

bool canLowerConv(tn::ConvOp conv) {
  RankedTensorType weight = cast<RankedTensorType>(conv.getWeight().getType());
  return conv.getChannelsLast() && weight.hasStaticShape() &&
         weight.getNumElements() > 0 && weight.getElementType().isF32() &&
         tn::constantDim(tn::getDims(conv.getX().getType()).back());
}

FailureOr<AffineExpr> lowerConv(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv,
                                int64_t tileRows) {
  ConvLowering lowering(kernel, source, conv, tileRows);
  AffineExpr points = lowering.chooseGrid(lowering.panels());
  if (failed(lowering.lower())) {
    return failure();
  }
  return points;
}

} // namespace tenon::codegen::cpu
