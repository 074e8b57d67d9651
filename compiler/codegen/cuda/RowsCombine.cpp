// Relies on shuffles within warps, shared memory and one barrier within a block, and the memory
// that the blocks of a cluster share.
#include "compiler/codegen/cuda/RowsCombine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kWarpLanes = 32;

bool combines(Operation *op) {
  return isa<arith::AddFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp, arith::AddIOp,
             arith::MulIOp, arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp,
             arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op);
}

/// The comparison of an element with the best so far, under the logic that decides.
Operation *findComparison(Value decision, Value best) {
  Operation *op = decision.getDefiningOp();
  if (isa_and_nonnull<arith::AndIOp, arith::OrIOp>(op)) {
    Operation *left = findComparison(op->getOperand(0), best);
    return left ? left : findComparison(op->getOperand(1), best);
  }
  if (isa_and_nonnull<arith::CmpFOp, arith::CmpIOp>(op) && op->getOperand(1) == best &&
      op->getOperand(0) != best) {
    return op;
  }
  return nullptr;
}

} // namespace

std::optional<Combiner> Combiner::of(linalg::GenericOp op) {
  Block &body = op.getRegion().front();
  Operation *yield = body.getTerminator();
  Combiner result;
  if (op.getNumResults() == 1) {
    BlockArgument accumulator = op.getRegionOutputArgs()[0];
    Operation *last = yield->getOperand(0).getDefiningOp();
    bool isKnown = last && combines(last) && accumulator.hasOneUse() &&
                   llvm::is_contained(last->getOperands(), accumulator);
    result.single = last;
    return isKnown ? std::optional(result) : std::nullopt;
  }
  if (op.getNumResults() != 2) {
    return std::nullopt;
  }
  arith::SelectOp value = yield->getOperand(0).getDefiningOp<arith::SelectOp>();
  arith::SelectOp index = yield->getOperand(1).getDefiningOp<arith::SelectOp>();
  Value best = op.getRegionOutputArgs()[0];
  if (!value || !index || value.getCondition() != index.getCondition() ||
      value.getFalseValue() != best || index.getFalseValue() != op.getRegionOutputArgs()[1]) {
    return std::nullopt;
  }
  result.comparison = findComparison(value.getCondition(), best);
  return result.comparison ? std::optional(result) : std::nullopt;
}

namespace {

struct Best {
  Value value, index;
};

/// Whether `b` is taken rather than `a`: strictly better, or equal and with the index that is asked
/// for. A NaN is better than any number, and of two the first is taken.
Value isTaken(OpBuilder &builder, Location location, arith::CmpFOp comparison, Best a, Best b) {
  using P = arith::CmpFPredicate;
  P given = comparison.getPredicate();
  bool isLargest = given == P::UGT || given == P::UGE;
  bool isLast = given == P::UGE || given == P::ULE;
  auto compare = [&](P predicate, Value x, Value y) -> Value {
    return arith::CmpFOp::create(builder, location, predicate, x, y);
  };
  auto order = [&](arith::CmpIPredicate predicate) -> Value {
    return arith::CmpIOp::create(builder, location, predicate, b.index, a.index);
  };
  Value first = order(arith::CmpIPredicate::slt);
  Value wanted = isLast ? order(arith::CmpIPredicate::sgt) : first;
  Value better = compare(isLargest ? P::UGT : P::ULT, b.value, a.value);
  Value ties = arith::AndIOp::create(builder, location, compare(P::OEQ, b.value, a.value), wanted);
  Value taken = arith::OrIOp::create(builder, location, better, ties);
  Value bothNan =
      arith::AndIOp::create(builder, location, compare(P::UNO, b.value, b.value), first);
  return arith::SelectOp::create(builder, location, compare(P::ORD, a.value, a.value), taken,
                                 bothNan);
}

Value isTaken(OpBuilder &builder, Location location, arith::CmpIOp comparison, Best a, Best b) {
  using P = arith::CmpIPredicate;
  P given = comparison.getPredicate();
  bool isLast = given == P::uge || given == P::ule || given == P::sge || given == P::sle;
  P strict = given == P::uge   ? P::ugt
             : given == P::ule ? P::ult
             : given == P::sge ? P::sgt
             : given == P::sle ? P::slt
                               : given;
  Value better = arith::CmpIOp::create(builder, location, strict, b.value, a.value);
  Value equal = arith::CmpIOp::create(builder, location, P::eq, b.value, a.value);
  Value wanted =
      arith::CmpIOp::create(builder, location, isLast ? P::sgt : P::slt, b.index, a.index);
  Value ties = arith::AndIOp::create(builder, location, equal, wanted);
  return arith::OrIOp::create(builder, location, better, ties);
}

} // namespace

