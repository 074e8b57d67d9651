// Direct convolutions over one to three dims, channels last: a tile is some lines of output pixels
// or a part of one. A kernel line's weights meet the pixels under it in one product where both lie
// side by side, for which padded lines are copied to scratch a strip at a time; else each tap meets
// the pixels under which it lies inside the input. Lines and planes of padding are skipped.
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cpu/conv/ConvLowering.h"
#include "compiler/codegen/cpu/gemm/ArmProduct.h"
#include "compiler/codegen/cpu/gemm/TileProduct.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Words of a kernel line that are not worth a product on tiles of its own.
constexpr int64_t kFewWords = 3 * kTileWords;
/// Bytes of a chunk's patches, which are to stay in the L2 cache.
constexpr int64_t kMaxPatchBytes = 640 << 10;

} // namespace

ConvLowering::ConvLowering(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv,
                           engine::CpuLevel level, int64_t tileRows)
    : ConvTiles(kernel, conv, tileRows, elementsOfWord(*productType(conv))),
      type(*productType(conv)), epilogue(kernel, source, conv, conv.getBias()),
      joinsLine(g.joinsKernelLine() && g.width.kernel > 1) {
  bool isBadStride = g.channels % kBadStride == 0;
  copiesLines = !g.isPointwise() && (joinsLine ? g.width.isPadded() : isBadStride);
  pixelStride = g.channels + (copiesLines && !joinsLine ? kStridePad : 0);
  startsCleared =
      (g.width.isPadded() && !joinsLine) || !g.depth.isCovered() || !g.height.isCovered();
  stripWidth = g.width.reach(linePixels);
  int64_t apart = (mostLines - 1) * g.height.stride + 1;
  stripPitch = std::min(g.height.dilation, apart);
  stripLines = (g.height.kernel - 1) * stripPitch + apart;
  std::optional<int64_t> width =
      copiesLines ? std::optional(stripWidth) : tn::constantDim(g.width.in);
  bool isOnTiles = multipliesOnTiles(level, type);
  isArm = hasArmProduct(level, type) && type != ProductType::F32;
  copiesPatches = (isOnTiles || isArm) && !g.isPointwise() && g.joinsKernelLine() &&
                  lineWords() < kFewWords &&
                  mostLines * linePixels * (patchWords() + kStridePad) * 4 <= kMaxPatchBytes;
  if (copiesPatches) {
    joinsLine = true;
    copiesLines = g.width.isPadded();
    pixelStride = g.channels;
    startsCleared = false;
  }
  bool isJoined = isOnTiles && !copiesPatches && joinsLine && mostLines > 1 && width &&
                  g.width.stride == 1 && g.height.stride == 1;
  sumsPitch = isJoined ? *width : linePixels;
  startsCleared |= joinsOutputLines() && g.height.isPadded();
}

/// Rows of the sums from the first pixel of the first of some lines to the last of the last.
Value ConvLowering::sumsOf(const IndexMath &math, Value lines, Value pixels) const {
  Value before = math.mul(math.sub(lines, math.constant(1)), sumsPitch);
  return math.max(math.add(before, pixels), math.constant(0));
}

void ConvLowering::loop(const IndexMath &math, Value from, Value to,
                        llvm::function_ref<void(const IndexMath &, Value)> body) const {
  if (getConstantIntValue(from) == 0 && getConstantIntValue(to) == 1) {
    body(math, from);
    return;
  }
  forEach(math, from, to, 1, body);
}

/// A product of no depth writes zeros.
void ConvLowering::clearSums(const IndexMath &math, const Sums &sums, Value rows) {
  Value none = math.constant(0);
  callProduct(math, kernel.function(),
              {sums.pointer, none, sums.pointer, none, sums.pointer, sums.stride, none, rows,
               Value(), type});
}

void ConvLowering::buildProducts(const IndexMath &math, const Sums &sums, const Part &part,
                                 Value group, Value panel) {
  Value zero = math.constant(0);
  Value lineStride =
      math.mul(strip ? math.constant(stripWidth) : size(math, g.width.in), pixelStride);
  Value origin = math.mul(group, g.groupChannels());
  if (!strip) {
    origin = math.add(origin, math.mul(inputPixel(math, part, part.firstLine), pixelStride));
  }
  if (startsCleared) {
    clearSums(math, sums, sumsOf(math, part.lines, part.pixels));
  }
  auto [firstPlane, endPlane] = tapsInside(math, g.depth, part.plane);
  Reads reads{part, origin, lineStride, panel, firstPlane};
  Value lines = math.constant(g.height.kernel);
  Value columns = math.constant(joinsLine ? 1 : g.width.kernel);
  // Lines within weights: a line's weights stay in cache while they meet all output lines.
  loop(math, firstPlane, endPlane, [&](const IndexMath &a, Value plane) {
    loop(a, zero, lines, [&](const IndexMath &b, Value line) {
      loop(b, zero, columns, [&](const IndexMath &c, Value column) {
        buildTap(c, sums, reads, {plane, line, column});
      });
    });
  });
}

