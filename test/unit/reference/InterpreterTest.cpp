// Tests evaluation of whole functions: symbols, weights, regions, hooks, precision and bad input.
// Relies on the parser for modules with symbolic shapes.
#include "ReferenceFixture.h"

#include "compiler/reference/Compare.h"

#include <cstring>

using namespace tenon;
using namespace tenon::reference;

namespace {

const char *kSymbolic = R"(
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 4>, #tn.symbol<"length", 2, 100>]} {
  func.func @f(%x: tensor<?x?xf32, #tn.shape<()[s0, s1] -> (s0, s1)>>)
      -> (tensor<?xf32, #tn.shape<()[s0, s1] -> (s0 * s1)>>, tensor<2xi64>,
          tensor<?x1xf32, #tn.shape<()[s0] -> (s0, 1)>>) {
    %flat = tn.reshape %x : (tensor<?x?xf32, #tn.shape<()[s0, s1] -> (s0, s1)>>)
        -> tensor<?xf32, #tn.shape<()[s0, s1] -> (s0 * s1)>>
    %sizes = tn.sizes affine_map<()[s0, s1] -> (s0 + 1, s1 * 2)> : tensor<2xi64>
    %last = tn.slice %x {starts = affine_map<()[s0, s1] -> (0, s1 - 1)>, steps = array<i64: 1, 1>}
        : (tensor<?x?xf32, #tn.shape<()[s0, s1] -> (s0, s1)>>)
        -> tensor<?x1xf32, #tn.shape<()[s0] -> (s0, 1)>>
    return %flat, %sizes, %last : tensor<?xf32, #tn.shape<()[s0, s1] -> (s0 * s1)>>,
        tensor<2xi64>, tensor<?x1xf32, #tn.shape<()[s0] -> (s0, 1)>>
  }
})";

TEST_F(ReferenceTest, InputsDetermineTheSymbols) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(kSymbolic);
  Result<std::vector<Tensor>> results = run(*module, floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  ASSERT_TRUE(results) << results.status().toString();
  expectTensor((*results)[0], {6}, {1, 2, 3, 4, 5, 6});
  expectTensor((*results)[1], {2}, {3, 6});
  expectTensor((*results)[2], {2, 1}, {3, 6});
}

TEST_F(ReferenceTest, RefusesInputsThatDoNotFit) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(kSymbolic);
  EXPECT_EQ(run(*module, {}).status().id(), ErrorId::RunInputCount);
  EXPECT_EQ(run(*module, floats({2, 1}, {1, 2})).status().id(), ErrorId::RunInputDim);
  EXPECT_EQ(run(*module, floats({5, 2}, std::vector<double>(10))).status().id(),
            ErrorId::RunInputDim);
  EXPECT_EQ(run(*module, floats({2}, {1, 2})).status().id(), ErrorId::RunInputMismatch);
  EXPECT_EQ(run(*module, make(DType::I32, {2, 2}, {1, 2, 3, 4})).status().id(),
            ErrorId::RunInputMismatch);
}

TEST_F(ReferenceTest, RefusesInputsThatContradictEachOther) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(R"(
module attributes {tn.symbols = [#tn.symbol<"n", 1, 9>]} {
  func.func @f(%a: tensor<?xf32, #tn.shape<()[s0] -> (s0)>>,
               %b: tensor<?xf32, #tn.shape<()[s0] -> (s0 * 2)>>) { return }
})");
  EXPECT_TRUE(run(*module, {floats({2}, {1, 2}), floats({4}, {1, 2, 3, 4})}));
  EXPECT_EQ(run(*module, {floats({2}, {1, 2}), floats({3}, {1, 2, 3})}).status().id(),
            ErrorId::RunInputMismatch);
}

TEST_F(ReferenceTest, ReadsWeightsAndConstants) {
  const float stored[] = {1.5f, -2.0f};
  std::string id = weights.addOwned("w",
                                    std::vector<char>(reinterpret_cast<const char *>(stored),
                                                      reinterpret_cast<const char *>(stored) + 8),
                                    "test");
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(R"(
  func.func @f() -> (tensor<2xf32>, tensor<3xi1>, tensor<2xf16>, tensor<2x2xi32>) {
    %a = tn.weight "w" : tensor<2xf32>
    %b = tn.constant dense<[true, false, true]> : tensor<3xi1> : tensor<3xi1>
    %c = tn.constant dense<[0.5, 2.0]> : tensor<2xf16> : tensor<2xf16>
    %d = tn.constant dense<7> : tensor<2x2xi32> : tensor<2x2xi32>
    return %a, %b, %c, %d : tensor<2xf32>, tensor<3xi1>, tensor<2xf16>, tensor<2x2xi32>
  })");
  for (Precision precision : {Precision::Native, Precision::F64}) {
    Result<std::vector<Tensor>> results = run(*module, {}, precision);
    ASSERT_TRUE(results) << results.status().toString();
    bool wide = precision == Precision::F64;
    EXPECT_EQ((*results)[0].dtype(), wide ? DType::F64 : DType::F32);
    EXPECT_EQ((*results)[2].dtype(), wide ? DType::F64 : DType::F16);
    expectTensor((*results)[0], {2}, {1.5, -2});
    expectTensor((*results)[1], {3}, {1, 0, 1});
    expectTensor((*results)[2], {2}, {0.5, 2});
    expectTensor((*results)[3], {2, 2}, {7, 7, 7, 7});
  }
}

TEST_F(ReferenceTest, RefusesWeightsOfAnotherSize) {
  weights.addOwned("short", {1, 2, 3}, "test");
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(
      "func.func @f() -> tensor<2xf32> { %a = tn.weight \"short\" : tensor<2xf32>\nreturn %a : "
      "tensor<2xf32> }");
  EXPECT_FALSE(run(*module, {}));
  module =
      parse("func.func @f() -> tensor<2xf32> { %a = tn.weight \"none\" : tensor<2xf32>\nreturn "
            "%a : tensor<2xf32> }");
  EXPECT_FALSE(run(*module, {}));
}

const char *kRegion = R"(
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = tn.region "cpu" "elementwise"(%x) {
  ^bb0(%a: tensor<2xf32>):
    %n = tn.neg %a : tensor<2xf32>
    %r = tn.relu %n : tensor<2xf32>
    tn.yield %r : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
  %z = tn.add %y, %y : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %z : tensor<2xf32>
})";

TEST_F(ReferenceTest, HooksSeeEveryOperation) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(kRegion);
  std::vector<std::string> names;
  Hooks hooks;
  hooks.observe = [&](mlir::Operation *op, llvm::ArrayRef<Tensor> operands,
                      llvm::ArrayRef<Tensor> results) {
    EXPECT_EQ(operands.size(), op->getNumOperands());
    EXPECT_EQ(results.size(), op->getNumResults());
    names.push_back(op->getName().getStringRef().str());
    return Status::ok();
  };
  Interpreter interpreter(nullptr);
  mlir::func::FuncOp function = *module->getOps<mlir::func::FuncOp>().begin();
  Result<std::vector<Tensor>> results = interpreter.evaluate(function, floats({2}, {-3, 4}), hooks);
  ASSERT_TRUE(results) << results.status().toString();
  expectTensor(results->front(), {2}, {6, 0});
  EXPECT_EQ(names, (std::vector<std::string>{"tn.neg", "tn.relu", "tn.region", "tn.add"}));
}

