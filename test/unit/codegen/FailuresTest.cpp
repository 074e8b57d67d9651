// Kernels for a CPU return what failed in them, on every level of the machine.
#include "compiler/reference/Compare.h"
#include "test/unit/codegen/FailureCases.h"
#include "test/unit/codegen/LoadedCode.h"
#include "test/unit/codegen/SelectedText.h"

namespace tenon::codegen::cpu {
namespace {

TEST(FailuresTest, AreReturned) {
  for (const FailureCase &each : failureCases()) {
    for (bool fails : {false, true}) {
      if (!fails && each.good.empty()) {
        continue;
      }
      FailureRun run = makeFailureRun(each, fails ? each.bad : each.good);
      ASSERT_EQ(run.status.isOk(), !fails) << each.name << ": " << run.status.message();
      EXPECT_TRUE(!fails || run.status.id() == errorOf(each.status)) << each.name;
      for (engine::CpuLevel level : machineLevels()) {
        llvm::Expected<Kernel> kernel = compileRegion(selectedForCpu(run.text), "tested", level);
        ASSERT_TRUE(static_cast<bool>(kernel)) << llvm::toString(kernel.takeError());
        int32_t status = -1;
        std::vector<reference::Tensor> outputs =
            runKernel(*kernel, level, run.inputs, run.results, {}, /*pieces=*/2, &status);
        EXPECT_EQ(status, fails ? each.status : TENON_KERNEL_OK) << each.name;
        if (!fails) {
          EXPECT_TRUE(reference::compareTensors(run.results[0], outputs[0]).equal()) << each.name;
        }
      }
    }
  }
}

} // namespace
} // namespace tenon::codegen::cpu
