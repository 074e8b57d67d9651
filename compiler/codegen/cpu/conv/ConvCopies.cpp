// What a convolution copies to scratch: padded input a strip at a time, pixels that do not lie side
// by side, patches for tiles, and weights that are computed.
#include "compiler/codegen/cpu/conv/ConvLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// What lies inside the image of some positions from `start` on.
struct Inside {
  Value first, count;
};

Inside insideOf(const IndexMath &math, Value start, Value reach, Value size) {
  Value zero = math.constant(0), first = math.max(start, zero);
  Value end = math.min(math.add(start, reach), size);
  return {first, math.max(math.sub(end, first), zero)};
}

} // namespace

/// The input under the chunk's output lines, with the padding of lines that are multiplied whole.
void ConvLowering::copyStrip(const IndexMath &math, const GridPoint &point) {
  Part part = partOf(math, point);
  int64_t blocks = stripPitch == g.height.dilation ? 1 : g.height.kernel;
  for (int64_t plane = 0; plane < g.depth.kernel; ++plane) {
    for (int64_t block = 0; block < blocks; ++block) {
      copyBlock(math, part, plane, block);
    }
  }
}

/// The input lines under a plane of the kernel: under all its lines together, or under one.
void ConvLowering::copyBlock(const IndexMath &math, const Part &part, int64_t kernelPlane,
                             int64_t block) {
  Value zero = math.constant(0), one = math.constant(1), channels = math.constant(g.channels);
  int64_t own = stripPitch == g.height.dilation ? g.height.reach(1) : 1;
  auto startOf = [&](Value first, const ConvDim &dim, int64_t offset) {
    return math.add(math.mul(first, dim.stride), math.constant(offset - dim.padBegin));
  };
  auto reachOf = [&](Value count, const ConvDim &dim, int64_t last) {
    return math.add(math.mul(math.sub(count, one), dim.stride), math.constant(last));
  };
  Value plane = startOf(part.plane, g.depth, kernelPlane * g.depth.dilation);
  Inside planes = insideOf(math, plane, one, size(math, g.depth.in));
  Value line = startOf(part.firstLine, g.height, block * g.height.dilation);
  Inside lines = insideOf(math, line, reachOf(part.lines, g.height, own), size(math, g.height.in));
  Value pixel = startOf(part.firstPixel, g.width, 0);
  Value reach = reachOf(part.pixels, g.width, g.width.reach(1));
  Inside columns = insideOf(math, pixel, reach, size(math, g.width.in));
  Value count = math.mul(lines.count, planes.count);
  Value at = math.add(math.sub(lines.first, line),
                      math.constant(kernelPlane * stripLines + block * stripPitch));
  Value left = math.min(math.sub(columns.first, pixel), reach);
  if (getConstantIntValue(count) == 0) {
    return; // all padding, which no product reads; a view of it would begin behind the input's end
  }
  if (joinsLine) {
    // Lines of words, as few channels alone would be copied one by one.
    Value end = math.add(left, columns.count);
    clearColumns(math, at, zero, count, left);
    clearColumns(math, at, end, count, math.sub(reach, end));
    left = math.mul(left, channels);
    columns = {math.mul(columns.first, channels), math.mul(columns.count, channels)};
  }
  if (getConstantIntValue(columns.count) == 0) {
    return;
  }
  SmallVector<Value> toOffsets = {at, left}, toSizes = {count, columns.count};
  if (!joinsLine) {
    toOffsets.push_back(zero);
    toSizes.push_back(channels);
  }
  Value to = math.view(strip, toOffsets, toSizes);
  // The input's spatial dims are the last of these.
  Value offsets[] = {planes.first, lines.first, columns.first};
  Value sizes[] = {one, count, columns.count};
  AffineExpr first = math.builder.getAffineConstantExpr(0);
  AffineExpr positions[] = {first, math.builder.getAffineDimExpr(0),
                            math.builder.getAffineDimExpr(1)};
  size_t spatial = cast<MemRefType>(input.getType()).getRank() - (joinsLine ? 1 : 2);
  SmallVector<Value> fromOffsets = {part.image}, fromSizes = {one};
  SmallVector<AffineExpr> map = {first};
  llvm::append_range(fromOffsets, ArrayRef(offsets).take_back(spatial));
  llvm::append_range(fromSizes, ArrayRef(sizes).take_back(spatial));
  llvm::append_range(map, ArrayRef(positions).take_back(spatial));
  if (!joinsLine) {
    fromOffsets.push_back(zero);
    fromSizes.push_back(channels);
    map.push_back(math.builder.getAffineDimExpr(2));
  }
  copyElements(math, math.view(input, fromOffsets, fromSizes), to,
               AffineMap::get(toSizes.size(), 0, map, context));
}

