// Products by FP32 arithmetic, for all float types up to f32 and any strides: a thread does parts
// of 4 x 4 that lie 4 * 16 rows and columns apart, so that neighbours read neighbouring banks.
// Relies on TiledGemmStore.cpp for the way out.
#include "compiler/codegen/cuda/gemm/TiledGemmKernel.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

namespace {

/// Elements of a part, and the distance between a thread's parts.
constexpr int64_t kThreadTile = kSimtPart, kStride = 64;

} // namespace

/// Threads are 16 x 16; `warpRow` and `warpColumn` are the places of a thread's first part.
void TiledGemmKernel::placeSimt() {
  ThreadBuilder t = kernel.code();
  warpRow = t.mul(t.div(at.thread, 16), kThreadTile);
  warpColumn = t.mul(t.rem(at.thread, 16), kThreadTile);
}

Values TiledGemmKernel::addSimtProducts() {
  ThreadBuilder t = kernel.code();
  Value aTile = shared;
  Value bTile = t.offset(shared, t.f32Type(), tile.depth * (tile.rows + kThreadTile));
  Type four = t.vectorType(kThreadTile, t.f32Type());
  int64_t rowParts = tile.warpRows / kThreadTile, columnParts = tile.warpColumns / kThreadTile;
  auto body = [&](const ThreadBuilder &c, Value step, ValueRange before) {
    Values accumulators(before);
    c.barrier();
    simtA->fill(c, step, aTile);
    simtB->fill(c, step, bTile);
    c.barrier();
    Value aBase = c.offset(aTile, c.f32Type(), warpRow);
    Value bBase = c.offset(bTile, c.f32Type(), warpColumn);
    for (int64_t k = 0; k < tile.depth; ++k) {
      Values left, right;
      for (int64_t i = 0; i < rowParts; ++i) {
        int64_t at = k * (tile.rows + kThreadTile) + i * kStride;
        left.push_back(c.load(four, c.offset(aBase, c.f32Type(), at), 16));
      }
      for (int64_t j = 0; j < columnParts; ++j) {
        int64_t at = k * (tile.columns + kThreadTile) + j * kStride;
        right.push_back(c.load(four, c.offset(bBase, c.f32Type(), at), 16));
      }
      for (int64_t i = 0; i < tile.warpRows; ++i) {
        Value x = c.extract(left[i / kThreadTile], i % kThreadTile);
        for (int64_t j = 0; j < tile.warpColumns; ++j) {
          Value &sum = accumulators[i * tile.warpColumns + j];
          sum = c.fma(x, c.extract(right[j / kThreadTile], j % kThreadTile), sum);
        }
      }
    }
    return accumulators;
  };
  return t.loop(firstStep, lastStep, t.i32(1), Values(tile.warpRows * tile.warpColumns, t.f32(0)),
                body);
}

void TiledGemmKernel::shareSimtSums(ValueRange accumulators) {
  ThreadBuilder t = kernel.code();
  t.barrier();
  Values sums(accumulators);
  for (Value &sum : sums) {
    sum = p.factor == 1 ? sum : t.mulF(sum, t.f32(p.factor));
  }
  Value base = t.offset(shared, t.f32Type(), t.add(t.mul(warpRow, sumPitch()), warpColumn));
  for (int64_t i = 0; i < tile.warpRows; ++i) {
    int64_t row = i / kThreadTile * kStride + i % kThreadTile;
    for (int64_t j = 0; j < tile.warpColumns; j += kThreadTile) {
      ArrayRef<Value> part = ArrayRef<Value>(sums).slice(i * tile.warpColumns + j, kThreadTile);
      int64_t at = row * sumPitch() + j / kThreadTile * kStride;
      t.store(t.pack(part), t.offset(base, t.f32Type(), at), 16);
    }
  }
  t.barrier();
}

} // namespace tenon::codegen::cuda
