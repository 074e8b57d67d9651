// Packs a weight as tn.pack says, from row-major bytes: by rows of neighbouring elements of the
// result. Relies on nothing of MLIR; ranges of rows can be packed at the same time.
#pragma once

#include "compiler/graph/Packing.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::plan {

/// What tn.pack does to one weight.
struct PackLayout {
  std::vector<int64_t> shape; ///< of the weight
  tn::Packing packing;
  int64_t elementBytes = 4;

  auto operator<=>(const PackLayout &) const = default;
};

class Packer {
public:
  explicit Packer(const PackLayout &layout);

  int64_t rows() const { return rowCount; }
  int64_t rowBytes() const { return laneCount * elementBytes; }
  /// Writes rows [begin, end) to `out`, rowBytes() each. `weight` is the row-major array.
  void pack(const std::byte *weight, int64_t begin, int64_t end, std::byte *out) const;

private:
  /// Of a position: its offset in the weight, then the left side of each bound.
  using Sums = std::vector<int64_t>;
  /// A dim of the packed array that rows differ in, and what a step along it adds.
  struct RowDim {
    int64_t size;
    Sums steps;
  };
  class Cursor;

  template <typename Element>
  void packRows(const std::byte *weight, int64_t begin, int64_t end, Element *out) const;
  template <typename Element>
  void packPart(const std::byte *weight, const Sums &row, Element *out) const;
  const int64_t *laneAt(int64_t lane) const { return lanes.data() + lane * bounds.size(); }
  void joinLastDim();
  bool isWhole(const Sums &row) const;

  int64_t elementBytes;
  int64_t rowCount = 1;
  bool isContiguous = false; ///< neighbours of a row are neighbours in the weight
  std::vector<RowDim> rowDims;
  int64_t laneCount = 1; ///< elements of a row
  Sums lanes;            ///< the sums of each, one after the other
  /// What the sums of a row and a lane must stay below where tiles reach beyond their dim; else the
  /// element is zero. The first entry, of offsets, bounds nothing.
  Sums bounds;
  Sums mostOfLanes;
};

} // namespace tenon::plan
