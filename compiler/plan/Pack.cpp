// Packs weights in blocks that stay in the first-level cache, whichever of K and N is contiguous.
// Relies on the offset tables of k and n, so one loop serves matrices and convolutions.
#include "compiler/plan/Pack.h"

#include "compiler/graph/Winograd.h"
#include "support/Check.h"
#include "support/Shape.h"

#include <algorithm>
#include <cstring>

namespace tenon::plan {
namespace {

/// Rows of a panel written together: 64 rows of 32 floats are 8 KiB.
constexpr int64_t kBlockRows = 64;

/// Offsets of all index tuples over the given dims, the last dim fastest.
std::vector<int64_t> offsetsOf(const std::vector<int64_t> &dims,
                               const std::vector<int64_t> &strides) {
  std::vector<int64_t> offsets = {0};
  for (size_t i = 0; i < dims.size(); ++i) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * dims[i]);
    for (int64_t base : offsets) {
      for (int64_t index = 0; index < dims[i]; ++index) {
        next.push_back(base + index * strides[i]);
      }
    }
    offsets = std::move(next);
  }
  return offsets;
}

} // namespace

Packer::Packer(const PackLayout &packLayout) : layout(packLayout) {
  std::vector<int64_t> strides = rowMajorStrides(layout.shape);
  std::vector<int64_t> dims[2];
  std::vector<int64_t> dimStrides[2];
  for (size_t i = 0; i < layout.permutation.size(); ++i) {
    size_t side = static_cast<int64_t>(i) < layout.rows ? 0 : 1;
    dims[side].push_back(layout.shape[layout.permutation[i]]);
    dimStrides[side].push_back(strides[layout.permutation[i]]);
  }
  depthOffset = offsetsOf(dims[0], dimStrides[0]);
  columnOffset = offsetsOf(dims[1], dimStrides[1]);
  depth = static_cast<int64_t>(depthOffset.size());
  columns = static_cast<int64_t>(columnOffset.size()) / layout.groups;
  panelsPerGroup = ceilDiv(columns, layout.panel);
  depth = winograd::transformedDepth(depth, layout.winograd);
}

/// Of each column and input channel, 3 x 3 taps become a square of m + 2: along lines, then along
/// columns.
void Packer::packTransformed(const std::byte *weight, int64_t panel, float *out) const {
  constexpr int64_t kTaps = winograd::kTaps;
  int64_t m = layout.winograd, side = m + 2, rest = depth / (side * side);
  int64_t group = panel / panelsPerGroup;
  int64_t first = panel % panelsPerGroup * layout.panel;
  int64_t width = std::min(layout.panel, columns - first);
  std::memset(out, 0, depth * layout.panel * sizeof(float));
  std::vector<double> lines(kTaps * side), square(side);
  for (int64_t row = 0; row < rest; ++row) {
    for (int64_t j = 0; j < width; ++j) {
      int64_t column = columnOffset[group * columns + first + j];
      for (int64_t line = 0; line < kTaps; ++line) {
        std::array<double, kTaps> taps;
        for (int64_t tap = 0; tap < kTaps; ++tap) {
          float value;
          int64_t offset = column + depthOffset[(line * kTaps + tap) * rest + row];
          std::memcpy(&value, weight + offset * sizeof(float), sizeof(float));
          taps[tap] = value;
        }
        winograd::transformFilter(m, taps, lines.data() + line * side);
      }
      for (int64_t x = 0; x < side; ++x) {
        winograd::transformFilter(m, {lines[x], lines[side + x], lines[2 * side + x]},
                                  square.data());
        for (int64_t y = 0; y < side; ++y) {
          out[((y * side + x) * rest + row) * layout.panel + j] = static_cast<float>(square[y]);
        }
      }
    }
  }
}

template <typename Element>
void Packer::packPanel(const std::byte *weight, int64_t panel, Element *out) const {
  int64_t group = panel / panelsPerGroup;
  int64_t first = panel % panelsPerGroup * layout.panel;
  int64_t width = std::min(layout.panel, columns - first);
  const int64_t *column = columnOffset.data() + group * columns + first;
  if (width < layout.panel) {
    std::memset(out, 0, depth * layout.panel * sizeof(Element));
  }
  // The ends do not say it: a permutation of the columns has the same.
  bool contiguous = std::adjacent_find(column, column + width, [](int64_t a, int64_t b) {
                      return b != a + 1;
                    }) == column + width;
  if (contiguous) {
    for (int64_t k = 0; k < depth; ++k) {
      std::memcpy(out + k * layout.panel, weight + (column[0] + depthOffset[k]) * sizeof(Element),
                  width * sizeof(Element));
    }
    return;
  }
  for (int64_t begin = 0; begin < depth; begin += kBlockRows) {
    int64_t end = std::min(depth, begin + kBlockRows);
    for (int64_t j = 0; j < width; ++j) {
      const std::byte *source = weight + column[j] * sizeof(Element);
      for (int64_t k = begin; k < end; ++k) {
        // A weight in a mapped file may lie at any address.
        std::memcpy(out + k * layout.panel + j, source + depthOffset[k] * sizeof(Element),
                    sizeof(Element));
      }
    }
  }
}

void Packer::pack(const std::byte *weight, int64_t begin, int64_t end, std::byte *out) const {
  for (int64_t panel = begin; panel < end; ++panel, out += panelBytes()) {
    if (layout.winograd) {
      packTransformed(weight, panel, reinterpret_cast<float *>(out));
      continue;
    }
    switch (layout.elementBytes) {
    case 1:
      packPanel(weight, panel, reinterpret_cast<uint8_t *>(out));
      break;
    case 2:
      packPanel(weight, panel, reinterpret_cast<uint16_t *>(out));
      break;
    case 4:
      packPanel(weight, panel, reinterpret_cast<uint32_t *>(out));
      break;
    default:
      TENON_CHECK(layout.elementBytes == 8, "elements have 1, 2, 4 or 8 bytes");
      packPanel(weight, panel, reinterpret_cast<uint64_t *>(out));
    }
  }
}

} // namespace tenon::plan
