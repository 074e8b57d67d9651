// The ring of stages: who fills it and who multiplies what is in it. Relies on
// PersistentGemmStore.cpp for the way from a tile's accumulators to the result.
#include "compiler/codegen/cuda/gemm/PersistentGemm.h"

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Float8.h"
#include "compiler/target/Float8.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

using tuning::kPersistentStages;
using tuning::kRowTilesTogether;

constexpr int64_t kABytes = kLargeRows * kLargeDepth * 2, kBBytes = kLargeColumns * kLargeDepth * 2;
constexpr int64_t kStageBytes = kABytes + kBBytes;
constexpr int64_t kSharedBytes = kPersistentStages * (kStageBytes + 2 * kBarrierBytes) +
                                 kGroups * (kExchangeBytes + 2 * kBarrierBytes);

std::optional<RightOrder> orderOf(const GemmOperand &b, int64_t columns, int64_t depth) {
  std::optional<int64_t> row = tn::constantDim(b.rowStride());
  std::optional<int64_t> column = tn::constantDim(b.columnStride());
  if (row == columns && column == 1) {
    return RightOrder::ColumnsInner;
  }
  return row == 1 && column == depth ? std::optional(RightOrder::DepthInner) : std::nullopt;
}

bool isHalf(Type element) { return element.isF16() || element.isBF16(); }

/// Rows whose tiles are numbered in 32 bits.
constexpr int64_t kMaxLargeRows = int64_t(1) << 24;

bool startsBuffer(const GemmOperand &operand) { return tn::constantDim(operand.at.offset) == 0; }

} // namespace

MatchResult<LargeProblem> matchPersistentGemm(RegionBuilder &region) {
  if (!region.gpu.has(target::Feature::WarpgroupMma) || kSharedBytes > region.gpu.sharedBytes) {
    return MatchFailure{
        "the target has no products of warpgroups, or not the shared memory for its ring"};
  }
  MatchResult<GemmProblem> product = matchGemm(region.source);
  if (!product) {
    return MatchFailure{product.why()};
  }
  if (!product->batch.empty() || !startsBuffer(product->a) || !startsBuffer(product->b)) {
    return MatchFailure{"it is a batch of products, or an operand is a part of its buffer"};
  }
  tn::MatmulOp op = *region.source.getOps<tn::MatmulOp>().begin();
  RowRange rows = rowRangeOf(region.source, op.getA().getType());
  std::optional<int64_t> columns = tn::constantDim(product->columns);
  std::optional<int64_t> depth = tn::constantDim(product->depth);
  Type element = product->a.at.element, sum = getElementTypeOrSelf(op.getType());
  bool isFloat8 = tn::isFloat8Product(op);
  int64_t ofUnit = isFloat8 ? 2 : 1;
  if (rows.least < 1 || rows.most > kMaxLargeRows || !columns || !depth ||
      *columns % kLargeColumns != 0 || *depth % (kLargeDepth * ofUnit) != 0) {
    return MatchFailure{
        "there may be no rows, or columns and depth are not multiples of 256 and 64 "
        "(128 of 8-bit floats)"};
  }
  if (!isHalf(sum) || (element != sum && !isFloat8) || product->b.at.element != element ||
      tn::constantDim(product->a.rowStride()) != depth ||
      tn::constantDim(product->a.columnStride()) != 1) {
    return MatchFailure{
        "A is not rows of f16 or bf16 that lie one after the other, or B has another type"};
  }
  std::optional<RightOrder> order = orderOf(product->b, *columns, *depth);
  Type result = getElementTypeOrSelf(
      region.source.getBody().front().getTerminator()->getOperand(0).getType());
  bool isStored = result == sum || (isFloat8 && result == element);
  if (!order || (isFloat8 && order != RightOrder::DepthInner) || !isStored ||
      !productTensors(region)) {
    return MatchFailure{
        "B does not lie row by row or column by column, or the result has another type"};
  }
  LargeProblem problem{element,
                       sum,
                       product->factor,
                       product->a.at.buffer,
                       product->b.at.buffer,
                       *order,
                       product->rowDims,
                       product->rows,
                       rows,
                       *columns,
                       *depth / ofUnit};
  problem.blocks = std::min<int64_t>(problem.tiles(rows.most), region.gpu.cores);
  return problem;
}

PersistentGemm::PersistentGemm(RegionBuilder &region, const LargeProblem &problem)
    : kernel(region, kWarpgroup * (1 + kGroups)), emitter(kernel), p(problem) {}