/// The products of a tap with the pixels of each output line under which it lies inside.
void ConvLowering::buildTap(const IndexMath &math, const Sums &sums, const Reads &reads,
                            const Tap &tap) {
  const Part &part = reads.part;
  int64_t steps = joinsLine ? 1 : g.width.kernel;
  Value depth = math.constant(g.groupChannels() * g.width.kernel / steps);
  Value zero = math.constant(0);
  Value number = math.add(math.mul(tap.plane, g.height.kernel), tap.line);
  number = math.add(math.mul(number, steps), tap.column);
  Value weight = math.offset(reads.panel, math.mul(math.mul(number, depth), kPanel));
  // Lines from one plane and one line of the kernel to the next.
  Value planePitch =
      strip ? math.constant(stripLines) : math.mul(size(math, g.height.in), g.depth.dilation);
  int64_t linePitch = strip ? stripPitch : g.height.dilation;
  Value skipped = math.add(math.mul(tap.plane, planePitch), math.mul(tap.line, linePitch));
  Value begin = math.add(reads.origin, math.mul(skipped, reads.lineStride));
  begin = math.add(begin, math.mul(tap.column, g.width.dilation * pixelStride));
  auto [firstPixel, pixels] =
      joinsLine ? std::pair(zero, part.pixels)
                : positionsInside(math, g.width, tap.column, part.firstPixel, part.pixels);
  begin = math.add(begin, math.mul(firstPixel, g.width.stride * pixelStride));
  auto [firstLine, lines] = positionsInside(math, g.height, tap.line, part.firstLine, part.lines);
  if (joinsOutputLines()) {
    Value at = math.add(begin, math.mul(firstLine, reads.lineStride));
    callProduct(math, kernel.function(),
                {math.pointer(strip ? strip : input, at), math.constant(pixelStride), weight,
                 math.constant(kPanel),
                 math.offset(sums.pointer, math.mul(math.mul(firstLine, sumsPitch), sums.stride)),
                 sums.stride, depth, sumsOf(math, lines, pixels),
                 isAdded(math, reads, tap, firstLine), type});
    return;
  }
  loop(math, firstLine, math.add(firstLine, lines), [&](const IndexMath &inner, Value line) {
    Value at = inner.add(begin, inner.mul(inner.mul(line, g.height.stride), reads.lineStride));
    Value row = inner.add(inner.mul(line, part.pixels), firstPixel);
    callProduct(inner, kernel.function(),
                {inner.pointer(strip ? strip : input, at),
                 inner.constant(g.width.stride * pixelStride), weight, inner.constant(kPanel),
                 inner.offset(sums.pointer, inner.mul(row, sums.stride)), sums.stride, depth,
                 pixels, isAdded(inner, reads, tap, line), type});
  });
}

/// Whether the product of a tap is added to what others wrote.
Value ConvLowering::isAdded(const IndexMath &math, const Reads &reads, const Tap &tap,
                            Value line) const {
  if (startsCleared) {
    return arith::ConstantOp::create(math.builder, math.location, math.builder.getBoolAttr(true));
  }
  Value first = tapsInside(math, g.height, math.add(reads.part.firstLine, line)).first;
  auto differ = [&](Value a, Value b) {
    return math.builder.createOrFold<arith::CmpIOp>(math.location, arith::CmpIPredicate::ne, a, b);
  };
  Value isLater = math.builder.createOrFold<arith::OrIOp>(
      math.location, differ(tap.plane, reads.firstPlane), differ(tap.line, first));
  return math.builder.createOrFold<arith::OrIOp>(math.location, isLater,
                                                 differ(tap.column, math.constant(0)));
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
  std::optional<TileWriter::Lines> lines;
  if (joinsOutputLines()) {
    lines = {part.lines, part.pixels, sumsPitch};
  }
  auto products = [&](const IndexMath &inner, const Sums &sums) {
    if (!g.isPointwise() && !copiesPatches) {
      buildProducts(inner, sums, part, group, panel);
      return;
    }
    Value stride = inner.constant(pixelWords() + (pixels ? kStridePad : 0));
    Value begin = pixels ? inner.constant(0) : inner.mul(first, stride);
    begin = inner.add(begin, inner.mul(group, g.groupChannels()));
    int64_t depth = copiesPatches ? patchWords() : g.groupChannels();
    callProduct(inner, kernel.function(),
                {inner.pointer(pixels ? pixels : input, begin), stride, panel,
                 inner.constant(kPanel), sums.pointer, sums.stride, inner.constant(depth), rows,
                 Value(), type, usedColumns(inner, number)});
  };
  return writer->write(math, first, rows, columns, products, lines);
}

