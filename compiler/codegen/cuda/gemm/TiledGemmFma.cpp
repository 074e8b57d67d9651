// Products of f32 tiles by FP32 arithmetic. The 32 threads of a warp stand 4 x 8 on its part; a
// thread does every fourth row and eighth column of it, so that what a quarter of the warp reads of
// B at once, 8 neighbouring lines of 16 bytes, lies in different banks. Relies on tiles stored
// [row or column][depth] with a pitch of an odd number of 16 bytes.
#include "compiler/codegen/cuda/gemm/TiledGemmKernel.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

namespace {

/// How the threads of a warp stand.
constexpr int64_t kLaneRows = 4, kLaneColumns = 8;
/// Places of the depth that a thread reads at once.
constexpr int64_t kRead = 4;

Value laneRow(const ThreadBuilder &t) { return t.div(t.lane(), kLaneColumns); }
Value laneColumn(const ThreadBuilder &t) { return t.rem(t.lane(), kLaneColumns); }

} // namespace

/// The accumulators, by a thread's rows and columns, with the products of one stage added.
Values TiledGemmKernel::multiplyStageFma(const ThreadBuilder &t, Value step,
                                         ValueRange accumulators) const {
  Values result(accumulators);
  int64_t rows = tile.warpRows / kLaneRows, columns = tile.warpColumns / kLaneColumns;
  Value stage = t.rem(t.sub(step, firstStep), tile.stages);
  Value aTile = t.offset(shared, stored, t.mul(stage, stageElements()));
  Value bTile = t.offset(aTile, stored, a->elements());
  Value aBase = t.offset(aTile, stored, t.mul(t.add(warpRow, laneRow(t)), a->pitch));
  Value bBase = t.offset(bTile, stored, t.mul(t.add(warpColumn, laneColumn(t)), b->pitch));
  Type four = t.vectorType(kRead, t.f32Type());
  for (int64_t depth = 0; depth < tile.depth; depth += kRead) {
    Values left;
    for (int64_t i = 0; i < rows; ++i) {
      int64_t from = i * kLaneRows * a->pitch + depth;
      left.push_back(t.load(four, t.offset(aBase, stored, from), 16));
    }
    for (int64_t j = 0; j < columns; ++j) {
      int64_t from = j * kLaneColumns * b->pitch + depth;
      Value right = t.load(four, t.offset(bBase, stored, from), 16);
      for (int64_t k = 0; k < kRead; ++k) {
        Value y = t.extract(right, k);
        for (int64_t i = 0; i < rows; ++i) {
          Value &sum = result[i * columns + j];
          sum = t.fma(t.extract(left[i], k), y, sum);
        }
      }
    }
  }
  return result;
}

/// Stores the warp's accumulators as [row][column] of f32.
void TiledGemmKernel::storeSumsFma(ValueRange accumulators) {
  ThreadBuilder t = kernel.code();
  int64_t columns = tile.warpColumns / kLaneColumns;
  Value row = t.add(warpRow, laneRow(t)), column = t.add(warpColumn, laneColumn(t));
  Value base = t.offset(shared, t.f32Type(), t.add(t.mul(row, sumPitch()), column));
  for (auto [number, sum] : llvm::enumerate(accumulators)) {
    int64_t i = int64_t(number) / columns, j = int64_t(number) % columns;
    t.store(sum, t.offset(base, t.f32Type(), i * kLaneRows * sumPitch() + j * kLaneColumns), 4);
  }
}

} // namespace tenon::codegen::cuda
