// The strategy of all regions without a product kernel: lower to linalg on tensors, tile the
// results over the kernel's grid with their producers fused into the tile, bufferize. Relies on
// upstream's tile-and-fuse and one-shot bufferization.
#include "compiler/codegen/common/lower/Lowering.h"
#include "compiler/codegen/common/region/Collective.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/base/Overrides.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "compiler/codegen/cpu/strips/Tiling.h"
#include "compiler/dispatch/OpKinds.h"
#include "compiler/graph/TnCustom.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/TileUsingInterface.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/TilingInterface.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// One scf.for over the kernel's grid slice, with the tile's offsets found from the grid index.
class GridLoop {
public:
  GridLoop(KernelBuilder &kernel) : kernel(kernel) {}

  FailureOr<scf::SCFTilingOptions::CustomLoopHeaderInfo>
  header(RewriterBase &rewriter, Location location, ArrayRef<Range> ranges,
         ArrayRef<OpFoldResult> tiles, ValueRange destinations) {
    Value step = arith::ConstantIndexOp::create(rewriter, location, 1);
    scf::ForOp loop =
        scf::ForOp::create(rewriter, location, kernel.begin, kernel.end, step, destinations);
    rewriter.setInsertionPointToStart(loop.getBody());
    SmallVector<OpFoldResult> counts;
    SmallVector<size_t> tiled;
    AffineExpr size = rewriter.getAffineSymbolExpr(0), tile = rewriter.getAffineSymbolExpr(1);
    for (auto [i, range] : llvm::enumerate(ranges)) {
      if (isZeroInteger(tiles[i])) {
        continue;
      }
      tiled.push_back(i);
      counts.push_back(affine::makeComposedFoldedAffineApply(rewriter, location, size.ceilDiv(tile),
                                                             {range.size, tiles[i]}));
    }
    affine::AffineDelinearizeIndexOp position = affine::AffineDelinearizeIndexOp::create(
        rewriter, location, loop.getInductionVar(), counts);
    scf::SCFTilingOptions::CustomLoopHeaderInfo info;
    info.loops = {cast<LoopLikeOpInterface>(loop.getOperation())};
    for (Range range : ranges) {
      info.tileOffset.push_back(range.offset);
      info.tileSizes.push_back(range.size);
    }
    for (auto [number, i] : llvm::enumerate(tiled)) {
      OpFoldResult at = position.getResult(number);
      info.tileOffset[i] =
          affine::makeComposedFoldedAffineApply(rewriter, location, size * tile, {at, tiles[i]});
      AffineExpr offset = rewriter.getAffineSymbolExpr(2);
      AffineMap smaller = AffineMap::get(0, 3, {tile, size - offset}, rewriter.getContext());
      info.tileSizes[i] =
          isOneInteger(tiles[i])
              ? tiles[i]
              : affine::makeComposedFoldedAffineMin(rewriter, location, smaller,
                                                    {ranges[i].size, tiles[i], info.tileOffset[i]});
    }
    info.destinationTensors = llvm::to_vector_of<Value>(loop.getRegionIterArgs());
    return info;
  }

  LogicalResult terminator(RewriterBase &rewriter, Location location, ValueRange results,
                           ArrayRef<SmallVector<OpFoldResult>> offsets,
                           ArrayRef<SmallVector<OpFoldResult>> sizes, ValueRange destinations) {
    SmallVector<Value> yielded;
    for (auto [i, result] : llvm::enumerate(results)) {
      SmallVector<OpFoldResult> strides(offsets[i].size(), rewriter.getIndexAttr(1));
      yielded.push_back(tensor::InsertSliceOp::create(rewriter, location, result, destinations[i],
                                                      offsets[i], sizes[i], strides));
    }
    scf::YieldOp::create(rewriter, location, yielded);
    return success();
  }

private:
  KernelBuilder &kernel;
};

/// The tensor over the buffer of result `i`, as the place where the region's result is computed.
Value resultTensor(KernelBuilder &kernel, unsigned i, Type type) {
  return bufferization::ToTensorOp::create(kernel.builder, kernel.location, type, kernel.output(i),
                                           /*restrict=*/true, /*writable=*/true);
}

/// Lets `root` compute into `destination` instead of a fresh tensor.
void redirect(OpResult root, Value destination) {
  if (scf::ForOp loop = dyn_cast<scf::ForOp>(root.getOwner())) {
    OpOperand &init = loop.getInitArgsMutable()[root.getResultNumber()];
    if (isa_and_nonnull<linalg::LinalgOp, scf::ForOp>(init.get().getDefiningOp())) {
      return redirect(cast<OpResult>(init.get()), destination);
    }
    return init.set(destination);
  }
  linalg::LinalgOp op = cast<linalg::LinalgOp>(root.getOwner());
  OpOperand *init = op.getDpsInitOperand(root.getResultNumber());
  if (linalg::FillOp fill = init->get().getDefiningOp<linalg::FillOp>()) {
    fill.getOutputsMutable().assign(destination);
    fill.getResult(0).setType(cast<RankedTensorType>(destination.getType()));
    return;
  }
  init->set(destination);
}

