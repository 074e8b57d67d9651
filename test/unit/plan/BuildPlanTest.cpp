// Plans of small functions with made-up kernels: views, reuse, outputs, lives, sizes. Every plan
// must pass the validator that the loader uses.
#include "compiler/plan/BuildPlan.h"

#include "compiler/dispatch/Dispatch.h"
#include "compiler/graph/Shape.h"
#include "compiler/plan/Overwrite.h"
#include "engine/LibraryAbi.h"
#include "engine/validate/Validate.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
namespace tn = tenon::tn;
namespace codegen = tenon::codegen;
namespace plan = tenon::plan;
namespace engine = tenon::engine;
using tenon::Result;
using tenon::Status;

namespace {

class BuildPlanTest : public ::testing::Test {
public:
  BuildPlanTest() { context.loadDialect<tn::TnDialect, func::FuncDialect>(); }

  /// A region that is one kernel, as CPU codegen makes them.
  static codegen::RegionCode oneKernel(tn::RegionOp region, size_t symbols,
                                       const codegen::Program &grid) {
    codegen::RegionStep step;
    step.symbol = "k";
    step.reads = static_cast<uint32_t>(region.getInputs().size());
    for (uint32_t i = 0; i < step.reads + region.getOutputs().size(); ++i) {
      step.buffers.push_back(i);
    }
    for (size_t i = 0; i < symbols; ++i) {
      step.sizes.push_back({{engine::ExprOp::Symbol, static_cast<int64_t>(i)}});
    }
    step.grid = grid;
    step.scratch = {{engine::ExprOp::Constant, 64}};
    return {.steps = {step}, .temporaries = {}};
  }

  Result<plan::BuiltPlan> tryBuild(llvm::StringRef function, llvm::StringRef symbols = "") {
    std::string text = ("module " + symbols + " { func.func @main" + function + " }").str();
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    tenon::dispatch::Records records;
    auto times = [](tn::RegionOp) { return 1.0; }; // all that may join does
    EXPECT_TRUE(
        succeeded(tenon::dispatch::dispatch(*module, tenon::target::cpuTarget(), times, records)));
    plan::PlanRequest request{.module = *module, .regionSymbols = {}, .levels = {}};
    plan::LevelCode level{.level = "x86-64-v3", .kernels = {"k"}, .regions = {}};
    module->walk([&](tn::RegionOp region) {
      // Symbols of the region in order of first use by its results, as codegen numbers them.
      llvm::SmallVector<AffineExpr> used;
      for (Type type : region.getResultTypes()) {
        for (AffineExpr dim : tn::getDims(type)) {
          if (isa<AffineSymbolExpr>(dim) && !llvm::is_contained(used, dim)) {
            used.push_back(dim);
          }
        }
      }
      std::vector<engine::ExprTerm> grid = {{engine::ExprOp::Constant, 3}};
      if (!used.empty()) {
        grid = {{engine::ExprOp::Symbol, 0}, {engine::ExprOp::Constant, 2}, {engine::ExprOp::Mul}};
      }
      level.regions.push_back(makeCode(region, used.size(), grid));
      request.regionSymbols.push_back(used);
    });
    request.levels = {level};
    request.device = device;
    return plan::buildPlan(request, table);
  }

  engine::Plan build(llvm::StringRef function, llvm::StringRef symbols = "") {
    Result<plan::BuiltPlan> result = tryBuild(function, symbols);
    if (!result) {
      ADD_FAILURE() << result.status().toString();
      return {};
    }
    built = std::move(*result);
    const engine::Plan &made = built.variants.front().plan;
    Status valid = engine::validatePlan(made, table.list(), 1);
    EXPECT_TRUE(valid.isOk()) << valid.toString() << '\n'
                              << plan::printPlan(built.variants.front(), table.list());
    return made;
  }

