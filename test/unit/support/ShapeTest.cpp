// Checked arithmetic on shapes, and the element types.

#include "support/Shape.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

using Dims = std::vector<int64_t>;

TEST(Shape, Counts) {
  EXPECT_EQ(1, elementCount(Dims{}));
  EXPECT_EQ(24, elementCount(Dims{2, 3, 4}));
  EXPECT_EQ(0, elementCount(Dims{2, 0, 4}));
  EXPECT_FALSE(elementCount(Dims{2, -1}).has_value());
  EXPECT_FALSE(elementCount(Dims{INT64_MAX, 2}).has_value());
  // Overflow is refused also where a zero hides it: strides would still overflow.
  EXPECT_FALSE(elementCount(Dims{0, INT64_MAX, 2}).has_value());
}

TEST(Shape, Bytes) {
  EXPECT_EQ(96, byteSize(DType::F32, Dims{2, 3, 4}));
  EXPECT_EQ(3, byteSize(DType::I4, Dims{3}));
  EXPECT_EQ(16, byteSize(DType::Complex128, Dims{}));
  EXPECT_FALSE(byteSize(DType::F64, Dims{INT64_MAX / 32}).has_value());
}

TEST(Shape, StridesAndText) {
  EXPECT_EQ((Dims{12, 4, 1}), rowMajorStrides(Dims{2, 3, 4}));
  EXPECT_EQ("2x3x?", formatDims(Dims{2, 3, -1}));
  EXPECT_EQ("scalar", formatDims(Dims{}));
  EXPECT_EQ(3, ceilDiv(5, 2));
}

TEST(DType, NamesRoundTrip) {
  for (uint8_t value = 1; value <= kLastDType; ++value) {
    DType type = static_cast<DType>(value);
    EXPECT_EQ(type, parseDType(nameOf(type)));
    EXPECT_GT(bitWidth(type), 0u);
  }
  EXPECT_FALSE(parseDType("none").has_value());
  EXPECT_FALSE(parseDType("float").has_value());
  EXPECT_FALSE(isDType(0));
  EXPECT_FALSE(isDType(kLastDType + 1));
  EXPECT_EQ(16u, bitWidth(DType::BF16));
}

} // namespace
} // namespace tenon
