// Tests the normal form of shape expressions: what must become equal, and what must be given up.
// Relies on affine maps being parsed and printed by MLIR.
#include "compiler/graph/Shape.h"
#include "compiler/graph/infer/Infer.h"

#include "mlir/AsmParser/AsmParser.h"

#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mlir;
using namespace tenon::tn;

namespace {

struct SimplifyTest : testing::Test {
  MLIRContext context;

  AffineExpr parse(const std::string &text) {
    Attribute map = parseAttribute("affine_map<()[s0, s1, s2] -> (" + text + ")>", &context);
    return llvm::cast<AffineMapAttr>(map).getValue().getResult(0);
  }
  std::string simplified(const std::string &text) {
    AffineExpr result = simplify(parse(text));
    return result ? infer::text(result) : "none";
  }
};

TEST_F(SimplifyTest, PrintsEqualThingsEqual) {
  EXPECT_EQ(simplified("s0 + s1 - s0"), "s1");
  EXPECT_EQ(simplified("s1 * 3 * s0"), simplified("s0 * s1 * 3"));
  EXPECT_EQ(simplified("(s0 + 1) * (s0 - 1)"), simplified("s0 * s0 - 1"));
  EXPECT_EQ(simplified("s0 - s0"), "0");
  EXPECT_EQ(simplified("2 + s0 + 3"), "s0 + 5");
}

TEST_F(SimplifyTest, TakesDivisionsApart) {
  EXPECT_EQ(simplified("(s0 * 4) floordiv 2"), "s0 * 2");
  EXPECT_EQ(simplified("(s0 * 4 + 7) floordiv 2"), "s0 * 2 + 3");
  EXPECT_EQ(simplified("(s0 * 6 + 3) floordiv 9"), simplified("(s0 * 2 + 1) floordiv 3"));
  EXPECT_EQ(simplified("(s0 * 3) floordiv 2"), simplified("s0 + s0 floordiv 2"));
  EXPECT_EQ(simplified("s0 ceildiv 2"), simplified("(s0 + 1) floordiv 2"));
  EXPECT_EQ(simplified("s0 mod 4 + (s0 floordiv 4) * 4"), "s0");
  EXPECT_EQ(simplified("(s0 * s1 * 768) floordiv (s1 * 64)"), "s0 * 12");
  EXPECT_EQ(simplified("(s0 * s1) mod s1"), "0");
}

TEST_F(SimplifyTest, MergesChainsOfStridedWindows) {
  // Five halvings of an image are one division by 32.
  std::string size = "s0";
  for (int i = 0; i < 5; ++i) {
    size = "((" + size + " - 1) floordiv 2 + 1)";
  }
  EXPECT_EQ(simplified(size), "floor((s0 + 31) / 32)");
}

TEST_F(SimplifyTest, GivesUpWithoutCrashing) {
  EXPECT_EQ(simplified("s0 floordiv 0"), "none");
  EXPECT_EQ(simplified("s0 mod -3"), "none");
  AffineExpr large = getAffineConstantExpr(std::numeric_limits<int64_t>::max(), &context);
  AffineExpr symbol = getAffineSymbolExpr(0, &context);
  EXPECT_FALSE(multiplyDims(symbol, large));
  AffineExpr half = symbol * (int64_t(1) << 59);
  EXPECT_TRUE(addDims(half, half));
  EXPECT_FALSE(addDims(addDims(half, half), half));
  EXPECT_FALSE(multiplyDims(half, getAffineConstantExpr(8, &context)));
  EXPECT_FALSE(addDims(large, large));
  EXPECT_FALSE(addDims(AffineExpr(), large));
  AffineExpr power = symbol;
  for (int i = 0; i < 6; ++i) {
    power = power * power;
  }
  EXPECT_FALSE(simplify(power));
  AffineExpr deep = symbol;
  for (int i = 0; i < 1000; ++i) {
    deep = (deep * 3 + getAffineSymbolExpr(1, &context)).floorDiv(7);
  }
  EXPECT_FALSE(simplify(deep));
}

/// Whatever the form, the value stays.
TEST_F(SimplifyTest, KeepsTheValueOfRandomExpressions) {
  std::mt19937 random(7);
  auto pick = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  int compared = 0;
  for (int round = 0; round < 2000; ++round) {
    AffineExpr expression = getAffineSymbolExpr(pick(0, 2), &context);
    for (int step = 0; step < 6; ++step) {
      switch (pick(0, 5)) {
      case 0:
        expression = expression + getAffineSymbolExpr(pick(0, 2), &context) * pick(-4, 4);
        break;
      case 1:
        expression = expression * pick(-3, 5);
        break;
      case 2:
        expression = expression + pick(-9, 9);
        break;
      case 3:
        expression = expression.floorDiv(pick(1, 6));
        break;
      case 4:
        expression = expression.ceilDiv(pick(1, 6));
        break;
      case 5:
        expression = expression % pick(1, 6);
        break;
      }
    }
    AffineExpr normal = simplify(expression);
    ASSERT_TRUE(normal);
    EXPECT_EQ(simplify(normal), normal);
    for (int sample = 0; sample < 5; ++sample) {
      SmallVector<int64_t> symbols = {pick(0, 50), pick(0, 50), pick(0, 50)};
      std::optional<int64_t> value = evaluate(expression, symbols);
      ASSERT_TRUE(value);
      EXPECT_EQ(evaluate(normal, symbols), value)
          << infer::text(expression) << " became " << infer::text(normal);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 10000);
}

} // namespace