/// Zeros into columns of some lines of the strip, which are lines of words.
void ConvLowering::clearColumns(const IndexMath &math, Value line, Value column, Value lines,
                                Value columns) {
  if (getConstantIntValue(columns) != 0) {
    clear(math, math.view(strip, {line, math.mul(column, g.channels)},
                          {lines, math.mul(columns, g.channels)}));
  }
}

/// The chunk's input pixels, one after the other.
void ConvLowering::copyPixels(const IndexMath &math, const GridPoint &point) {
  Part part = partOf(math, point);
  OpBuilder &builder = math.builder;
  Value zero = math.constant(0), channels = math.constant(g.channels);
  Value rows = math.asRows(input);
  if (isFlat) {
    Value to = math.view(pixels, {zero, zero}, {part.lines, channels});
    Value from = math.view(rows, {part.firstLine, zero}, {part.lines, channels});
    copyElements(math, from, to, builder.getMultiDimIdentityMap(2));
    return;
  }
  // One output line after the other: the pixels of a line stand every stride.
  scf::ForOp::create(
      builder, math.location, zero, part.lines, math.constant(1), ValueRange(),
      [&](OpBuilder &body, Location location, Value index, ValueRange) {
        IndexMath inner(body, location);
        Value first = inputPixel(inner, part, inner.add(part.firstLine, index));
        AffineExpr pixel = body.getAffineDimExpr(0), channel = body.getAffineDimExpr(1);
        Value steps = inner.mul(inner.sub(part.pixels, inner.constant(1)), g.width.stride);
        Value reach = inner.add(steps, inner.constant(1));
        Value from = inner.view(rows, {first, zero}, {reach, channels});
        Value to =
            inner.view(pixels, {inner.mul(index, part.pixels), zero}, {part.pixels, channels});
        copyElements(inner, from, to,
                     AffineMap::get(2, 0, {pixel * g.width.stride, channel}, context));
        scf::YieldOp::create(body, location);
      });
}

/// Of each of the chunk's pixels the words under the kernel, kernel line by kernel line.
void ConvLowering::copyPatches(const IndexMath &math, const GridPoint &point) {
  Part part = partOf(math, point);
  loop(math, math.constant(0), math.constant(g.depth.kernel), [&](const IndexMath &a, Value plane) {
    loop(a, a.constant(0), a.constant(g.height.kernel), [&](const IndexMath &b, Value line) {
      loop(b, b.constant(0), part.lines, [&](const IndexMath &c, Value output) {
        copyPatchLine(c, part, {plane, line, c.constant(0)}, output);
      });
    });
  });
}