/// Whether a value is one of the region's results, so that it must leave the loop it is computed
/// in.
bool isResult(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<bufferization::MaterializeInDestinationOp>(user);
  });
}

LogicalResult tileResult(KernelBuilder &kernel, OpResult root, const Tiling &tiling) {
  MLIRContext *context = kernel.builder.getContext();
  IRRewriter rewriter(context);
  rewriter.setInsertionPoint(root.getOwner());
  GridLoop grid(kernel);
  scf::SCFTileAndFuseOptions options;
  linalg::LinalgOp op = cast<linalg::LinalgOp>(root.getOwner());
  SmallVector<OpFoldResult> sizes(op.getNumLoops(), rewriter.getIndexAttr(0));
  ArrayRef<AffineExpr> places = op.getIndexingMapMatchingResult(root).getResults();
  for (auto [size, place] : llvm::zip(tiling.sizes, places)) {
    sizes[cast<AffineDimExpr>(place).getPosition()] = rewriter.getIndexAttr(size);
  }
  options.tilingOptions.setTileSizes(sizes);
  options.tilingOptions.setLoopType(scf::SCFTilingOptions::LoopType::CustomOp);
  options.tilingOptions.setCustomLoopGenerationFns(
      [&](RewriterBase &r, Location location, ArrayRef<Range> ranges, ArrayRef<OpFoldResult> tiles,
          ValueRange destinations) {
        return grid.header(r, location, ranges, tiles, destinations);
      },
      [&](RewriterBase &r, Location location, ArrayRef<LoopLikeOpInterface>, ValueRange results,
          ArrayRef<SmallVector<OpFoldResult>> offsets,
          ArrayRef<SmallVector<OpFoldResult>> tileSizes, ValueRange destinations) {
        return grid.terminator(r, location, results, offsets, tileSizes, destinations);
      });
  using Control = scf::SCFTileAndFuseOptions::ControlFnResult;
  // A producer is fused once for each reader (CSE joins the copies); one copy gives the result.
  llvm::SmallPtrSet<void *, 4> yielded;
  options.setFusionControlFn(
      [&](tensor::ExtractSliceOp, OpResult producer, bool) -> std::optional<Control> {
        bool yields = isResult(producer) && yielded.insert(producer.getAsOpaquePointer()).second;
        return Control{/*yieldProducerReplacement=*/yields};
      });
  FailureOr<scf::SCFTileAndFuseResult> tiled = scf::tileConsumerAndFuseProducersUsingSCF(
      rewriter, cast<TilingInterface>(root.getOwner()), options);
  if (failed(tiled)) {
    return root.getOwner()->emitError("cannot be tiled over the grid");
  }
  for (auto [original, replacement] : tiled->replacements) {
    // Other readers stand before the loop and die: their fused copies are in it.
    rewriter.replaceUsesWithIf(original, replacement, [](OpOperand &use) {
      return isa<bufferization::MaterializeInDestinationOp>(use.getOwner());
    });
  }
  return success();
}