  codegen::RegionCode (*makeCode)(tn::RegionOp, size_t, const codegen::Program &) = oneKernel;
  uint16_t device = engine::kHost;
  MLIRContext context;
  tn::WeightStore store;
  plan::WeightTable table{store};
  OwningOpRef<ModuleOp> module;
  plan::BuiltPlan built;
};

size_t countSpace(const engine::Plan &made, engine::Space space) {
  return llvm::count_if(made.buffers,
                        [&](const engine::Buffer &buffer) { return buffer.space == space; });
}

TEST_F(BuildPlanTest, ResultsAreWrittenInPlaceOfTheCaller) {
  engine::Plan made =
      build(R"((%x: tensor<4x8xf32> {tn.name = "x"}) -> (tensor<4x8xf32> {tn.name = "y"}) {
    %0 = tn.softmax %x {axis = 0 : i64} : tensor<4x8xf32>
    %1 = tn.softmax %0 {axis = 0 : i64} : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  })");
  ASSERT_EQ(made.instructions.size(), 3u);
  EXPECT_EQ(made.instructions[1].buffers.back(), made.outputs[0].buffer);
  EXPECT_EQ(countSpace(made, engine::Space::Arena), 1u);
  EXPECT_EQ(made.arenaBytes, 4 * 8 * 4);
  EXPECT_EQ(made.exprs.constantValue(made.instructions[0].grid), 3);
}

/// As oneKernel, of kernels that read residuals at their ends.
codegen::RegionCode readingAtEnds(tn::RegionOp region, size_t symbols,
                                  const codegen::Program &grid) {
  codegen::RegionCode code = BuildPlanTest::oneKernel(region, symbols, grid);
  code.steps.front().mayOverwriteInputs = true;
  return code;
}

constexpr const char *kResidual =
    R"((%x: tensor<8x8xf32> {tn.name = "x"}, %w: tensor<8x8xf32> {tn.name = "w"}) -> (tensor<8x8xf32> {tn.name = "y"}) {
    %0 = tn.softmax %x {axis = 0 : i64} : tensor<8x8xf32>
    %1 = tn.softmax %0 {axis = 1 : i64} : tensor<8x8xf32>
    %2 = tn.matmul %1, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = tn.add %2, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %4 = tn.softmax %3 {axis = 0 : i64} : tensor<8x8xf32>
    return %4 : tensor<8x8xf32>
  })";

TEST_F(BuildPlanTest, ProductsWriteOverResidualsThatTheyReadAtTheirEnds) {
  makeCode = readingAtEnds;
  engine::Plan made = build(kResidual);
  ASSERT_EQ(made.instructions.size(), 5u);
  const std::vector<uint32_t> &product = made.instructions[2].buffers;
  EXPECT_EQ(product.back(), made.instructions[0].buffers.back());
  EXPECT_EQ(made.arenaBytes, 2 * 8 * 8 * 4);
}

TEST_F(BuildPlanTest, OtherProductsKeepResiduals) {
  engine::Plan made = build(kResidual);
  ASSERT_EQ(made.instructions.size(), 5u);
  EXPECT_NE(made.instructions[2].buffers.back(), made.instructions[0].buffers.back());
  EXPECT_EQ(made.arenaBytes, 3 * 8 * 8 * 4);
}

TEST_F(BuildPlanTest, NoProductWritesOverWhatItMultiplies) {
  makeCode = readingAtEnds;
  engine::Plan made = build(
      R"((%x: tensor<8x8xf32> {tn.name = "x"}, %w: tensor<8x8xf32> {tn.name = "w"}) -> (tensor<8x8xf32> {tn.name = "y"}) {
    %0 = tn.softmax %x {axis = 0 : i64} : tensor<8x8xf32>
    %1 = tn.matmul %0, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = tn.add %1, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = tn.softmax %2 {axis = 0 : i64} : tensor<8x8xf32>
    return %3 : tensor<8x8xf32>
  })");
  ASSERT_EQ(made.instructions.size(), 4u);
  EXPECT_NE(made.instructions[1].buffers.back(), made.instructions[0].buffers.back());
}

