// Lays a weight out in panels, as tn.pack says: a cache-blocked transposition from row-major bytes.
// Relies on nothing of MLIR; ranges of panels can be packed at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::plan {

/// What tn.pack does to one weight.
struct PackLayout {
  std::vector<int64_t> shape;       ///< of the weight
  std::vector<int64_t> permutation; ///< its dims in the order of K, then N
  int64_t rows = 1;                 ///< how many of them make K
  int64_t panel = 32;
  int64_t groups = 1;
  int64_t elementBytes = 4;
  /// Not 0: the first two dims of K, 3 x 3 taps of float, are transformed (graph/Winograd.h).
  int64_t winograd = 0;

  auto operator<=>(const PackLayout &) const = default;
};

class Packer {
public:
  explicit Packer(const PackLayout &packLayout);

  int64_t panels() const { return layout.groups * panelsPerGroup; }
  int64_t panelBytes() const { return depth * layout.panel * layout.elementBytes; }
  /// Writes panels [begin, end) to `out`, panelBytes() each. `weight` is the row-major array.
  void pack(const std::byte *weight, int64_t begin, int64_t end, std::byte *out) const;

private:
  template <typename Element>
  void packPanel(const std::byte *weight, int64_t panel, Element *out) const;
  void packTransformed(const std::byte *weight, int64_t panel, float *out) const;

  PackLayout layout;
  int64_t depth = 1;   ///< K, of a panel
  int64_t columns = 1; ///< N of one group
  int64_t panelsPerGroup = 1;
  /// Offsets in elements: of k and of n within the weight.
  std::vector<int64_t> depthOffset;
  std::vector<int64_t> columnOffset;
};

} // namespace tenon::plan