TEST_F(ReferenceTest, HooksReuseResultsAndStopTheEvaluation) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(kRegion);
  Interpreter interpreter(nullptr);
  mlir::func::FuncOp function = *module->getOps<mlir::func::FuncOp>().begin();
  Hooks hooks;
  hooks.reuse = [](mlir::Operation *op, llvm::ArrayRef<Tensor>) {
    std::optional<std::vector<Tensor>> known;
    if (llvm::isa<tn::RegionOp>(op)) {
      known = std::vector<Tensor>{floats({2}, {10, 20})};
    }
    return known;
  };
  Result<std::vector<Tensor>> results = interpreter.evaluate(function, floats({2}, {-3, 4}), hooks);
  ASSERT_TRUE(results);
  expectTensor(results->front(), {2}, {20, 40});
  hooks.observe = [](mlir::Operation *, llvm::ArrayRef<Tensor>, llvm::ArrayRef<Tensor>) {
    return Status::error(ErrorId::InternalError, "stop here");
  };
  results = interpreter.evaluate(function, floats({2}, {-3, 4}), hooks);
  EXPECT_EQ(results.status().message(), "stop here");
}

TEST_F(ReferenceTest, EvaluatesOneOperation) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(kRegion);
  Interpreter interpreter(nullptr);
  mlir::func::FuncOp function = *module->getOps<mlir::func::FuncOp>().begin();
  mlir::Operation *add = function.getBody().front().getTerminator()->getPrevNode();
  Tensor x = floats({2}, {1, 2});
  Result<std::vector<Tensor>> results = interpreter.evaluateOp(add, {x, x});
  ASSERT_TRUE(results);
  expectTensor(results->front(), {2}, {2, 4});
  EXPECT_FALSE(interpreter.evaluateOp(add, {x, floats({3}, {1, 2, 3})}));
  EXPECT_FALSE(interpreter.evaluateOp(add, {x, make(DType::I32, {2}, {1, 2})}));
  Result<std::vector<Tensor>> region =
      interpreter.evaluateOp(&function.getBody().front().front(), {floats({2}, {-1, 1})});
  ASSERT_TRUE(region);
  expectTensor(region->front(), {2}, {1, 0});
}