TEST_F(BuildPlanTest, ReshapesAreViews) {
  engine::Plan made =
      build(R"((%x: tensor<4x8xf32> {tn.name = "x"}) -> (tensor<32xf32> {tn.name = "y"}) {
    %0 = tn.reshape %x : (tensor<4x8xf32>) -> tensor<32xf32>
    %1 = tn.exp %0 : tensor<32xf32>
    %2 = tn.reshape %1 : (tensor<32xf32>) -> tensor<8x4xf32>
    %3 = tn.softmax %2 {axis = 0 : i64} : tensor<8x4xf32>
    %4 = tn.reshape %3 : (tensor<8x4xf32>) -> tensor<32xf32>
    return %4 : tensor<32xf32>
  })");
  EXPECT_EQ(made.buffers.size(), 3u);
  EXPECT_EQ(made.instructions[0].buffers.front(), made.inputs[0].buffer);
  EXPECT_EQ(made.instructions[1].buffers.back(), made.outputs[0].buffer);
}

TEST_F(BuildPlanTest, ElementwiseOverwritesWhatDies) {
  engine::Plan made =
      build(R"((%x: tensor<8x8xf32> {tn.name = "x"}) -> (tensor<8x8xf32> {tn.name = "y"}) {
    %0 = tn.softmax %x {axis = 0 : i64} : tensor<8x8xf32>
    %1 = tn.exp %0 : tensor<8x8xf32>
    %2 = tn.softmax %1 {axis = 0 : i64} : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  })");
  EXPECT_EQ(made.instructions[1].buffers[0], made.instructions[1].buffers[1]);
  EXPECT_NE(built.memoryRecord.find("\"in_place\":[\"tn.exp\"]"), std::string::npos)
      << built.memoryRecord;
}

TEST_F(BuildPlanTest, NoOverwritingOfWhatMovesInsideARegion) {
  // As a GPU's regions may: the halves of a product change places.
  module = parseSourceString<ModuleOp>(R"(
    func.func @main(%x: tensor<8xf32>, %c: tensor<8xf32>) -> tensor<8xf32> {
      %y = tn.region "cuda" "elementwise" (%x, %c) {
      ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
        %0 = tn.mul %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
        %1 = tn.slice %0 {starts = affine_map<() -> (0)>, steps = array<i64: 1>} : (tensor<8xf32>) -> tensor<4xf32>
        %2 = tn.slice %0 {starts = affine_map<() -> (4)>, steps = array<i64: 1>} : (tensor<8xf32>) -> tensor<4xf32>
        %3 = tn.concat %2, %1 {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
        %4 = tn.add %3, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
        tn.yield %4 : tensor<8xf32>
      } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      return %y : tensor<8xf32>
    })",
                                       &context);
  ASSERT_TRUE(module);
  module->walk([](tn::RegionOp region) {
    EXPECT_FALSE(plan::mayWriteOver(region, 0, /*readsAtEnds=*/false));
    EXPECT_TRUE(plan::mayWriteOver(region, 1, /*readsAtEnds=*/false));
  });
}

TEST_F(BuildPlanTest, NoOverwritingOfTransposedOrLivingOperands) {
  engine::Plan transposed =
      build(R"((%x: tensor<8x8xf32> {tn.name = "x"}) -> (tensor<8x8xf32> {tn.name = "y"}) {
    %0 = tn.softmax %x {axis = 0 : i64} : tensor<8x8xf32>
    %1 = tn.transpose %0 [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = tn.softmax %1 {axis = 0 : i64} : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  })");
  EXPECT_NE(transposed.instructions[1].buffers[0], transposed.instructions[1].buffers[1]);
  engine::Plan living =
      build(R"((%x: tensor<8x8xf32> {tn.name = "x"}) -> (tensor<8x8xf32> {tn.name = "y"}) {
    %0 = tn.softmax %x {axis = 0 : i64} : tensor<8x8xf32>
    %1 = tn.exp %0 : tensor<8x8xf32>
    %2 = tn.matmul %1, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  })");
  EXPECT_NE(living.instructions[1].buffers[0], living.instructions[1].buffers[1]);
}