/// The words under a kernel line of the pixels of an output line; zeros outside the input.
void ConvLowering::copyPatchLine(const IndexMath &math, const Part &part, const Tap &tap,
                                 Value line) {
  auto inputOf = [&](const ConvDim &dim, Value position, Value kernelPosition) {
    Value at = math.sub(math.mul(position, dim.stride), math.constant(dim.padBegin));
    return math.add(at, math.mul(kernelPosition, dim.dilation));
  };
  Value plane = inputOf(g.depth, part.plane, tap.plane);
  Value row = inputOf(g.height, math.add(part.firstLine, line), tap.line);
  Value words = math.constant(lineWords());
  Value number = math.add(math.mul(tap.plane, g.height.kernel), tap.line);
  Value to = math.view(pixels, {math.mul(line, part.pixels), math.mul(number, lineWords())},
                       {part.pixels, words});
  auto copy = [&](const IndexMath &in) {
    int64_t pitch = g.width.stride * g.channels;
    Value at;
    if (strip) {
      at = in.add(in.mul(tap.plane, stripLines), in.mul(tap.line, stripPitch));
      at = in.mul(in.add(at, in.mul(line, g.height.stride)), stripWidth * pixelStride);
    } else {
      at = in.add(in.mul(part.image, size(in, g.depth.in)), plane);
      at = in.add(in.mul(at, size(in, g.height.in)), row);
      at = in.mul(in.mul(at, size(in, g.width.in)), g.channels);
      at = in.add(at, in.mul(part.firstPixel, pitch));
    }
    // Pixels overlap.
    OpBuilder &builder = in.builder;
    OpFoldResult sizes[] = {getAsOpFoldResult(part.pixels), getAsOpFoldResult(words)};
    OpFoldResult strides[] = {builder.getIndexAttr(pitch), builder.getIndexAttr(1)};
    Value first = memrefAt(builder, in.location, in.pointer(strip ? strip : input, at), wordType(),
                           ArrayRef(sizes).take_back());
    Value from = memref::ReinterpretCastOp::create(builder, in.location, first,
                                                   OpFoldResult(builder.getIndexAttr(0)),
                                                   ArrayRef(sizes), ArrayRef(strides));
    copyElements(in, from, to, builder.getMultiDimIdentityMap(2));
  };
  if (!g.depth.isPadded() && !g.height.isPadded()) {
    copy(math);
    return;
  }
  auto isInside = [&](const ConvDim &dim, Value position) {
    Value begins = math.isLess(math.constant(-1), position);
    return math.builder.createOrFold<arith::AndIOp>(math.location, begins,
                                                    math.isLess(position, size(math, dim.in)));
  };
  Value inside = math.builder.createOrFold<arith::AndIOp>(math.location, isInside(g.depth, plane),
                                                          isInside(g.height, row));
  auto branch = [&](bool copies) {
    return [&, copies](OpBuilder &body, Location location) {
      IndexMath in(body, location);
      copies ? copy(in) : clear(in, to);
      scf::YieldOp::create(body, location);
    };
  };
  scf::IfOp::create(math.builder, math.location, inside, branch(true), branch(false));
}

/// One panel of weights that are not constant into scratch, its missing columns zero.
Value ConvLowering::packPanel(const IndexMath &math, Value group, Value panel) {
  Value zero = math.constant(0);
  RankedTensorType type = cast<RankedTensorType>(conv.getWeight().getType());
  Value from = kernel.input(cast<BlockArgument>(conv.getWeight()).getArgNumber());
  Value first = math.mul(panel, kPanel), all = math.constant(g.groupOutChannels());
  Value count = math.min(math.constant(kPanel), math.sub(all, first));
  if (g.groupOutChannels() % kPanel == 0) {
    count = math.constant(kPanel);
  } else {
    clear(math, panelCopy);
  }
  // [O, C, taps...] to [taps..., C, O].
  int64_t rank = type.getRank();
  SmallVector<Value> fromOffsets(rank, zero), toOffsets(rank, zero), fromSizes = {count}, toSizes;
  fromOffsets[0] = math.add(math.mul(group, all), first);
  SmallVector<AffineExpr> map = {math.builder.getAffineDimExpr(rank - 1),
                                 math.builder.getAffineDimExpr(rank - 2)};
  for (int64_t i = 2; i < rank; ++i) {
    toSizes.push_back(math.constant(type.getDimSize(i)));
    map.push_back(math.builder.getAffineDimExpr(i - 2));
  }
  Value channels = math.constant(g.groupChannels());
  fromSizes.push_back(channels);
  llvm::append_range(fromSizes, toSizes);
  toSizes.append({channels, count});
  copyElements(math, math.view(from, fromOffsets, fromSizes),
               math.view(panelCopy, toOffsets, toSizes), AffineMap::get(rank, 0, map, context));
  return math.pointer(panelCopy, zero);
}

} // namespace tenon::codegen::cpu
