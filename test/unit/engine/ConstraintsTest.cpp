// Constraints of a plan: when they hold, how they are worded, and sizes that satisfy them.

#include "engine/Constraints.h"

#include <gtest/gtest.h>

namespace tenon::engine {
namespace {

/// Two dims of one input, n and m, and one constraint between 2 n + 1 and m.
Plan planWith(ConstraintKind kind) {
  Plan plan;
  plan.symbols = {{"n", 1, 100, 0, 0}, {"m", 1, 100, 0, 1}};
  ExprId n = plan.exprs.symbol(0), m = plan.exprs.symbol(1);
  plan.inputs = {{"x", DType::F32, {n, m}, 0}};
  ExprId left = plan.exprs.add(plan.exprs.mul(n, plan.exprs.constant(2)), plan.exprs.constant(-1));
  plan.constraints = {{kind, left, m, "node"}};
  return plan;
}

bool holdsFor(ConstraintKind kind, int64_t n, int64_t m) {
  Plan plan = planWith(kind);
  int64_t values[] = {n, m};
  return holds(plan, plan.constraints[0], values);
}

TEST(Constraints, Hold) {
  EXPECT_TRUE(holdsFor(ConstraintKind::Equal, 3, 5));
  EXPECT_FALSE(holdsFor(ConstraintKind::Equal, 1, 5));
  EXPECT_TRUE(holdsFor(ConstraintKind::EqualOrOne, 3, 5));
  EXPECT_TRUE(holdsFor(ConstraintKind::EqualOrOne, 1, 5));
  EXPECT_FALSE(holdsFor(ConstraintKind::EqualOrOne, 5, 1));
  EXPECT_TRUE(holdsFor(ConstraintKind::Divisible, 5, 3));
  EXPECT_FALSE(holdsFor(ConstraintKind::Divisible, 5, 2));
  EXPECT_FALSE(holdsFor(ConstraintKind::Divisible, 5, 0));
  EXPECT_TRUE(holdsFor(ConstraintKind::AtLeast, 3, 4));
  EXPECT_FALSE(holdsFor(ConstraintKind::AtLeast, 2, 4));
  EXPECT_FALSE(holdsFor(ConstraintKind::Equal, INT64_MAX, 1)) << "overflow";
}

TEST(Constraints, NameNodeDimsAndValues) {
  Plan plan = planWith(ConstraintKind::AtLeast);
  int64_t values[] = {2, 4};
  Status status = checkConstraints(plan, values, 2);
  EXPECT_EQ(ErrorId::RunShapeConstraint, status.id());
  EXPECT_NE(
      std::string::npos,
      status.toString().find(
          "node 'node' needs that n * 2 - 1 is at least m, but n = 2 (dim 0 of input 'x'), m = 4"))
      << status.toString();
  for (auto [kind, words] :
       {std::pair(ConstraintKind::Equal, "n * 2 - 1 is m"),
        std::pair(ConstraintKind::EqualOrOne, "n * 2 - 1 is m or 1"),
        std::pair(ConstraintKind::Divisible, "n * 2 - 1 is a multiple of m")}) {
    Plan other = planWith(kind);
    EXPECT_EQ(words, describe(other, other.constraints[0]));
  }
}

TEST(Constraints, AreSatisfiedBySmallChanges) {
  Plan plan = planWith(ConstraintKind::Equal);
  int64_t values[] = {4, 8};
  EXPECT_TRUE(satisfyConstraints(plan, values));
  EXPECT_TRUE(checkConstraints(plan, values, 2).isOk());
  EXPECT_EQ(4, values[0]);
  EXPECT_EQ(7, values[1]);
  plan.symbols[1].min = plan.symbols[1].max = 8;
  int64_t odd[] = {4, 8};
  EXPECT_FALSE(satisfyConstraints(plan, odd));
}

} // namespace
} // namespace tenon::engine