TEST_F(BuildPlanTest, InputsWeightsAndTwiceReturnedValuesAreCopied) {
  store.addOwned("w", std::vector<char>(16), "test");
  engine::Plan made = build(R"((%x: tensor<4xf32> {tn.name = "x"}) ->
      (tensor<4xf32> {tn.name = "a"}, tensor<4xf32> {tn.name = "b"}, tensor<4xf32> {tn.name = "c"}, tensor<2x2xf32> {tn.name = "d"}) {
    %w = tn.weight "w" : tensor<4xf32>
    %0 = tn.exp %x : tensor<4xf32>
    %1 = tn.reshape %0 : (tensor<4xf32>) -> tensor<2x2xf32>
    return %x, %w, %0, %1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>
  })");
  size_t copies = llvm::count_if(made.instructions, [](const engine::Instruction &instruction) {
    return instruction.kind == engine::InstructionKind::Copy;
  });
  EXPECT_EQ(copies, 3u);
  EXPECT_EQ(countSpace(made, engine::Space::Output), 4u);
}

TEST_F(BuildPlanTest, SizesFollowSymbols) {
  engine::Plan made = build(
      R"((%x: tensor<?x?x4xf32, #tn.shape<()[s0, s1] -> (s0, s1, 4)>> {tn.name = "x"}) ->
      (tensor<?x4xf32, #tn.shape<()[s0, s1] -> (s0 * s1, 4)>> {tn.name = "y"}) {
    %0 = tn.softmax %x {axis = 0 : i64} : tensor<?x?x4xf32, #tn.shape<()[s0, s1] -> (s0, s1, 4)>>
    %1 = tn.softmax %0 {axis = 0 : i64} : tensor<?x?x4xf32, #tn.shape<()[s0, s1] -> (s0, s1, 4)>>
    %2 = tn.reshape %1 : (tensor<?x?x4xf32, #tn.shape<()[s0, s1] -> (s0, s1, 4)>>) -> tensor<?x4xf32, #tn.shape<()[s0, s1] -> (s0 * s1, 4)>>
    return %2 : tensor<?x4xf32, #tn.shape<()[s0, s1] -> (s0 * s1, 4)>>
  })",
      R"(attributes {tn.symbols = [#tn.symbol<"batch", 2, 8>, #tn.symbol<"length", 3, 16>]})");
  ASSERT_EQ(made.symbols.size(), 2u);
  EXPECT_EQ(made.symbols[1].name, "length");
  std::vector<int64_t> values = {5, 7};
  auto value = [&](engine::ExprId id) { return engine::evaluate(made.exprs.program(id), values); };
  EXPECT_EQ(value(made.outputs[0].dims[0]), 35);
  EXPECT_EQ(value(made.instructions[0].grid), 10);
  EXPECT_EQ(value(made.buffers[made.instructions[0].buffers.back()].size), 5 * 7 * 4 * 4);
  EXPECT_EQ(made.buffers[made.instructions[0].buffers.back()].offset, engine::kPlannedAtRunTime);
  EXPECT_EQ(built.arenaBytes, 128); // 2 x 3 x 4 floats, on a 64-byte border
}

TEST_F(BuildPlanTest, InstructionsSayWhatTheyDo) {
  engine::Plan made = build(R"((%x: tensor<?x8xf32, #tn.shape<()[s0] -> (s0, 8)>> {tn.name = "x"},
      %w: tensor<8x4xf32> {tn.name = "w"}) ->
      (tensor<?x4xf32, #tn.shape<()[s0] -> (s0, 4)>> {tn.name = "y"},
       tensor<?x8xf32, #tn.shape<()[s0] -> (s0, 8)>> {tn.name = "z"}) {
    %0 = tn.matmul %x, %w : (tensor<?x8xf32, #tn.shape<()[s0] -> (s0, 8)>>, tensor<8x4xf32>) ->
        tensor<?x4xf32, #tn.shape<()[s0] -> (s0, 4)>>
    return %0, %x : tensor<?x4xf32, #tn.shape<()[s0] -> (s0, 4)>>,
        tensor<?x8xf32, #tn.shape<()[s0] -> (s0, 8)>>
  })",
                            R"(attributes {tn.symbols = [#tn.symbol<"n", 1, 65536>]})");
  auto valueOf = [&](engine::ExprId id, int64_t n) {
    return id == engine::kNone ? -1 : *engine::evaluate(made.exprs.program(id), {&n, 1});
  };
  const engine::Instruction &product = made.instructions[0], &copy = made.instructions[1];
  EXPECT_EQ(valueOf(product.flops, 10), 2 * 10 * 8 * 4);
  EXPECT_EQ(valueOf(product.bytesMoved, 10), 4 * (10 * 8 + 8 * 4 + 10 * 4));
  ASSERT_EQ(copy.kind, engine::InstructionKind::Copy);
  EXPECT_EQ(valueOf(copy.bytesMoved, 10), 2 * 4 * 10 * 8);
  EXPECT_EQ(valueOf(copy.grid, 10), 1) << "not worth waking threads";
  EXPECT_EQ(valueOf(copy.grid, 16384), 8);
  EXPECT_EQ(valueOf(copy.grid, 65536), 32);
  EXPECT_EQ(made.restingInstructions, 0u);
}

