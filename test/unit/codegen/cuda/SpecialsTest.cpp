// Generated code for a GPU against the reference, on special numbers.
#include "compiler/reference/Compare.h"
#include "test/unit/codegen/SpecialCases.h"
#include "test/unit/codegen/emulator/EmulatedRegion.h"

#include "gtest/gtest.h"

namespace tenon::codegen::cuda {
namespace {

TEST(SpecialsTest, AgreeWithTheReference) {
  for (const SpecialCase &each : specialCases()) {
    llvm::Expected<std::vector<reference::Tensor>> outputs =
        runEmulated(each.text, each.inputs, each.results, {});
    ASSERT_TRUE(static_cast<bool>(outputs))
        << each.name << ": " << llvm::toString(outputs.takeError());
    for (size_t i = 0; i < outputs->size(); ++i) {
      reference::Comparison comparison = reference::compareTensors(each.results[i], (*outputs)[i]);
      EXPECT_TRUE(comparison.equal())
          << each.name << ", result " << i << ": " << comparison.mismatch
          << comparison.text((*outputs)[i].dims());
    }
  }
}

} // namespace
} // namespace tenon::codegen::cuda
