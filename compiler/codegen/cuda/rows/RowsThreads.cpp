// Relies on shuffles within warps, shared memory and one barrier within a block. Within a cluster
// on asynchronous stores to the other blocks' memory where blocks end with their rows, so that they
// need not wait for what else they have loaded (softmax of 65,536: 4.08 TB/s; 3.05 by a barrier of
// the cluster). Blocks that stay for many rows meet at that barrier: it waits for their stores of
// the row before, without which rows are 7 to 14 % slower (layer norm of 65,536: 3.73 and 3.50).
#include "compiler/codegen/cuda/rows/RowsThreads.h"

#include "compiler/codegen/cuda/base/AsyncCopy.h"
#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/rows/Tuning.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::codegen::cuda {

ThreadCombiner::ThreadCombiner(KernelFrame &kernel, const RowThreads &threads, Value thread)
    : kernel(kernel), t(kernel.builder, kernel.location), threads(threads),
      thread(arith::IndexCastOp::create(kernel.builder, kernel.location, t.i32Type(), thread)),
      lane(t.rem(this->thread, kWarp)), place(t.div(this->thread, kWarp)) {
  if (threads.blocks == 1) {
    return;
  }
  Value rank = NVVM::BlockInClusterIdXOp::create(t.builder, t.location, t.i32Type());
  place = t.add(t.mul(rank, threads.perRow / kWarp), place);
  // The memory of a block may be written to only once the block runs.
  begin = NVVM::ClusterArriveRelaxedOp::create(t.builder, t.location, t.builder.getUnitAttr());
}

void ThreadCombiner::awaitCluster() {
  if (threads.blocks > 1 && !hasClusterStarted) {
    t.waitForCluster();
  }
  hasClusterStarted = true;
}

void ThreadCombiner::enterLoop() {
  awaitCluster();
  isLoop = true;
}

int64_t ThreadCombiner::warps() const { return threads.perRow / kWarp * threads.blocks; }

Type ThreadCombiner::kept(Type type) const {
  return isAsynchronous() && type.getIntOrFloatBitWidth() < 32 ? t.i32Type() : type;
}

Value ThreadCombiner::toKept(Value value) const {
  unsigned width = value.getType().getIntOrFloatBitWidth();
  Value bits = t.bitcast(t.builder.getIntegerType(width), value);
  return width < 32 ? arith::ExtUIOp::create(t.builder, t.location, t.i32Type(), bits).getResult()
                    : bits;
}

Value ThreadCombiner::fromKept(Type type, Value value) const {
  if (value.getType() == type) {
    return value;
  }
  Type narrow = t.builder.getIntegerType(type.getIntOrFloatBitWidth());
  return t.bitcast(type, arith::TruncIOp::create(t.builder, t.location, narrow, value));
}

Value ThreadCombiner::shuffle(Value value, int64_t mask) const {
  Type type = value.getType();
  if (type.isF32() || type.isInteger(32)) {
    return t.shuffleXor(value, mask);
  }
  Value bits = toKept(value);
  if (type.getIntOrFloatBitWidth() < 32) {
    return fromKept(type, t.shuffleXor(bits, mask));
  }
  auto word = [&](Value part) -> Value {
    Value other = t.shuffleXor(t.toI32(part), mask);
    return arith::ExtUIOp::create(t.builder, t.location, t.i64Type(), other);
  };
  Value half = t.i64(32);
  Value high = word(arith::ShRUIOp::create(t.builder, t.location, bits, half));
  Value moved = arith::ShLIOp::create(t.builder, t.location, high, half);
  return t.bitcast(type, arith::OrIOp::create(t.builder, t.location, word(bits), moved));
}

Accumulators ThreadCombiner::combineLanes(const Combiner &combiner, int64_t lanes,
                                          Accumulators values, int64_t stride) const {
  for (int64_t mask = lanes / 2 * stride; mask >= stride; mask /= 2) {
    Accumulators others =
        llvm::map_to_vector<2>(values, [&](Value value) { return shuffle(value, mask); });
    values = combiner.combine(t.builder, t.location, values, others);
  }
  return values;
}

bool ThreadCombiner::isPair(const Accumulators &values) {
  return values.size() == 2 &&
         llvm::all_of(values, [](Value value) { return value.getType().isF32(); });
}

Accumulators ThreadCombiner::packed(const Accumulators &values) const {
  return isPair(values) ? Accumulators{t.bitcast(t.i64Type(), t.pack(values))} : values;
}

