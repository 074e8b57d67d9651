// Chooses the strip loop and builds the loops of parallel strips. Relies on buffers being row-major
// and on distinct buffers not overlapping.
#include "compiler/codegen/cpu/strips/StripNest.h"

#include "compiler/codegen/cpu/strips/HoistUniform.h"
#include "compiler/codegen/cpu/strips/StripSquares.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>
#include <utility>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Iterations of small constant reduction loops (the taps of a window) that are written out, so
/// that what depends on the tap alone is computed once for all strips.
constexpr int64_t kUnrolledTaps = 32;
/// Strips that go down long columns side by side, so that each row gives several cache lines; fewer
/// of a body of more than a few ops, which would not keep its sums in registers.
constexpr int64_t kStripsDown = 8;
constexpr int64_t kStripsDownOfMany = 2;
constexpr size_t kFewOps = 5;
/// Lanes of bytes in a register of 128 bits, and ops whose values of so many bytes'
/// lanes fit 32 registers.
constexpr int64_t kBytesLanes = 16;
constexpr size_t kShortOps = 40;
/// Strips that are written out one behind the other.
constexpr int64_t kWritten = 4;

/// Sizes of the loops, from the first operand dim that a loop indexes alone.
FailureOr<SmallVector<Value>> loopSizes(linalg::GenericOp op, OpBuilder &builder) {
  SmallVector<Value> sizes(op.getNumLoops());
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [i, expression] : llvm::enumerate(map.getResults())) {
      AffineDimExpr loop = dyn_cast<AffineDimExpr>(expression);
      if (loop && !sizes[loop.getPosition()]) {
        sizes[loop.getPosition()] =
            builder.createOrFold<memref::DimOp>(op.getLoc(), operand.get(), i);
      }
    }
  }
  if (llvm::is_contained(sizes, Value())) {
    return op.emitError("a loop has no operand that gives its size");
  }
  return sizes;
}

} // namespace

SmallVector<unsigned> StripNest::loopsWhere(bool reduction) {
  SmallVector<unsigned> loops;
  for (unsigned i = 0; i < op.getNumLoops(); ++i) {
    if (isReduction(i) == reduction && strip != i && cross != i) {
      loops.push_back(i);
    }
  }
  return loops;
}

/// The loop along which most operands are contiguous; none if the body has no vector form along
/// any.
void StripNest::chooseStrip() {
  int64_t best = 0;
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
    if (std::optional<int64_t> size = getConstantIntValue(sizes[loop]); size && *size < 2) {
      continue;
    }
    if (isReduction(loop) && llvm::is_contained(combiners, nullptr)) {
      continue;
    }
    std::optional<int64_t> score = StripBody::score(op, loop);
    if (score && *score > best) {
      best = *score;
      strip = loop;
    }
  }
  if (!strip) {
    return;
  }
  gainsInterior = StripBody::gainsInterior(op, *strip);
  if (!isReduction(*strip) && !gainsInterior) {
    cross = crossLoop(op, *strip);
  }
}

LogicalResult StripNest::build() {
  FailureOr<SmallVector<Value>> found = loopSizes(op, builder);
  if (failed(found)) {
    return failure();
  }
  sizes = *found;
  ivs.resize(sizes.size());
  for (unsigned i = 0; i < op.getNumDpsInits(); ++i) {
    SmallVector<Operation *> chain;
    Value reduced = matchReduction(op.getRegionOutputArgs(), i, chain);
    combiners.push_back(reduced && chain.size() == 1 ? chain.front() : nullptr);
  }
  chooseStrip();
  buildParallel(loopsWhere(false));
  op.erase();
  return success();
}

void StripNest::buildParallel(ArrayRef<unsigned> loops) {
  if (loops.empty()) {
    if (!strip) {
      buildScalar();
    } else if (cross) {
      buildSquares(op, builder, ivs, sizes, *strip, *cross, lanes);
    } else if (isReduction(*strip)) {
      buildReductionStrip();
    } else {
      buildStrips();
    }
    return;
  }
  scf::ForOp loop =
      scf::ForOp::create(builder, location, constant(0), sizes[loops.front()], constant(1));
  ivs[loops.front()] = loop.getInductionVar();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  buildParallel(loops.drop_front());
}

/// Reduction loops around `inner`, carrying the accumulators.
SmallVector<Value>
StripNest::reductionLoops(ArrayRef<unsigned> loops, ValueRange accumulators,
                          llvm::function_ref<SmallVector<Value>(ValueRange)> inner) {
  if (loops.empty()) {
    return inner(accumulators);
  }
  scf::ForOp loop = scf::ForOp::create(builder, location, constant(0), sizes[loops.front()],
                                       constant(1), accumulators);
  ivs[loops.front()] = loop.getInductionVar();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> results = reductionLoops(loops.drop_front(), loop.getRegionIterArgs(), inner);
  if (!results.empty()) {
    scf::YieldOp::create(builder, location, results);
  }
  return SmallVector<Value>(loop.getResults());
}

