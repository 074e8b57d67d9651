// The main loop of a product: copies, fragments and sums. Relies on ProductStore.cpp for what
// follows.
#include "compiler/codegen/cuda/gemm/ProductKernel.h"

#include "compiler/codegen/common/RegionSource.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

ProductKernel::ProductKernel(RegionBuilder &region, const ProductProblem &problem,
                             const ProductTile &tile)
    : kernel(region, tile.threads()), p(problem), tile(tile), element(problem.a.at.element),
      half(IntegerType::get(element.getContext(), 16)) {
  setSource(a, p.a, 0, tile.rows);
  setSource(b, p.b, 1, tile.columns);
}

/// `freeDim` is 0 if the operand's rows are the result's, 1 if its columns are.
void ProductKernel::setSource(Source &source, const ProductOperand &operand, unsigned freeDim,
                              int64_t size) {
  AffineExpr strides[] = {operand.rowStride(), operand.columnStride()};
  AffineExpr free = freeDim == 0 ? p.rows : p.columns;
  source.operand = &operand;
  source.depthIsInner = tn::constantDim(strides[1 - freeDim]) == 1;
  source.outerCount = source.depthIsInner ? free : p.depth;
  source.innerCount = source.depthIsInner ? p.depth : free;
  source.outerStride = source.depthIsInner ? strides[freeDim] : strides[1 - freeDim];
  source.outerSize = source.depthIsInner ? size : tile.depth;
  source.innerSize = source.depthIsInner ? tile.depth : size;
}

Value ProductKernel::size64(AffineExpr expression) {
  AffineExpr normal = tn::simplify(expression);
  Value index = kernel.math.value(kernel.size(normal ? normal : expression));
  return kernel.builder.createOrFold<arith::IndexCastOp>(kernel.location,
                                                         kernel.builder.getI64Type(), index);
}

Value ProductKernel::size32(AffineExpr expression) {
  AffineExpr normal = tn::simplify(expression);
  Value index = kernel.math.value(kernel.size(normal ? normal : expression));
  return kernel.builder.createOrFold<arith::IndexCastOp>(kernel.location,
                                                         kernel.builder.getI32Type(), index);
}

int64_t ProductKernel::sharedBytes() const {
  if (tile.isPlain) {
    return 4 * std::max(tile.rows * sumPitch(), tile.depth * (tile.rows + tile.columns + 8));
  }
  return std::max(tile.stages * stageElements() * 2, tile.rows * sumPitch() * 4);
}

/// Blocks are numbered [batch][columns][rows][split]: neighbours share a tile of B.
void ProductKernel::place() {
  ThreadBuilder t = code();
  rowCount = size32(p.rows);
  columnCount = size32(p.columns);
  depthCount = size32(p.depth);
  thread = t.thread();
  Value index = t.block();
  rank = t.rem(index, tile.splits);
  index = t.div(index, tile.splits);
  Value rowTiles = t.ceilDiv(rowCount, tile.rows);
  a.fixed = t.mul(t.rem(index, rowTiles), tile.rows);
  index = t.div(index, rowTiles);
  Value columnTiles = t.ceilDiv(columnCount, tile.columns);
  b.fixed = t.mul(t.rem(index, columnTiles), tile.columns);
  batchIndex = p.batch.empty() ? t.i32(0) : t.div(index, columnTiles);
  a.pointer = operandPointer(p.a);
  b.pointer = operandPointer(p.b);

  Value steps = t.ceilDiv(depthCount, tile.depth);
  Value share = t.ceilDiv(steps, tile.splits);
  firstStep = t.mul(rank, share);
  lastStep = t.min(steps, t.add(firstStep, share));
  shared = kernel.dynamicShared();
  if (tile.isPlain) {
    placePlain();
    return;
  }
  Value warp = t.div(thread, kWarp);
  int64_t across = tile.columns / tile.warpColumns;
  warpRow = t.mul(t.div(warp, across), tile.warpRows);
  warpColumn = t.mul(t.rem(warp, across), tile.warpColumns);
}

