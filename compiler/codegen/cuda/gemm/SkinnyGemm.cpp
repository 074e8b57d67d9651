// Relies on weights that lie as [columns, depth], if need be since they are laid out so.
#include "compiler/codegen/cuda/gemm/SkinnyGemm.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/gemm/EpilogueStore.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

static_assert(kSmallRows == kGroupRows && kSmallDepth == kBoxColumns);

/// Elements that a thread finishes at once: 16 bytes of the result.
constexpr int64_t kNeighbourRows = 8;

/// The buffer of weights that lie as [columns, depth].
std::optional<uint32_t> weightsOf(RegionBuilder &region, tn::MatmulOp op, int64_t depth) {
  tn::UnpackOp unpack = op.getB().getDefiningOp<tn::UnpackOp>();
  BlockArgument stored = dyn_cast<BlockArgument>(unpack ? unpack.getPacked() : op.getB());
  bool isTransposed = unpack ? isPackedInPanels(unpack, op.getTransposeB(), depth)
                             : op.getTransposeB() || packableInput(op.getB());
  if (!stored || !isTransposed ||
      !region.source.getArgAttr(stored.getArgNumber(), kConstantArgument)) {
    return std::nullopt;
  }
  return stored.getArgNumber();
}

} // namespace

MatchResult<SmallProblem> matchSkinnyGemm(RegionBuilder &region) {
  auto ops = region.source.getOps<tn::MatmulOp>();
  if (!region.gpu.has(target::Feature::WarpgroupMma)) {
    return MatchFailure{"the target has no products of warpgroups"};
  }
  if (!llvm::hasSingleElement(ops) || region.source.getNumResults() != 1) {
    return MatchFailure{"it is not one product with one result"};
  }
  tn::MatmulOp op = *ops.begin();
  std::optional<HalfGemm> sizes = halfGemmOf(op);
  std::optional<SkinnyLayout> layout = sizes ? skinnyLayoutOf(*sizes, region.gpu) : std::nullopt;
  if (!layout) {
    return MatchFailure{
        "only products of 17 to 512 rows of f16 or bf16 by a matrix, in one wave of blocks, "
        "are faster so than by a library's call"};
  }
  tn::Dims dims = tn::getDims(op.getType());
  SmallProblem problem;
  problem.element = getElementTypeOrSelf(op.getA());
  problem.rowDims.assign(dims.begin(), dims.end() - 1);
  problem.rowCount = rowCountOf(op.getA().getType());
  problem.sizes = *sizes;
  problem.layout = *layout;
  std::optional<uint32_t> weights = weightsOf(region, op, sizes->depth);
  if (!weights) {
    return MatchFailure{"B is not a constant that lies as [columns, depth]"};
  }
  BlockArgument a = dyn_cast<BlockArgument>(op.getA());
  Operation *exit = region.source.getBody().front().getTerminator();
  Type result = exit->getOperand(0).getType();
  if (!a || !tn::sameDims(tn::getDims(result), dims) ||
      getElementTypeOrSelf(result) != problem.element || !productTensors(region)) {
    return MatchFailure{
        "A is computed in the region, or the result has other dims or another type"};
  }
  problem.a = a.getArgNumber();
  problem.b = *weights;
  return problem;
}

SkinnyGemm::SkinnyGemm(RegionBuilder &region, const SmallProblem &problem)
    : kernel(region, problem.multipliers() + kWarp), emitter(kernel), p(problem) {}

