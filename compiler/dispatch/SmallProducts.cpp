// Relies on the measurements of docs/adr/0007 for what a share of the depth costs.
#include "compiler/dispatch/SmallProducts.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// Beyond them tiles of 64 rows read the weights too often.
constexpr int64_t kMostRows = 256;
constexpr int64_t kLeastColumns = 16, kMostColumns = 128, kColumnStep = 8;
/// Blocks that all run at once on an H200: by themselves, and in clusters.
constexpr int64_t kBlocksAtOnce = 132, kInClusters = 96;
/// What bringing the sums of a cluster's blocks together costs, as bytes into shared memory.
constexpr int64_t kSharingBytes = 150000;

/// Bytes that a block brings into shared memory one after the other.
int64_t bytesOf(const HalfProduct &product, const SmallLayout &layout) {
  int64_t ofDepth = 2 * product.depth / layout.shares;
  return ofDepth * (kSmallRows + layout.columns) + (layout.shares > 1 ? kSharingBytes : 0);
}

} // namespace

std::optional<SmallLayout> smallLayoutOf(const HalfProduct &product) {
  bool isSmall = product.rows > kMostStreamedRows && product.rows <= kMostRows;
  if (!isSmall || product.depth % kSmallDepth != 0) {
    return std::nullopt;
  }
  int64_t rowTiles = (product.rows + kSmallRows - 1) / kSmallRows;
  std::optional<SmallLayout> best;
  for (int64_t shares : {1, 2, 4, 8}) {
    for (int64_t columns = kLeastColumns; columns <= kMostColumns; columns += kColumnStep) {
      SmallLayout layout{columns, shares};
      int64_t blocks = rowTiles * (product.columns / columns) * shares;
      bool fits = product.depth % (kSmallDepth * shares) == 0 && product.columns % columns == 0 &&
                  blocks <= (shares > 1 ? kInClusters : kBlocksAtOnce);
      if (fits && (!best || bytesOf(product, layout) < bytesOf(product, *best))) {
        best = layout;
      }
    }
  }
  return best;
}

bool isSmallProduct(tn::MatmulOp matmul) {
  std::optional<HalfProduct> product = halfProductOf(matmul);
  return product && smallLayoutOf(*product);
}

bool isSmallRoot(tn::MatmulOp matmul) {
  Operation *weight = matmul.getB().getDefiningOp();
  bool isLaidOut =
      isa_and_nonnull<tn::UnpackOp>(weight) ||
      (matmul.getTransposeB() && isa_and_nonnull<tn::WeightOp, tn::ConstantOp>(weight));
  return isLaidOut && isSmallProduct(matmul);
}

} // namespace tenon::dispatch