/// Whether a loop is known to have no iteration.
bool hasEmptyLoop(func::FuncOp kernel) {
  return kernel
      .walk([](linalg::LinalgOp op) {
        bool isEmpty = llvm::is_contained(op.getStaticLoopRanges(), 0);
        return isEmpty ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The tensor of every result of the region, in order; each the result of a linalg op or a loop
/// nest.
FailureOr<SmallVector<OpResult>> computeResults(KernelBuilder &kernel, func::FuncOp source) {
  Lowering lowering(kernel.builder, kernel.location, kernel.symbols);
  for (auto [i, argument] : llvm::enumerate(source.getArguments())) {
    MemRefType type = cast<MemRefType>(kernel.input(i).getType());
    Value tensor = bufferization::ToTensorOp::create(
        kernel.builder, kernel.location,
        RankedTensorType::get(type.getShape(), type.getElementType()), kernel.input(i),
        /*restrict=*/true, /*writable=*/false);
    lowering.bind(argument, tensor);
  }
  for (Operation &op : source.getBody().front()) {
    if (isArgReduceOfRows(&op) && failed(computeArgReduceOfRows(lowering, &op))) {
      return failure();
    }
  }
  SmallVector<OpResult> results;
  for (Value value : source.getBody().front().getTerminator()->getOperands()) {
    Value tensor = lowering.materialize(value);
    OpResult result = tensor ? dyn_cast<OpResult>(tensor) : OpResult();
    if (!result || !isa<linalg::LinalgOp, scf::ForOp>(result.getOwner())) {
      return tensor ? source.emitError("has a result that is not computed in it") : failure();
    }
    results.push_back(result);
  }
  return results;
}

FailureOr<AffineExpr> lowerTiled(KernelBuilder &kernel, Region &region, int64_t chunk) {
  func::FuncOp source = region.source;
  FailureOr<SmallVector<OpResult>> results = computeResults(kernel, source);
  if (failed(results)) {
    return failure();
  }
  SmallVector<Operation *> stores;
  OpBuilder &builder = kernel.builder;
  OpBuilder::InsertPoint end = builder.saveInsertionPoint();
  for (auto [i, result] : llvm::enumerate(*results)) {
    builder.setInsertionPointAfterValue(kernel.output(i));
    Value destination = resultTensor(kernel, i, result.getType());
    redirect(result, destination);
    builder.restoreInsertionPoint(end);
    stores.push_back(bufferization::MaterializeInDestinationOp::create(
        builder, kernel.location, Type(), result, kernel.output(i), /*restrict=*/true,
        /*writable=*/true));
    end = builder.saveInsertionPoint();
  }
  bool isLoopNest =
      llvm::any_of(*results, [](OpResult result) { return isa<scf::ForOp>(result.getOwner()); });
  if (isLoopNest || hasEmptyLoop(kernel.function())) {
    // One grid point does it all: steps of a nest depend on each other, and upstream's tiling takes
    // a size of 0 for a loop that is not tiled.
    return builder.getAffineConstantExpr(1);
  }
  Tiling tiling = chooseTiling(source, chunk);
  if (tiling.sizes.empty()) {
    return tiling.gridPoints;
  }
  // From the last result to the first: an earlier one may be fused into the loop of a later one.
  for (Operation *store : llvm::reverse(stores)) {
    OpResult root =
        cast<OpResult>(cast<bufferization::MaterializeInDestinationOp>(store).getSource());
    if (isa<linalg::LinalgOp>(root.getOwner()) && failed(tileResult(kernel, root, tiling))) {
      return failure();
    }
  }
  return tiling.gridPoints;
}

constexpr std::array<int64_t, 4> kChunks = {4096, 1024, 16384, 65536};

FamilyMatch matchAny(Region &region) {
  if (firstOp<tn::CustomOp>(region.source)) {
    return FamilyMatch::refuse("only a kernel of the user's computes it");
  }
  return collectiveStep(region.source) ? FamilyMatch::refuse("ranks exchange what it reads")
                                       : FamilyMatch::take(AnyRegion());
}

std::vector<dispatch::KernelChoice> tiledConfigs(Region &region, const AnyRegion &) {
  size_t count = isChunked(region.source) ? kChunks.size() : 1;
  std::vector<dispatch::KernelChoice> choices;
  for (int64_t chunk : ArrayRef(kChunks).take_front(count)) {
    choices.push_back({kTiled.name.str(), {{"chunk", {chunk}}}});
  }
  return choices;
}

/// What loops over the depth of each element take of a product's time (3 to 120 times on a Zen 4).
constexpr double kOfLoops = 40;
/// Those of a depthwise convolution, whose loops have vectors of channels.
constexpr double kOfDepthwiseLoops = 4;

double tiledSeconds(Region &region, const AnyRegion &, const dispatch::KernelChoice &) {
  return secondsWithWork(region, [](Operation &op) {
    tn::ConvOp conv = dyn_cast<tn::ConvOp>(op);
    return conv && dispatch::isDepthwise(conv) ? kOfDepthwiseLoops : kOfLoops;
  });
}

std::optional<dispatch::WeightLayout> tiledWeights(Region &region, const AnyRegion &) {
  tn::ConvOp conv = firstOp<tn::ConvOp>(region.source);
  if (!conv) {
    return std::nullopt;
  }
  return dispatch::isDepthwise(conv) ? layoutOfDepthwise(conv) : panelsOfWeight(region.source);
}

} // namespace

constexpr KernelFamily kTiled = {
    .name = "tiled",
    .what = "fused vector loops over tiles of the grid: pointwise, rows, depthwise convolution, "
            "all else",
    .match = matchAny,
    .configs = on<tiledConfigs>,
    .seconds = on<tiledSeconds>,
    .weights = on<tiledWeights>,
    .emit = emitReshaped<lowerTiled>,
    .order = alongRows<Region>};

} // namespace tenon::codegen::cpu
