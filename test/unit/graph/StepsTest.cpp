// Tests the lesser and the greater of sizes: their values, bounds and words.
// Relies on a few symbols of small ranges, all of whose values are tried.
#include "compiler/graph/Steps.h"

#include "compiler/graph/DimText.h"

#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace tenon::tn;

namespace {

struct StepsTest : testing::Test {
  MLIRContext context;
  SymbolList symbols;
  AffineExpr n, m;

  StepsTest() {
    n = getAffineSymbolExpr(symbols.add("n", 1, 12), &context);
    m = getAffineSymbolExpr(symbols.add("m", 0, 9), &context);
  }

  AffineExpr constant(int64_t value) { return getAffineConstantExpr(value, &context); }

  template <typename Check> void forAll(const Check &check) {
    for (int64_t first = 1; first <= 12; ++first) {
      for (int64_t second = 0; second <= 9; ++second) {
        check(ArrayRef<int64_t>{first, second});
      }
    }
  }

  std::string text(AffineExpr dim) { return dimText(dim, symbols.symbols()); }
};

TEST_F(StepsTest, RandomChoicesHaveTheirValuesAndBoundsHoldThem) {
  std::mt19937 random(46);
  auto number = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  auto size = [&] {
    AffineExpr line = n * number(0, 2) + m * number(-1, 1) + number(-15, 15);
    return number(0, 3) == 0 ? line.floorDiv(number(2, 4)) : line;
  };
  for (int i = 0; i < 400; ++i) {
    AffineExpr a = size(), b = size(), c = size();
    AffineExpr lesser = smallerDim(symbols, a, b), both = largerDim(symbols, lesser, c);
    ASSERT_TRUE(lesser && both);
    SymbolList::Range bounds = symbols.bounds(both);
    AffineExpr decided = withoutDecidedSteps(both, symbols);
    AffineExpr read = parseDim(text(both), symbols.symbols(), &context);
    forAll([&](ArrayRef<int64_t> values) {
      int64_t expected =
          std::max(std::min(*evaluate(a, values), *evaluate(b, values)), *evaluate(c, values));
      ASSERT_EQ(*evaluate(both, values), expected) << text(both);
      ASSERT_EQ(*evaluate(decided, values), expected) << text(both);
      ASSERT_TRUE(read && *evaluate(read, values) == expected) << text(both);
      ASSERT_TRUE(bounds.min <= expected && expected <= bounds.max) << text(both);
    });
  }
}

TEST_F(StepsTest, BoundsOfOneSymbolAreExact) {
  SymbolList::Range range = symbols.bounds(smallerDim(symbols, n, constant(4)));
  EXPECT_EQ(range.min, 1);
  EXPECT_EQ(range.max, 4);
  range = symbols.bounds(n - largerDim(symbols, n - 4, constant(0)));
  EXPECT_EQ(range.min, 1);
  EXPECT_EQ(range.max, 4);
}

TEST_F(StepsTest, EqualChoicesAreOneExpression) {
  EXPECT_TRUE(sameDim(smallerDim(symbols, n, m), smallerDim(symbols, m, n)));
  EXPECT_TRUE(
      sameDim(smallerDim(symbols, n, constant(4)), n - largerDim(symbols, n - 4, constant(0))));
}

TEST_F(StepsTest, PeopleReadChoices) {
  EXPECT_EQ(text(smallerDim(symbols, n, constant(4))), "min(n, 4)");
  EXPECT_EQ(text(largerDim(symbols, n - 4, constant(0))), "max(0, n - 4)");
}

} // namespace
