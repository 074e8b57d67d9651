// From the warps' accumulators to the result: through shared memory, where the parts of the depth
// meet, and through the region's elementwise ops. Relies on the region's linalg form.
#include "compiler/codegen/cuda/gemm/GemvKernel.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

/// Two buffers of accumulators, so that a tile needs one barrier; then the normed rows.
int64_t GemvKernel::sharedBytes() const {
  return 4 * 2 * bufferSums() + (p.norm ? 2 * p.rows * normedPitch() : 0);
}

/// Stores a warp's accumulators as [warp][row][column].
void GemvKernel::shareSums(const ThreadBuilder &t, Value base, ValueRange accumulators) const {
  Values joined(p.isPacked ? Values(accumulators) : joinLines(t, accumulators));
  Value column = p.isPacked ? group : t.div(group, 2);
  Value own = t.offset(base, t.f32Type(), t.add(t.mul(warp, warpSums()), column));
  Value isHolder = p.isPacked ? Value() : t.isEqual(t.rem(group, 2), t.i32(0));
  for (size_t i = 0; i < joined.size(); i += 2) {
    int64_t j = i / 2 % 2, rows = i / 4 % rowGroups(), set = i / 4 / rowGroups();
    Value row = t.add(t.mul(quad, 2), rows * kMmaColumns + j), isStored = isHolder;
    if (hasRowTail(kMmaColumns)) {
      Value exists = t.isLess(row, rowCount);
      isStored = isStored ? t.bitAnd(isStored, exists) : exists;
    }
    // Floats j and j + 2 of an mma are of one row.
    int64_t first = i / 4 * 4 + j;
    auto store = [&](const ThreadBuilder &c) {
      Value to = c.offset(own, c.f32Type(), c.mul(row, sumPitch()));
      c.store(joined[first], c.offset(to, c.f32Type(), set * 8), 4);
      c.store(joined[first + 2], c.offset(to, c.f32Type(), set * 8 + (p.isPacked ? 8 : 4)), 4);
    };
    if (isStored) {
      t.when(isStored, store);
    } else {
      store(t);
    }
  }
}

void GemvKernel::finishTile(const ThreadBuilder &t, Value tile, ValueRange accumulators) {
  Value base = shared;
  if (layout.blocks < p.tiles()) {
    Value number = t.div(tile, layout.blocks);
    base = t.offset(shared, t.f32Type(), t.mul(t.rem(number, 2), bufferSums()));
  }
  shareSums(t, base, accumulators);
  t.barrier();
  emitter.openScope();
  storeElement(tile, base);
  emitter.closeScope();
}

/// One element of the tile for each of the first threads.
void GemvKernel::storeElement(Value tile, Value base) {
  ThreadBuilder t = code();
  OpBuilder &builder = kernel.builder;
  Value row = t.div(thread, tileColumns()), tileColumn = t.rem(thread, tileColumns());
  Value column = t.add(t.mul(tile, tileColumns()), tileColumn);
  int64_t columns = p.partColumns();
  Value isStored = t.isLess(row, rowCount);
  if (columns % tileColumns() != 0) {
    isStored = t.bitAnd(isStored, t.isLess(column, t.i32(columns)));
  }
  scf::IfOp branch =
      scf::IfOp::create(builder, kernel.location, isStored, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  emitter.openScope();
  ThreadBuilder c = code();
  IndexMath &math = kernel.math;
  Index rowIndex = math.fromWord(row), columnIndex = math.fromWord(column);
  std::map<IndicesKey, Value> totals; ///< by column
  for (int64_t part = 0; part < p.parts; ++part) {
    Value from = c.add(c.mul(row, sumPitch()), c.add(tileColumn, part * tileColumns()));
    Value total;
    for (int64_t i = 0; i < layout.warps; ++i) {
      Value at = c.offset(base, c.f32Type(), c.add(from, i * warpSums()));
      Value sum = c.load(c.f32Type(), at, 4);
      total = total ? c.addF(total, sum) : sum;
    }
    totals[keyOf(math.add(columnIndex, Index::constant(part * columns)))] = total;
  }
  // A single column may be asked for as column 0.
  emitter.hold(tensors.sum, [totals](ArrayRef<Index> at) {
    return totals.size() == 1 ? totals.begin()->second : totals.at(keyOf(at.back()));
  });
  Indices at = math.delinearize(rowIndex, kernel.sizes(p.rowDims));
  at.push_back(columnIndex);
  Index linear = math.add(math.multiply(rowIndex, Index::constant(columns)), columnIndex);
  emitter.setLinear(kernel.region.dims(tensors.result), at, linear);
  kernel.store(kernel.region.output(0), emitter.element(tensors.result, at), linear);
  emitter.closeScope();
}

} // namespace tenon::codegen::cuda
