// Size expressions: what they fold to, what they give, what is refused.

#include "engine/Expr.h"

#include <gtest/gtest.h>

namespace tenon::engine {
namespace {

int64_t valueOf(const ExprTable &exprs, ExprId id, std::vector<int64_t> symbols = {}) {
  return evaluate(exprs.program(id), symbols).value_or(-999);
}

TEST(Expr, FoldsAndShares) {
  ExprTable exprs;
  ExprId batch = exprs.symbol(0);
  EXPECT_EQ(exprs.constant(7), exprs.add(exprs.constant(3), exprs.constant(4)));
  EXPECT_EQ(batch, exprs.mul(batch, exprs.constant(1)));
  EXPECT_EQ(batch, exprs.add(exprs.constant(0), batch));
  EXPECT_EQ(exprs.mul(batch, exprs.constant(8)), exprs.mul(batch, exprs.constant(8)));
  EXPECT_EQ(12, exprs.constantValue(exprs.constant(12)));
  EXPECT_EQ(0u, exprs.symbolIndex(batch));
  EXPECT_FALSE(exprs.constantValue(batch).has_value());
}

TEST(Expr, EvaluatesEveryOp) {
  ExprTable exprs;
  ExprId s = exprs.symbol(0);
  ExprId four = exprs.constant(4);
  EXPECT_EQ(-3, valueOf(exprs, exprs.add(s, four), {-7}));
  EXPECT_EQ(-11, valueOf(exprs, exprs.sub(s, four), {-7}));
  EXPECT_EQ(-28, valueOf(exprs, exprs.mul(s, four), {-7}));
  EXPECT_EQ(-2, valueOf(exprs, exprs.floorDiv(s, four), {-7}));
  EXPECT_EQ(-1, valueOf(exprs, exprs.ceilDiv(s, four), {-7}));
  EXPECT_EQ(1, valueOf(exprs, exprs.mod(s, four), {-7}));
  EXPECT_EQ(2, valueOf(exprs, exprs.ceilDiv(s, four), {7}));
  EXPECT_EQ(2, valueOf(exprs, exprs.ceilDiv(s, four), {8}));
  EXPECT_EQ(-7, valueOf(exprs, exprs.min(s, four), {-7}));
  EXPECT_EQ(4, valueOf(exprs, exprs.max(s, four), {-7}));
}

TEST(Expr, RefusesUndefinedArithmetic) {
  EXPECT_FALSE(applyExprOp(ExprOp::Add, INT64_MAX, 1).has_value());
  EXPECT_FALSE(applyExprOp(ExprOp::Sub, INT64_MIN, 1).has_value());
  EXPECT_FALSE(applyExprOp(ExprOp::Mul, INT64_MAX, 2).has_value());
  EXPECT_FALSE(applyExprOp(ExprOp::FloorDiv, 1, 0).has_value());
  EXPECT_FALSE(applyExprOp(ExprOp::CeilDiv, INT64_MIN, -1).has_value());
  EXPECT_FALSE(applyExprOp(ExprOp::Mod, 1, -3).has_value());
  EXPECT_EQ(INT64_MIN, applyExprOp(ExprOp::FloorDiv, INT64_MIN, 1));
  // What cannot be folded stays a program, and fails when evaluated.
  ExprTable exprs;
  ExprId bad = exprs.floorDiv(exprs.constant(1), exprs.constant(0));
  EXPECT_TRUE(isValidProgram(exprs.program(bad), 0));
  EXPECT_FALSE(evaluate(exprs.program(bad), {}).has_value());
}

TEST(Expr, RefusesMalformedPrograms) {
  using Program = std::vector<ExprTerm>;
  EXPECT_TRUE(isValidProgram(Program{{ExprOp::Symbol, 0}}, 1));
  EXPECT_FALSE(isValidProgram(Program{}, 1));
  EXPECT_FALSE(isValidProgram(Program{{ExprOp::Symbol, 1}}, 1));
  EXPECT_FALSE(isValidProgram(Program{{ExprOp::Symbol, -1}}, 1));
  EXPECT_FALSE(isValidProgram(Program{{ExprOp::Slot, 0}}, 1));
  EXPECT_FALSE(isValidProgram(Program{{static_cast<ExprOp>(11), 0}}, 1));
  EXPECT_FALSE(isValidProgram(Program{{ExprOp::Constant, 1}, {ExprOp::Constant, 1}}, 1));
  EXPECT_FALSE(isValidProgram(Program{{ExprOp::Constant, 1}, {ExprOp::Add, 0}}, 1));
  EXPECT_FALSE(
      isValidProgram(Program{{ExprOp::Constant, 1}, {ExprOp::Constant, 1}, {ExprOp::Add, 5}}, 1));
  Program deep(kMaxExprStack, {ExprOp::Constant, 1});
  deep.insert(deep.end(), kMaxExprStack - 1, {ExprOp::Add, 0});
  EXPECT_TRUE(isValidProgram(deep, 0));
  deep.insert(deep.begin(), {ExprOp::Constant, 1});
  deep.push_back({ExprOp::Add, 0});
  EXPECT_FALSE(isValidProgram(deep, 0));
}

TEST(Expr, Prints) {
  ExprTable exprs;
  ExprId e = exprs.ceilDiv(exprs.mul(exprs.symbol(0), exprs.constant(128)), exprs.constant(64));
  EXPECT_EQ("ceil(s0 * 128 / 64)", exprs.format(e));
  std::vector<std::string> names = {"batch"};
  EXPECT_EQ("ceil(batch * 128 / 64)", exprs.format(e, names));
}

} // namespace
} // namespace tenon::engine
