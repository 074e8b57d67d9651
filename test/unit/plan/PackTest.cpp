// Packing against index formulas, one element at a time, over layouts of matrices and convolutions.
#include "compiler/plan/Pack.h"

#include <cstring>
#include <functional>
#include <gtest/gtest.h>

using tenon::plan::Packer;
using tenon::plan::PackLayout;

namespace {

using Index = std::vector<int64_t>;

/// Packs an array of the numbers from 1 on, and expects each at the place that `placeOf` gives for
/// its index, and zeros elsewhere.
template <typename Element>
void check(PackLayout layout, int64_t size, const std::function<int64_t(const Index &)> &placeOf) {
  layout.elementBytes = sizeof(Element);
  int64_t count = 1;
  for (int64_t dim : layout.shape) {
    count *= dim;
  }
  std::vector<Element> weight(count), expected(size);
  Index index(layout.shape.size());
  for (int64_t i = 0; i < count; ++i) {
    weight[i] = static_cast<Element>(i + 1);
    expected[placeOf(index)] = weight[i];
    for (size_t dim = index.size(); dim-- > 0 && ++index[dim] == layout.shape[dim];) {
      index[dim] = 0;
    }
  }
  // One byte off, as weights in mapped files may be.
  std::vector<std::byte> shifted(count * sizeof(Element) + 1);
  std::memcpy(shifted.data() + 1, weight.data(), count * sizeof(Element));
  Packer packer(layout);
  ASSERT_EQ(packer.rows() * packer.rowBytes(), size * int64_t(sizeof(Element)));
  std::vector<Element> out(size, static_cast<Element>(0xAB));
  packer.pack(shifted.data() + 1, 0, packer.rows(), reinterpret_cast<std::byte *>(out.data()));
  EXPECT_EQ(expected, out);
  // Ranges of rows, as threads make them.
  std::fill(out.begin(), out.end(), static_cast<Element>(0xAB));
  for (int64_t begin = 0, step = 1; begin < packer.rows(); begin += step++) {
    int64_t end = std::min(begin + step, packer.rows());
    packer.pack(shifted.data() + 1, begin, end,
                reinterpret_cast<std::byte *>(out.data()) + begin * packer.rowBytes());
  }
  EXPECT_EQ(expected, out);
}

TEST(PackTest, ColumnsInAnotherOrderThanTheWeights) {
  // A filter as [k, r, s, c]: its columns begin and end as those of [k, c, r, s] do.
  check<uint32_t>({{5, 4, 3, 3}, {{0, 2, 3, 1}, {}, {}}}, 5 * 36,
                  [](const Index &i) { return ((i[0] * 3 + i[2]) * 3 + i[3]) * 4 + i[1]; });
  check<uint16_t>({{5, 40, 3, 3}, {{0, 2, 3, 1}, {}, {}}}, 5 * 360,
                  [](const Index &i) { return ((i[0] * 3 + i[2]) * 3 + i[3]) * 40 + i[1]; });
}

TEST(PackTest, Matrix) {
  check<uint32_t>({{70, 45}, {{1, 0}, {1}, {32}}}, 2 * 70 * 32,
                  [](const Index &i) { return (i[1] / 32 * 70 + i[0]) * 32 + i[1] % 32; });
}

TEST(PackTest, TransposedMatrix) {
  check<uint64_t>({{45, 70}, {{0, 1}, {0}, {32}}}, 2 * 70 * 32,
                  [](const Index &i) { return (i[0] / 32 * 70 + i[1]) * 32 + i[0] % 32; });
  check<uint32_t>({{45, 70}, {{1, 0}, {}, {}}}, 45 * 70,
                  [](const Index &i) { return i[1] * 45 + i[0]; });
}

TEST(PackTest, AsItIs) {
  check<uint8_t>({{7, 9}, {{0, 1}, {}, {}}}, 63, [](const Index &i) { return i[0] * 9 + i[1]; });
  check<uint8_t>({{}, {{}, {}, {}}}, 1, [](const Index &) { return 0; });
}

TEST(PackTest, Convolution) {
  check<uint32_t>({{40, 3, 2, 5}, {{0, 2, 3, 1}, {0}, {32}}}, 2 * 30 * 32, [](const Index &i) {
    return (((i[0] / 32 * 2 + i[2]) * 5 + i[3]) * 3 + i[1]) * 32 + i[0] % 32;
  });
}

TEST(PackTest, GroupedConvolution) {
  check<uint32_t>({{66, 4, 3, 3}, {{0, 4, 2, 3, 1}, {0, 0}, {33, 32}}}, 2 * 2 * 36 * 32,
                  [](const Index &i) {
                    int64_t panel = i[0] / 33 * 2 + i[0] % 33 / 32;
                    return (((panel * 3 + i[2]) * 3 + i[3]) * 4 + i[1]) * 32 + i[0] % 33 % 32;
                  });
  // Groups of fewer outputs than a panel has.
  check<uint32_t>({{42, 4, 3, 3}, {{0, 4, 2, 3, 1}, {0, 0}, {14, 32}}}, 3 * 36 * 32,
                  [](const Index &i) {
                    return (((i[0] / 14 * 3 + i[2]) * 3 + i[3]) * 4 + i[1]) * 32 + i[0] % 14;
                  });
}

TEST(PackTest, TwoNeighboursOfTheDepth) {
  check<uint16_t>({{70, 45}, {{0, 1}, {0}, {2}}}, 70 * 45,
                  [](const Index &i) { return (i[0] / 2 * 45 + i[1]) * 2 + i[0] % 2; });
  check<uint16_t>({{71, 45}, {{1, 0}, {1, 0}, {32, 2}}}, 2 * 36 * 64, [](const Index &i) {
    return ((i[1] / 32 * 36 + i[0] / 2) * 32 + i[1] % 32) * 2 + i[0] % 2;
  });
}

TEST(PackTest, FourNeighboursOfTheDepth) {
  check<uint8_t>({{70, 45}, {{0, 1}, {0}, {4}}}, 18 * 45 * 4,
                 [](const Index &i) { return (i[0] / 4 * 45 + i[1]) * 4 + i[0] % 4; });
  check<uint8_t>({{70, 45}, {{1, 0}, {1, 0}, {16, 4}}}, 3 * 18 * 64, [](const Index &i) {
    return ((i[1] / 16 * 18 + i[0] / 4) * 16 + i[1] % 16) * 4 + i[0] % 4;
  });
  // Blocks of the depth, each in panels.
  check<uint8_t>(
      {{70, 45}, {{0, 1, 2}, {0, 1, 0}, {64, 16, 4}}}, 2 * 3 * 16 * 64, [](const Index &i) {
        return (((i[0] / 64 * 3 + i[1] / 16) * 16 + i[0] % 64 / 4) * 16 + i[1] % 16) * 4 + i[0] % 4;
      });
}

} // namespace
