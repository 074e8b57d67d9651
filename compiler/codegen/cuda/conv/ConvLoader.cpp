// Addresses of patches and filters. Relies on padding being zeros, which a copy of no bytes gives.
#include "compiler/codegen/cuda/conv/ConvLoader.h"

#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"
#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

namespace {

/// Elements of a tensor below which places beyond its ends do not leave 32 bits.
constexpr int64_t kFewElements = int64_t(1) << 30;

/// 0 <= a < b
Value isWithin(const ThreadBuilder &t, Value a, Value b) {
  return t.builder.createOrFold<arith::CmpIOp>(t.location, arith::CmpIPredicate::ult, a, b);
}

Value bothIfPresent(const ThreadBuilder &t, Value a, Value b) {
  return a && b ? t.bitAnd(a, b) : a ? a : b;
}

bool isSmallInput(RegionBuilder &region, unsigned buffer) {
  if (buffer >= region.source.getNumArguments()) {
    return true; // a filter that was laid out, which is small
  }
  tn::SymbolList declared(region.source->getParentOfType<ModuleOp>());
  int64_t product = 1;
  for (AffineExpr dim : tn::getDims(region.source.getArgument(buffer).getType())) {
    int64_t size = dim ? declared.bounds(dim).max : kFewElements;
    if (size >= kFewElements || (product *= std::max<int64_t>(size, 1)) >= kFewElements) {
      return false;
    }
  }
  return true;
}

} // namespace

ConvLoader::ConvLoader(const ConvProblem &problem, const GemmTile &tile,
                       const StridedTensor &tensor, int64_t tileLines, int64_t width)
    : p(problem), tensor(tensor), tileDepth(tile.depth), width(width), lanes(tile.depth / width),
      linesPerStep(tile.threads() / lanes), isOfWarpgroup(tile.isWarpgroup) {
  lines = tileLines;
  pitch = tile.depth + (isOfWarpgroup ? 0 : kRowPadding / byteSize(tensor.element));
  buffer = tensor.buffer;
}

Value ConvLoader::count(AffineExpr expression) const {
  return isSmall ? kernel->size32(expression) : kernel->size64(expression);
}

Value ConvLoader::toCount(const ThreadBuilder &t, Value word) const {
  return isSmall ? word : t.toI64(word);
}

void ConvLoader::place(KernelFrame &owner, const BlockPlace &place) {
  kernel = &owner;
  isSmall = isSmallInput(owner.region, buffer);
  ThreadBuilder t(owner.builder, owner.location);
  pointer = owner.pointer(buffer, /*isWritten=*/false);
  begins.clear();
  forgetLines();
  line = t.div(place.thread, lanes);
  column = t.mul(t.rem(place.thread, lanes), width);
  for (int64_t first = 0; first < lines; first += linesPerStep) {
    Value tileLine = t.add(line, first);
    begins.push_back(
        placeLine(t, place, isInOrderOfLanes ? inOrderOfLanes(t, tileLine) : tileLine));
  }
}

ConvLoader::Place ConvLoader::placeOf(const ThreadBuilder &t, Value depth) const {
  Place place{depth, depth, SmallVector<Value, 3>(p.dims.size(), t.i32(0))};
  if (p.depth() == p.channels()) {
    return place;
  }
  place.channel = t.rem(depth, p.channels());
  Value tap = t.div(depth, p.channels());
  int64_t rest = p.depth() / p.channels();
  for (size_t i = p.dims.size(); i-- > 0;) {
    int64_t taps = p.dims[i].taps;
    rest /= taps;
    if (taps > 1) {
      place.taps[i] = rest == 1 ? tap : t.rem(tap, taps);
      tap = t.div(tap, taps);
    }
  }
  return place;
}

void ConvLoader::copy(const ThreadBuilder &t, Value depth, Value to) const {
  Type stored = t.builder.getIntegerType(tensor.element.getIntOrFloatBitWidth());
  Place from = placeOf(t, t.add(depth, column));
  bool hasTail = p.depth() % tileDepth != 0;
  Value isDeep = hasTail ? t.isLess(from.depth, t.i32(p.depth())) : Value();
  Value far = distance(t, from);
  for (auto [number, begin] : llvm::enumerate(begins)) {
    int64_t first = int64_t(number) * linesPerStep;
    Value tileLine = t.add(line, first);
    Value isRead = bothIfPresent(t, isDeep, isInside(t, from, number));
    Value isTaken = first + linesPerStep > lines ? t.isLess(tileLine, t.i32(lines)) : Value();
    Value source = t.offset(pointer, tensor.element, t.add(begin, far));
    Value place = isOfWarpgroup ? tileOffset(t, tileLine, t.div(column, width))
                                : t.add(t.mul(tileLine, pitch), column);
    Value target = t.offset(to, stored, place);
    copyNeighbours(t, tensor.element, width, source, target, isRead, isTaken);
  }
}