TEST_F(BuildPlanTest, StepsOfARegionShareTemporaries) {
  device = engine::kGpu;
  makeCode = [](tn::RegionOp, size_t symbols, const codegen::Program &grid) {
    codegen::RegionStep launch;
    launch.symbol = "k";
    launch.buffers = {0, 2};
    launch.reads = 1;
    launch.grid = grid;
    launch.threads = 256;
    launch.tensorMaps = {{.buffer = 1,
                          .rows = {{engine::ExprOp::Symbol, 0}},
                          .columns = {{engine::ExprOp::Constant, 40}},
                          .rowBytes = {{engine::ExprOp::Constant, 96}},
                          .boxRows = 128,
                          .boxColumns = 64}};
    codegen::RegionStep call;
    call.call = {std::byte(engine::LibraryOp::Matmul), std::byte(5)};
    call.buffers = {2, 0, 1};
    call.reads = 2;
    call.sizes.assign(symbols, {{engine::ExprOp::Symbol, 0}});
    codegen::Program bytes = {
        {engine::ExprOp::Symbol, 0}, {engine::ExprOp::Constant, 100}, {engine::ExprOp::Mul}};
    return codegen::RegionCode{.steps = {launch, call}, .temporaries = {bytes}};
  };
  Result<plan::BuiltPlan> result =
      tryBuild(R"((%x: tensor<?xf32, #tn.shape<()[s0] -> (s0)>> {tn.name = "x"}) ->
      (tensor<?xf32, #tn.shape<()[s0] -> (s0)>> {tn.name = "y"}) {
    %0 = tn.exp %x : tensor<?xf32, #tn.shape<()[s0] -> (s0)>>
    return %0 : tensor<?xf32, #tn.shape<()[s0] -> (s0)>>
  })",
               R"(attributes {tn.symbols = [#tn.symbol<"n", 2, 8>]})");
  ASSERT_TRUE(result) << result.status().toString();
  const engine::Plan &made = result->variants[0].plan;
  ASSERT_EQ(made.instructions.size(), 3u);
  const engine::Instruction &launch = made.instructions[0];
  const engine::Instruction &call = made.instructions[1];
  EXPECT_EQ(launch.kind, engine::InstructionKind::Launch);
  EXPECT_EQ(launch.threads, 256u);
  ASSERT_EQ(launch.tensorMaps.size(), 1u);
  const engine::TensorMap &map = launch.tensorMaps[0];
  EXPECT_EQ(map.buffer, 1u);
  EXPECT_EQ(made.exprs.symbolIndex(map.rows), 0u);
  EXPECT_EQ(made.exprs.constantValue(map.columns), 40);
  EXPECT_EQ(made.exprs.constantValue(map.rowBytes), 96);
  EXPECT_EQ(map.boxRows, 128);
  EXPECT_EQ(map.boxColumns, 64);
  EXPECT_TRUE(call.tensorMaps.empty());
  EXPECT_EQ(call.kind, engine::InstructionKind::Call);
  EXPECT_EQ(call.call, (std::vector<std::byte>{std::byte(0), std::byte(5)}));
  uint32_t between = launch.buffers[1];
  EXPECT_EQ(call.buffers,
            (std::vector<uint32_t>{between, made.inputs[0].buffer, made.outputs[0].buffer}));
  EXPECT_EQ(made.buffers[between].space, engine::Space::Arena);
  EXPECT_EQ(made.buffers[between].firstUse, 0u);
  EXPECT_EQ(made.buffers[between].lastUse, 1u);
  EXPECT_EQ(engine::evaluate(made.exprs.program(made.buffers[between].size), {{5}}), 500);
  for (const engine::Instruction &instruction : made.instructions) {
    EXPECT_EQ(instruction.device, engine::kGpu);
  }
  EXPECT_EQ(made.buffers[between].device, engine::kGpu);
  EXPECT_NE(result->placementRecord.find(R"("device":"gpu")"), std::string::npos);
}