Accumulators Combiner::combine(OpBuilder &builder, Location location, ValueRange a,
                               ValueRange b) const {
  if (single) {
    // The order is kept: the accumulator may stand on either side.
    IRMapping mapping;
    mapping.map(single->getOperand(0), a[0]);
    mapping.map(single->getOperand(1), b[0]);
    return {builder.clone(*single, mapping)->getResult(0)};
  }
  Best first{a[0], a[1]}, second{b[0], b[1]};
  arith::CmpFOp floats = dyn_cast<arith::CmpFOp>(comparison);
  Value taken = floats ? isTaken(builder, location, floats, first, second)
                       : isTaken(builder, location, cast<arith::CmpIOp>(comparison), first, second);
  return {arith::SelectOp::create(builder, location, taken, b[0], a[0]),
          arith::SelectOp::create(builder, location, taken, b[1], a[1])};
}

Accumulators Combiner::combine(OpBuilder &builder, Location location,
                               SmallVector<Accumulators> all) const {
  while (all.size() > 1) {
    SmallVector<Accumulators> half;
    for (size_t i = 0; i + 1 < all.size(); i += 2) {
      half.push_back(combine(builder, location, all[i], all[i + 1]));
    }
    if (all.size() % 2 == 1) {
      half.push_back(all.back());
    }
    all = std::move(half);
  }
  return all.front();
}

namespace {

/// Short names for the ops below.
class ThreadCode {
public:
  explicit ThreadCode(Kernel &kernel)
      : kernel(kernel), builder(kernel.builder), location(kernel.location) {}

  Value i32(int64_t value) {
    return arith::ConstantOp::create(builder, location, builder.getI32IntegerAttr(value));
  }
  Value word(Value index) {
    return arith::IndexCastOp::create(builder, location, builder.getI32Type(), index);
  }
  Value rem(Value a, int64_t b) {
    return builder.createOrFold<arith::RemUIOp>(location, a, i32(b));
  }
  Value div(Value a, int64_t b) {
    return builder.createOrFold<arith::DivUIOp>(location, a, i32(b));
  }
  Value isBelow(Value a, int64_t b) {
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, a, i32(b));
  }
  Value element(Value base, Type type, Value position) {
    return LLVM::GEPOp::create(builder, location, base.getType(), type, base,
                               ArrayRef<LLVM::GEPArg>{position});
  }

  Value shuffleWord(Value value, int64_t mask) {
    return NVVM::ShflOp::create(builder, location, value.getType(), i32(-1), value, i32(mask),
                                i32(kWarpLanes - 1), NVVM::ShflKind::bfly, UnitAttr());
  }
  /// The value of any type of lane ^ mask.
  Value shuffle(Value value, int64_t mask);
  Accumulators shuffle(const Accumulators &values, int64_t mask) {
    return llvm::map_to_vector<2>(values, [&](Value value) { return shuffle(value, mask); });
  }

  Kernel &kernel;
  OpBuilder &builder;
  Location location;
};

Value ThreadCode::shuffle(Value value, int64_t mask) {
  Type type = value.getType();
  if (type.isF32() || type.isInteger(32)) {
    return shuffleWord(value, mask);
  }
  unsigned width = type.getIntOrFloatBitWidth();
  Type integer = builder.getIntegerType(width);
  Value bits =
      type == integer ? value : arith::BitcastOp::create(builder, location, integer, value);
  if (width < 32) {
    Value wide = arith::ExtUIOp::create(builder, location, builder.getI32Type(), bits);
    bits = arith::TruncIOp::create(builder, location, integer, shuffleWord(wide, mask));
  } else {
    Value half = arith::ConstantOp::create(builder, location, builder.getI64IntegerAttr(32));
    Value high = arith::ShRUIOp::create(builder, location, bits, half);
    auto word = [&](Value part) -> Value {
      Value low = arith::TruncIOp::create(builder, location, builder.getI32Type(), part);
      return arith::ExtUIOp::create(builder, location, integer, shuffleWord(low, mask));
    };
    Value low = word(bits);
    Value moved = arith::ShLIOp::create(builder, location, word(high), half);
    bits = arith::OrIOp::create(builder, location, low, moved);
  }
  return type == integer ? bits : arith::BitcastOp::create(builder, location, type, bits);
}