/// Rows behind the last one read what that one reads.
Value PatchLoader::placeLine(const ThreadBuilder &t, const BlockPlace &at, Value line) {
  ArrayRef<AffineExpr> rowDims = p.product.rowDims;
  Value rest = t.min(t.add(at.row, line), t.sub(at.rowCount, t.i32(1)));
  Value begin = t.add(count(tensor.offset), toCount(t, t.mul(at.batch, p.channels())));
  SmallVector<Value, 3> starts(p.dims.size());
  if (sizes.empty()) {
    for (const ConvDim &dim : p.dims) {
      sizes.push_back(kernel->size32(dim.in));
    }
  }
  for (size_t i = rowDims.size(); i-- > 1;) {
    const ConvDim &dim = p.dims[i - 1];
    Value size = kernel->size32(rowDims[i]);
    Value start = t.add(t.mul(t.rem(rest, size), dim.stride), -dim.padBegin);
    rest = t.div(rest, size);
    starts[i - 1] = start;
    begin = t.add(begin, t.mul(toCount(t, start), count(tensor.strides[i])));
  }
  firsts.push_back(starts);
  return t.add(begin, t.mul(toCount(t, rest), count(tensor.strides[0])));
}

Value PatchLoader::distance(const ThreadBuilder &t, const Place &place) const {
  Value far = toCount(t, place.channel);
  for (auto [i, dim] : llvm::enumerate(p.dims)) {
    if (dim.taps > 1) {
      Value step = toCount(t, t.mul(place.taps[i], dim.dilation));
      far = t.add(far, t.mul(step, count(tensor.strides[1 + i])));
    }
  }
  return far;
}

Value PatchLoader::isInside(const ThreadBuilder &t, const Place &place, size_t number) const {
  Value inside;
  for (auto [i, dim] : llvm::enumerate(p.dims)) {
    if (dim.isPadded) {
      Value position = t.add(firsts[number][i], t.mul(place.taps[i], dim.dilation));
      inside = bothIfPresent(t, inside, isWithin(t, position, sizes[i]));
    }
  }
  return inside;
}

FilterLoader::FilterLoader(const ConvProblem &problem, const GemmTile &tile)
    : ConvLoader(problem, tile, problem.filter, tile.columns, problem.filterWidth) {
  AffineExpr next = getAffineConstantExpr(1, problem.product.rows.getContext());
  isRun = problem.joined == 1 && tn::sameDim(tensor.strides[1], next);
  next = next * problem.groupChannels;
  for (size_t i = problem.dims.size(); i-- > 0;) {
    isRun &= problem.dims[i].taps == 1 || tn::sameDim(tensor.strides[2 + i], next);
    next = next * problem.dims[i].taps;
  }
}

/// Columns behind the last one read what that one reads.
Value FilterLoader::placeLine(const ThreadBuilder &t, const BlockPlace &at, Value line) {
  Value column = t.min(t.add(at.column, line), t.sub(at.columnCount, t.i32(1)));
  groups.push_back(t.div(column, p.groupColumns));
  Value channel = t.add(t.mul(at.batch, p.joined * p.groupColumns), column);
  return t.add(count(tensor.offset), t.mul(toCount(t, channel), count(tensor.strides[0])));
}

Value FilterLoader::distance(const ThreadBuilder &t, const Place &place) const {
  if (isRun) {
    return toCount(t, place.depth);
  }
  Value channel = p.joined > 1 ? t.rem(place.channel, p.groupChannels) : place.channel;
  Value far = t.mul(toCount(t, channel), count(tensor.strides[1]));
  for (auto [i, dim] : llvm::enumerate(p.dims)) {
    if (dim.taps > 1) {
      far = t.add(far, t.mul(toCount(t, place.taps[i]), count(tensor.strides[2 + i])));
    }
  }
  return far;
}

/// Of groups side by side, a column has the channels of its own alone.
Value FilterLoader::isInside(const ThreadBuilder &t, const Place &place, size_t number) const {
  return p.joined > 1 ? t.isEqual(t.div(place.channel, p.groupChannels), groups[number]) : Value();
}

} // namespace tenon::codegen::cuda
