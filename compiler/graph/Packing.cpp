// Checks descriptions of packed arrays and takes them apart into dims.
#include "compiler/graph/Packing.h"

#include "support/text/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

#include <optional>

namespace tenon::tn {
namespace {

/// Tiles beyond this could overflow sizes.
constexpr int64_t kLargestTile = int64_t(1) << 40;

size_t loopCount(llvm::ArrayRef<int64_t> shape, const Packing &packing) {
  llvm::SmallVector<bool> isTiled(shape.size(), false);
  size_t count = shape.size();
  for (int64_t dim : packing.innerDimsPos) {
    count += isTiled[dim] ? 1 : 0;
    isTiled[dim] = true;
  }
  return count;
}

std::string refuseTiles(llvm::ArrayRef<int64_t> shape, const Packing &packing) {
  if (packing.innerDimsPos.size() != packing.innerTiles.size()) {
    return strCat("has ", packing.innerDimsPos.size(), " entries of inner_dims_pos, but ",
                  packing.innerTiles.size(), " inner_tiles");
  }
  for (auto [dim, tile] : llvm::zip_equal(packing.innerDimsPos, packing.innerTiles)) {
    if (dim < 0 || dim >= int64_t(shape.size())) {
      return strCat("tiles dim ", dim, " of ", shape.size(), " dims");
    }
    if (tile < 1 || tile > kLargestTile) {
      return strCat("tiles dim ", dim, " by ", tile);
    }
  }
  return {};
}

std::string refuseOrder(const Packing &packing, size_t loops) {
  if (packing.outerDimsPerm.size() != loops) {
    return strCat("has ", loops, " outer dims, but ", packing.outerDimsPerm.size(),
                  " entries of outer_dims_perm");
  }
  llvm::SmallVector<bool> used(loops, false);
  for (int64_t loop : packing.outerDimsPerm) {
    if (loop < 0 || loop >= int64_t(loops)) {
      return strCat("has ", loop, " in outer_dims_perm, which numbers ", loops, " outer dims");
    }
    if (used[loop]) {
      return strCat("has ", loop, " twice in outer_dims_perm");
    }
    used[loop] = true;
  }
  return {};
}

} // namespace

std::string refusePacking(llvm::ArrayRef<int64_t> shape, const Packing &packing) {
  std::string problem = refuseTiles(shape, packing);
  problem = problem.empty() ? refuseOrder(packing, loopCount(shape, packing)) : problem;
  if (!problem.empty()) {
    return problem;
  }
  std::optional<int64_t> count = 1;
  for (const PackedDim &dim : packedDims(shape, packing)) {
    count = count ? llvm::checkedMul(*count, dim.size) : std::nullopt;
  }
  return count ? "" : "has too many elements to count";
}

llvm::SmallVector<PackedDim> packedDims(llvm::ArrayRef<int64_t> shape, const Packing &packing) {
  // What is left of each dim: the array's own dims first, then what further entries cut.
  llvm::SmallVector<PackedDim> loops, inner(packing.innerTiles.size());
  for (auto [dim, size] : llvm::enumerate(shape)) {
    loops.push_back({int64_t(dim), 0, size, 1, size});
  }
  llvm::SmallVector<std::optional<size_t>> tiles(shape.size());
  for (auto [entry, source] : llvm::enumerate(packing.innerDimsPos)) {
    int64_t tile = packing.innerTiles[entry];
    size_t loop = source;
    if (std::optional<size_t> before = tiles[source]) {
      loop = loops.size();
      loops.push_back(inner[*before]);
    }
    loops[loop].size = llvm::divideCeilSigned(loops[loop].extent, tile);
    loops[loop].step = tile;
    inner[entry] = {source, loops[loop].level + 1, tile, 1, tile};
    tiles[source] = entry;
  }
  llvm::SmallVector<PackedDim> dims;
  for (int64_t loop : packing.outerDimsPerm) {
    dims.push_back(loops[loop]);
  }
  for (auto [entry, source] : llvm::enumerate(packing.innerDimsPos)) {
    if (tiles[source] == entry) {
      dims.push_back(inner[entry]);
    }
  }
  return dims;
}

llvm::SmallVector<int64_t> packedShape(llvm::ArrayRef<int64_t> shape, const Packing &packing) {
  return llvm::map_to_vector(packedDims(shape, packing),
                             [](const PackedDim &dim) { return dim.size; });
}

} // namespace tenon::tn