/// Columns of a panel that hold channels; null where all are computed.
Value ConvLowering::usedColumns(const IndexMath &math, Value panel) const {
  if (!isArm || type != ProductType::U8S8 || g.groupOutChannels() % kPanel == 0) {
    return Value();
  }
  return g.groupOutChannels() < kPanel
             ? math.constant(g.groupOutChannels())
             : math.sub(math.constant(g.groupOutChannels()), math.mul(panel, kPanel));
}

Type ConvLowering::wordType() const {
  OpBuilder &builder = kernel.builder;
  return type == ProductType::F32 ? Type(builder.getF32Type()) : builder.getI32Type();
}

Value ConvLowering::inputWords(const IndexMath &math) {
  Value buffer = kernel.input(cast<BlockArgument>(conv.getX()).getArgNumber());
  tn::Dims dims = tn::getDims(conv.getX().getType());
  dims.back() = math.builder.getAffineConstantExpr(g.channels);
  if (copiesPatches || (copiesLines && joinsLine)) {
    dims.pop_back();
    dims.back() = dims.back() * g.channels;
  }
  SmallVector<OpFoldResult> sizes;
  for (AffineExpr dim : dims) {
    sizes.push_back(getAsOpFoldResult(size(math, dim)));
  }
  return memrefAt(math.builder, math.location, math.pointer(buffer, math.constant(0)), wordType(),
                  sizes);
}

LogicalResult ConvLowering::lower() {
  IndexMath math(kernel.builder, kernel.location);
  input = inputWords(math);
  weights = packedBuffer(kernel, conv.getWeight());
  Type sums = sumsFloats(type) ? Type(math.builder.getF32Type()) : math.builder.getI32Type();
  writer.emplace(kernel, epilogue, mostLines * sumsPitch, sums);
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
  if (g.copiesPixels() || copiesPatches) {
    pixels = allocate(
        kernel, {math.constant(mostLines * linePixels), math.constant(pixelWords() + kStridePad)},
        wordType());
  }
  if (g.copiesPixels()) {
    auto copy = [&](const IndexMath &inner, const GridPoint &point) { copyPixels(inner, point); };
    return buildGridLoop(kernel, grid, copy, tile);
  }
  auto patches = [&](const IndexMath &inner, const GridPoint &point) { copyPatches(inner, point); };
  if (copiesPatches && !copiesLines) {
    return buildGridLoop(kernel, grid, patches, tile);
  }
  if (!copiesLines) {
    return buildGridLoop(kernel, grid, none, tile);
  }
  SmallVector<Value> sizes = {math.constant(g.depth.kernel * stripLines)};
  if (joinsLine) {
    sizes.push_back(math.constant(stripWidth * pixelStride));
  } else {
    sizes.append({math.constant(stripWidth), math.constant(pixelStride)});
  }
  strip = allocate(kernel, sizes, wordType());
  auto prepare = [&](const IndexMath &inner, const GridPoint &point) {
    copyStrip(inner, point);
    if (copiesPatches) {
      copyPatches(inner, point);
    }
  };
  return buildGridLoop(kernel, grid, prepare, tile);
}

bool hasWeight(tn::ConvOp conv, int64_t panel, int64_t groups, int64_t elements) {
  Value weight = conv.getWeight();
  tn::UnpackOp unpack = weight.getDefiningOp<tn::UnpackOp>();
  if (unpack) {
    return unpack.packing() == panelsOfOutputs(unpack.getType(), panel, groups, elements);
  }
  return elements == 1 ? isa<BlockArgument>(weight) : packableInput(weight).has_value();
}

bool hasConstantSizes(tn::ConvOp conv) {
  RankedTensorType weight = cast<RankedTensorType>(conv.getWeight().getType());
  return productType(conv) && conv.getChannelsLast() && weight.hasStaticShape() &&
         weight.getNumElements() > 0 && tn::constantDim(tn::getDims(conv.getX().getType()).back());
}

bool canLowerConv(tn::ConvOp conv) {
  return hasConstantSizes(conv) &&
         cast<RankedTensorType>(conv.getWeight().getType()).getDimSize(1) %
                 elementsOfWord(*productType(conv)) ==
             0;
}

FailureOr<AffineExpr> lowerConv(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv,
                                engine::CpuLevel level, int64_t tileRows) {
  ConvLowering lowering(kernel, source, conv, level, tileRows);
  AffineExpr points = lowering.chooseGrid(lowering.panels());
  if (failed(lowering.lower())) {
    return failure();
  }
  return points;
}

} // namespace tenon::codegen::cpu