TEST_F(BuildPlanTest, SymbolsThatNoInputBindsAreRefused) {
  Result<plan::BuiltPlan> result =
      tryBuild(R"((%x: tensor<?xf32, #tn.shape<()[s0] -> (s0 * 2)>> {tn.name = "x"}) ->
      (tensor<?xf32, #tn.shape<()[s0] -> (s0 * 2)>> {tn.name = "y"}) {
    %0 = tn.exp %x : tensor<?xf32, #tn.shape<()[s0] -> (s0 * 2)>>
    return %0 : tensor<?xf32, #tn.shape<()[s0] -> (s0 * 2)>>
  })",
               R"(attributes {tn.symbols = [#tn.symbol<"half", 2, 8>]})");
  ASSERT_FALSE(result);
  EXPECT_NE(result.status().toString().find("half"), std::string::npos);
}

/// What names a symbol comes behind the instruction that binds it, though it reads nothing of it,
/// and memory is laid out for the bound.
TEST_F(BuildPlanTest, SizesThatDataDecides) {
  engine::Plan made = build(
      R"((%one: tensor<f32> {tn.name = "one"}, %n: tensor<i64> {tn.name = "n"},
      %x: tensor<?xf32, #tn.shape<()[s0] -> (s0)>> {tn.name = "x"}) ->
      (tensor<?xf32, #tn.shape<()[s0, s1] -> (s1)>> {tn.name = "y"}) {
    %0 = tn.take_first %x, %n : (tensor<?xf32, #tn.shape<()[s0] -> (s0)>>, tensor<i64>)
      -> tensor<?xf32, #tn.shape<()[s0, s1] -> (s1)>>
    %1 = tn.broadcast %one : (tensor<f32>) -> tensor<?xf32, #tn.shape<()[s0, s1] -> (s1)>>
    %2 = tn.softmax %1 {axis = 0 : i64} : tensor<?xf32, #tn.shape<()[s0, s1] -> (s1)>>
    return %2 : tensor<?xf32, #tn.shape<()[s0, s1] -> (s1)>>
  })",
      R"(attributes {tn.symbols = [#tn.symbol<"length", 3, 16>, #tn.symbol<"kept", 0, 16>]})");
  ASSERT_EQ(made.symbols.size(), 2u);
  EXPECT_FALSE(made.symbols[0].isDataDependent());
  EXPECT_EQ(made.symbols[1].name, "kept");
  EXPECT_EQ(made.exprs.symbolIndex(made.symbols[1].bound), 0u);
  ASSERT_FALSE(made.instructions.empty());
  EXPECT_EQ(made.instructions[0].kind, engine::InstructionKind::Size);
  EXPECT_EQ(made.instructions[0].symbol, 1u);
  EXPECT_EQ(made.instructions[0].buffers, std::vector<uint32_t>{made.inputs[1].buffer});
}

TEST_F(BuildPlanTest, SizesThatShrinkAsDataSelectsMoreAreRefused) {
  Result<plan::BuiltPlan> result = tryBuild(
      R"((%n: tensor<i64> {tn.name = "n"}, %x: tensor<9xf32> {tn.name = "x"}) ->
      (tensor<?xf32, #tn.shape<()[s0] -> (-s0 + 9)>> {tn.name = "y"}) {
    %0 = tn.take_first %x, %n : (tensor<9xf32>, tensor<i64>) -> tensor<?xf32, #tn.shape<()[s0] -> (s0)>>
    %1 = tn.slice %x {starts = affine_map<()[s0] -> (s0)>, steps = array<i64: 1>} : (tensor<9xf32>)
      -> tensor<?xf32, #tn.shape<()[s0] -> (-s0 + 9)>>
    return %1 : tensor<?xf32, #tn.shape<()[s0] -> (-s0 + 9)>>
  })",
      R"(attributes {tn.symbols = [#tn.symbol<"kept", 0, 9>]})");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.status().id(), tenon::ErrorId::ModelHasGaps);
}