void PersistentGemm::place() {
  ThreadBuilder t = kernel.code();
  auto size = [&](int64_t value) {
    return getAffineConstantExpr(value, kernel.builder.getContext());
  };
  aMap = kernel.tensorMap(p.a, p.rowCount, size(p.depth), size(p.depth), kLargeRows);
  bMap = p.order == RightOrder::DepthInner
             ? kernel.tensorMap(p.b, size(p.columns), size(p.depth), size(p.depth), kLargeColumns)
             : kernel.tensorMap(p.b, size(p.depth), size(p.columns), size(p.columns), kLargeDepth);
  thread = t.thread();
  rowCount = kernel.size32(p.rowCount);
  rowTiles = t.ceilDiv(rowCount, kLargeRows);
  tiles = t.mul(rowTiles, p.columnTiles());
  warpgroup = t.sub(t.div(thread, kWarpgroup), t.i32(1));
  Type byte = t.builder.getI8Type();
  ring = {kPersistentStages, kStageBytes, kernel.dynamicShared(kTileAlignment), Value()};
  exchangedAccumulators = t.offset(ring.memory, byte, ring.bytes());
  ring.barriers = t.offset(exchangedAccumulators, byte, kGroups * kExchangeBytes);
  exchangeBarriers = t.offset(ring.barriers, byte, ring.barrierBytes());
  t.when(t.isEqual(thread, t.i32(0)), [&](const ThreadBuilder &c) {
    ring.initBarriers(c, kGroups);
    for (int64_t group = 0; group < kGroups; ++group) {
      initBarrier(c, accumulatorsFull(c, c.i32(group)), kWarpgroup);
      initBarrier(c, accumulatorsEmpty(c, c.i32(group)), kFinishWarps * kWarp);
    }
    publishBarriers(c);
    prefetchTensorMap(c, aMap);
    prefetchTensorMap(c, bMap);
  });
  t.barrier();
}

Value PersistentGemm::exchangedTile(const ThreadBuilder &t, Value group) const {
  return t.offset(exchangedAccumulators, t.builder.getI8Type(), t.mul(group, kExchangeBytes));
}

Value PersistentGemm::accumulatorsFull(const ThreadBuilder &t, Value group) const {
  return t.offset(exchangeBarriers, t.i64Type(), group);
}

Value PersistentGemm::accumulatorsEmpty(const ThreadBuilder &t, Value group) const {
  return t.offset(exchangeBarriers, t.i64Type(), t.add(group, kGroups));
}

/// Down the rows of tiles that are worked through together first.
PersistentGemm::Corner PersistentGemm::cornerOf(const ThreadBuilder &t, Value tile) const {
  int64_t together = kRowTilesTogether * p.columnTiles();
  Value first = t.mul(t.div(tile, together), kRowTilesTogether), rest = t.rem(tile, together);
  Value count = t.min(t.i32(kRowTilesTogether), t.sub(rowTiles, first));
  return {t.mul(t.add(first, t.rem(rest, count)), kLargeRows),
          t.mul(t.div(rest, count), kLargeColumns)};
}

Values PersistentGemm::forTiles(const ThreadBuilder &t, ValueRange inits,
                                ThreadBuilder::LoopBody body) {
  return t.loop(t.block(), tiles, t.i32(p.blocks), inits, body);
}

void PersistentGemm::copyStage(const ThreadBuilder &t, Value step, const Corner &corner,
                               const PipelineState &state) const {
  Value depth = t.mul(step, kLargeDepth), barrier = ring.full(t, state.stage);
  Value a = ring.at(t, state.stage), b = t.offset(a, t.builder.getI8Type(), kABytes);
  ring.producerAcquire(t, state);
  arriveExpecting(t, barrier, t.i32(kStageBytes));
  copyBox(t, aMap, depth, corner.row, a, barrier);
  if (p.order == RightOrder::DepthInner) {
    copyBox(t, bMap, depth, corner.column, b, barrier);
    return;
  }
  for (int64_t column = 0; column < kLargeColumns; column += kBoxColumns) {
    Value to = t.offset(b, t.builder.getI8Type(), column * kLargeDepth * 2);
    copyBox(t, bMap, t.add(corner.column, column), depth, to, barrier);
  }
}

/// All tiles of this block, by one thread.
void PersistentGemm::copyTiles(const ThreadBuilder &t) {
  forTiles(t, ring.first(t).values(), [&](const ThreadBuilder &c, Value tile, ValueRange state) {
    Corner corner = cornerOf(c, tile);
    return c.loop(c.i32(0), c.i32(p.steps()), c.i32(1), state,
                  [&](const ThreadBuilder &d, Value step, ValueRange at) {
                    copyStage(d, step, corner, PipelineState::of(at));
                    return ring.next(d, PipelineState::of(at)).values();
                  });
  });
}

/// This warpgroup's accumulators of a tile.
Values PersistentGemm::addStages(const ThreadBuilder &t, PipelineState &state) const {
  Value isFirst = t.isEqual(t.rem(thread, kWarpgroup), t.i32(0));
  StageOperands operands{p.element, p.order, kGroups, kLargeColumns};
  Values accumulators = ring.multiply(t, operands, warpgroup, p.steps(), isFirst, state);
  accumulators = finishStages(t, accumulators);
  t.when(isFirst, [&](const ThreadBuilder &c) { ring.consumerRelease(c, state.stage); });
  return accumulators;
}

