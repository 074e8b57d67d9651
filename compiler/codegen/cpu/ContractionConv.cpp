// Direct convolutions over one to three dims, channels last: a tile is some lines of output pixels
// or a part of one, and a kernel line's weights meet the pixels under it in one product, because
// both lie side by side. Padded input is copied to scratch a strip at a time.
#include "compiler/codegen/cpu/ConvLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {

Geometry geometryOf(tn::ConvOp conv) {
  tn::Dims x = tn::getDims(conv.getX().getType()), y = tn::getDims(conv.getType());
  ArrayRef<int64_t> weight = cast<RankedTensorType>(conv.getWeight().getType()).getShape();
  AffineExpr one = getAffineConstantExpr(1, conv.getContext());
  Geometry g{.images = y.front(),
             .depth = {one, one},
             .height = {one, one},
             .width = {one, one},
             .channels = *tn::constantDim(x.back()),
             .outChannels = weight.front(),
             .groups = static_cast<int64_t>(conv.getGroups())};
  size_t spatial = x.size() - 2;
  ConvDim *dims[] = {&g.depth, &g.height, &g.width};
  for (size_t i = 0; i < spatial; ++i) {
    *dims[3 - spatial + i] = {x[1 + i],
                              y[1 + i],
                              weight[2 + i],
                              conv.getStrides()[i],
                              conv.getDilations()[i],
                              conv.getPads()[i],
                              conv.getPads()[spatial + i]};
  }
  return g;
}

ConvLowering::ConvLowering(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv,
                           int64_t tileRows)
    : kernel(kernel), conv(conv), epilogue(kernel, source, conv, conv.getBias()),
      g(geometryOf(conv)), context(conv.getContext()),
      isFlat(g.isPointwise() && !g.isStrided()) {
  AffineExpr one = getAffineConstantExpr(1, context);
  std::optional<int64_t> width = tn::constantDim(g.width.out);
  planes = g.images * g.depth.out;
  lines = g.height.out;
  segments = one;
  if (isFlat) {
    lines = planes * g.height.out * g.width.out;
    planes = one;
    linePixels = 1;
  } else if (width && *width > 0) {
    int64_t parts = llvm::divideCeil(*width, tileRows);
    linePixels = llvm::divideCeil(*width, parts);
    segments = getAffineConstantExpr(parts, context);
  } else {
    linePixels = tileRows;
    segments = g.width.out.ceilDiv(linePixels);
  }
  mostLines = segments == one ? std::max<int64_t>(1, tileRows / linePixels) : 1;
  stripWidth = g.width.reach(linePixels);
  int64_t apart = (mostLines - 1) * g.height.stride + 1;
  stripPitch = std::min(g.height.dilation, apart);
  stripLines = (g.height.kernel - 1) * stripPitch + apart;
}

AffineExpr ConvLowering::chooseGrid() {
  grid.batches = planes;
  grid.panels = getAffineConstantExpr(g.groups * g.panelsPerGroup(), context);
  int64_t leastLines = llvm::divideCeil(int64_t(14), linePixels);
  grid.chunks = tn::constantDim(segments) == 1
                    ? chunkCount(lines, mostLines, leastLines, grid.batches * grid.panels)
                    : lines * segments;
  return grid.points();
}

ConvLowering::Part ConvLowering::partOf(const IndexMath &math, const GridPoint &point) const {
  Part part;
  Value depth = size(math, g.depth.out);
  part.image = isFlat ? math.constant(0) : math.div(point.batch, depth);
  part.plane = isFlat ? math.constant(0) : math.rem(point.batch, depth);
  part.firstPixel = math.constant(0);
  if (tn::constantDim(segments) == 1) {
    Value chunks = size(math, grid.chunks), all = size(math, lines);
    part.firstLine = math.div(math.mul(point.chunk, all), chunks);
    Value next = math.div(math.mul(math.add(point.chunk, math.constant(1)), all), chunks);
    part.lines = math.sub(next, part.firstLine);
    part.pixels = math.constant(linePixels);
    return part;
  }
  Value parts = size(math, segments), width = size(math, g.width.out);
  part.firstLine = math.div(point.chunk, parts);
  part.lines = math.constant(1);
  part.firstPixel = math.mul(math.rem(point.chunk, parts), linePixels);
  part.pixels = math.min(math.constant(linePixels), math.sub(width, part.firstPixel));
  return part;
}

Value ConvLowering::firstRow(const IndexMath &math, const GridPoint &point,
                             const Part &part) const {
  Value line = math.add(math.mul(point.batch, size(math, lines)), part.firstLine);
  return isFlat ? line : math.add(math.mul(line, size(math, g.width.out)), part.firstPixel);
}

Value ConvLowering::inputPixel(const IndexMath &math, const Part &part, Value line) const {
  Value plane = math.add(math.mul(part.image, size(math, g.depth.in)),
                         math.mul(part.plane, g.depth.stride));
  Value at = math.add(math.mul(plane, size(math, g.height.in)), math.mul(line, g.height.stride));
  return math.add(math.mul(at, size(math, g.width.in)),
                  math.mul(part.firstPixel, g.width.stride));
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

bool canLowerConv(tn::ConvOp conv) {
  RankedTensorType weight = cast<RankedTensorType>(conv.getWeight().getType());
  bool hasBuffer =
      conv.getWeight().getDefiningOp<tn::UnpackOp>() || isa<BlockArgument>(conv.getWeight());
  return conv.getChannelsLast() && hasBuffer && weight.hasStaticShape() &&
         weight.getNumElements() > 0 && weight.getElementType().isF32() &&
         tn::constantDim(tn::getDims(conv.getX().getType()).back());
}

FailureOr<AffineExpr> lowerConv(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv,
                                int64_t tileRows) {
  ConvLowering lowering(kernel, source, conv, tileRows);
  AffineExpr points = lowering.chooseGrid();
  if (failed(lowering.lower())) {
    return failure();
  }
  return points;
}

} // namespace tenon::codegen::cpu