/// The index of a state buffer, by order.
uint32_t stateBuffer(const engine::Plan &made, size_t number) {
  for (uint32_t i = 0; i < made.buffers.size(); ++i) {
    if (made.buffers[i].space == engine::Space::State && number-- == 0) {
      return i;
    }
  }
  return engine::kNone;
}

size_t countCopies(const engine::Plan &made) {
  return llvm::count_if(made.instructions, [](const engine::Instruction &instruction) {
    return instruction.kind == engine::InstructionKind::Copy;
  });
}

constexpr llvm::StringLiteral kAppend =
    R"((%old: tensor<4x8xf32> {tn.name = "old", tn.state = "old"},
      %i: tensor<1x8xi64> {tn.name = "i"}, %x: tensor<1x8xf32> {tn.name = "x"}) ->
      (tensor<4x8xf32> {tn.name = "new", tn.state = "old"}, tensor<8xf32> {tn.name = "y"}) {
    %new = tn.scatter_elements <none> %old, %i, %x {axis = 0 : i64} : (tensor<4x8xf32>, tensor<1x8xi64>, tensor<1x8xf32>) -> tensor<4x8xf32>
    %y = tn.reduce <sum> %new {axes = array<i64: 0>, keepdims = false} : (tensor<4x8xf32>) -> tensor<8xf32>
    return %new, %y : tensor<4x8xf32>, tensor<8xf32>
  })";

TEST_F(BuildPlanTest, AStateIsUpdatedInPlace) {
  engine::Plan made = build(kAppend);
  ASSERT_EQ(made.inputs.size(), 2u); // neither the old value nor the new one is a port
  ASSERT_EQ(made.outputs.size(), 1u);
  EXPECT_EQ(made.inputs[0].name, "i");
  ASSERT_EQ(countSpace(made, engine::Space::State), 1u);
  EXPECT_EQ(countCopies(made), 0u);
  uint32_t state = stateBuffer(made, 0);
  EXPECT_EQ(made.instructions[0].buffers.front(), state);
  EXPECT_EQ(made.instructions[0].buffers.back(), state);
  EXPECT_EQ(made.instructions[1].buffers.front(), state);
  EXPECT_EQ(countSpace(made, engine::Space::Arena), 0u);
}

TEST_F(BuildPlanTest, AStepThatOnlyCopiesTheStateOntoItselfIsLeftOut) {
  makeCode = [](tn::RegionOp region, size_t symbols, const codegen::Program &grid) {
    codegen::RegionCode code = oneKernel(region, symbols, grid);
    codegen::RegionStep copy = code.steps.front();
    copy.buffers = {0, copy.buffers.back()};
    copy.reads = 1;
    copy.isCopy = true;
    code.steps.insert(code.steps.begin(), copy);
    return code;
  };
  engine::Plan made = build(kAppend);
  // Of the scatter the second step is left; the sum's first step copies between two buffers.
  EXPECT_EQ(made.instructions.size(), 4u);
}

TEST_F(BuildPlanTest, AStateThatIsReadLaterIsCopiedAtTheEnd) {
  engine::Plan made = build(R"((%old: tensor<8x8xf32> {tn.name = "old", tn.state = "old"}) ->
      (tensor<8x8xf32> {tn.name = "new", tn.state = "old"}, tensor<8x8xf32> {tn.name = "y"}) {
    %new = tn.softmax %old {axis = 0 : i64} : tensor<8x8xf32>
    %y = tn.matmul %new, %old : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %new, %y : tensor<8x8xf32>, tensor<8x8xf32>
  })");
  uint32_t state = stateBuffer(made, 0);
  EXPECT_NE(made.instructions[0].buffers.back(), state);
  const engine::Instruction &last = made.instructions[made.instructions.size() - 2];
  EXPECT_EQ(last.kind, engine::InstructionKind::Copy);
  EXPECT_EQ(last.buffers.back(), state);
  EXPECT_EQ(countCopies(made), 1u);
}

