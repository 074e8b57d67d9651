// The choice of a product's tile by an estimate of its time: the streams of a block and of all
// blocks, and what splitting the depth costs. Relies on rates of an H200; only their order matters
// elsewhere.
#include "compiler/codegen/cuda/Product.h"

#include "compiler/codegen/cuda/Strategies.h"
#include "compiler/dispatch/ArchLimits.h"
#include "compiler/graph/Tn.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Bytes a nanosecond: into one processor, from the second-level cache, from memory.
constexpr double kProcessorRate = 64, kCacheRate = 5500, kMemoryRate = 4300;
/// Floating-point operations a nanosecond of one processor's tensor cores by mma.sync.
constexpr double kTensorRate = 4000;
/// Nanoseconds: from the first load to the last, and for the sums of a cluster to meet.
constexpr double kLatency = 1000, kClusterTime = 600;

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

ProductTile tileOf(int64_t rows, int64_t columns) {
  ProductTile tile;
  tile.rows = rows;
  tile.columns = columns;
  int64_t warps = rows * columns >= 8192 ? 8 : 4;
  tile.warpRows = std::min<int64_t>(rows, rows * columns >= 16384 ? 64 : 32);
  tile.warpColumns = rows * columns / warps / tile.warpRows;
  if (tile.warpColumns < 16) {
    tile.warpRows = 16;
    tile.warpColumns = std::max<int64_t>(16, rows * columns / warps / 16);
  }
  int64_t stageBytes = (rows + columns) * tile.depth * 2;
  tile.stages = std::clamp<int64_t>(65536 / stageBytes, 3, 6);
  return tile;
}

struct Sizes {
  int64_t rows, columns, depth, batch;
};

double estimate(const Sizes &sizes, const ProductTile &tile, const engine::CudaArch &arch) {
  int64_t tiles =
      ceilDiv(sizes.rows, tile.rows) * ceilDiv(sizes.columns, tile.columns) * sizes.batch;
  int64_t blocks = tiles * tile.splits;
  double share = double(ceilDiv(ceilDiv(sizes.depth, tile.depth), tile.splits) * tile.depth);
  double bytes = double(tile.rows + tile.columns) * share * 2;
  int64_t turns = ceilDiv(blocks, dispatch::processors(arch));
  double stream = turns * bytes / kProcessorRate;
  double work = turns * double(tile.rows * tile.columns) * share * 2 / kTensorRate;
  double cache = blocks * bytes / kCacheRate;
  double memory =
      double(sizes.batch) * (sizes.rows + sizes.columns) * sizes.depth * 2 / kMemoryRate;
  double meeting = tile.splits > 1 ? kClusterTime : 0;
  return kLatency + std::max({stream, work, cache, memory}) + meeting;
}

bool isAligned(const ProductOperand &operand, unsigned depthDim, AffineExpr depth,
               AffineExpr free) {
  AffineExpr strides[] = {operand.rowStride(), operand.columnStride()};
  bool depthIsInner = tn::constantDim(strides[depthDim]) == 1;
  AffineExpr inner = depthIsInner ? depth : free;
  AffineExpr outer = depthIsInner ? strides[1 - depthDim] : strides[depthDim];
  bool freeIsInner = tn::constantDim(strides[1 - depthDim]) == 1;
  return (depthIsInner || freeIsInner) && inner.isMultipleOf(8) && outer.isMultipleOf(8) &&
         operand.at.offset.isMultipleOf(8) &&
         llvm::all_of(ArrayRef(operand.at.strides).drop_back(2),
                      [](AffineExpr stride) { return stride.isMultipleOf(8); });
}

/// A problem whose sums are taken in f32.
bool fitsPlain(const ProductProblem &problem) {
  auto fits = [](Type type) { return isa<FloatType>(type) && type.getIntOrFloatBitWidth() <= 32; };
  return fits(problem.a.at.element) && fits(problem.b.at.element);
}

ProductTile plainTile(const Sizes &sizes, const engine::CudaArch &arch) {
  int64_t large = ceilDiv(sizes.rows, 128) * ceilDiv(sizes.columns, 128) * sizes.batch;
  ProductTile tile;
  tile.isPlain = true;
  tile.stages = 1;
  tile.rows = tile.columns = large >= dispatch::processors(arch) ? 128 : 64;
  tile.depth = 16;
  tile.warpRows = tile.warpColumns = tile.rows / 16;
  return tile;
}

Sizes sizesOf(RegionBuilder &region, const ProductProblem &problem) {
  return {region.estimate(problem.rows), region.estimate(problem.columns),
          region.estimate(problem.depth), region.estimate(problem.batch)};
}

} // namespace

bool fitsTensorCores(const ProductProblem &problem) {
  Type element = problem.a.at.element;
  return (element.isF16() || element.isBF16()) && problem.b.at.element == element &&
         isAligned(problem.a, 1, problem.depth, problem.rows) &&
         isAligned(problem.b, 0, problem.depth, problem.columns);
}

ProductTile chooseTile(RegionBuilder &region, const ProductProblem &problem) {
  Sizes sizes = sizesOf(region, problem);
  if (!fitsTensorCores(problem)) {
    return plainTile(sizes, region.arch);
  }
  ProductTile best;
  double least = std::numeric_limits<double>::max();
  for (int64_t rows : {16, 32, 64, 128}) {
    for (int64_t columns : {32, 64, 128}) {
      for (int64_t splits : {1, 2, 3, 4, 6, 8}) {
        ProductTile tile = tileOf(rows, columns);
        tile.splits = splits;
        int64_t bytes = tile.stages * (tile.rows + tile.columns) * (tile.depth + 8) * 2;
        bool isAllowed = (splits == 1 || region.arch.number >= 90) &&
                         splits <= ceilDiv(sizes.depth, tile.depth) &&
                         bytes + 4096 <= dispatch::sharedLimit(region.arch);
        double time = isAllowed ? estimate(sizes, tile, region.arch) : least;
        if (time < least) {
          least = time;
          best = tile;
        }
      }
    }
  }
  return best;
}

bool emitProduct(RegionBuilder &region, const ProductProblem &problem, const ProductTile &tile) {
  return ProductKernel(region, problem, tile).emit();
}

FailureOr<bool> emitProduct(RegionBuilder &region) {
  FailureOr<ProductProblem> problem = matchProduct(region.source);
  if (failed(problem) || !fitsPlain(*problem) || !productTensors(region)) {
    return false;
  }
  if (!emitProduct(region, *problem, chooseTile(region, *problem))) {
    return failure();
  }
  return true;
}

} // namespace tenon::codegen::cuda