void SkinnyGemm::place() {
  ThreadBuilder t = kernel.code();
  auto size = [&](int64_t value) {
    return getAffineConstantExpr(value, kernel.builder.getContext());
  };
  aMap = kernel.tensorMap(p.a, p.rowCount, size(p.sizes.depth), size(p.sizes.depth), p.layout.rows);
  bMap = kernel.tensorMap(p.b, size(p.sizes.columns), size(p.sizes.depth), size(p.sizes.depth),
                          p.layout.columns);
  thread = t.thread();
  rowCount = kernel.size32(p.rowCount);
  slice = t.rem(t.block(), p.layout.splitK);
  Value tile = t.div(t.block(), p.layout.splitK);
  firstRow = t.mul(t.div(tile, p.columnTiles()), p.layout.rows);
  firstColumn = t.mul(t.rem(tile, p.columnTiles()), p.layout.columns);
  firstDepth = t.mul(slice, p.steps() * kSmallDepth);
  ring = {p.layout.stages, p.layout.stageBytes(), kernel.dynamicShared(kTileAlignment), Value()};
  exchange = t.offset(ring.memory, t.builder.getI8Type(), ring.bytes());
  ring.barriers = t.offset(exchange, t.builder.getI8Type(), p.layout.sumBytes());
}

void SkinnyGemm::copyA(const ThreadBuilder &t, Value step, Value stage) const {
  Value depth = t.add(firstDepth, t.mul(step, kSmallDepth));
  copyBox(t, aMap, depth, firstRow, ring.at(t, stage), ring.full(t, stage));
}

void SkinnyGemm::copyB(const ThreadBuilder &t, Value step, Value stage) const {
  Value depth = t.add(firstDepth, t.mul(step, kSmallDepth));
  Value to = t.offset(ring.at(t, stage), t.builder.getI8Type(), operands().aBytes());
  arriveExpecting(t, ring.full(t, stage), t.i32(ring.stageBytes));
  copyBox(t, bMap, depth, firstColumn, to, ring.full(t, stage));
}

void SkinnyGemm::copyFirst(const ThreadBuilder &t, bool isA) const {
  t.loop(t.i32(0), t.i32(ring.stages), t.i32(1), {},
         [&](const ThreadBuilder &c, Value step, ValueRange) -> Values {
           isA ? copyA(c, step, step) : copyB(c, step, step);
           return {};
         });
}

void SkinnyGemm::copyOthers(const ThreadBuilder &t) const {
  t.loop(t.i32(ring.stages), t.i32(p.steps()), t.i32(1), PipelineState{t.i32(0), t.i32(1)}.values(),
         [&](const ThreadBuilder &c, Value step, ValueRange at) {
           PipelineState state = PipelineState::of(at);
           ring.producerAcquire(c, state);
           copyB(c, step, state.stage);
           copyA(c, step, state.stage);
           return ring.next(c, state).values();
         });
}

Values SkinnyGemm::multiply(const ThreadBuilder &t) const {
  Value isFirst = t.isEqual(t.rem(thread, kWarpgroup), t.i32(0));
  Value releases = p.steps() > ring.stages ? isFirst : Value();
  PipelineState state = ring.first(t);
  return finishStages(
      t, ring.multiply(t, operands(), t.div(thread, kWarpgroup), p.steps(), releases, state));
}

void SkinnyGemm::storeAccumulators(const ThreadBuilder &t, ArrayRef<Value> accumulators) const {
  Value lane = t.lane(), column = t.mul(t.rem(lane, 4), 2);
  Value row = t.add(t.mul(t.div(thread, kWarp), kMmaRows), t.div(lane, 4));
  for (int64_t half = 0; half < 2; ++half) {
    Value inTile = t.add(row, half * 8);
    Value own = t.add(t.mul(slice, p.finishedRows()), t.rem(inTile, p.finishedRows()));
    Value start = t.offset(exchange, t.f32Type(), t.add(t.mul(own, p.layout.sumsOfRow()), column));
    if (isSplitK()) {
      start = t.remote(start, t.div(inTile, p.finishedRows()));
    }
    for (size_t i = 0; i < accumulators.size(); i += 4) {
      Value pair = t.pack({accumulators[i + 2 * half], accumulators[i + 2 * half + 1]});
      t.store(pair, t.offset(start, t.f32Type(), 2 * i), 8);
    }
  }
}