TEST_F(BuildPlanTest, StatesThatChangePlacesGoByWayOfTheArena) {
  engine::Plan made = build(R"((%a: tensor<8xf32> {tn.name = "a", tn.state = "a"},
      %b: tensor<8xf32> {tn.name = "b", tn.state = "b"}, %x: tensor<8xf32> {tn.name = "x"}) ->
      (tensor<8xf32> {tn.name = "new a", tn.state = "a"}, tensor<8xf32> {tn.name = "new b", tn.state = "b"},
       tensor<8xf32> {tn.name = "old b"}) {
    %0 = tn.add %a, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0, %a, %b : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  })");
  uint32_t a = stateBuffer(made, 0), b = stateBuffer(made, 1);
  // The sum, b to its output, a aside, the sum to a, a's old value to b, and the end.
  ASSERT_EQ(made.instructions.size(), 6u);
  EXPECT_NE(made.instructions[0].buffers.back(), a);
  EXPECT_EQ(made.instructions[1].buffers, (std::vector<uint32_t>{b, made.outputs[0].buffer}));
  uint32_t aside = made.instructions[2].buffers[1];
  EXPECT_EQ(made.instructions[2].buffers[0], a);
  EXPECT_EQ(made.instructions[3].buffers[1], a);
  EXPECT_EQ(made.instructions[4].buffers, (std::vector<uint32_t>{aside, b}));
}

TEST_F(BuildPlanTest, ANewStateMayAlsoBeAnOutput) {
  engine::Plan made = build(
      R"((%old: tensor<8xf32> {tn.name = "old", tn.state = "old"}, %x: tensor<8xf32> {tn.name = "x"}) ->
      (tensor<8xf32> {tn.name = "y"}, tensor<8xf32> {tn.name = "new", tn.state = "old"}) {
    %0 = tn.add %old, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0, %0 : tensor<8xf32>, tensor<8xf32>
  })");
  uint32_t state = stateBuffer(made, 0);
  EXPECT_EQ(made.instructions[0].buffers.back(), state); // in place
  EXPECT_EQ(made.instructions[1].buffers, (std::vector<uint32_t>{state, made.outputs[0].buffer}));
}

TEST_F(BuildPlanTest, OrderKeepsThePeakLow) {
  // In the order of the text both large values live at once; one after the other they do not.
  engine::Plan made =
      build(R"((%x: tensor<8x4xf32> {tn.name = "x"}) -> (tensor<8x8xf32> {tn.name = "y"}) {
    %a = tn.matmul %x, %x {transposeB} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
    %b = tn.softmax %a {axis = 0 : i64} : tensor<8x8xf32>
    %p = tn.reduce <sum> %b {axes = array<i64: 0>, keepdims = true} : (tensor<8x8xf32>) -> tensor<1x8xf32>
    %c = tn.softmax %a {axis = 0 : i64, log} : tensor<8x8xf32>
    %q = tn.reduce <sum> %c {axes = array<i64: 0>, keepdims = true} : (tensor<8x8xf32>) -> tensor<1x8xf32>
    %y = tn.matmul %p, %q {transposeA} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
    return %y : tensor<8x8xf32>
  })");
  EXPECT_EQ(made.arenaBytes, built.arenaLowerBound);
  EXPECT_EQ(made.arenaBytes, 2 * 256 + 64);
}

TEST_F(BuildPlanTest, PrintsWhatItBuilt) {
  build(R"((%x: tensor<4xf32> {tn.name = "x"}) -> (tensor<4xf32> {tn.name = "y"}) {
    %0 = tn.exp %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  })");
  EXPECT_EQ(plan::printPlan(built.variants.front(), table.list()),
            "plan x86-64-v3, arena 0\n"
            "input x f32[4] = %0\n"
            "output y f32[4] = %1\n"
            "%0 = input 16 bytes\n"
            "%1 = output 16 bytes\n"
            "0: launch k() grid 3 scratch 64 reads %0 writes %1  ; tn.exp\n"
            "1: return\n");
}

} // namespace
