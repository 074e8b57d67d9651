// Pages on the CPU: beside the reference, and each token's result beside that of the same token in
// other steps, whose bits must be equal.
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "engine/KernelAbi.h"
#include "test/ops/PagedModule.h"
#include "test/unit/codegen/LoadedCode.h"
#include "test/unit/codegen/RegionCheck.h"
#include "test/unit/codegen/SelectedText.h"
#include "test/unit/codegen/foreign/Emulation.h"

#include <iterator>

namespace tenon::ops {
namespace {

class CpuPages : public PagedModule {
public:
  explicit CpuPages(const Heads &theHeads)
      : PagedModule(theHeads, target::cpuTarget(codegen::cpu::machineLevels().front())) {}

  RegionRunner on(engine::CpuLevel level, bool isChecked = false) {
    auto runner = [this, level, isChecked](const codegen::RegionSource &source,
                                           ArrayRef<reference::Tensor> operands,
                                           const Tensors &results,
                                           const std::vector<int64_t> &symbols) -> Result<Tensors> {
      TENON_TRY(isChecked ? checkAccesses(source.text, level, operands, results, symbols)
                          : Status::ok());
      auto [found, isNew] = kernels.try_emplace({source.text, level});
      if (isNew) {
        llvm::Expected<codegen::cpu::Kernel> kernel = codegen::cpu::compileRegion(
            codegen::selectedForCpu(source.text, level), "tested", level);
        if (!kernel) {
          return Status::error(ErrorId::InternalError, llvm::toString(kernel.takeError()));
        }
        found->second = std::move(*kernel);
      }
      return codegen::cpu::runKernel(found->second, level, operands, results, symbols,
                                     /*pieces=*/2);
    };
    return runner;
  }

private:
  Status checkAccesses(const std::string &text, engine::CpuLevel level,
                       ArrayRef<reference::Tensor> operands, const Tensors &results,
                       const std::vector<int64_t> &symbols) {
    if (level != codegen::cpu::machineLevels().front() || codegen::cpu::isEmulated(level)) {
      return Status::ok();
    }
    llvm::Expected<codegen::cpu::Kernel> guarded = codegen::cpu::compileRegion(
        codegen::selectedForCpu(text), "guarded", level, /*guarded=*/true);
    bool isWithin = guarded && codegen::cpu::guardedStatus(*guarded, level, operands, results,
                                                           symbols) != TENON_KERNEL_OUT_OF_BOUNDS;
    return isWithin ? Status::ok()
                    : Status::error(ErrorId::InternalError, "reaches outside of its buffers");
  }

  std::map<std::pair<std::string, engine::CpuLevel>, codegen::cpu::Kernel> kernels;
};

class PagedTest : public testing::TestWithParam<Heads> {};

TEST_P(PagedTest, AgreesWithTheReference) {
  CpuPages module(GetParam());
  ASSERT_TRUE(module.isMade) << module.diagnostics;
  for (engine::CpuLevel level : codegen::cpu::machineLevels()) {
    EXPECT_TRUE(module.agrees(kMixed, module.run(kMixed, module.on(level, /*isChecked=*/true))))
        << engine::nameOf(level);
  }
}

/// A token's bits are those that it has alone, in chunks and beside others in another order.
TEST_P(PagedTest, BitsDoNotDependOnTheStep) {
  CpuPages module(GetParam());
  ASSERT_TRUE(module.isMade) << module.diagnostics;
  const StepOf others[] = {{{2, 510, 20}, {0, 20, 17}, {3, 0, 1}},
                           {{2, 0, 530}},
                           {{0, 36, 1}},
                           {{2, 513, 3}},
                           {{1, 529, 1}, {0, 0, 37}}};
  for (engine::CpuLevel level : codegen::cpu::machineLevels()) {
    Rows expected = module.run(kMixed, module.on(level));
    ASSERT_EQ(size_t(69), expected.size()) << module.problem;
    // The detector: another position has other bits.
    EXPECT_TRUE(expected.at({2, 510}) != expected.at({2, 511}));
    // An emulated level is some thirty times as slow, and takes the first and the last step.
    size_t stride = codegen::cpu::isEmulated(level) ? std::size(others) - 1 : 1;
    for (size_t i = 0; i < std::size(others); i += stride) {
      const StepOf &step = others[i];
      Rows actual = module.run(step, module.on(level));
      size_t compared = 0;
      for (const auto &[key, bytes] : actual) {
        auto found = expected.find(key);
        if (found != expected.end()) {
          ++compared;
          EXPECT_TRUE(found->second == bytes)
              << engine::nameOf(level) << ", sequence " << key.first << ", position " << key.second;
        }
      }
      EXPECT_GT(compared, size_t(0)) << module.problem;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, PagedTest,
                         testing::Values(Heads{"f32", 6, 2, 64, 64}, Heads{"bf16", 6, 2, 64, 64},
                                         Heads{"f16", 6, 2, 64, 64}, Heads{"f32", 4, 1, 80, 72, 17},
                                         Heads{"bf16", 3, 3, 66, 40, 300, 3},
                                         Heads{"f16", 2, 2, 256, 20, 0, 5},
                                         Heads{"bf16", 2, 1, 33, 64},
                                         Heads{"f32", 6, 2, 64, 64, 0, 0, "i8"},
                                         Heads{"bf16", 3, 3, 66, 40, 300, 3, "i8", true},
                                         Heads{"f32", 4, 1, 80, 72, 17, 0, "f8E4M3FN", true},
                                         Heads{"f16", 2, 2, 256, 20, 0, 5, "f8E4M3FN"}),
                         [](const testing::TestParamInfo<Heads> &info) {
                           return std::string(info.param.dtype) + "_" +
                                  std::to_string(info.param.width) + "_" +
                                  std::to_string(info.param.valueWidth) +
                                  (info.param.cache ? std::string("_") + info.param.cache : "");
                         });

} // namespace
} // namespace tenon::ops
