// Kernels for a GPU report what failed in them, and only those that can fail have a place for it.
#include "compiler/codegen/cuda/CudaCodegen.h"
#include "compiler/reference/Compare.h"
#include "test/unit/codegen/FailureCases.h"
#include "test/unit/codegen/SelectedText.h"
#include "test/unit/codegen/emulator/EmulatedRegion.h"

namespace tenon::codegen::cuda {
namespace {

TEST(FailuresTest, AreReported) {
  for (const FailureCase &each : failureCases()) {
    for (bool fails : {false, true}) {
      if (!fails && each.good.empty()) {
        continue;
      }
      FailureRun run = makeFailureRun(each, fails ? each.bad : each.good);
      int32_t status = TENON_KERNEL_OK;
      llvm::Expected<std::vector<reference::Tensor>> outputs =
          runEmulated(run.text, run.inputs, run.results, {}, /*reversed=*/fails, &status);
      ASSERT_TRUE(static_cast<bool>(outputs))
          << each.name << ": " << llvm::toString(outputs.takeError());
      EXPECT_EQ(status, fails ? each.status : TENON_KERNEL_OK) << each.name;
      if (!fails) {
        EXPECT_TRUE(reference::compareTensors(run.results[0], (*outputs)[0]).equal()) << each.name;
      }
    }
  }
}

bool canFail(const std::string &strategy, const std::string &signature, const std::string &body) {
  const target::Target &gpu = target::targetOf("sm_90");
  llvm::Expected<CompiledRegion> compiled = compileRegion(
      selectedForCuda(cpu::kernelText(strategy, signature, body), gpu), "tested", gpu);
  EXPECT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
  return llvm::any_of(compiled->code.steps, [](const RegionStep &step) { return step.canFail; });
}

TEST(FailuresTest, NeedAPlaceOnlyWhereTheyCanBe) {
  const std::string gather = "(%x: tensor<5x19xf32>) -> tensor<3x19xf32>";
  auto rows = [](const std::string &indices) {
    return "%i = tn.constant dense<[" + indices +
           "]> : tensor<3xi64> : tensor<3xi64> "
           "%0 = tn.gather %x, %i {axis = 0 : i64} : (tensor<5x19xf32>, tensor<3xi64>) -> "
           "tensor<3x19xf32> return %0 : tensor<3x19xf32>";
  };
  EXPECT_FALSE(canFail("single", gather, rows("0, -5, 4")));
  EXPECT_TRUE(canFail("single", gather, rows("0, -6, 4")));
  auto half = [](const std::string &divisor) {
    return "%c = tn.constant dense<" + divisor +
           "> : tensor<i32> : tensor<i32> "
           "%0 = tn.div %x, %c : (tensor<7xi32>, tensor<i32>) -> tensor<7xi32> "
           "return %0 : tensor<7xi32>";
  };
  EXPECT_FALSE(canFail("elementwise", "(%x: tensor<7xi32>) -> tensor<7xi32>", half("2")));
  EXPECT_FALSE(canFail("elementwise", "(%x: tensor<7xi32>) -> tensor<7xi32>", half("-1")));
  EXPECT_TRUE(canFail("elementwise", "(%x: tensor<7xi32>) -> tensor<7xi32>", half("0")));
}

} // namespace
} // namespace tenon::codegen::cuda
