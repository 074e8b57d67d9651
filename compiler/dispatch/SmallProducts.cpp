// Relies on what layouts were measured to take on an H200 (docs/adr/0007): the order of their costs
// is nearly that of their times.
#include "compiler/dispatch/SmallProducts.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

constexpr int64_t kMostRows = 512;
constexpr int64_t kLeastColumns = 16, kMostColumns = 128, kColumnStep = 8;
/// Blocks that all run at once in clusters, which not every multiprocessor is part of.
constexpr int64_t kInClusters = 96;
/// Up to so many rows the next product's blocks find room beside this one's, and bring their
/// weights; with more, operands take the time, and all of the memory brings them sooner.
constexpr int64_t kMostRowsBeside = 128;
/// A library's call is as fast from here on.
constexpr int64_t kMostCost = 750000;
/// Stages that a ring needs: one is read, one given back, one filled.
constexpr int64_t kLeastStages = 3;

/// What a block does one after the other, as bytes into shared memory: operands; for each stage a
/// wait; and where blocks share a depth, to meet and to hand over sums.
int64_t costOf(const HalfProduct &product, const SmallLayout &layout) {
  constexpr int64_t ofStage = 6000, ofShare = 60000, ofSum = 20;
  int64_t cost = layout.steps(product) * (layout.stageBytes() + ofStage);
  bool isShared = layout.shares > 1;
  return cost + (isShared ? layout.shares * ofShare + layout.rows * layout.columns * ofSum : 0);
}

bool canRun(const HalfProduct &product, const SmallLayout &layout, const target::Target &gpu) {
  return product.columns % layout.columns == 0 &&
         product.depth % (kSmallDepth * layout.shares) == 0 && layout.shares <= gpu.clusterBlocks &&
         layout.blocks(product) <= (layout.shares > 1 ? kInClusters : gpu.cores);
}

} // namespace

void fitStages(const HalfProduct &product, const target::Target &gpu, SmallLayout &layout,
               int64_t blocks) {
  // Barriers and alignment.
  constexpr int64_t others = 2048;
  int64_t steps = layout.steps(product);
  auto stagesOf = [&](int64_t sharing) {
    int64_t room = gpu.sharedOfBlock(sharing) - others - layout.sumBytes();
    return std::min(steps, room / layout.stageBytes());
  };
  bool isEnough = stagesOf(blocks) >= std::min(steps, kLeastStages);
  layout.blocksOfProcessor = isEnough ? blocks : 1;
  layout.stages = stagesOf(layout.blocksOfProcessor);
}

llvm::SmallVector<SmallLayout> smallLayoutsOf(const HalfProduct &product,
                                              const target::Target &gpu) {
  llvm::SmallVector<SmallLayout> layouts;
  if (product.rows <= kMostStreamedRows || product.rows > kMostRows) {
    return layouts;
  }
  for (int64_t rows : {kSmallRows, 2 * kSmallRows}) {
    for (int64_t shares : {1, 2, 4, 8}) {
      for (int64_t columns = kLeastColumns; columns <= kMostColumns; columns += kColumnStep) {
        SmallLayout layout{rows, columns, shares};
        if (canRun(product, layout, gpu)) {
          fitStages(product, gpu, layout, product.rows <= kMostRowsBeside ? 2 : 1);
          layouts.push_back(layout);
        }
      }
    }
  }
  return layouts;
}

std::optional<SmallLayout> smallLayoutOf(const HalfProduct &product, const target::Target &gpu) {
  std::optional<SmallLayout> best;
  int64_t least = kMostCost;
  for (const SmallLayout &layout : smallLayoutsOf(product, gpu)) {
    int64_t cost = costOf(product, layout);
    if (cost < least) {
      best = layout;
      least = cost;
    }
  }
  return best;
}

double secondsOf(const HalfProduct &product, const SmallLayout &layout, const target::Target &gpu) {
  // From the first load to the last sum.
  constexpr double kLatency = 1000e-9;
  double bytes = 2.0 * product.depth * (product.rows + product.columns);
  return kLatency +
         std::max(costOf(product, layout) / gpu.coreBandwidth, bytes / gpu.memoryBandwidth);
}

bool isSmallProduct(tn::MatmulOp matmul, const target::Target &device) {
  std::optional<HalfProduct> product = halfProductOf(matmul);
  return product && device.has(target::Feature::WarpgroupMma) && smallLayoutOf(*product, device);
}

bool isSmallRoot(Operation *root, const target::Target &device) {
  tn::MatmulOp matmul = dyn_cast_or_null<tn::MatmulOp>(root);
  return matmul && hasWeightsLaidOut(matmul) && isSmallProduct(matmul, device);
}

} // namespace tenon::dispatch
