// Tiles of a matrix with strides: by asynchronous copies as wide as its borders allow, or element
// by element for FP32 arithmetic. Relies on GemmMatch.h for the strides.
#include "compiler/codegen/cuda/gemm/TileLoader.h"

#include "compiler/codegen/common/math/LowBits.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"
#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

void copyNeighbours(const ThreadBuilder &t, Type element, int64_t width, Value from, Value to,
                    Value isRead, Value isTaken) {
  auto ifTaken = [&](llvm::function_ref<void(const ThreadBuilder &)> body) {
    if (isTaken) {
      t.when(isTaken, body);
    } else {
      body(t);
    }
  };
  int64_t bytes = width * byteSize(element);
  if (bytes >= 4) {
    ifTaken([&](const ThreadBuilder &c) {
      Value read = isRead ? c.select(isRead, c.i32(bytes), c.i32(0)) : Value();
      copyAsync(c, to, from, read, bytes);
    });
    return;
  }
  unsigned size = static_cast<unsigned>(bytes);
  Type word = t.builder.getIntegerType(size * 8);
  Value zero = arith::ConstantOp::create(t.builder, t.location, t.builder.getIntegerAttr(word, 0));
  auto load = [&](const ThreadBuilder &c) -> Values { return {c.load(word, from, size)}; };
  Value wanted = isRead && isTaken ? t.bitAnd(isRead, isTaken) : isRead ? isRead : isTaken;
  Value loaded =
      wanted ? t.choose(wanted, load, [&](const ThreadBuilder &) -> Values { return {zero}; })[0]
             : load(t)[0];
  ifTaken([&](const ThreadBuilder &c) { c.store(loaded, to, size); });
}

Value inOrderOfLanes(const ThreadBuilder &t, Value line) {
  Value rest = t.rem(line, kStripColumns), part = t.div(rest, 8), place = t.rem(rest, 8);
  Value column = t.add(t.mul(t.div(place, 2), kLaneStrip), t.add(t.mul(part, 2), t.rem(place, 2)));
  return t.add(t.sub(line, rest), column);
}

int64_t copyWidth(const GemmProblem &problem, bool isA) {
  const GemmOperand &operand = isA ? problem.a : problem.b;
  AffineExpr ofDepth = isA ? operand.columnStride() : operand.rowStride();
  AffineExpr ofFree = isA ? operand.rowStride() : operand.columnStride();
  bool depthIsInner = tn::constantDim(ofDepth) == 1;
  if (!depthIsInner && tn::constantDim(ofFree) != 1) {
    return 1;
  }
  SmallVector<AffineExpr> borders(ArrayRef(operand.at.strides).drop_back(2));
  borders.push_back(operand.at.offset);
  borders.push_back(depthIsInner ? ofFree : ofDepth);
  borders.push_back(depthIsInner ? problem.depth : isA ? problem.rows : problem.columns);
  int64_t width = 8;
  auto isOnBorder = [&](AffineExpr border) { return border.isMultipleOf(width); };
  while (width > 1 && !llvm::all_of(borders, isOnBorder)) {
    width /= 2;
  }
  return width;
}

StridedLoader::StridedLoader(const GemmProblem &problem, const GemmTile &tile, unsigned freeDim)
    : p(problem), operand(freeDim == 0 ? problem.a : problem.b), tile(tile), isA(freeDim == 0) {
  AffineExpr strides[] = {operand.rowStride(), operand.columnStride()};
  AffineExpr free = isA ? p.rows : p.columns;
  int64_t size = isA ? tile.rows : tile.columns;
  buffer = operand.at.buffer;
  // Where no dim is contiguous, each copy is of one element, and any order does.
  depthIsInner =
      tn::constantDim(strides[freeDim]) != 1 || tn::constantDim(strides[1 - freeDim]) == 1;
  outerCount = depthIsInner ? free : p.depth;
  innerCount = depthIsInner ? p.depth : free;
  outerStride = depthIsInner ? strides[freeDim] : strides[1 - freeDim];
  innerStride = depthIsInner ? strides[1 - freeDim] : strides[freeDim];
  width = copyWidth(p, isA);
  innerSize = depthIsInner ? tile.depth : size;
  lines = depthIsInner ? size : tile.depth;
  // Lanes that read 16 bytes by themselves: two lines are all banks.
  int64_t padding = tile.slices > 0 ? kRowPadding * 2 : kRowPadding / 2;
  pitch = innerSize + (tile.isWarpgroup ? 0 : padding);
}

