// Pages on the emulated GPU: beside the reference, and each token's result beside that of the same
// token in other steps.
#include "test/ops/PagedModule.h"
#include "test/unit/codegen/emulator/EmulatedRegion.h"

namespace tenon::ops {
namespace {

Result<Tensors> runPages(const codegen::RegionSource &source, ArrayRef<reference::Tensor> operands,
                         const Tensors &results, const std::vector<int64_t> &symbols) {
  llvm::Expected<Tensors> outputs =
      codegen::cuda::runEmulated(source.text, operands, results, symbols);
  if (!outputs) {
    return Status::error(ErrorId::InternalError, llvm::toString(outputs.takeError()));
  }
  return std::move(*outputs);
}

class GpuPagedTest : public testing::TestWithParam<Heads> {};

/// Many tokens; then some, and few: each has a kernel of its own where there are two heads of keys.
const StepOf kMany = {{0, 0, 37}, {1, 129, 1}, {2, 100, 30}, {3, 0, 1}};
const StepOf kFewer[] = {{{2, 110, 20}, {0, 20, 17}, {3, 0, 1}}, {{0, 36, 1}}};

/// And a token's bits are those that it has in another step.
TEST_P(GpuPagedTest, AgreesWithTheReference) {
  PagedModule module(GetParam(), target::targetOf("sm_90"));
  ASSERT_TRUE(module.isMade) << module.diagnostics;
  Rows expected = module.run(kMany, runPages);
  ASSERT_EQ(size_t(69), expected.size()) << module.problem;
  EXPECT_TRUE(module.agrees(kMany, expected));
  // The detector: another position has other bits.
  EXPECT_TRUE(expected.at({2, 110}) != expected.at({2, 111}));
  // Room for more: tokens of no sequence have zeros, and a sequence may have none.
  module.padding = 2;
  const StepOf padded = {{1, 129, 1}, {4, 0, 0}, {0, 36, 1}};
  EXPECT_TRUE(module.agrees(padded, module.run(padded, runPages)));
  module.padding = 0;
  for (const StepOf &step : kFewer) {
    for (const auto &[key, bytes] : module.run(step, runPages)) {
      EXPECT_TRUE(expected.at(key) == bytes)
          << "sequence " << key.first << ", position " << key.second;
    }
  }
}

/// In an invariant model a token's bits are those that it has alone and in chunks.
TEST_P(GpuPagedTest, InvariantBitsDoNotDependOnTheStep) {
  Heads heads = GetParam();
  heads.isInvariant = true;
  PagedModule module(heads, target::targetOf("sm_90"));
  ASSERT_TRUE(module.isMade) << module.diagnostics;
  Rows expected = module.run({{2, 60, 30}, {1, 129, 1}}, runPages);
  ASSERT_EQ(size_t(31), expected.size()) << module.problem;
  for (const StepOf &step : {StepOf{{2, 89, 1}}, {{1, 125, 5}}, {{3, 0, 1}, {2, 75, 9}}}) {
    size_t compared = 0;
    for (const auto &[key, bytes] : module.run(step, runPages)) {
      auto found = expected.find(key);
      if (found != expected.end()) {
        ++compared;
        EXPECT_TRUE(found->second == bytes)
            << "sequence " << key.first << ", position " << key.second;
      }
    }
    EXPECT_GT(compared, size_t(0)) << module.problem;
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, GpuPagedTest,
                         testing::Values(Heads{"bf16", 4, 2, 64, 64},
                                         Heads{"f32", 2, 1, 80, 72, 17},
                                         Heads{"f16", 2, 1, 80, 40, 70},
                                         Heads{"bf16", 1, 1, 66, 40, 90, 3},
                                         Heads{"f16", 1, 1, 136, 136, 0, 5}),
                         [](const testing::TestParamInfo<Heads> &info) {
                           return std::string(info.param.dtype) + "_" +
                                  std::to_string(info.param.width) + "_" +
                                  std::to_string(info.param.valueWidth);
                         });

} // namespace
} // namespace tenon::ops