Value ThreadCombiner::makeBarrier() {
  Value barrier = kernel.shared(t.i64Type(), 1);
  OpBuilder::InsertionGuard guard(t.builder);
  t.builder.setInsertionPoint(begin);
  t.when(t.isEqual(thread, t.i32(0)), [&](const ThreadBuilder &one) {
    initBarrier(one, barrier, /*arrivals=*/1);
    publishBarriers(one);
  });
  return barrier;
}

ThreadCombiner::Exchange ThreadCombiner::exchangeOf(const Accumulators &values) {
  Exchange exchange;
  exchange.isPair = isPair(values);
  for (Value value : packed(values)) {
    exchange.types.push_back(value.getType());
    exchange.arrays.push_back(kernel.shared(kept(value.getType()), warps() * (isLoop ? 2 : 1)));
  }
  exchange.barrier = isAsynchronous() ? makeBarrier() : Value();
  return exchange;
}

Value ThreadCombiner::ofRound(Value array, Type element, Value number) {
  return number ? t.offset(array, element, t.mul(t.bitAnd(number, t.i32(1)), warps())) : array;
}

/// Stores the warp's values in the memory of every block of the row, and tells so.
void ThreadCombiner::start(const Exchange &exchange, Value number, const Accumulators &values) {
  awaitCluster();
  t.when(t.isLess(lane, t.i32(threads.blocks)), [&](const ThreadBuilder &sender) {
    OpBuilder::InsertionGuard guard(t.builder);
    t.builder.restoreInsertionPoint(sender.builder.saveInsertionPoint());
    for (auto [array, value] : llvm::zip(exchange.arrays, packed(values))) {
      Type type = kept(value.getType());
      Value target = t.offset(ofRound(array, type, number), type, place);
      if (threads.blocks > 1) {
        target = t.remote(target, lane);
      }
      if (exchange.barrier) {
        storeAsync(t, target, toKept(value), t.remote(exchange.barrier, lane));
      } else {
        t.store(value, target, byteSize(type));
      }
    }
  });
  if (threads.blocks > 1 && !exchange.barrier) {
    t.arriveAtCluster();
  }
}

/// Waits for all that the threads of the row have started.
void ThreadCombiner::await(const Exchange &exchange) {
  if (!exchange.barrier) {
    return threads.blocks > 1 ? t.waitForCluster() : kernel.barrier();
  }
  int64_t bytes = 0;
  for (Type type : exchange.types) {
    bytes += warps() * byteSize(kept(type));
  }
  // Some of the bytes may have come already.
  t.when(t.isEqual(thread, t.i32(0)),
         [&](const ThreadBuilder &one) { arriveExpecting(one, exchange.barrier, one.i32(bytes)); });
  waitForPhase(t, exchange.barrier, t.i32(0));
}

Accumulators ThreadCombiner::load(const Exchange &exchange, Value number, Value position) {
  Accumulators values;
  for (auto [array, type] : llvm::zip(exchange.arrays, exchange.types)) {
    Type element = kept(type);
    Value source = t.offset(ofRound(array, element, number), element, position);
    values.push_back(fromKept(type, t.load(element, source, byteSize(element))));
  }
  if (exchange.isPair) {
    Value pair = t.bitcast(t.vectorType(2, t.f32Type()), values[0]);
    return {t.extract(pair, 0), t.extract(pair, 1)};
  }
  return values;
}

/// Combines what lies in the arrays: each thread for itself while that is little, else the lanes
/// of each warp together.
Accumulators ThreadCombiner::gather(const Combiner &combiner, const Exchange &exchange,
                                    Value number, const Accumulators &neutral) {
  int64_t count = warps();
  SmallVector<Accumulators> parts;
  if (count <= tuning::kAloneWarps) {
    for (int64_t i = 0; i < count; ++i) {
      parts.push_back(load(exchange, number, t.i32(i)));
    }
    return combiner.combine(t.builder, t.location, parts);
  }
  for (int64_t first = 0; first < count; first += kWarp) {
    Value position = t.add(lane, first);
    if (first + kWarp <= count) {
      parts.push_back(load(exchange, number, position));
      continue;
    }
    Value isInside = t.isLess(position, t.i32(count));
    Accumulators values = load(exchange, number, t.select(isInside, position, t.i32(count - 1)));
    for (auto [value, other] : llvm::zip(values, neutral)) {
      value = t.select(isInside, value, other);
    }
    parts.push_back(values);
  }
  return combineLanes(combiner, kWarp, combiner.combine(t.builder, t.location, parts));
}

