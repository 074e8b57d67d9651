// Direct convolutions, channels last: a tile is some lines of output pixels, and a kernel line's
// weights meet the pixels under it in one product, because both lie side by side. Padded input is
// copied to scratch a strip at a time.
#include "compiler/codegen/cpu/Contraction.h"

#include "compiler/codegen/common/Weights.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Attributes and sizes with the spatial dims brought to two (a single one becomes the width).
struct Geometry {
  int64_t height = 1, width = 1, channels = 1;
  int64_t outHeight = 1, outWidth = 1, outChannels = 1;
  int64_t kernelHeight = 1, kernelWidth = 1;
  int64_t strideHeight = 1, strideWidth = 1;
  int64_t dilationHeight = 1, dilationWidth = 1;
  int64_t padTop = 0, padLeft = 0, padBottom = 0, padRight = 0;
  int64_t groups = 1;

  bool isPadded() const { return padTop || padLeft || padBottom || padRight; }
  /// Each output pixel depends on one input pixel.
  bool isPointwise() const { return kernelHeight == 1 && kernelWidth == 1 && !isPadded(); }
  bool isStrided() const { return strideHeight != 1 || strideWidth != 1; }
  /// Pixels are better copied side by side (see kBadStride).
  bool copiesPixels() const { return isPointwise() && (isStrided() || channels % kBadStride == 0); }
  int64_t groupChannels() const { return channels / groups; }
  int64_t groupOutChannels() const { return outChannels / groups; }
  int64_t depth() const { return kernelHeight * kernelWidth * groupChannels(); }
  /// The weights of a kernel line belong to pixels that lie side by side.
  bool joinsKernelLine() const { return groups == 1 && dilationWidth == 1; }
};

Geometry geometryOf(tn::ConvOp conv) {
  ArrayRef<int64_t> x = cast<RankedTensorType>(conv.getX().getType()).getShape();
  ArrayRef<int64_t> y = cast<RankedTensorType>(conv.getType()).getShape();
  ArrayRef<int64_t> weight = cast<RankedTensorType>(conv.getWeight().getType()).getShape();
  Geometry g;
  g.groups = conv.getGroups();
  g.channels = x.back();
  g.outChannels = y.back();
  size_t last = x.size() - 3;
  size_t ends = last + 1;
  g.width = x[last + 1];
  g.outWidth = y[last + 1];
  g.kernelWidth = weight[last + 2];
  g.strideWidth = conv.getStrides()[last];
  g.dilationWidth = conv.getDilations()[last];
  g.padLeft = conv.getPads()[last];
  g.padRight = conv.getPads()[ends + last];
  if (last == 1) {
    g.height = x[1];
    g.outHeight = y[1];
    g.kernelHeight = weight[2];
    g.strideHeight = conv.getStrides()[0];
    g.dilationHeight = conv.getDilations()[0];
    g.padTop = conv.getPads()[0];
    g.padBottom = conv.getPads()[ends];
  }
  return g;
}

class ConvLowering {
public:
  ConvLowering(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv, int64_t tileRows);

  AffineExpr chooseGrid();
  LogicalResult lower();

private:
  struct Range {
    Value first, count;
  };
  Range linesOf(const IndexMath &math, const GridPoint &point) const;
  void copyStrip(const IndexMath &math, const GridPoint &point);
  void copyPixels(const IndexMath &math, const GridPoint &point);
  LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  void buildProducts(const IndexMath &math, const Sums &sums, const Range &lines, Value image,
                     Value group, Value panel);

  KernelBuilder &kernel;
  tn::ConvOp conv;
  Epilogue epilogue;
  Geometry g;
  MLIRContext *context;
  ContractionGrid grid;
  AffineExpr images, lines;
  /// Output pixels of a line. Where all pixels of all images are rows of one product, lines have
  /// one pixel.
  int64_t linePixels;
  /// Most lines of a chunk.
  int64_t mostLines;
  std::optional<TileWriter> writer;
  Value input, weights;
  Value strip;                    ///< scratch for padded input, or null
  Value pixels;                   ///< scratch for copied pixels, or null
  int64_t stripWidth, stripLines; ///< in pixels
};

ConvLowering::ConvLowering(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv,
                           int64_t tileRows)
    : kernel(kernel), conv(conv), epilogue(kernel, source, conv, conv.getBias()),
      g(geometryOf(conv)), context(conv.getContext()) {
  images = tn::getDims(conv.getType()).front();
  bool isFlat = g.isPointwise() && !g.isStrided();
  linePixels = isFlat ? 1 : g.outWidth;
  lines = getAffineConstantExpr(g.outHeight, context);
  if (isFlat) {
    lines = images * (g.outHeight * g.outWidth);
    images = getAffineConstantExpr(1, context);
  }
  mostLines = std::max<int64_t>(1, tileRows / linePixels);
}