/// Iterations of all of `loops` together, or more than any limit if one is not constant.
int64_t StripNest::constantTaps(ArrayRef<unsigned> loops) {
  int64_t taps = 1;
  for (unsigned loop : loops) {
    std::optional<int64_t> size = getConstantIntValue(sizes[loop]);
    if (!size || *size > kUnrolledTaps) {
      return std::numeric_limits<int64_t>::max();
    }
    taps = std::min<int64_t>(taps * *size, kUnrolledTaps + 1);
  }
  return taps;
}

/// As reductionLoops, with every iteration written out.
SmallVector<Value>
StripNest::unrolledLoops(ArrayRef<unsigned> loops, ValueRange accumulators,
                         llvm::function_ref<SmallVector<Value>(ValueRange)> inner) {
  if (loops.empty()) {
    return inner(accumulators);
  }
  SmallVector<Value> state(accumulators);
  for (int64_t i = 0; i < *getConstantIntValue(sizes[loops.front()]); ++i) {
    ivs[loops.front()] = constant(i);
    state = unrolledLoops(loops.drop_front(), state, inner);
  }
  return state;
}

/// The results of one iteration (or one vector of them) for these accumulators.
SmallVector<Value> StripNest::element(int64_t width, ValueRange accumulators, Value active) {
  auto emit = [&](bool assumesInterior) {
    StripBody body(op, builder, ivs, strip.value_or(0), width, active);
    if (assumesInterior) {
      body.assumeInterior();
    }
    return body.emit(accumulators);
  };
  if (width == 1 || !gainsInterior || isInside) {
    return emit(width > 1 && isInside);
  }
  // Down a loop of unknown length, what is held back differs from step to step.
  OpBuilder::InsertionGuard guard(builder);
  scf::IfOp inside = scf::IfOp::create(builder, location, accumulators.getTypes(),
                                       isInterior({}, active), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(inside.thenBlock());
  scf::YieldOp::create(builder, location, emit(true));
  builder.setInsertionPointToStart(inside.elseBlock());
  scf::YieldOp::create(builder, location, emit(false));
  return SmallVector<Value>(inside.getResults());
}

/// Whether no index is held back in the strip at any of these taps.
Value StripNest::isInterior(ArrayRef<unsigned> taps, Value active) {
  Value all = arith::ConstantOp::create(builder, location, builder.getBoolAttr(true));
  unrolledLoops(taps, {}, [&](ValueRange) -> SmallVector<Value> {
    Value here = StripBody(op, builder, ivs, *strip, lanes, active).isInterior();
    all = arith::AndIOp::create(builder, location, all, here);
    return {};
  });
  return all;
}

/// A loop over whole strips, several at a time.
void StripNest::buildStripLoop(Value from, Value to, int64_t strips) {
  std::optional<int64_t> first = getConstantIntValue(from), end = getConstantIntValue(to);
  if (hasShortRegisters && strips == 1 && first && end && *end - *first <= kWritten * lanes) {
    // So few strips that counting them would cost a third of a copy.
    for (int64_t at = *first; at < *end; at += lanes) {
      buildParallelStrips(constant(at), 1, Value());
    }
    return;
  }
  scf::ForOp loop = scf::ForOp::create(builder, location, from, to, constant(strips * lanes));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  buildParallelStrips(loop.getInductionVar(), strips, Value());
  hoistUniform(loop);
}

/// Lanes that fill a vector where no value of the body has more than 16 bits. Of 32 bits, where
/// registers are of 128, several registers of a short body: bytes then are loaded, packed and
/// stored by whole registers, and the loop costs less an element. Indices and divisions, which are
/// of wider floats, leave `lanes`.
int64_t StripNest::lanesOfNarrow() {
  unsigned widest = 8;
  auto note = [&](Type type) {
    widest = std::max(widest, type.isIntOrFloat() ? type.getIntOrFloatBitWidth() : 64);
  };
  llvm::for_each(op.getBody()->getArgumentTypes(), note);
  for (Operation &operation : op.getBody()->without_terminator()) {
    llvm::for_each(operation.getResultTypes(), note);
    if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(operation)) {
      return lanes;
    }
  }
  bool isShort = hasShortRegisters && op.getBody()->getOperations().size() <= kShortOps &&
                 llvm::none_of(*op.getBody(), [](Operation &operation) {
                   return isa<math::MathDialect>(operation.getDialect()) &&
                          !isa<math::RoundEvenOp, math::FmaOp, math::AbsFOp>(operation);
                 });
  return widest <= 16 ? lanes * 32 / widest : widest == 32 && isShort ? kBytesLanes : lanes;
}

