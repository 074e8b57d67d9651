// Tiles of a matrix with strides: by asynchronous copies of 16 bytes, or element by element for
// FP32 arithmetic. Relies on ProductMatch.h for the strides.
#include "compiler/codegen/cuda/gemm/TileLoader.h"

#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

namespace {

Value sizeAs(Kernel &kernel, AffineExpr expression, Type type) {
  AffineExpr normal = tn::simplify(expression);
  Value index = kernel.math.value(kernel.size(normal ? normal : expression));
  return kernel.builder.createOrFold<arith::IndexCastOp>(kernel.location, type, index);
}

} // namespace

Value size64(Kernel &kernel, AffineExpr expression) {
  return sizeAs(kernel, expression, kernel.builder.getI64Type());
}

Value size32(Kernel &kernel, AffineExpr expression) {
  return sizeAs(kernel, expression, kernel.builder.getI32Type());
}

StridedLoader::StridedLoader(const ProductProblem &problem, const ProductTile &tile,
                             unsigned freeDim)
    : p(problem), operand(freeDim == 0 ? problem.a : problem.b), tile(tile), isA(freeDim == 0) {
  AffineExpr strides[] = {operand.rowStride(), operand.columnStride()};
  AffineExpr free = isA ? p.rows : p.columns;
  int64_t size = isA ? tile.rows : tile.columns;
  buffer = operand.at.buffer;
  depthIsInner = tn::constantDim(strides[1 - freeDim]) == 1;
  outerCount = depthIsInner ? free : p.depth;
  innerCount = depthIsInner ? p.depth : free;
  outerStride = depthIsInner ? strides[freeDim] : strides[1 - freeDim];
  innerSize = depthIsInner ? tile.depth : size;
  lines = depthIsInner ? size : tile.depth;
  pitch = innerSize + kRowPadding / 2;
}

void StridedLoader::place(Kernel &owner, const BlockPlace &place) {
  kernel = &owner;
  at = place;
  ThreadBuilder t(owner.builder, owner.location);
  Value from = size64(owner, operand.at.offset), index = at.batch;
  for (size_t i = p.batch.size(); i-- > 0;) {
    Value size = size32(owner, p.batch[i]);
    Value number = i == 0 ? index : t.rem(index, size);
    index = i == 0 ? index : t.div(index, size);
    from = t.add(from, t.mul(t.wide(number), size64(owner, operand.at.strides[i])));
  }
  pointer = t.offset(owner.pointer(buffer, /*isWritten=*/false), operand.at.element, from);
}

void StridedLoader::copy(const ThreadBuilder &t, Value depth, Value to) const {
  Type half = t.builder.getIntegerType(16);
  int64_t lanes = innerSize / 8, atOnce = tile.threads() / lanes;
  Value line = t.div(at.thread, lanes), column = t.mul(t.rem(at.thread, lanes), 8);
  Value firstOuter = depthIsInner ? free() : depth;
  Value inner = t.add(depthIsInner ? depth : free(), column);
  Value outerEnd = depthIsInner ? freeCount() : at.depthCount;
  Value innerEnd = depthIsInner ? at.depthCount : freeCount();
  bool hasOuterTail = !outerCount.isMultipleOf(lines);
  bool hasInnerTail = !innerCount.isMultipleOf(innerSize);
  Value insideInner = hasInnerTail ? t.isLess(inner, innerEnd) : Value();
  Value stride = size64(*kernel, outerStride);
  for (int64_t first = 0; first < lines; first += atOnce) {
    Value tileLine = t.add(line, first), outer = t.add(firstOuter, tileLine);
    Value isRead = insideInner;
    if (hasOuterTail) {
      Value inside = t.isLess(outer, outerEnd);
      isRead = isRead ? t.bitAnd(isRead, inside) : inside;
    }
    Value bytes = isRead ? t.select(isRead, t.i32(16), t.i32(0)) : Value();
    Value from = t.add(t.mul(t.wide(outer), stride), t.wide(inner));
    Value target = t.offset(to, half, t.add(t.mul(tileLine, pitch), column));
    auto start = [&](const ThreadBuilder &c) {
      copyAsync(c, target, c.offset(pointer, operand.at.element, from), bytes);
    };
    if (first + atOnce <= lines) {
      start(t);
    } else {
      t.when(t.isLess(tileLine, t.i32(lines)), start);
    }
  }
}

void StridedLoader::fill(const ThreadBuilder &t, Value step, Value to) const {
  int64_t size = isA ? tile.rows : tile.columns, linePitch = size + kPlainPart;
  AffineExpr ofFree = isA ? operand.rowStride() : operand.columnStride();
  AffineExpr ofDepth = isA ? operand.columnStride() : operand.rowStride();
  Value freeStride = size64(*kernel, ofFree), depthStride = size64(*kernel, ofDepth);
  bool isAlongDepth = tn::constantDim(ofDepth) == 1;
  Type stored = operand.at.element;
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
          Value from = c.add(c.mul(c.wide(row), freeStride), c.mul(c.wide(column), depthStride));
          unsigned bytes = stored.getIntOrFloatBitWidth() / 8;
          return {c.toF32(c.load(stored, c.offset(pointer, stored, from), bytes))};
        },
        [](const ThreadBuilder &c) -> Values { return {c.f32(0)}; });
    t.store(element[0], t.offset(to, t.f32Type(), t.add(t.mul(depth, linePitch), line)), 4);
  }
}

} // namespace tenon::codegen::cuda