AffineExpr ConvLowering::chooseGrid() {
  grid.batches = images * g.groups;
  grid.panels = getAffineConstantExpr(llvm::divideCeil(g.groupOutChannels(), kPanel), context);
  int64_t leastLines = llvm::divideCeil(int64_t(14), linePixels);
  grid.chunks = chunkCount(lines, mostLines, leastLines, grid.batches * grid.panels);
  return grid.points();
}

ConvLowering::Range ConvLowering::linesOf(const IndexMath &math, const GridPoint &point) const {
  Value chunks = math.size(kernel, grid.chunks);
  Value all = math.size(kernel, lines);
  Value first = math.div(math.mul(point.chunk, all), chunks);
  Value next = math.div(math.mul(math.add(point.chunk, math.constant(1)), all), chunks);
  return {first, math.sub(next, first)};
}

/// The input lines under the chunk's output lines, with their padding.
void ConvLowering::copyStrip(const IndexMath &math, const GridPoint &point) {
  Range range = linesOf(math, point);
  Value image = math.div(point.batch, math.constant(g.groups));
  Value zero = math.constant(0);
  clear(math, strip);
  // Input lines [top, bottom) of the image belong to strip lines [top - start, ...).
  Value start = math.sub(math.mul(range.first, g.strideHeight), math.constant(g.padTop));
  Value reach = math.add(math.mul(math.sub(range.count, math.constant(1)), g.strideHeight),
                         math.constant((g.kernelHeight - 1) * g.dilationHeight + 1));
  Value top = math.max(start, zero);
  Value bottom = math.min(math.add(start, reach), math.constant(g.height));
  Value count = math.max(math.sub(bottom, top), zero);
  Value to = math.view(strip, {math.sub(top, start), math.constant(g.padLeft), zero},
                       {count, math.constant(g.width), math.constant(g.channels)});
  // The image's lines as one dim after the images.
  Value from = input;
  int64_t rank = cast<MemRefType>(input.getType()).getRank();
  AffineExpr line = math.builder.getAffineDimExpr(0), pixel = math.builder.getAffineDimExpr(1),
             channel = math.builder.getAffineDimExpr(2);
  AffineExpr first = math.builder.getAffineConstantExpr(0);
  Value width = math.constant(g.width), channels = math.constant(g.channels);
  if (rank == 3) {
    from = math.view(input, {image, zero, zero}, {math.constant(1), width, channels});
    copyElements(math, from, to, AffineMap::get(3, 0, {first, pixel, channel}, context));
    return;
  }
  from = math.view(input, {image, top, zero, zero}, {math.constant(1), count, width, channels});
  copyElements(math, from, to, AffineMap::get(3, 0, {first, line, pixel, channel}, context));
}

/// The chunk's input pixels, one after the other.
void ConvLowering::copyPixels(const IndexMath &math, const GridPoint &point) {
  Range range = linesOf(math, point);
  OpBuilder &builder = math.builder;
  Value zero = math.constant(0), channels = math.constant(g.channels);
  if (linePixels == 1 && !g.isStrided()) {
    Value to = math.view(pixels, {zero, zero}, {range.count, channels});
    Value from = math.view(math.asRows(input), {range.first, zero}, {range.count, channels});
    copyElements(math, from, to, builder.getMultiDimIdentityMap(2));
    return;
  }
  // One output line after the other: the pixels of a line stand every stride.
  Value image = math.div(point.batch, math.constant(g.groups));
  Value rows = math.asRows(input);
  scf::ForOp::create(
      builder, math.location, zero, range.count, math.constant(1), ValueRange(),
      [&](OpBuilder &body, Location location, Value index, ValueRange) {
        IndexMath inner(body, location);
        Value source = inner.mul(inner.add(range.first, index), g.strideHeight);
        Value first = inner.mul(inner.add(inner.mul(image, g.height), source), g.width);
        Value count = inner.constant(linePixels);
        AffineExpr pixel = body.getAffineDimExpr(0), channel = body.getAffineDimExpr(1);
        Value reach = inner.constant((linePixels - 1) * g.strideWidth + 1);
        Value from = inner.view(rows, {first, zero}, {reach, channels});
        Value to = inner.view(pixels, {inner.mul(index, linePixels), zero}, {count, channels});
        copyElements(inner, from, to,
                     AffineMap::get(2, 0, {pixel * g.strideWidth, channel}, context));
        scf::YieldOp::create(body, location);
      });
}