TEST_F(ReferenceTest, EveryOperationHasAFunction) {
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    llvm::StringRef text = name.getStringRef();
    bool structural = text == "tn.region" || text == "tn.yield";
    // Of several ranks, which compiler/shard runs together.
    bool isOfRanks = text == "tn.rank_slice" || text == "tn.all_reduce" || text == "tn.all_gather";
    if (text.starts_with("tn.") && !structural && !isOfRanks) {
      EXPECT_NE(findOpFunction(text), nullptr) << text.str();
    }
  }
}

TEST_F(ReferenceTest, DynamicShapesThatDoNotFitAreErrors) {
  // The verifier cannot know that the symbol is neither 4 nor 1; the evaluation does.
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(R"(
module attributes {tn.symbols = [#tn.symbol<"n", 1, 9>]} {
  func.func @f(%a: tensor<?xf32, #tn.shape<()[s0] -> (s0)>>) -> tensor<4xf32> {
    %y = tn.broadcast %a : (tensor<?xf32, #tn.shape<()[s0] -> (s0)>>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
})");
  EXPECT_TRUE(run(*module, floats({4}, {1, 2, 3, 4})));
  EXPECT_TRUE(run(*module, floats({1}, {1})));
  EXPECT_EQ(run(*module, floats({3}, {1, 2, 3})).status().id(), ErrorId::RunInputMismatch);
}

TEST_F(ReferenceTest, TensorsThatCannotBeHeldAreErrors) {
  EXPECT_FALSE(Tensor::create(DType::F32, {int64_t(1) << 40, int64_t(1) << 40}));
  EXPECT_FALSE(Tensor::create(DType::F32, {-1}));
  EXPECT_FALSE(Tensor::create(DType::F32, {int64_t(1) << 62}));
  EXPECT_FALSE(Tensor::create(DType::U8, {int64_t(1) << 60}));
  EXPECT_FALSE(Tensor::copy(DType::F32, {2}, llvm::ArrayRef<char>("abc", 3)));
}

TEST_F(ReferenceTest, SharedTensorsKeepTheirPlace) {
  alignas(64) static const char bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(Tensor::share(DType::I8, {8}, bytes)->bytes(), bytes);
  Result<Tensor> moved = Tensor::share(DType::I8, {7}, llvm::ArrayRef(bytes).drop_front());
  EXPECT_NE(moved->bytes(), bytes + 1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(moved->bytes()) % 64, 0u);
  expectTensor(*moved, {7}, {2, 3, 4, 5, 6, 7, 8});
}

} // namespace