/// Over lanes that differ in the bits below `lanes`, a power of two.
Accumulators combineLanes(ThreadCode &code, const Combiner &combiner, int64_t lanes,
                          Accumulators values) {
  for (int64_t mask = lanes / 2; mask > 0; mask /= 2) {
    values = combiner.combine(code.builder, code.location, values, code.shuffle(values, mask));
  }
  return values;
}

} // namespace

ThreadCombiner::ThreadCombiner(Kernel &kernel, const RowThreads &threads, Value thread)
    : kernel(kernel), threads(threads) {
  ThreadCode code(kernel);
  Value word = code.word(thread);
  lane = code.rem(word, kWarpLanes);
  place = code.div(word, kWarpLanes);
  if (threads.blocks == 1) {
    return;
  }
  OpBuilder &builder = kernel.builder;
  Value rank = NVVM::BlockInClusterIdXOp::create(builder, kernel.location, builder.getI32Type());
  Value before =
      arith::MulIOp::create(builder, kernel.location, rank, code.i32(threads.perRow / kWarpLanes));
  place = arith::AddIOp::create(builder, kernel.location, before, place);
  // The memory of a block may be written to only once the block runs.
  NVVM::ClusterArriveOp::create(builder, kernel.location, builder.getUnitAttr());
}

void ThreadCombiner::awaitCluster() {
  if (threads.blocks > 1 && !hasClusterStarted) {
    NVVM::ClusterWaitOp::create(kernel.builder, kernel.location, kernel.builder.getUnitAttr());
  }
  hasClusterStarted = true;
}

void ThreadCombiner::enterLoop(int64_t count) {
  awaitCluster();
  slots = count;
}

/// Stores the warp's values in the memory of every block of the row, and tells so.
void ThreadCombiner::start(ArrayRef<Value> arrays, const Accumulators &values) {
  ThreadCode code(kernel);
  OpBuilder &builder = kernel.builder;
  Location location = kernel.location;
  bool isCluster = threads.blocks > 1;
  awaitCluster();
  scf::IfOp branch = scf::IfOp::create(builder, location, code.isBelow(lane, threads.blocks),
                                       /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    for (auto [array, value] : llvm::zip(arrays, values)) {
      Value target = code.element(array, value.getType(), place);
      if (isCluster) {
        Type remote = LLVM::LLVMPointerType::get(
            builder.getContext(), static_cast<unsigned>(NVVM::NVVMMemorySpace::SharedCluster));
        target = NVVM::MapaOp::create(builder, location, remote, target, lane);
      }
      LLVM::StoreOp::create(builder, location, value, target, byteSize(value.getType()));
    }
  }
  if (isCluster) {
    NVVM::ClusterArriveOp::create(builder, location, builder.getUnitAttr());
  }
}

/// Waits for all that the threads of the row have started.
void ThreadCombiner::await() {
  if (threads.blocks == 1) {
    return kernel.barrier();
  }
  NVVM::ClusterWaitOp::create(kernel.builder, kernel.location, kernel.builder.getUnitAttr());
}

void ThreadCombiner::exchange(ArrayRef<Value> arrays, const Accumulators &values) {
  start(arrays, values);
  await();
}

/// Combines what lies in the arrays: each thread for itself while that is little, else the lanes
/// of each warp together.
Accumulators ThreadCombiner::gather(const Combiner &combiner, ArrayRef<Value> arrays,
                                    const Accumulators &neutral) {
  constexpr int64_t kAlone = 8;
  ThreadCode code(kernel);
  OpBuilder &builder = kernel.builder;
  Location location = kernel.location;
  int64_t count = warps();
  auto load = [&](Value position) {
    Accumulators values;
    for (auto [array, value] : llvm::zip(arrays, neutral)) {
      Type type = value.getType();
      Value source = code.element(array, type, position);
      values.push_back(LLVM::LoadOp::create(builder, location, type, source, byteSize(type)));
    }
    return values;
  };
  SmallVector<Accumulators> parts;
  if (count <= kAlone) {
    for (int64_t i = 0; i < count; ++i) {
      parts.push_back(load(code.i32(i)));
    }
    return combiner.combine(builder, location, parts);
  }
  for (int64_t first = 0; first < count; first += kWarpLanes) {
    Value position = arith::AddIOp::create(builder, location, lane, code.i32(first));
    if (first + kWarpLanes <= count) {
      parts.push_back(load(position));
      continue;
    }
    Value isInside = code.isBelow(position, count);
    Value last = code.i32(count - 1);
    Accumulators values =
        load(arith::SelectOp::create(builder, location, isInside, position, last));
    for (auto [value, other] : llvm::zip(values, neutral)) {
      value = arith::SelectOp::create(builder, location, isInside, value, other);
    }
    parts.push_back(values);
  }
  return combineLanes(code, combiner, kWarpLanes, combiner.combine(builder, location, parts));
}

