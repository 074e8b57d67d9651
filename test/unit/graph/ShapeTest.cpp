// Tests tensor types with symbolic dims, broadcasting, symbols and their ranges, and the encoding.
// Relies on the tn dialect's printer and parser.
#include "compiler/graph/Shape.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

#include <gtest/gtest.h>
#include <limits>

using namespace mlir;
using namespace tenon::tn;

namespace {

struct ShapeTest : testing::Test {
  MLIRContext context;
  Builder builder{&context};
  AffineExpr s0, s1;

  ShapeTest() {
    context.loadDialect<TnDialect>();
    bindSymbols(&context, s0, s1);
  }
  AffineExpr number(int64_t value) { return getAffineConstantExpr(value, &context); }

  std::string print(Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  }
  /// The diagnostic of parsing a type, or the type as printed.
  std::string parse(const std::string &text) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      message = diagnostic.str();
      return success();
    });
    Type type = parseType(text, &context);
    return type ? print(type) : message;
  }
};

TEST_F(ShapeTest, StaticTensorsCarryNoEncoding) {
  RankedTensorType type = makeTensor({number(2), number(3)}, builder.getF32Type());
  EXPECT_EQ(print(type), "tensor<2x3xf32>");
  EXPECT_TRUE(sameDims(getDims(type), {number(2), number(3)}));
}

TEST_F(ShapeTest, SymbolicDimsSurviveThePrinter) {
  RankedTensorType type = makeTensor({s0, s1 * 2, number(768)}, builder.getF32Type());
  std::string text = "tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1 * 2, 768)>>";
  EXPECT_EQ(print(type), text);
  EXPECT_EQ(parseType(text, &context), Type(type));
  EXPECT_TRUE(sameDims(getDims(type), {s0, s1 + s1, number(768)}));
  EXPECT_EQ(withElement(type, builder.getI1Type()).getEncoding(), type.getEncoding());
}

TEST_F(ShapeTest, UnknownDimsHaveNoExpression) {
  Dims dims = getDims(parseType("tensor<?x3xf32>", &context));
  EXPECT_FALSE(dims[0]);
  EXPECT_EQ(constantDim(dims[1]), 3);
  EXPECT_EQ(print(makeTensor(dims, builder.getF32Type())), "tensor<?x3xf32>");
  EXPECT_FALSE(elementCount(&context, dims));
}

TEST_F(ShapeTest, RefusesEncodingsThatContradictTheTensor) {
  EXPECT_EQ(parse("tensor<?x3xf32, #tn.shape<()[s0] -> (s0)>>"),
            "#tn.shape has 1 dims, the tensor 2");
  EXPECT_EQ(parse("tensor<?x3xf32, #tn.shape<()[s0] -> (s0, 4)>>"),
            "#tn.shape says 4 where the tensor has 3");
  EXPECT_EQ(parse("tensor<?x?xf32, #tn.shape<()[s0] -> (s0, 4)>>"),
            "#tn.shape says 4 where the tensor has ?");
  EXPECT_EQ(parse("tensor<2x3xf32, #tn.shape<()[] -> (2, 3)>>"),
            "a tensor of constant dims takes no #tn.shape");
  EXPECT_EQ(parse("tensor<?xf32, #tn.shape<(d0)[s0] -> (s0)>>"),
            "#tn.shape takes symbols only, as in ()[s0] -> (s0, 3)");
  EXPECT_EQ(parse("tensor<?xf32, #tn.shape<()[s0, s1] -> (s0)>>"),
            "#tn.shape names s1 last but does not use it");
}

TEST_F(ShapeTest, Broadcasts) {
  auto result = [&](Dims a, Dims b) {
    FailureOr<Dims> dims = broadcastDims(a, b);
    return failed(dims) ? std::string("failure") : print(makeTensor(*dims, builder.getF32Type()));
  };
  EXPECT_EQ(result({number(2), number(1)}, {number(3)}), "tensor<2x3xf32>");
  EXPECT_EQ(result({}, {number(3)}), "tensor<3xf32>");
  EXPECT_EQ(result({number(2)}, {number(3)}), "failure");
  EXPECT_EQ(result({s0}, {number(1)}), "tensor<?xf32, #tn.shape<()[s0] -> (s0)>>");
  EXPECT_EQ(result({s0 + s0}, {s0 * 2}), "tensor<?xf32, #tn.shape<()[s0] -> (s0 * 2)>>");
  // Nobody listens who would take the assumptions on.
  EXPECT_EQ(result({s0}, {number(5)}), "failure");
  EXPECT_EQ(result({s0}, {s1}), "failure");
}