Accumulators ThreadCombiner::combine(const Combiner &combiner, Accumulators partial,
                                     const Accumulators &neutral) {
  partial = combineLanes(combiner, std::min(threads.perRow, kWarp), std::move(partial));
  if (threads.perRow <= kWarp && threads.blocks == 1) {
    return partial;
  }
  Exchange exchange = exchangeOf(partial);
  start(exchange, current, partial);
  await(exchange);
  return gather(combiner, exchange, current, neutral);
}

bool ThreadCombiner::canCombineJointly(const RowThreads &threads) {
  int64_t warps = threads.perRow / kWarp * threads.blocks;
  return warps % kWarp == 0 || (warps > 1 && llvm::isPowerOf2_64(warps));
}

/// Around the mean of the first part, so that all the rest is sums, whose additions wait less for
/// each other than merging two by two. Of N elements in parts of n, N times the square of what that
/// mean is off is at most N / n times what the squares come to, as the first part's own are among
/// them: the difference loses no more than a few bits.
Accumulators ThreadCombiner::combineMoments(int64_t lanes, int64_t count,
                                            ArrayRef<Accumulators> parts, Value first) const {
  Value rest, squares, moved;
  for (const Accumulators &part : parts) {
    Value distance = t.subF(part[0], first);
    rest = rest ? t.addF(rest, distance) : distance;
    squares = squares ? t.addF(squares, part[1]) : part[1];
    moved = moved ? t.fma(distance, distance, moved) : t.mulF(distance, distance);
  }
  squares = t.fma(moved, t.f32(1.0 / static_cast<double>(count)), squares);
  for (int64_t mask = lanes / 2; mask > 0; mask /= 2) {
    rest = t.addF(rest, t.shuffleXor(rest, mask));
    squares = t.addF(squares, t.shuffleXor(squares, mask));
  }
  double all = static_cast<double>(lanes) * static_cast<double>(parts.size());
  Value off = t.mulF(rest, t.f32(-1.0 / (all * static_cast<double>(count))));
  Value least =
      arith::MaximumFOp::create(t.builder, t.location, t.fma(off, rest, squares), t.f32(0));
  return {t.fma(first, t.f32(all), rest), least};
}

Accumulators ThreadCombiner::combineJointly(const Round &round, int64_t lanes, int64_t count,
                                            ArrayRef<Accumulators> parts,
                                            llvm::function_ref<Value()> first) const {
  const JointReduction &joint = *round.joint;
  if (!joint.momentsOf()) {
    // One after the other: to merge two by two takes an exponential each time.
    auto combined = [&](const Combiner &combiner, auto valueOf) -> Value {
      SmallVector<Accumulators> own = llvm::map_to_vector(
          parts, [&](const Accumulators &part) { return Accumulators{valueOf(part)}; });
      return combineLanes(combiner, lanes,
                          combiner.combine(t.builder, t.location, std::move(own)))[0];
    };
    Value whole = combined(round.combiners[0], [](const Accumulators &part) { return part[0]; });
    Value second = combined(round.combiners[1], [&](const Accumulators &part) {
      return joint.move(t.builder, t.location, part[1], part[0], whole);
    });
    return {whole, second};
  }
  return combineMoments(lanes, count, parts, first());
}

Accumulators ThreadCombiner::ofWarp(const Round &round, Accumulators own) const {
  if (!round.joint) {
    return combineLanes(round.combiners[0], kWarp, std::move(own));
  }
  return combineJointly(round, kWarp, round.count, {own}, [&] { return t.shuffleFrom(own[0], 0); });
}

void ThreadCombiner::send(const Accumulators &ofWarp, Value number) {
  if (!isLoop || apart.empty()) {
    apart.push_back(exchangeOf(ofWarp));
  }
  start(apart.back(), number, ofWarp);
}

Accumulators ThreadCombiner::receive(const Round &round, Value number) {
  const Exchange &exchange = isLoop ? apart.front() : apart[received++];
  await(exchange);
  if (!round.joint) {
    return gather(round.combiners[0], exchange, number, round.neutral);
  }
  SmallVector<Accumulators> parts;
  int64_t lanes = std::min(warps(), kWarp), ofLane = warps() / lanes;
  Value first = t.mul(t.rem(lane, lanes), ofLane);
  for (int64_t i = 0; i < ofLane; ++i) {
    parts.push_back(load(exchange, number, t.add(first, i)));
  }
  return combineJointly(round, lanes, round.count * kWarp, parts,
                        [&] { return load(exchange, number, t.i32(0))[0]; });
}

} // namespace tenon::codegen::cuda