void SkinnyGemm::syncBlocks(const ThreadBuilder &t) const {
  if (!isSplitK()) {
    return t.barrier();
  }
  t.arriveAtCluster();
  t.waitForCluster();
}

Values SkinnyGemm::sumsAt(const ThreadBuilder &t, Value row, Value column) const {
  Value start = t.offset(exchange, t.f32Type(), t.add(t.mul(row, p.layout.sumsOfRow()), column));
  Values accumulators;
  for (int64_t other = 0; other < p.layout.splitK; ++other) {
    for (int64_t first = 0; first < kNeighbourRows; first += 4) {
      int64_t at = other * p.finishedRows() * p.layout.sumsOfRow() + first;
      Value four = t.load(t.vectorType(4, t.f32Type()), t.offset(start, t.f32Type(), at), 16);
      for (int64_t i = 0; i < 4; ++i) {
        Value own = t.extract(four, i);
        if (other == 0) {
          accumulators.push_back(own);
        } else {
          accumulators[first + i] = t.addF(accumulators[first + i], own);
        }
      }
    }
  }
  return accumulators;
}

void SkinnyGemm::finishPiece(Value piece) {
  IndexMath &math = kernel.math;
  ThreadBuilder t = kernel.code();
  int64_t ofRow = p.layout.columns / kNeighbourRows;
  Value inBlock = t.div(piece, ofRow), column = t.mul(t.rem(piece, ofRow), kNeighbourRows);
  Value row = t.add(t.add(firstRow, t.mul(slice, p.finishedRows())), inBlock);
  ResultStrip strip;
  strip.readsLinear = false;
  Index number = math.fromWord(row);
  if (p.hasRowTail()) {
    strip.isStored = t.isLess(row, rowCount);
    number = math.fromWord(t.min(row, t.sub(rowCount, t.i32(1))));
  }
  Index first = math.fromWord(t.add(firstColumn, column), kNeighbourRows);
  strip.place = math.delinearize(number, kernel.sizes(p.rowDims));
  strip.place.push_back(first);
  strip.linear = math.add(math.multiply(number, Index::constant(p.sizes.columns)), first);
  strip.accumulators = sumsAt(t, inBlock, column);
  storeThroughEpilogue(emitter, tensors, strip);
}

void SkinnyGemm::finishRows(const ThreadBuilder &t) {
  int64_t pieces = p.finishedRows() * p.layout.columns / kNeighbourRows;
  t.loop(thread, t.i32(pieces), t.i32(p.multipliers() + kWarp), {},
         [&](const ThreadBuilder &, Value piece, ValueRange) -> Values {
           emitter.openScope();
           finishPiece(piece);
           emitter.closeScope();
           return {};
         });
}

bool SkinnyGemm::emit() {
  std::optional<GemmTensors> found = productTensors(kernel.region);
  if (!found) {
    return false;
  }
  tensors = *found;
  kernel.setMinBlocksPerSm(p.layout.blocksPerSm);
  if (isSplitK()) {
    kernel.setCluster(p.layout.splitK);
  }
  place();
  ThreadBuilder t = kernel.code();
  Value isProducer = t.isEqual(thread, t.i32(p.multipliers()));
  t.when(isProducer, [&](const ThreadBuilder &c) {
    ring.initBarriers(c, p.multipliers() / kWarpgroup);
    publishBarriers(c);
    copyFirst(c, /*isA=*/false);
  });
  // Tells the others of the cluster, too, that this block runs.
  syncBlocks(t);
  kernel.waitHere();
  t.choose(
      t.isLess(thread, t.i32(p.multipliers())),
      [&](const ThreadBuilder &c) {
        storeAccumulators(c, multiply(c));
        return Values();
      },
      [&](const ThreadBuilder &c) {
        c.when(isProducer, [&](const ThreadBuilder &d) {
          copyFirst(d, /*isA=*/true);
          if (p.steps() > ring.stages) {
            copyOthers(d);
          }
        });
        return Values();
      });
  syncBlocks(t);
  finishRows(t);
  int64_t bytes = ring.bytes() + p.layout.sumBytes() + ring.barrierBytes();
  AffineExpr rowTiles = p.rowCount.ceilDiv(p.layout.rows);
  kernel.finish(rowTiles * p.columnTiles() * p.layout.splitK, bytes);
  return !emitter.hasFailed();
}

