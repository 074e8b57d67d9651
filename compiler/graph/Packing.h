// How tn.pack lays an array out anew: linalg.pack's terms, but that a dim may be tiled more than
// once. One description serves verifiers, the writer of weights, planning and kernels.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::tn {

/// Entry i of the inner ones tiles dim innerDimsPos[i] into tiles of innerTiles[i] elements, the
/// last one filled up with zeros. The loops over tiles are the outer dims of what is packed, in the
/// order of outerDimsPerm; the elements of tiles are its inner dims, in the order of the entries.
/// A dim that is not tiled is a loop over elements. An entry for a dim that was tiled before tiles
/// those tiles: the loop over its tiles within one of them is one more outer dim, numbered after
/// the array's own in the order of entries.
///
/// VNNI-4 of a [K, N] matrix in panels of 16 columns, [N / 16, K / 4, 16, 4]: the outer dims are
/// (1, 0), the tiles (dim 1 by 16, dim 0 by 4).
struct Packing {
  std::vector<int64_t> outerDimsPerm, innerDimsPos, innerTiles;

  auto operator<=>(const Packing &) const = default;
};

/// A dim of the packed array: position p of it stands for p * step of the index in dim `source`.
struct PackedDim {
  int64_t source = 0;
  int64_t level = 0; ///< which tile of that dim it cuts; 0: the whole dim
  int64_t size = 0;
  int64_t step = 1;
  int64_t extent = 0; ///< elements of `source` in what it cuts; beyond these lie zeros

  bool isPadded() const { return size * step > extent; }
};

/// Why an array of this shape cannot be packed so, as what follows its name; empty if it can.
std::string refusePacking(llvm::ArrayRef<int64_t> shape, const Packing &packing);

/// Of a packing that is not refused, as the other functions.
llvm::SmallVector<PackedDim> packedDims(llvm::ArrayRef<int64_t> shape, const Packing &packing);
llvm::SmallVector<int64_t> packedShape(llvm::ArrayRef<int64_t> shape, const Packing &packing);

} // namespace tenon::tn
