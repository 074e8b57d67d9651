// Relies on what layouts were measured to take on an H200 (docs/adr/0007): the order of their costs
// is nearly that of their times.
#include "compiler/codegen/cuda/gemm/SkinnyLayout.h"

#include "compiler/codegen/cuda/gemm/Tuning.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// What a block does one after the other, as bytes into shared memory: operands; for each stage a
/// wait; and where blocks share a depth, to meet and to hand over accumulators.
int64_t costOf(const HalfGemm &product, const SkinnyLayout &layout) {
  constexpr int64_t ofStage = 6000, ofSlice = 60000, ofSum = 20;
  int64_t cost = layout.steps(product) * (layout.stageBytes() + ofStage);
  bool isSplitK = layout.splitK > 1;
  return cost + (isSplitK ? layout.splitK * ofSlice + layout.rows * layout.columns * ofSum : 0);
}

bool canRun(const HalfGemm &product, const SkinnyLayout &layout, const target::Target &gpu) {
  return product.columns % layout.columns == 0 &&
         product.depth % (kSmallDepth * layout.splitK) == 0 && layout.splitK <= gpu.clusterBlocks &&
         layout.blocks(product) <= (layout.splitK > 1 ? tuning::kSkinnyInClusters : gpu.cores);
}

} // namespace

void fitStages(const HalfGemm &product, const target::Target &gpu, SkinnyLayout &layout,
               int64_t blocks) {
  // Barriers and alignment.
  constexpr int64_t others = 2048;
  int64_t steps = layout.steps(product);
  auto stagesOf = [&](int64_t sharing) {
    int64_t room = gpu.sharedOfBlock(sharing) - others - layout.sumBytes();
    return std::min(steps, room / layout.stageBytes());
  };
  bool isEnough = stagesOf(blocks) >= std::min(steps, tuning::kSkinnyLeastStages);
  layout.blocksPerSm = isEnough ? blocks : 1;
  layout.stages = stagesOf(layout.blocksPerSm);
}

llvm::SmallVector<SkinnyLayout> skinnyLayoutsOf(const HalfGemm &product,
                                                const target::Target &gpu) {
  llvm::SmallVector<SkinnyLayout> layouts;
  if (product.rows <= kMaxStreamedRows || product.rows > tuning::kSkinnyRows) {
    return layouts;
  }
  for (int64_t rows : {kSmallRows, 2 * kSmallRows}) {
    for (int64_t splitK : {1, 2, 4, 8}) {
      for (int64_t columns = tuning::kSkinnyLeastColumns; columns <= tuning::kSkinnyMostColumns;
           columns += tuning::kSkinnyColumnStep) {
        SkinnyLayout layout{rows, columns, splitK};
        if (canRun(product, layout, gpu)) {
          fitStages(product, gpu, layout, product.rows <= tuning::kSkinnyRowsBeside ? 2 : 1);
          layouts.push_back(layout);
        }
      }
    }
  }
  return layouts;
}

std::optional<SkinnyLayout> skinnyLayoutOf(const HalfGemm &product, const target::Target &gpu) {
  std::optional<SkinnyLayout> best;
  int64_t least = tuning::kSkinnyCost;
  for (const SkinnyLayout &layout : skinnyLayoutsOf(product, gpu)) {
    int64_t cost = costOf(product, layout);
    if (cost < least) {
      best = layout;
      least = cost;
    }
  }
  return best;
}

// Fitted to 432 kernels on an H200, 14 % off (root mean square).
SkinnyTime timeOf(const HalfGemm &product, const SkinnyLayout &layout, const target::Target &gpu) {
  // Seconds: from the kernel before to the first product, of a stage at least, for a cluster to
  // meet and for each block of it. Elements a second of a tile on their way out.
  constexpr double start = 1.6e-6, ofStage = 0.05e-6, sync = 0.22e-6, ofSlice = 0.24e-6,
                   outRate = 21e9;
  // A block's weights come faster than an equal part of all that the cache gives.
  constexpr double share = 2.35;
  double coreRate = share * gpu.cacheBandwidth / double(gpu.cores);
  double ofTile = double(layout.rows * layout.columns);
  double loads = double(layout.stageBytes()) / coreRate;
  SkinnyTime time;
  time.start = start;
  time.waits = ofStage > loads;
  time.steps = double(layout.steps(product)) * std::max(ofStage, loads);
  time.out = ofTile / outRate;
  if (layout.splitK > 1) {
    time.split = sync + ofSlice * double(layout.splitK) + 2 * ofTile / outRate;
  }
  time.memory =
      2.0 * double(product.depth * (product.rows + product.columns)) / gpu.memoryBandwidth;
  return time;
}

double secondsOf(const HalfGemm &product, const SkinnyLayout &layout, const target::Target &gpu) {
  return timeOf(product, layout, gpu).seconds();
}

} // namespace tenon::codegen::cuda