void StridedLoader::place(KernelFrame &owner, const BlockPlace &place) {
  kernel = &owner;
  at = place;
  ThreadBuilder t(owner.builder, owner.location);
  Value from = owner.size64(operand.at.offset), index = at.batch;
  for (size_t i = p.batch.size(); i-- > 0;) {
    Value size = owner.size32(p.batch[i]);
    Value number = i == 0 ? index : t.rem(index, size);
    index = i == 0 ? index : t.div(index, size);
    from = t.add(from, t.mul(t.toI64(number), owner.size64(operand.at.strides[i])));
  }
  pointer =
      t.offset(owner.pointer(buffer, /*isWritten=*/false), storageType(operand.at.element), from);
}

void StridedLoader::copy(const ThreadBuilder &t, Value depth, Value to) const {
  Type half = t.builder.getIntegerType(16);
  int64_t lanes = innerSize / width, linesPerStep = std::max<int64_t>(tile.threads() / lanes, 1);
  Value line = t.div(at.thread, lanes), column = t.mul(t.rem(at.thread, lanes), width);
  Value firstOuter = depthIsInner ? free() : depth;
  Value inner = t.add(depthIsInner ? depth : free(), column);
  Value outerEnd = depthIsInner ? freeCount() : at.depthCount;
  Value innerEnd = depthIsInner ? at.depthCount : freeCount();
  bool hasOuterTail = !outerCount.isMultipleOf(lines);
  bool hasInnerTail = !innerCount.isMultipleOf(innerSize);
  Value insideInner = hasInnerTail ? t.isLess(inner, innerEnd) : Value();
  Value stride = kernel->size64(outerStride), along = t.toI64(inner);
  if (tn::constantDim(innerStride) != 1) {
    along = t.mul(along, kernel->size64(innerStride));
  }
  for (int64_t first = 0; first < lines; first += linesPerStep) {
    Value tileLine = t.add(line, first);
    Value outer = t.add(firstOuter, isInOrderOfLanes ? inOrderOfLanes(t, tileLine) : tileLine);
    Value isRead = insideInner;
    if (hasOuterTail) {
      Value inside = t.isLess(outer, outerEnd);
      isRead = isRead ? t.bitAnd(isRead, inside) : inside;
    }
    Value from = t.offset(pointer, operand.at.element, t.add(t.mul(t.toI64(outer), stride), along));
    Value place = tile.isWarpgroup ? tileOffset(t, tileLine, t.div(column, width))
                                   : t.add(t.mul(tileLine, pitch), column);
    Value target = t.offset(to, half, place);
    Value isTaken = first + linesPerStep <= lines ? Value() : t.isLess(tileLine, t.i32(lines));
    copyNeighbours(t, operand.at.element, width, from, target, isRead, isTaken);
  }
}

void StridedLoader::fill(const ThreadBuilder &t, Value step, Value to) const {
  int64_t size = isA ? tile.rows : tile.columns, linePitch = size + kSimtPart;
  AffineExpr ofFree = isA ? operand.rowStride() : operand.columnStride();
  AffineExpr ofDepth = isA ? operand.columnStride() : operand.rowStride();
  Value freeStride = kernel->size64(ofFree), depthStride = kernel->size64(ofDepth);
  bool isAlongDepth = tn::constantDim(ofDepth) == 1;
  // 8-bit floats are codes in memory.
  Type stored = operand.at.element, held = storageType(stored);
  for (int64_t i = 0; i < size * tile.depth; i += tile.threads()) {
    Value index = t.add(at.thread, i);
    // Neighbours read neighbours.
    Value depth = isAlongDepth ? t.rem(index, tile.depth) : t.div(index, size);
    Value line = isAlongDepth ? t.div(index, tile.depth) : t.rem(index, size);
    Value row = t.add(free(), line), column = t.add(t.mul(step, tile.depth), depth);
    Value inside = t.bitAnd(t.isLess(row, freeCount()), t.isLess(column, at.depthCount));
    Values element = t.choose(
        inside,
        [&](const ThreadBuilder &c) -> Values {
          Value from = c.add(c.mul(c.toI64(row), freeStride), c.mul(c.toI64(column), depthStride));
          Value element = c.load(held, c.offset(pointer, held, from), byteSize(held));
          return {held == stored ? c.toF32(element)
                                 : decodedFloat(c.builder, c.location, stored, element)};
        },
        [](const ThreadBuilder &c) -> Values { return {c.f32(0)}; });
    t.store(element[0], t.offset(to, t.f32Type(), t.add(t.mul(depth, linePitch), line)), 4);
  }
}

} // namespace tenon::codegen::cuda