/// Whole strips, then what is left under a mask.
void StripNest::buildStrips() {
  Value size = sizes[*strip];
  auto floorTo = [&](int64_t width) -> Value {
    Value rest = arith::RemUIOp::create(builder, location, size, constant(width));
    return arith::SubIOp::create(builder, location, size, rest);
  };
  Value whole = floorTo(lanes), start = constant(0);
  std::optional<int64_t> constantSize = getConstantIntValue(size);
  SmallVector<unsigned> reductions = loopsWhere(true);
  if (!reductions.empty() && constantTaps(reductions) > kUnrolledTaps) {
    bool isSmall = op.getBody()->getOperations().size() <= kFewOps && !gainsInterior;
    int64_t strips = isSmall ? kStripsDown : kStripsDownOfMany;
    Value groups = floorTo(strips * lanes);
    if (!constantSize || *constantSize >= strips * lanes) {
      buildStripLoop(start, groups, strips);
      start = groups;
    }
  }
  bool mayWiden = reductions.empty() && (hasShortRegisters || !gainsInterior);
  int64_t wide = mayWiden ? lanesOfNarrow() : lanes;
  while (hasShortRegisters && constantSize && wide > *constantSize && wide > lanes) {
    wide /= 2;
  }
  if (wide > lanes && (!constantSize || *constantSize >= wide)) {
    int64_t narrow = std::exchange(lanes, wide);
    start = floorTo(wide);
    buildStripLoop(constant(0), start, 1);
    lanes = narrow;
  }
  if (!constantSize || *constantSize >= lanes) {
    buildStripLoop(start, whole, 1);
  }
  if (constantSize && *constantSize % lanes == 0) {
    return;
  }
  Value rest = arith::SubIOp::create(builder, location, size, whole);
  Value isRest =
      arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne, rest, constant(0));
  scf::IfOp tail = scf::IfOp::create(builder, location, isRest, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(tail.thenBlock());
  buildParallelStrips(whole, 1, rest);
}

/// Vectors of results side by side; sums over the reduction loops stay in registers.
void StripNest::buildParallelStrips(Value iv, int64_t strips, Value active) {
  SmallVector<unsigned> reductions = loopsWhere(true);
  if (!gainsInterior || constantTaps(reductions) > kUnrolledTaps) {
    return computeStrips(reductions, iv, strips, active);
  }
  ivs[*strip] = iv;
  scf::IfOp inside = scf::IfOp::create(builder, location, isInterior(reductions, active),
                                       /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  for (bool isThen : {true, false}) {
    builder.setInsertionPointToStart(isThen ? inside.thenBlock() : inside.elseBlock());
    isInside = isThen;
    gainsInterior = isThen;
    computeStrips(reductions, iv, strips, active);
  }
  isInside = false;
  gainsInterior = true;
}

void StripNest::computeStrips(ArrayRef<unsigned> reductions, Value iv, int64_t strips,
                              Value active) {
  SmallVector<Value> places, start;
  for (int64_t number = 0; number < strips; ++number) {
    places.push_back(arith::AddIOp::create(builder, location, iv, constant(number * lanes)));
    ivs[*strip] = places.back();
    llvm::append_range(start, StripBody(op, builder, ivs, *strip, lanes, active).loadResults());
  }
  unsigned count = op.getNumDpsInits();
  auto inner = [&](ValueRange accumulators) {
    SmallVector<Value> next;
    for (auto [number, place] : llvm::enumerate(places)) {
      ivs[*strip] = place;
      llvm::append_range(next, element(lanes, accumulators.slice(number * count, count), active));
    }
    return next;
  };
  SmallVector<Value> results = constantTaps(reductions) <= kUnrolledTaps
                                   ? unrolledLoops(reductions, start, inner)
                                   : reductionLoops(reductions, start, inner);
  for (auto [number, place] : llvm::enumerate(places)) {
    ivs[*strip] = place;
    StripBody(op, builder, ivs, *strip, lanes, active)
        .storeResults(ArrayRef(results).slice(number * count, count));
  }
}

void StripNest::buildScalar() {
  SmallVector<unsigned> reductions = loopsWhere(true);
  SmallVector<Value> start = StripBody(op, builder, ivs, 0, 1, Value()).loadResults();
  SmallVector<Value> results = reductionLoops(reductions, start, [&](ValueRange accumulators) {
    return element(1, accumulators, Value());
  });
  StripBody(op, builder, ivs, 0, 1, Value()).storeResults(results);
}

} // namespace tenon::codegen::cpu
