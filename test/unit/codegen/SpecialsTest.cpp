// Generated code for each level of this machine against the reference, on special numbers.
#include "test/unit/codegen/SpecialCases.h"

#include "compiler/reference/Compare.h"
#include "test/unit/codegen/LoadedCode.h"
#include "test/unit/codegen/RegionCheck.h"
#include "test/unit/codegen/SelectedText.h"

namespace tenon::codegen::cpu {
namespace {

TEST(SpecialsTest, AgreeWithTheReference) {
  for (const SpecialCase &each : specialCases()) {
    for (engine::CpuLevel level : machineLevels()) {
      llvm::Expected<Kernel> kernel = compileRegion(selectedForCpu(each.text), "tested", level);
      ASSERT_TRUE(static_cast<bool>(kernel))
          << each.name << ": " << llvm::toString(kernel.takeError());
      std::vector<reference::Tensor> outputs =
          runKernel(*kernel, level, each.inputs, each.results, {}, /*pieces=*/1);
      for (size_t i = 0; i < outputs.size(); ++i) {
        reference::Comparison comparison = reference::compareTensors(each.results[i], outputs[i]);
        EXPECT_TRUE(comparison.equal())
            << each.name << ", result " << i << " on " << engine::nameOf(level) << ": "
            << comparison.mismatch << comparison.text(outputs[i].dims());
      }
    }
  }
}

} // namespace
} // namespace tenon::codegen::cpu