bool emitSkinnyGemm(RegionBuilder &region, const SmallProblem &problem) {
  return SkinnyGemm(region, problem).emit();
}

namespace {

FamilyMatch matchSkinnyFamily(RegionBuilder &region) {
  MatchResult<SmallProblem> problem = matchSkinnyGemm(region);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  return FamilyMatch::take(*problem, dispatch::choiceOf(kGemmSkinny.name, problem->layout),
                           "one wave of blocks, whose weights are on their way before its rows "
                           "are there");
}

std::vector<dispatch::KernelChoice> skinnyConfigs(RegionBuilder &region,
                                                  const SmallProblem &problem) {
  std::vector<dispatch::KernelChoice> choices;
  for (const SkinnyLayout &layout : skinnyLayoutsOf(problem.sizes, region.gpu)) {
    choices.push_back(dispatch::choiceOf(kGemmSkinny.name, layout));
  }
  return choices;
}

double skinnySeconds(RegionBuilder &region, const SmallProblem &problem,
                     const dispatch::KernelChoice &choice) {
  return secondsOf(problem.sizes, configOf(choice, problem.layout), region.gpu);
}

dispatch::TimeParts skinnyParts(RegionBuilder &region, const SmallProblem &problem,
                                const dispatch::KernelChoice &choice) {
  SkinnyLayout layout = configOf(choice, problem.layout);
  SkinnyTime of = timeOf(problem.sizes, layout, region.gpu);
  dispatch::TimeParts time{
      {}, layout.blocks(problem.sizes), region.gpu.cores, layout.steps(problem.sizes)};
  time.add("start", of.start);
  if (of.memory > of.steps + of.out + of.split) {
    time.add("memory", of.memory);
    return time;
  }
  double idle = idleSeconds(1, double(time.blocks), 1, double(time.atOnce)), busy = 1 - idle;
  time.add(of.waits ? "waits" : "loads", busy * of.steps);
  time.add("out", busy * of.out);
  time.add("split", of.split);
  time.add("idle", idle * (of.steps + of.out));
  return time;
}

std::optional<dispatch::WeightLayout> skinnyWeights(RegionBuilder &region, const SmallProblem &) {
  tn::MatmulOp op = *region.source.getOps<tn::MatmulOp>().begin();
  return op.getTransposeB() ? std::nullopt : layoutInDepthPanels(region, halfGemmOf(op)->depth);
}

LogicalResult emitSkinny(RegionBuilder &region, const SmallProblem &problem,
                         const dispatch::KernelChoice &choice) {
  SmallProblem chosen = problem;
  chosen.layout = configOf(choice, problem.layout);
  return success(emitSkinnyGemm(region, chosen));
}

} // namespace

constexpr KernelFamily kGemmSkinny = {
    .name = "gemm_skinny",
    .what =
        "skinny GEMM by warpgroups (wgmma) in one wave: TMA, a deep pipeline of weights, split-K "
        "over a cluster",
    .strategies = {dispatch::kContraction},
    .needs = {"matmul"},
    .match = matchSkinnyFamily,
    .configs = on<skinnyConfigs>,
    .seconds = on<skinnySeconds>,
    .parts = on<skinnyParts>,
    .epilogueSeconds = epilogueSeconds,
    .weights = on<skinnyWeights>,
    .emit = on<emitSkinny>,
    .fewRows = {kSmallRows, 2 * kSmallRows, 4 * kSmallRows, tuning::kSkinnyRows}};

} // namespace tenon::codegen::cuda
