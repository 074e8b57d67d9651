// Kernels with bounds checks: each access outside of a buffer is found, and none that is inside.

#include "compiler/codegen/cpu/CpuCodegen.h"
#include "engine/KernelAbi.h"
#include "test/unit/codegen/LoadedCode.h"
#include "test/unit/codegen/RegionCheck.h"
#include "test/unit/codegen/SelectedText.h"

namespace tenon::codegen::cpu {
namespace {

struct Region {
  const char *name;
  const char *strategy;
  const char *signature;
  const char *body;
  std::vector<std::vector<int64_t>> inputs;
  std::vector<int64_t> result;
};

std::vector<Region> regions() {
  return {
      {"elementwise",
       "elementwise",
       "(%x: tensor<7x9xf32>) -> tensor<7x9xf32>",
       "%y = tn.exp %x : tensor<7x9xf32>\n return %y : tensor<7x9xf32>",
       {{7, 9}},
       {7, 9}},
      {"rows",
       "rows",
       "(%x: tensor<3x37xf32>) -> tensor<3x37xf32>",
       "%y = tn.softmax %x {axis = 1 : i64} : tensor<3x37xf32>\n return %y : tensor<3x37xf32>",
       {{3, 37}},
       {3, 37}},
      {"moved",
       "elementwise",
       "(%x: tensor<5x6xf32>) -> tensor<6x5xf32>",
       "%y = tn.transpose %x [1, 0] : (tensor<5x6xf32>) -> tensor<6x5xf32>\n return %y : "
       "tensor<6x5xf32>",
       {{5, 6}},
       {6, 5}},
      {"product",
       "contraction",
       "(%a: tensor<5x7xf32>, %b: tensor<7x33xf32>) -> tensor<5x33xf32>",
       "%y = tn.matmul %a, %b : (tensor<5x7xf32>, tensor<7x33xf32>) -> tensor<5x33xf32>\n return "
       "%y : tensor<5x33xf32>",
       {{5, 7}, {7, 33}},
       {5, 33}},
  };
}

reference::Tensor filled(const std::vector<int64_t> &dims) {
  reference::Tensor tensor = *reference::Tensor::create(DType::F32, dims);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.as<float>()[i] = static_cast<float>(i % 5) - 2;
  }
  return tensor;
}

TEST(Guard, FindsWhatLiesOutsideAndNothingElse) {
  for (const Region &region : regions()) {
    std::string text = kernelText(region.strategy, region.signature, region.body);
    std::vector<reference::Tensor> inputs;
    for (const std::vector<int64_t> &dims : region.inputs) {
      inputs.push_back(filled(dims));
    }
    std::vector<reference::Tensor> results = {filled(region.result)};
    for (engine::CpuLevel level : machineLevels()) {
      llvm::Expected<Kernel> kernel =
          compileRegion(selectedForCpu(text), "guarded", level, /*guarded=*/true);
      ASSERT_TRUE(static_cast<bool>(kernel))
          << region.name << ": " << llvm::toString(kernel.takeError());
      EXPECT_EQ(TENON_KERNEL_OK, guardedStatus(*kernel, level, inputs, results, {})) << region.name;
      for (int buffer = 0; buffer <= static_cast<int>(inputs.size()); ++buffer) {
        EXPECT_EQ(TENON_KERNEL_OUT_OF_BOUNDS,
                  guardedStatus(*kernel, level, inputs, results, {}, buffer))
            << region.name << ", a byte less in buffer " << buffer;
      }
    }
  }
}

} // namespace
} // namespace tenon::codegen::cpu
