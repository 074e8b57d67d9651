// From the warps' accumulators to the result: through shared memory, where the parts of the depth
// meet, and through the region's elementwise ops. Relies on the region's linalg form.
#include "compiler/codegen/cuda/gemm/EpilogueStore.h"
#include "compiler/codegen/cuda/gemm/GemvKernel.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

/// Two buffers of accumulators, so that a tile needs one barrier; then the normed rows.
int64_t GemvKernel::sharedBytes() const {
  return 4 * 2 * bufferSums() + (p.norm ? 2 * p.rows * normedPitchOf(p.depth) : 0);
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
  ThreadBuilder t = kernel.code();
  Value row = t.div(thread, tileColumns()), tileColumn = t.rem(thread, tileColumns());
  Value column = t.add(t.mul(tile, tileColumns()), tileColumn);
  int64_t columns = p.partColumns();
  Value isStored = t.isLess(row, rowCount);
  if (columns % tileColumns() != 0) {
    isStored = t.bitAnd(isStored, t.isLess(column, t.i32(columns)));
  }
  emitter.when(isStored, [&] {
    ResultStrip strip;
    strip.parts = p.parts;
    strip.partColumns = columns;
    IndexMath &math = kernel.math;
    Index rowIndex = math.fromWord(row), columnIndex = math.fromWord(column);
    for (int64_t part = 0; part < p.parts; ++part) {
      Value from = t.add(t.mul(row, sumPitch()), t.add(tileColumn, part * tileColumns()));
      Value total;
      for (int64_t i = 0; i < layout.warps; ++i) {
        Value at = t.offset(base, t.f32Type(), t.add(from, i * warpSums()));
        Value sum = t.load(t.f32Type(), at, 4);
        total = total ? t.addF(total, sum) : sum;
      }
      strip.accumulators.push_back(total);
    }
    strip.place = math.delinearize(rowIndex, kernel.sizes(p.rowDims));
    strip.place.push_back(columnIndex);
    strip.linear = math.add(math.multiply(rowIndex, Index::constant(columns)), columnIndex);
    storeThroughEpilogue(emitter, tensors, strip);
  });
}

} // namespace tenon::codegen::cuda