Value ProductKernel::operandPointer(const ProductOperand &operand) {
  ThreadBuilder t = code();
  Value at = size64(operand.at.offset), index = batchIndex;
  for (size_t i = p.batch.size(); i-- > 0;) {
    Value size = size32(p.batch[i]);
    Value place = i == 0 ? index : t.rem(index, size);
    index = i == 0 ? index : t.div(index, size);
    at = t.add(at, t.mul(t.wide(place), size64(operand.at.strides[i])));
  }
  return t.offset(kernel.pointer(operand.at.buffer, /*isWritten=*/false), element, at);
}

/// Starts copies of an operand's tile from `depth` on; what is outside the matrix becomes zeros.
void ProductKernel::copy(const ThreadBuilder &t, const Source &source, Value depth,
                         Value to) const {
  ProductKernel &self = const_cast<ProductKernel &>(*this);
  int64_t lanes = source.innerSize / 8, atOnce = tile.threads() / lanes;
  Value line = t.div(thread, lanes), column = t.mul(t.rem(thread, lanes), 8);
  Value firstOuter = source.depthIsInner ? source.fixed : depth;
  Value inner = t.add(source.depthIsInner ? depth : source.fixed, column);
  Value outerCount = source.depthIsInner ? (&source == &a ? rowCount : columnCount) : depthCount;
  Value innerCount = source.depthIsInner ? depthCount : (&source == &a ? rowCount : columnCount);
  bool hasOuterTail = !source.outerCount.isMultipleOf(source.outerSize);
  bool hasInnerTail = !source.innerCount.isMultipleOf(source.innerSize);
  Value insideInner = hasInnerTail ? t.isLess(inner, innerCount) : Value();
  Value stride = self.size64(source.outerStride);
  for (int64_t first = 0; first < source.outerSize; first += atOnce) {
    Value tileLine = t.add(line, first), outer = t.add(firstOuter, tileLine);
    Value isRead = insideInner;
    if (hasOuterTail) {
      Value inside = t.isLess(outer, outerCount);
      isRead = isRead ? t.bitAnd(isRead, inside) : inside;
    }
    Value bytes = isRead ? t.select(isRead, t.i32(16), t.i32(0)) : Value();
    Value from = t.add(t.mul(t.wide(outer), stride), t.wide(inner));
    Value target = t.offset(to, half, t.add(t.mul(tileLine, source.pitch()), column));
    auto start = [&](const ThreadBuilder &c) {
      copyAsync(c, target, c.offset(source.pointer, element, from), bytes);
    };
    if (first + atOnce <= source.outerSize) {
      start(t);
    } else {
      t.when(t.isLess(tileLine, t.i32(source.outerSize)), start);
    }
  }
}

/// The copies of step `step` of the depth (if there is one) to its stage.
void ProductKernel::copyStage(const ThreadBuilder &t, Value step, bool ofA, bool ofB) const {
  t.when(t.isLess(step, lastStep), [&](const ThreadBuilder &c) {
    Value stage = c.rem(c.sub(step, firstStep), tile.stages);
    Value to = c.offset(shared, half, c.mul(stage, stageElements()));
    Value depth = c.mul(step, tile.depth);
    if (ofB) {
      copy(c, b, depth, c.offset(to, half, a.elements()));
    }
    if (ofA) {
      copy(c, a, depth, to);
    }
  });
}