TEST_F(ShapeTest, TypesAgreeUpToRefinement) {
  auto agree = [&](const std::string &a, const std::string &b) {
    Type left = parseType(a, &context);
    Type right = parseType(b, &context);
    EXPECT_TRUE(left && right);
    return typesAgree(left, right);
  };
  std::string symbolic = "tensor<?x3xf32, #tn.shape<()[s0] -> (s0, 3)>>";
  EXPECT_TRUE(agree(symbolic, symbolic));
  EXPECT_TRUE(agree(symbolic, "tensor<2x3xf32>"));
  EXPECT_TRUE(agree("tensor<?x3xf32>", symbolic));
  EXPECT_FALSE(agree(symbolic, "tensor<2x4xf32>"));
  EXPECT_FALSE(agree(symbolic, "tensor<2x3xf16>"));
  EXPECT_FALSE(agree(symbolic, "tensor<2x3x1xf32>"));
  EXPECT_FALSE(agree(symbolic, "tensor<?x3xf32, #tn.shape<()[s0, s1] -> (s1, 3)>>"));
  EXPECT_FALSE(agree(symbolic, "i32"));
  EXPECT_FALSE(typesAgree(TypeRange(), parseType("i32", &context)));
}

TEST_F(ShapeTest, SymbolsAreStoredInTheModule) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  SymbolList list;
  EXPECT_EQ(list.add("batch", 1, 32), 0u);
  EXPECT_EQ(list.add("length \"x\"", 1, 512), 1u);
  EXPECT_EQ(list.add("batch", 2, 3), 0u);
  list.store(*module);
  SymbolList again(*module);
  ASSERT_EQ(again.symbols().size(), 2u);
  EXPECT_EQ(again.symbols()[1].name, "length \"x\"");
  EXPECT_EQ(again.symbols()[0].max, 32);
}

TEST_F(ShapeTest, BoundsHoldForEveryValueOfTheSymbols) {
  SymbolList list;
  list.add("a", 2, 9);
  list.add("b", 0, 5);
  AffineExpr expressions[] = {s0 + s1 * 3,
                              s0 * s1 - 7,
                              (s0 - 5).floorDiv(3),
                              (s0 - 5).ceilDiv(3),
                              (s0 * -2) % 7,
                              s1 % 8,
                              (s1 * 10).floorDiv(s0),
                              s0 * -1 + 4,
                              (s1 - 3).ceilDiv(s0),
                              s0 - s0.floorDiv(3) * 3,
                              s0.floorDiv(2) - s0.floorDiv(4) * 2,
                              s0 + s1 - s0.floorDiv(6) * 4};
  for (AffineExpr expression : expressions) {
    SymbolList::Range range = list.bounds(expression);
    for (int64_t a = 2; a <= 9; ++a) {
      for (int64_t b = 0; b <= 5; ++b) {
        std::optional<int64_t> value = evaluate(expression, {a, b});
        ASSERT_TRUE(value);
        EXPECT_LE(range.min, *value);
        EXPECT_GE(range.max, *value);
      }
    }
  }
  EXPECT_EQ(list.bounds(s0 + s1 * 3).min, 2);
  EXPECT_EQ(list.bounds(s0 + s1 * 3).max, 24);
  EXPECT_EQ(list.bounds(s1 % 8).max, 5);
}

TEST_F(ShapeTest, BoundsOfRemainders) {
  SymbolList list;
  list.add("a", 1, 1000);
  auto expectBounds = [&](AffineExpr expression, int64_t min, int64_t max) {
    SymbolList::Range range = list.bounds(simplify(expression));
    EXPECT_EQ(range.min, min);
    EXPECT_EQ(range.max, max);
  };
  AffineExpr eight = getAffineConstantExpr(8, &context);
  expectBounds(s0 % 8, 0, 7);
  expectBounds((eight - s0 % 8) % 8, 0, 7);
  expectBounds(s0 + (eight - s0 % 8) % 8, 8, 1000);
  expectBounds((s0 + (eight - s0 % 8) % 8).floorDiv(8), 1, 125);
  // What halving twice lost of what halving once left.
  expectBounds(s0.floorDiv(2) - s0.floorDiv(4) * 2, 0, 1);
}

TEST_F(ShapeTest, SumsDivideWhatTheyDivide) {
  AffineExpr product = s0 * s1 + s0 * 2 + s1 + 2;
  EXPECT_EQ(simplify(product.floorDiv(s1 + 2)), s0 + 1);
  EXPECT_EQ(simplify((product * s1).floorDiv(s1 + 2)), simplify((s0 + 1) * s1));
  EXPECT_NE(simplify((product + 1).floorDiv(s1 + 2)), s0 + 1);
}

TEST_F(ShapeTest, BoundsSaturate) {
  SymbolList list;
  list.add("a", 0, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(list.bounds(s0 * 4 + 9).max, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(list.bounds(s0 * -4).min, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(list.bounds(s1).max, std::numeric_limits<int64_t>::max());
}

TEST_F(ShapeTest, EvaluationReportsWhatHasNoValue) {
  EXPECT_EQ(evaluate(s0 * 2 + s1, {3, 4}), 10);
  EXPECT_EQ(evaluate((s0 - 4).floorDiv(2), {1}), -2);
  EXPECT_EQ(evaluate(s0.floorDiv(s1), {3, 0}), std::nullopt);
  EXPECT_EQ(evaluate(s0 * s0, {int64_t(1) << 40}), std::nullopt);
  EXPECT_EQ(evaluate(s1, {3}), std::nullopt);
  EXPECT_EQ(evaluate(AffineExpr(), {}), std::nullopt);
}

} // namespace