void ConvLowering::buildProducts(const IndexMath &math, const Sums &sums, const Range &range,
                                 Value image, Value group, Value panel) {
  OpBuilder &builder = math.builder;
  int64_t steps = g.joinsKernelLine() ? 1 : g.kernelWidth;
  Value depth = math.constant(g.groupChannels() * g.kernelWidth / steps);
  Value zero = math.constant(0), one = math.constant(1);
  Value source = strip ? strip : input;
  Value lineStride = math.constant((strip ? stripWidth : g.width) * g.channels);
  // The first input element of the chunk's first output pixel.
  Value origin = math.mul(group, g.groupChannels());
  if (!strip) {
    Value line = math.add(math.mul(image, g.height), math.mul(range.first, g.strideHeight));
    origin = math.add(origin, math.mul(line, lineStride));
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
  // Lines within weights: a line's weights stay in cache while they meet all output lines.
  loop(builder, math.constant(g.kernelHeight * steps), [&](const IndexMath &outer, Value step) {
    Value kernelLine = outer.div(step, outer.constant(steps));
    Value kernelColumn = outer.rem(step, outer.constant(steps));
    Value weight =
        outer.pointer(weights, outer.add(panel, outer.mul(outer.mul(step, depth), kPanel)));
    Value begin = outer.add(origin, outer.mul(outer.mul(kernelLine, g.dilationHeight), lineStride));
    begin = outer.add(begin, outer.mul(kernelColumn, g.dilationWidth * g.channels));
    Value accumulate =
        arith::CmpIOp::create(outer.builder, outer.location, arith::CmpIPredicate::ne, step, zero);
    loop(outer.builder, range.count, [&](const IndexMath &inner, Value line) {
      Value at = inner.add(begin, inner.mul(inner.mul(line, g.strideHeight), lineStride));
      Value to = inner.mul(inner.mul(line, linePixels), sums.stride);
      Value sum = LLVM::GEPOp::create(inner.builder, inner.location, sums.pointer.getType(),
                                      inner.builder.getF32Type(), sums.pointer,
                                      ArrayRef<LLVM::GEPArg>{inner.word(to)});
      callProduct(inner, kernel.function(),
                  {inner.pointer(source, at), inner.constant(g.strideWidth * g.channels), weight,
                   inner.constant(kPanel), sum, sums.stride, depth, inner.constant(linePixels),
                   accumulate});
    });
  });
}

LogicalResult ConvLowering::buildTile(const IndexMath &math, const GridPoint &point) {
  Range range = linesOf(math, point);
  Value groups = math.constant(g.groups);
  Value image = math.div(point.batch, groups);
  Value group = math.rem(point.batch, groups);
  Value panels = math.size(kernel, grid.panels);
  Value panel = math.mul(math.add(math.mul(group, panels), point.panel), g.depth() * kPanel);
  Value allLines = math.size(kernel, lines);
  Value firstLine = math.add(math.mul(image, allLines), range.first);
  Value firstRow = math.mul(firstLine, linePixels);
  Value rows = math.mul(range.count, linePixels);
  TileWriter::Columns columns{math.mul(group, g.groupOutChannels()), point.panel,
                              getAffineConstantExpr(g.groupOutChannels(), context)};
  return writer->write(
      math, firstRow, rows, columns, [&](const IndexMath &inner, const Sums &sums) {
        if (!g.isPointwise()) {
          buildProducts(inner, sums, range, image, group, panel);
          return;
        }
        Value stride = inner.constant(g.channels + (pixels ? kStridePad : 0));
        Value first = pixels ? inner.constant(0) : inner.mul(firstRow, stride);
        first = inner.add(first, inner.mul(group, g.groupChannels()));
        callProduct(inner, kernel.function(),
                    {inner.pointer(pixels ? pixels : input, first), stride,
                     inner.pointer(weights, panel), inner.constant(kPanel), sums.pointer,
                     sums.stride, inner.constant(g.depth()), rows, Value()});
      });
}

LogicalResult ConvLowering::lower() {
  IndexMath math(kernel.builder, kernel.location);
  input = kernel.input(cast<BlockArgument>(conv.getX()).getArgNumber());
  weights = packedBuffer(kernel, conv.getWeight());
  writer.emplace(kernel, epilogue, mostLines * linePixels);
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
  stripLines = (mostLines - 1) * g.strideHeight + (g.kernelHeight - 1) * g.dilationHeight + 1;
  stripWidth = g.width + g.padLeft + g.padRight;
  strip = allocate(
      kernel, {math.constant(stripLines), math.constant(stripWidth), math.constant(g.channels)});
  auto prepare = [&](const IndexMath &inner, const GridPoint &point) { copyStrip(inner, point); };
  return buildGridLoop(kernel, grid, prepare, tile);
}

} // namespace

bool canLowerConv(tn::ConvOp conv) {
  RankedTensorType x = cast<RankedTensorType>(conv.getX().getType());
  bool hasConstantSizes = llvm::all_of(x.getShape().drop_front(),
                                       [](int64_t dim) { return !ShapedType::isDynamic(dim); });
  return conv.getChannelsLast() && hasConstantSizes && (x.getRank() == 3 || x.getRank() == 4) &&
         (conv.getWeight().getDefiningOp<tn::UnpackOp>() || packableInput(conv.getWeight()));
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
