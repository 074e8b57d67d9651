// From a thread's sums to the result: through the region's elementwise ops, two neighbours at a time,
// then four threads exchange words so that each stores 16 bytes. Relies on Warpgroup.h for which sums
// a thread has.
#include "compiler/codegen/cuda/LargeProduct.h"

#include "compiler/codegen/cuda/TensorCore.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

namespace {

/// Groups of 8 columns whose words four threads exchange: 32 columns.
constexpr int64_t kExchanged = 4;
/// Rows of a thread in a warpgroup's tile: its own, and the one 8 below.
constexpr int64_t kRowsOfThread = 2;

} // namespace

/// Word i of each of four neighbours becomes the four words of neighbour i.
Values LargeProduct::exchange(const ThreadBuilder &t, ArrayRef<Value> words) const {
  Values now(words);
  for (int64_t mask : {1, 2}) {
    Value isUpper = t.isLess(t.i32(0), t.bitAnd(quad, t.i32(mask)));
    Values after(now);
    for (int64_t low = 0; low < kExchanged; ++low) {
      int64_t high = low + mask;
      if (low & mask) {
        continue;
      }
      Value got = t.shuffleXor(t.select(isUpper, now[low], now[high]), mask);
      after[low] = t.select(isUpper, got, now[low]);
      after[high] = t.select(isUpper, now[high], got);
    }
    now = after;
  }
  return now;
}

/// 32 columns of both rows; `sums` are this thread's of them, by groups of 8 columns.
void LargeProduct::storeColumns(int64_t first, const Index &column, ArrayRef<Value> sums) {
  IndexMath &math = kernel.math;
  ThreadBuilder t = code();
  emitter.openScope();
  SmallVector<Indices> places;
  std::map<IndicesKey, Value> held; ///< by place
  for (int64_t row = 0; row < kRowsOfThread; ++row) {
    for (int64_t group = 0; group < kExchanged; ++group) {
      for (int64_t i = 0; i < 2; ++i) {
        Indices at = rows[row].place;
        at.push_back(math.add(column, Index::constant(first + group * 8 + i)));
        held[keyOf(at)] = sums[group * 4 + row * 2 + i];
        places.push_back(at);
      }
    }
  }
  emitter.hold(tensors.sum, [held](ArrayRef<Index> at) { return held.at(keyOf(at)); });
  SmallVector<Value> elements = emitter.elements(tensors.result, places);
  if (emitter.hasFailed()) {
    return;
  }
  // Thread i of four stores the words of group i, which begin 6 i columns behind its own.
  Value chunk = arith::IndexCastOp::create(t.builder, t.location, t.builder.getIndexType(),
                                           t.mul(quad, 6));
  Index start = math.add(math.add(column, Index{chunk, 0, 2, true}), Index::constant(first));
  start.divisor = 8;
  for (int64_t row = 0; row < kRowsOfThread; ++row) {
    Values words;
    for (int64_t group = 0; group < kExchanged; ++group) {
      const Value *pair = &elements[(row * kExchanged + group) * 2];
      words.push_back(t.bitcast(t.i32Type(), t.pack({pair[0], pair[1]})));
    }
    Value stored = t.bitcast(t.vectorType(8, p.element), t.pack(exchange(t, words)));
    Index linear = math.add(math.multiply(rows[row].number, Index::constant(p.columns)), start);
    auto store = [&] { kernel.store(kernel.region.output(0), stored, linear); };
    if (!rows[row].exists) {
      store();
      continue;
    }
    scf::IfOp branch = scf::IfOp::create(kernel.builder, kernel.location, rows[row].exists,
                                         /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(kernel.builder);
    kernel.builder.setInsertionPointToStart(branch.thenBlock());
    store();
  }
  emitter.closeScope();
}

void LargeProduct::storeTile(const ThreadBuilder &t, const Corner &corner, ArrayRef<Value> sums) {
  OpBuilder::InsertionGuard guard(kernel.builder);
  kernel.builder.setInsertionPointToEnd(t.builder.getInsertionBlock());
  IndexMath &math = kernel.math;
  emitter.openScope();
  auto index = [&](Value word, int64_t divisor) {
    Value value = arith::IndexCastOp::create(kernel.builder, kernel.location,
                                             kernel.builder.getIndexType(), word);
    return Index{value, 0, divisor, true};
  };
  ThreadBuilder c = code();
  Value lane = c.rem(thread, kWarpgroup);
  Value inGroup = c.add(c.mul(c.div(lane, kWarp), kMmaRows), c.div(c.rem(lane, kWarp), 4));
  Value first = c.add(c.add(corner.row, c.mul(warpgroup, kGroupRows)), inGroup);
  bool hasTail = p.rows % dispatch::kLargeRows != 0;
  rows.clear();
  for (int64_t i = 0; i < kRowsOfThread; ++i) {
    Value row = c.add(first, i * 8);
    Value exists = hasTail ? c.isLess(row, c.i32(p.rows)) : Value();
    // Rows that do not exist compute something of the last one.
    Index number = index(hasTail ? c.min(row, c.i32(p.rows - 1)) : row, 1);
    rows.push_back({number, math.delinearize(number, kernel.sizes(p.rowDims)), exists});
  }
  Index column = index(c.add(corner.column, c.mul(quad, 2)), 2);
  constexpr int64_t kSums = kExchanged * kRowsOfThread * 2;
  for (int64_t i = 0; i * kSums < static_cast<int64_t>(sums.size()); ++i) {
    storeColumns(i * kExchanged * 8, column, sums.slice(i * kSums, kSums));
  }
  emitter.closeScope();
}

} // namespace tenon::codegen::cuda