int64_t ThreadCombiner::warps() const { return threads.perRow / kWarpLanes * threads.blocks; }

/// For a value of each warp of the row.
SmallVector<Value> ThreadCombiner::arraysFor(const Accumulators &values, Value slot) {
  ThreadCode code(kernel);
  bool isApart = !roundArrays.empty();
  SmallVector<Value> arrays;
  for (auto [i, value] : llvm::enumerate(values)) {
    Value array = isApart ? roundArrays[i] : kernel.shared(value.getType(), warps() * slots);
    if (slot) {
      Value first = arith::MulIOp::create(kernel.builder, kernel.location, slot, code.i32(warps()));
      array = code.element(array, value.getType(), first);
    }
    arrays.push_back(array);
  }
  return arrays;
}

Accumulators ThreadCombiner::combine(const Combiner &combiner, Accumulators partial,
                                     const Accumulators &neutral) {
  ThreadCode code(kernel);
  partial = combineLanes(code, combiner, std::min(threads.perRow, kWarpLanes), std::move(partial));
  if (threads.perRow <= kWarpLanes && threads.blocks == 1) {
    return partial;
  }
  SmallVector<Value> arrays = arraysFor(partial, slot);
  exchange(arrays, partial);
  return gather(combiner, arrays, neutral);
}

bool ThreadCombiner::canCombineJointly(const RowThreads &threads) {
  return threads.perRow / kWarpLanes * threads.blocks % kWarpLanes == 0;
}

void ThreadCombiner::send(const Round &round, Accumulators own, Value slot) {
  ThreadCode code(kernel);
  Accumulators ofWarp = combineLanes(code, round.combiners[0], kWarpLanes, {own[0]});
  if (round.joint) {
    Value moved = round.joint->move(kernel.builder, kernel.location, own[1], own[0], round.count,
                                    ofWarp[0], round.count * kWarpLanes);
    ofWarp.push_back(combineLanes(code, round.combiners[1], kWarpLanes, {moved})[0]);
  }
  if (roundArrays.empty()) {
    roundArrays = arraysFor(ofWarp, Value());
  }
  start(arraysFor(ofWarp, slot), ofWarp);
}

Accumulators ThreadCombiner::receive(const Round &round, Value slot) {
  await();
  SmallVector<Value> arrays = arraysFor(round.neutral, slot);
  if (!round.joint) {
    return gather(round.combiners[0], arrays, round.neutral);
  }
  ThreadCode code(kernel);
  OpBuilder &builder = kernel.builder;
  Location location = kernel.location;
  Accumulators parts[2];
  for (int64_t i = 0; i < warps(); i += kWarpLanes) {
    Value position = arith::AddIOp::create(builder, location, lane, code.i32(i));
    for (auto [array, own] : llvm::zip(arrays, parts)) {
      Type type = builder.getF32Type();
      Value source = code.element(array, type, position);
      own.push_back(LLVM::LoadOp::create(builder, location, type, source, byteSize(type)));
    }
  }
  auto combined = [&](unsigned i) -> Value {
    Accumulators own = round.combiners[i].combine(
        builder, location,
        llvm::map_to_vector(parts[i], [](Value part) { return Accumulators{part}; }));
    return combineLanes(code, round.combiners[i], kWarpLanes, own)[0];
  };
  int64_t ofWarp = round.count * kWarpLanes;
  Value whole = combined(0);
  for (auto [first, second] : llvm::zip(parts[0], parts[1])) {
    second = round.joint->move(builder, location, second, first, ofWarp, whole, ofWarp * warps());
  }
  return {whole, combined(1)};
}

void ThreadCombiner::leave() {
  if (threads.blocks > 1) {
    await();
  }
}

} // namespace tenon::codegen::cuda