/// The sums, by 16 rows and 8 columns, with the products of one stage added.
Values ProductKernel::multiplyStage(const ThreadBuilder &t, Value step, ValueRange sums) const {
  Values result(sums);
  int64_t rowTiles = tile.warpRows / kMmaRows, columnTiles = tile.warpColumns / kMmaColumns;
  Value stage = t.rem(t.sub(step, firstStep), tile.stages);
  Value aTile = t.offset(shared, half, t.mul(stage, stageElements()));
  Value bTile = t.offset(aTile, half, a.elements());
  // A stored [row][depth] is read as it is, [depth][row] transposed; B stored [depth][column]
  // transposed, [column][depth] as it is.
  TileSpot aSpot = a.depthIsInner ? rowsFirst(t) : columnsFirst(t);
  TileSpot bSpot = b.depthIsInner ? columnsFirst(t) : rowsFirst(t);
  Value aLine = a.depthIsInner ? t.add(warpRow, aSpot.row) : aSpot.row;
  Value aColumn = a.depthIsInner ? aSpot.column : t.add(warpRow, aSpot.column);
  Value bLine = b.depthIsInner ? t.add(warpColumn, bSpot.row) : bSpot.row;
  Value bColumn = b.depthIsInner ? bSpot.column : t.add(warpColumn, bSpot.column);
  Value aBase = t.offset(aTile, half, t.add(t.mul(aLine, a.pitch()), aColumn));
  Value bBase = t.offset(bTile, half, t.add(t.mul(bLine, b.pitch()), bColumn));
  for (int64_t depth = 0; depth < tile.depth; depth += kMmaDepth) {
    SmallVector<Values> left, right;
    for (int64_t r = 0; r < rowTiles; ++r) {
      int64_t at = a.depthIsInner ? r * 16 * a.pitch() + depth : depth * a.pitch() + r * 16;
      left.push_back(loadMatrices(t, t.offset(aBase, half, at), !a.depthIsInner));
    }
    for (int64_t c = 0; c < columnTiles / 2; ++c) {
      int64_t at = b.depthIsInner ? c * 16 * b.pitch() + depth : depth * b.pitch() + c * 16;
      right.push_back(loadMatrices(t, t.offset(bBase, half, at), !b.depthIsInner));
    }
    for (int64_t r = 0; r < rowTiles; ++r) {
      for (int64_t c = 0; c < columnTiles; ++c) {
        const Values &words = right[c / 2];
        MutableArrayRef<Value> sum =
            MutableArrayRef<Value>(result).slice((r * columnTiles + c) * 4, 4);
        Values next = multiply(t, element, left[r], {words[c % 2 * 2], words[c % 2 * 2 + 1]}, sum);
        llvm::copy(next, sum.begin());
      }
    }
  }
  return result;
}

/// Moves the wait for predecessors, which the frame puts first, behind what has been emitted so
/// far.
void ProductKernel::waitHere() {
  Block &block = *kernel.builder.getInsertionBlock();
  SmallVector<NVVM::GriddepcontrolOp> waits(block.getOps<NVVM::GriddepcontrolOp>());
  for (NVVM::GriddepcontrolOp wait : waits) {
    wait->moveBefore(&block, kernel.builder.getInsertionPoint());
  }
}

/// The sums of this block's part of the depth.
Values ProductKernel::addProducts() {
  ThreadBuilder t = code();
  // Weights are there before any kernel runs: their copies start while the predecessor still works.
  bool isConstant =
      kernel.region.source.getArgAttr(p.b.at.buffer, kConstantArgument) && tile.stages > 1;
  Value step = firstStep;
  if (isConstant) {
    for (int64_t i = 0; i + 1 < tile.stages; ++i) {
      copyStage(t, t.add(step, i), /*ofA=*/false, /*ofB=*/true);
    }
  }
  waitHere();
  for (int64_t i = 0; i + 1 < tile.stages; ++i) {
    copyStage(t, t.add(step, i), /*ofA=*/true, /*ofB=*/!isConstant);
    commitCopies(t);
  }
  int64_t count = tile.warpRows / kMmaRows * (tile.warpColumns / kMmaColumns) * 4;
  return t.loop(firstStep, lastStep, t.i32(1), Values(count, t.f32(0)),
                [&](const ThreadBuilder &c, Value index, ValueRange sums) {
                  waitForCopies(c, tile.stages - 2);
                  // This stage is visible to all, and all are done with the one before it.
                  c.barrier();
                  copyStage(c, c.add(index, tile.stages - 1), true, true);
                  commitCopies(c);
                  return multiplyStage(c, index, sums);
                });
}

} // namespace tenon::codegen::cuda
