// The numeric check on planted faults: it must name the pass and the operation, and evaluate only
// what changed.
#include "compiler/pipeline/NumericCheck.h"

#include "compiler/dispatch/Dispatch.h"
#include "compiler/graph/Tn.h"
#include "compiler/opt/ConvertPrecision.h"
#include "compiler/opt/Passes.h"
#include "compiler/pipeline/SelectKernels.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;
namespace tn = tenon::tn;
namespace opt = tenon::opt;
using tenon::Status;
using tenon::pipeline::NumericCheck;

namespace {

constexpr llvm::StringLiteral kCheckedModel = R"(
module {
  func.func @main(%x: tensor<4x8xf32> {tn.name = "x"}) -> (tensor<4x8xf32> {tn.name = "y"}) {
    %w = tn.weight "w" : tensor<8x8xf32>
    %0 = tn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("dense")
    %1 = tn.tanh %0 : tensor<4x8xf32> loc("squash")
    %2 = tn.relu %1 : tensor<4x8xf32> loc("act")
    %3 = tn.softmax %2 {axis = 1 : i64} : tensor<4x8xf32> loc("head")
    return %3 : tensor<4x8xf32>
  }
})";

/// A wrong pattern: relu becomes the negation.
LogicalResult plantedReluIsNeg(ModuleOp module, tn::WeightStore &) {
  module.walk([](tn::ReluOp relu) {
    OpBuilder builder(relu);
    Value wrong = tn::NegOp::create(builder, relu.getLoc(), relu.getType(), relu.getX());
    relu.replaceAllUsesWith(wrong);
    relu.erase();
  });
  return success();
}

class NumericCheckTest : public ::testing::Test {
protected:
  NumericCheckTest() {
    context.loadDialect<tn::TnDialect, func::FuncDialect>();
    std::vector<char> bytes(64 * sizeof(float));
    for (int i = 0; i < 64; ++i) {
      float value = static_cast<float>((i * 37 % 64) - 32) / 32;
      std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
    }
    store.addOwned("w", bytes, "test");
    module = parseSourceString<ModuleOp>(kCheckedModel, &context);
  }

  MLIRContext context;
  tn::WeightStore store;
  OwningOpRef<ModuleOp> module;
};

TEST_F(NumericCheckTest, PlantedPassAndOperationAreNamed) {
  NumericCheck check(store, 1);
  ASSERT_TRUE(check.start(*module).isOk());
  Status status;
  opt::OptimizeOptions options;
  options.extraPasses.push_back({"planted-relu-is-neg", plantedReluIsNeg});
  options.afterPass = [&](llvm::StringRef pass, ModuleOp changed) {
    status = check.check(pass, changed);
    return success(status.isOk());
  };
  EXPECT_TRUE(failed(opt::optimize(*module, store, options)));
  std::string text = status.toString();
  EXPECT_EQ(status.id(), tenon::ErrorId::VerifyFailed);
  EXPECT_NE(text.find("planted-relu-is-neg"), std::string::npos) << text;
  EXPECT_NE(text.find("'act' (tn.neg)"), std::string::npos) << text;
  EXPECT_NE(text.find("output 'y'"), std::string::npos) << text;
}

TEST_F(NumericCheckTest, DispatchIsCheckedThroughPacksAndRegions) {
  NumericCheck check(store, 1);
  ASSERT_TRUE(check.start(*module).isOk());
  tenon::dispatch::Records records;
  tenon::target::Target target = tenon::target::cpuTarget();
  tenon::pipeline::WantedKernels none;
  tenon::pipeline::CodeTarget cpu =
      tenon::pipeline::cpuTarget(tenon::engine::CpuLevel::X86_64_V3, target, /*guarded=*/false);
  tenon::pipeline::KernelSelector selector(cpu, none);
  ASSERT_TRUE(succeeded(selector.formRegions(*module, target, records)));
  ASSERT_TRUE(selector.select(*module, records).isOk());
  Status right = check.check("dispatch", *module);
  EXPECT_TRUE(right.isOk()) << right.toString();
  module->walk([](tn::UnpackOp unpack) {
    // Planted: the weight transposed.
    unpack.setOuterDimsPerm({0, 1});
    unpack.setInnerDimsPos({0});
  });
  Status wrong = check.check("dispatch", *module);
  EXPECT_EQ(wrong.id(), tenon::ErrorId::VerifyFailed);
}

/// A wrong cast: what the softmax reads is held to half of what it should be.
LogicalResult plantedClamp(ModuleOp module) {
  module.walk([](tn::SoftmaxOp softmax) {
    OpBuilder builder(softmax);
    softmax.setOperand(tn::ClampOp::create(builder, softmax.getLoc(), softmax.getX().getType(),
                                           softmax.getX(), builder.getF64FloatAttr(-0.5),
                                           builder.getF64FloatAttr(0.5)));
  });
  return success();
}

TEST_F(NumericCheckTest, LowerPrecisionMayRoundButNotBeWrong) {
  for (auto [precision, dtype] : {std::pair(opt::Precision::Fp16, tenon::DType::F16),
                                  std::pair(opt::Precision::Bf16, tenon::DType::BF16)}) {
    OwningOpRef<ModuleOp> model = module->clone();
    NumericCheck check(store, 1);
    ASSERT_TRUE(check.start(*model).isOk());
    opt::PrecisionRecord record;
    ASSERT_TRUE(succeeded(
        opt::convertPrecision(*model, store, precision, opt::QuantizedProducts::Convert, record)));
    EXPECT_FALSE(check.check("convert-precision", *model).isOk()); // rounds more than f32 does
    Status lowered = check.checkLowered("convert-precision", *model, dtype);
    EXPECT_TRUE(lowered.isOk()) << lowered.toString();
    // From here on the narrow results are the truth, and the tolerance is that of their type again.
    EXPECT_TRUE(check.check("nothing", *model).isOk());
    ASSERT_TRUE(succeeded(plantedClamp(*model)));
    Status wrong = check.checkLowered("planted-clamp", *model, dtype);
    EXPECT_EQ(wrong.id(), tenon::ErrorId::VerifyFailed);
    EXPECT_NE(wrong.toString().find("'head'"), std::string::npos) << wrong.toString();
  }
}

TEST_F(NumericCheckTest, OnlyWhatChangedIsEvaluatedAgain) {
  NumericCheck check(store, 1);
  ASSERT_TRUE(check.start(*module).isOk());
  uint64_t first = check.evaluated();
  EXPECT_EQ(first, 5u); // the weight and four operations
  ASSERT_TRUE(check.check("nothing", *module).isOk());
  EXPECT_EQ(check.evaluated(), first);
  // relu(x) as max(x, relu(x)): the same numbers by two new operations, and softmax reads them.
  tn::ReluOp relu = *(*module->getOps<func::FuncOp>().begin()).getOps<tn::ReluOp>().begin();
  OpBuilder builder(relu);
  builder.setInsertionPointAfter(relu);
  Value same = tn::MaxOp::create(builder, relu.getLoc(), relu.getType(), relu.getX(), relu.getY());
  relu.getY().replaceAllUsesExcept(same, same.getDefiningOp());
  ASSERT_TRUE(check.check("max", *module).isOk());
  EXPECT_EQ(check.evaluated(), first + 2);
}

} // namespace
