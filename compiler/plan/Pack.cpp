// Packs weights in blocks that stay in the first-level cache, whichever dim is contiguous in the
// weight. Relies on offsets being sums over the dims of the packed array, so that one loop serves
// all packings.
#include "compiler/plan/Pack.h"

#include "support/Check.h"
#include "support/Shape.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tenon::plan {
namespace {

/// Rows written together: 64 rows of 32 floats are 8 KiB.
constexpr int64_t kBlockRows = 64;
/// Fewest elements of a row, where there are so many.
constexpr int64_t kMinLanes = 16;

void add(std::vector<int64_t> &sums, const std::vector<int64_t> &steps, int64_t times) {
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] += steps[i] * times;
  }
}

} // namespace

/// Goes through rows in order.
class Packer::Cursor {
public:
  Cursor(const Packer &packer, int64_t row)
      : dims(packer.rowDims), positions(dims.size()), at(packer.bounds.size()) {
    for (size_t i = dims.size(); i-- > 0; row /= dims[i].size) {
      positions[i] = row % dims[i].size;
      add(at, dims[i].steps, positions[i]);
    }
  }

  const Sums &sums() const { return at; }

  void advance() {
    for (size_t i = dims.size(); i-- > 0;) {
      add(at, dims[i].steps, 1);
      if (++positions[i] < dims[i].size) {
        return;
      }
      add(at, dims[i].steps, -dims[i].size);
      positions[i] = 0;
    }
  }

private:
  const std::vector<RowDim> &dims;
  std::vector<int64_t> positions;
  Sums at;
};

Packer::Packer(const PackLayout &layout) : elementBytes(layout.elementBytes) {
  std::vector<int64_t> strides = rowMajorStrides(layout.shape);
  llvm::SmallVector<tn::PackedDim> dims = tn::packedDims(layout.shape, layout.packing);
  bounds.push_back(0);
  for (const tn::PackedDim &dim : dims) {
    rowDims.push_back({dim.size, {dim.step * strides[dim.source]}});
  }
  for (const tn::PackedDim &padded : dims) {
    if (!padded.isPadded()) {
      continue;
    }
    bounds.push_back(padded.extent);
    for (size_t i = 0; i < dims.size(); ++i) {
      bool isInside = dims[i].source == padded.source && dims[i].level >= padded.level;
      rowDims[i].steps.push_back(isInside ? dims[i].step : 0);
    }
  }
  lanes.resize(bounds.size());
  while (!rowDims.empty() && laneCount < kMinLanes) {
    joinLastDim();
  }
  for (const RowDim &dim : rowDims) {
    rowCount *= dim.size;
  }
  mostOfLanes.resize(bounds.size());
  // The ends do not say it: another order of the lanes has the same.
  isContiguous = true;
  for (int64_t lane = 0; lane < laneCount; ++lane) {
    for (size_t i = 0; i < bounds.size(); ++i) {
      mostOfLanes[i] = std::max(mostOfLanes[i], laneAt(lane)[i]);
    }
    isContiguous &= *laneAt(lane) == lane;
  }
}

/// Rows that differ in the last of their dims alone become one.
void Packer::joinLastDim() {
  Sums joined;
  const RowDim &dim = rowDims.back();
  joined.reserve(lanes.size() * dim.size);
  for (int64_t position = 0; position < dim.size; ++position) {
    for (size_t i = 0; i < lanes.size(); ++i) {
      joined.push_back(lanes[i] + dim.steps[i % bounds.size()] * position);
    }
  }
  laneCount *= dim.size;
  lanes = std::move(joined);
  rowDims.pop_back();
}

bool Packer::isWhole(const Sums &row) const {
  for (size_t i = 1; i < bounds.size(); ++i) {
    if (row[i] + mostOfLanes[i] >= bounds[i]) {
      return false;
    }
  }
  return true;
}

template <typename Element>
void Packer::packPart(const std::byte *weight, const Sums &row, Element *out) const {
  for (int64_t number = 0; number < laneCount; ++number) {
    const int64_t *lane = laneAt(number);
    bool isInside = true;
    for (size_t i = 1; i < bounds.size(); ++i) {
      isInside &= row[i] + lane[i] < bounds[i];
    }
    out[number] = 0;
    if (isInside) {
      std::memcpy(out + number, weight + (row[0] + lane[0]) * sizeof(Element), sizeof(Element));
    }
  }
}

template <typename Element>
void Packer::packRows(const std::byte *weight, int64_t begin, int64_t end, Element *out) const {
  struct Row {
    const std::byte *from;
    Element *to;
  };
  std::array<Row, kBlockRows> block;
  Cursor cursor(*this, begin);
  while (begin < end) {
    size_t count = 0;
    for (; begin < end && count < block.size(); ++begin, cursor.advance(), out += laneCount) {
      const Sums &row = cursor.sums();
      const std::byte *from = weight + row[0] * static_cast<int64_t>(sizeof(Element));
      if (!isWhole(row)) {
        packPart(weight, row, out);
      } else if (isContiguous) {
        std::memcpy(out, from, laneCount * sizeof(Element));
      } else {
        block[count++] = {from, out};
      }
    }
    for (int64_t lane = 0; count > 0 && lane < laneCount; ++lane) {
      int64_t offset = *laneAt(lane) * static_cast<int64_t>(sizeof(Element));
      for (size_t row = 0; row < count; ++row) {
        // A weight in a mapped file may lie at any address.
        std::memcpy(block[row].to + lane, block[row].from + offset, sizeof(Element));
      }
    }
  }
}

void Packer::pack(const std::byte *weight, int64_t begin, int64_t end, std::byte *out) const {
  switch (elementBytes) {
  case 1:
    return packRows(weight, begin, end, reinterpret_cast<uint8_t *>(out));
  case 2:
    return packRows(weight, begin, end, reinterpret_cast<uint16_t *>(out));
  case 4:
    return packRows(weight, begin, end, reinterpret_cast<uint32_t *>(out));
  default:
    TENON_CHECK(elementBytes == 8, "elements have 1, 2, 4 or 8 bytes");
    return packRows(weight, begin, end, reinterpret_cast<uint64_t *>(out));
  }
}

} // namespace tenon::plan
