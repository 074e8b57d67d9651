// Packing against its definition, one element at a time, over layouts of matrices and convolutions.
#include "compiler/plan/Pack.h"

#include "compiler/graph/Winograd.h"
#include "support/Shape.h"

#include <cstring>
#include <gtest/gtest.h>

using tenon::plan::Packer;
using tenon::plan::PackLayout;

namespace {

/// Element (group, k, n) of the weight by the definition of tn.pack.
uint32_t elementAt(const std::vector<uint32_t> &weight, const PackLayout &layout, int64_t group,
                   int64_t k, int64_t n) {
  std::vector<int64_t> strides = tenon::rowMajorStrides(layout.shape);
  int64_t columns = 1;
  for (size_t i = layout.rows; i < layout.permutation.size(); ++i) {
    columns *= layout.shape[layout.permutation[i]];
  }
  int64_t rest[2] = {k, group * (columns / layout.groups) + n};
  int64_t offset = 0;
  for (size_t i = layout.permutation.size(); i-- > 0;) {
    int64_t &part = rest[static_cast<int64_t>(i) < layout.rows ? 0 : 1];
    int64_t size = layout.shape[layout.permutation[i]];
    offset += part % size * strides[layout.permutation[i]];
    part /= size;
  }
  return weight[offset];
}

void check(const PackLayout &layout, int64_t depth, int64_t columns) {
  int64_t count = depth * columns * layout.groups;
  std::vector<uint32_t> weight(count);
  for (int64_t i = 0; i < count; ++i) {
    weight[i] = static_cast<uint32_t>(i + 1);
  }
  // One byte off, as weights in mapped files may be.
  std::vector<std::byte> shifted(count * 4 + 1);
  std::memcpy(shifted.data() + 1, weight.data(), count * 4);
  Packer packer(layout);
  int64_t panelsPerGroup = tenon::ceilDiv(columns, layout.panel);
  ASSERT_EQ(packer.panels(), panelsPerGroup * layout.groups);
  ASSERT_EQ(packer.panelBytes(), depth * layout.panel * 4);
  std::vector<uint32_t> out(packer.panels() * packer.panelBytes() / 4, 0xDEADBEEF);
  packer.pack(shifted.data() + 1, 0, packer.panels(), reinterpret_cast<std::byte *>(out.data()));
  for (int64_t group = 0; group < layout.groups; ++group) {
    for (int64_t n = 0; n < panelsPerGroup * layout.panel; ++n) {
      for (int64_t k = 0; k < depth; ++k) {
        uint32_t expected = n < columns ? elementAt(weight, layout, group, k, n) : 0;
        int64_t panel = group * panelsPerGroup + n / layout.panel;
        uint32_t actual = out[(panel * depth + k) * layout.panel + n % layout.panel];
        ASSERT_EQ(actual, expected) << "group " << group << " k " << k << " n " << n;
      }
    }
  }
}

TEST(PackTest, ColumnsInAnotherOrderThanTheWeights) {
  // A filter as [k, r, s, c]: its columns begin and end as those of [k, c, r, s] do.
  check({.shape = {5, 4, 3, 3}, .permutation = {0, 2, 3, 1}, .panel = 36}, 5, 36);
}

TEST(PackTest, Matrix) { check({.shape = {70, 45}, .permutation = {0, 1}}, 70, 45); }

TEST(PackTest, TransposedMatrix) { check({.shape = {45, 70}, .permutation = {1, 0}}, 70, 45); }

TEST(PackTest, Convolution) {
  check({.shape = {40, 3, 2, 5}, .permutation = {2, 3, 1, 0}, .rows = 3}, 30, 40);
}

TEST(PackTest, GroupedConvolution) {
  check({.shape = {66, 4, 3, 3}, .permutation = {2, 3, 1, 0}, .rows = 3, .groups = 2}, 36, 33);
}

TEST(PackTest, TransformedFiltersAreThoseOfTheWeight) {
  constexpr int64_t kOutputs = 35, kInputs = 3, kDepth = 2, kPanel = 32;
  std::vector<float> weight(kOutputs * kInputs * kDepth * 9);
  for (size_t i = 0; i < weight.size(); ++i) {
    weight[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  }
  for (int64_t m : {2, 4}) {
    int64_t side = m + 2, rest = kDepth * kInputs;
    Packer packer({.shape = {kOutputs, kInputs, kDepth, 3, 3},
                   .permutation = {3, 4, 2, 1, 0},
                   .rows = 4,
                   .panel = kPanel,
                   .winograd = m});
    ASSERT_EQ(2, packer.panels());
    ASSERT_EQ(side * side * rest * kPanel * 4, packer.panelBytes());
    std::vector<float> out(packer.panels() * packer.panelBytes() / 4);
    packer.pack(reinterpret_cast<const std::byte *>(weight.data()), 0, packer.panels(),
                reinterpret_cast<std::byte *>(out.data()));
    for (int64_t o = 0; o < kOutputs; ++o) {
      for (int64_t i = 0; i < rest; ++i) {
        std::vector<std::array<double, 3>> lines(side);
        for (int64_t y = 0; y < side; ++y) {
          std::vector<double> values(side);
          for (int64_t x = 0; x < side; ++x) {
            int64_t row = (o / kPanel * side * side + y * side + x) * rest + i;
            values[x] = out[row * kPanel + o % kPanel];
          }
          lines[y] = tenon::winograd::originalFilter(m, values.data());
        }
        for (int64_t x = 0; x < 3; ++x) {
          std::vector<double> column(side);
          for (int64_t y = 0; y < side; ++y) {
            column[y] = lines[y][x];
          }
          std::array<double, 3> taps = tenon::winograd::originalFilter(m, column.data());
          for (int64_t y = 0; y < 3; ++y) {
            int64_t channel = i % kInputs, plane = i / kInputs;
            int64_t at = (((o * kInputs + channel) * kDepth + plane) * 3 + y) * 3 + x;
            ASSERT_NEAR(weight[at], taps[y], 1e-6) << "m " << m << " output " << o;
          }
        }
      }
    }
  }
}

TEST(PackTest, PanelsOneByOneEqualAllAtOnce) {
  PackLayout layout{.shape = {9, 100}, .permutation = {0, 1}};
  std::vector<uint32_t> weight(900);
  for (size_t i = 0; i < weight.size(); ++i) {
    weight[i] = static_cast<uint32_t>(i);
  }
  const std::byte *bytes = reinterpret_cast<const std::byte *>(weight.data());
  Packer packer(layout);
  std::vector<std::byte> whole(packer.panels() * packer.panelBytes());
  std::vector<std::byte> parts(whole.size());
  packer.pack(bytes, 0, packer.panels(), whole.data());
  for (int64_t panel = 0; panel < packer.panels(); ++panel) {
    packer.pack(bytes, panel, panel + 1, parts.data() + panel * packer.panelBytes());
  }
  EXPECT_EQ(whole, parts);
}

} // namespace
