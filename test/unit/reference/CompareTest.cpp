// Tests the comparison of tensors: tolerance, positions, special values, types.
// Relies on nothing beyond tensors.
#include "compiler/reference/Compare.h"

#include "ReferenceFixture.h"

#include <limits>

using namespace tenon;
using namespace tenon::reference;

namespace {

TEST(Compare, ReportsFirstAndLargestDifference) {
  Tensor expected = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor actual = floats({2, 3}, {1, 2.00001, 3.5, 4, 9, 6});
  Comparison comparison = compareTensors(expected, actual);
  EXPECT_FALSE(comparison.equal());
  EXPECT_EQ(comparison.different, 2);
  EXPECT_EQ(comparison.first.index, 2);
  EXPECT_EQ(comparison.first.actual, 3.5);
  EXPECT_EQ(comparison.largest.index, 4);
  EXPECT_EQ(comparison.largestMagnitude, 6);
  EXPECT_EQ(
      comparison.text(expected.dims()),
      "2 elements differ; first at [0, 2]: 3 expected, 3.5 found; most at [1, 1]: 5 expected, "
      "9 found; the largest magnitude is 6");
}

TEST(Compare, ToleratesByType) {
  Tensor expected = floats({1}, {100});
  EXPECT_TRUE(compareTensors(expected, floats({1}, {100.009})).equal());
  EXPECT_FALSE(compareTensors(expected, floats({1}, {100.02})).equal());
  EXPECT_TRUE(compareTensors(make(DType::F64, {1}, {100}), floats({1}, {100.009})).equal());
  EXPECT_FALSE(
      compareTensors(make(DType::F64, {1}, {100}), make(DType::F64, {1}, {100.009})).equal());
  EXPECT_TRUE(compareTensors(make(DType::BF16, {1}, {100}), make(DType::BF16, {1}, {101})).equal());
  EXPECT_FALSE(compareTensors(make(DType::I32, {1}, {100}), make(DType::I32, {1}, {101})).equal());
  EXPECT_FALSE(compareTensors(expected, floats({1}, {100.009}), Tolerance{1e-6, 0}).equal());
}

TEST(Compare, TreatsSpecialValuesAsValues) {
  Tensor special = floats({3}, {kNan, kInf, -kInf});
  EXPECT_TRUE(compareTensors(special, special).equal());
  Comparison comparison = compareTensors(special, floats({3}, {1, -kInf, 5}));
  EXPECT_EQ(comparison.different, 3);
  EXPECT_FALSE(compareTensors(floats({1}, {1}), floats({1}, {kNan})).equal());
  EXPECT_FALSE(compareTensors(floats({1}, {1}), floats({1}, {kInf})).equal());
  EXPECT_FALSE(compareTensors(floats({1}, {kInf}), floats({1}, {1})).equal());
}

TEST(Compare, SeesLargeIntegersApart) {
  Tensor a = *Tensor::create(DType::I64, {1});
  Tensor b = *Tensor::create(DType::I64, {1});
  a.as<int64_t>()[0] = (int64_t(1) << 60) + 1;
  b.as<int64_t>()[0] = int64_t(1) << 60;
  EXPECT_FALSE(compareTensors(a, b).equal());
}

TEST(Compare, NamesMismatchedTensors) {
  EXPECT_EQ(compareTensors(floats({2}, {1, 2}), floats({1}, {1})).text({}),
            "the shapes differ: 2 expected, 1 found");
  EXPECT_EQ(compareTensors(floats({1}, {1}), make(DType::I32, {1}, {1})).text({}),
            "the types differ: f32 expected, i32 found");
}

} // namespace
