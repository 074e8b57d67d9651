// How a convolution's output is cut into chunks of pixels.
#include "compiler/codegen/cpu/gemm/ConvTiles.h"

using namespace mlir;

namespace tenon::codegen::cpu {

bool ConvDim::isCovered() const {
  std::optional<int64_t> inputs = tn::constantDim(in), outputs = tn::constantDim(out);
  if (!isPadded() || !inputs || !outputs) {
    return !isPadded();
  }
  return llvm::all_of(llvm::seq<int64_t>(0, *outputs), [&](int64_t position) {
    return llvm::any_of(llvm::seq<int64_t>(0, kernel), [&](int64_t tap) {
      int64_t at = position * stride - padBegin + tap * dilation;
      return at >= 0 && at < *inputs;
    });
  });
}

Geometry geometryOf(tn::ConvOp conv, int64_t elements) {
  tn::Dims x = tn::getDims(conv.getX().getType()), y = tn::getDims(conv.getType());
  ArrayRef<int64_t> weight = cast<RankedTensorType>(conv.getWeight().getType()).getShape();
  AffineExpr one = getAffineConstantExpr(1, conv.getContext());
  Geometry g{.images = y.front(),
             .depth = {one, one},
             .height = {one, one},
             .width = {one, one},
             .channels = *tn::constantDim(x.back()) / elements,
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

ConvTiles::ConvTiles(KernelBuilder &kernel, tn::ConvOp conv, int64_t tileRows, int64_t elements)
    : kernel(kernel), conv(conv), g(geometryOf(conv, elements)), context(conv.getContext()),
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
}

AffineExpr ConvTiles::chooseGrid(int64_t panels) {
  grid.batches = planes;
  grid.panels = getAffineConstantExpr(panels, context);
  int64_t leastLines = llvm::divideCeil(int64_t(14), linePixels);
  grid.chunks = tn::constantDim(segments) == 1
                    ? chunkCount(lines, mostLines, leastLines, grid.batches * grid.panels)
                    : lines * segments;
  return grid.points();
}

ConvTiles::Part ConvTiles::partOf(const IndexMath &math, const GridPoint &point) const {
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

Value ConvTiles::firstRow(const IndexMath &math, const GridPoint &point, const Part &part) const {
  Value line = math.add(math.mul(point.batch, size(math, lines)), part.firstLine);
  return isFlat ? line : math.add(math.mul(line, size(math, g.width.out)), part.firstPixel);
}

Value ConvTiles::inputPixel(const IndexMath &math, const Part &part, Value line) const {
  auto startOf = [&](const ConvDim &dim, Value position) {
    return math.sub(math.mul(position, dim.stride), math.constant(dim.padBegin));
  };
  Value plane =
      math.add(math.mul(part.image, size(math, g.depth.in)), startOf(g.depth, part.plane));
  Value at = math.add(math.mul(plane, size(math, g.height.in)), startOf(g.height, line));
  return math.add(math.mul(at, size(math, g.width.in)), startOf(g.width, part.firstPixel));
}

std::pair<Value, Value> tapsInside(const IndexMath &math, const KernelBuilder &kernel,
                                   const ConvDim &dim, Value position) {
  Value zero = math.constant(0), all = math.constant(dim.kernel);
  if (!dim.isPadded()) {
    return {zero, all};
  }
  Value start = math.sub(math.mul(position, dim.stride), math.constant(dim.padBegin));
  auto firstFrom = [&](Value distance) {
    Value rounded = math.add(math.max(distance, zero), math.constant(dim.dilation - 1));
    return math.div(rounded, math.constant(dim.dilation));
  };
  Value end = firstFrom(math.sub(math.size(kernel, dim.in), start));
  return {firstFrom(math.sub(zero, start)), math.min(all, end)};
}

std::pair<Value, Value> ConvTiles::positionsInside(const IndexMath &math, const ConvDim &dim,
                                                   Value tap, Value first, Value count) const {
  Value zero = math.constant(0);
  if (!dim.isPadded()) {
    return {zero, count};
  }
  Value skipped = math.sub(math.constant(dim.padBegin), math.mul(tap, dim.dilation));
  auto firstFrom = [&](Value distance) {
    Value rounded = math.add(math.max(distance, zero), math.constant(dim.stride - 1));
    return math.div(rounded, math.constant(dim.stride));
  };
  Value from = math.max(math.sub(firstFrom(skipped), first), zero);
  Value end = math.sub(firstFrom(math.add(size(math, dim.in), skipped)), first);
  return {from, math.max(math.sub(math.min(end, count), from), zero)};
}

} // namespace tenon::codegen::cpu