void PersistentGemm::multiplyTiles(const ThreadBuilder &t) {
  // The state of the ring, and the phase parity of the accumulator exchange.
  Values first = {t.i32(0), t.i32(0), t.i32(0)};
  forTiles(t, first, [&](const ThreadBuilder &c, Value, ValueRange carried) {
    PipelineState state = PipelineState::of(carried);
    Values accumulators = addStages(c, state);
    Value next = c.sub(c.i32(1), carried[2]);
    waitForPhase(c, accumulatorsEmpty(c, warpgroup), next);
    storeAccumulators(c, accumulators);
    arrive(c, accumulatorsFull(c, warpgroup));
    return Values{state.stage, state.parity, next};
  });
}

bool PersistentGemm::emit() {
  std::optional<GemmTensors> found = productTensors(kernel.region);
  if (!found) {
    return false;
  }
  tensors = *found;
  // Shares of registers (releaseRegisters) are not needed, and ptxas leaves those that finish so
  // few that they take a quarter longer.
  kernel.setMinBlocksPerSm(1);
  place();
  ThreadBuilder t = kernel.code();
  t.choose(
      t.isLess(thread, t.i32(kWarpgroup)),
      [&](const ThreadBuilder &c) {
        c.when(c.isEqual(thread, c.i32(0)), [&](const ThreadBuilder &d) { copyTiles(d); });
        c.when(c.isLess(c.i32(kWarp - 1), thread), [&](const ThreadBuilder &d) { finishTiles(d); });
        return Values();
      },
      [&](const ThreadBuilder &c) {
        multiplyTiles(c);
        return Values();
      });
  kernel.finish(getAffineConstantExpr(p.blocks, kernel.builder.getContext()), kSharedBytes);
  return !emitter.hasFailed();
}

bool emitPersistentGemm(RegionBuilder &region, const LargeProblem &problem) {
  return PersistentGemm(region, problem).emit();
}

namespace {

FamilyMatch matchPersistentFamily(RegionBuilder &region) {
  MatchResult<LargeProblem> problem = matchPersistentGemm(region);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  if (problem->tiles(problem->rows.least) < tuning::kMinLargeTiles) {
    return FamilyMatch::refuse("fewer than " + llvm::Twine(tuning::kMinLargeTiles) +
                               " tiles of 128 x 256 do not keep the GPU busy for long enough");
  }
  return FamilyMatch::take(*problem, {kGemmPersistent.name.str(), {}},
                           "no library's call ends with what follows the product");
}

/// Waves of the blocks, each at a library's rate, or what they read and write; and the first tile's
/// way through the ring.
dispatch::TimeParts persistentParts(RegionBuilder &region, const LargeProblem &problem,
                                    const dispatch::KernelChoice &) {
  double rows = double(region.estimate(problem.rowCount)), columns = double(problem.columns),
         depth = double(problem.depth);
  double tiles = double(problem.tiles(int64_t(rows)));
  double waves = std::ceil(tiles / double(problem.blocks));
  double ofTile = 2.0 * kLargeRows * kLargeColumns * depth;
  // Of 8-bit floats a unit of the depth is two.
  double flops = problem.element.getIntOrFloatBitWidth() == 8
                     ? region.gpu.halfPeak * target::kFloat8Speed / 2
                     : region.gpu.halfPeak;
  double work = waves * ofTile * double(region.gpu.cores) / flops;
  double memory =
      2 * (rows * depth + columns * depth + rows * columns) / region.gpu.memoryBandwidth;
  dispatch::TimeParts time{{}, int64_t(tiles), problem.blocks, problem.steps()};
  time.add("fill", tuning::kPersistentSeconds);
  if (memory > work) {
    time.add("memory", memory);
    return time;
  }
  double idle = idleSeconds(work, tiles, waves, double(problem.blocks));
  time.add("products", work - idle);
  time.add("idle", idle);
  return time;
}

double persistentSeconds(RegionBuilder &region, const LargeProblem &problem,
                         const dispatch::KernelChoice &choice) {
  return persistentParts(region, problem, choice).microseconds() * 1e-6;
}

/// Rows from which on there are enough tiles to keep the GPU busy.
int64_t leastLargeRows(RegionBuilder &region) {
  tn::MatmulOp op = *region.source.getOps<tn::MatmulOp>().begin();
  std::optional<HalfGemm> sizes = halfGemmOf(op);
  int64_t columnTiles = sizes ? std::max<int64_t>(sizes->columns / kLargeColumns, 1) : 1;
  return (llvm::divideCeilSigned(tuning::kMinLargeTiles, columnTiles) - 1) * kLargeRows + 1;
}

LogicalResult emitPersistent(RegionBuilder &region, const LargeProblem &problem,
                             const dispatch::KernelChoice &) {
  return success(emitPersistentGemm(region, problem));
}

} // namespace

constexpr KernelFamily kGemmPersistent = {
    .name = "gemm_persistent",
    .what =
        "persistent GEMM by warpgroups (wgmma), warp-specialized: a producer by TMA, two consumer "
        "warpgroups, an epilogue behind the next tile",
    .strategies = {dispatch::kContraction},
    .needs = {"matmul"},
    .match = matchPersistentFamily,
    .seconds = on<persistentSeconds>,
    .parts = on<persistentParts>,
    .epilogueSeconds = epilogueSeconds,
    .emit = on<emitPersistent>,
    .manyRows = leastLargeRows};

} // namespace tenon::codegen::cuda
