// Ops that compute where their elements come from or go to: resampling, scatters, selection,
// quantization, parts of a dim, and integer division that would trap.
#include "engine/KernelAbi.h"
#include "test/unit/codegen/LoadedCode.h"
#include "test/unit/codegen/RegionCheck.h"
#include "test/unit/codegen/SelectedText.h"

#include <algorithm>

namespace tenon::codegen::cpu {
namespace {

std::string resizeText(const std::string &mode, const std::string &attributes,
                       const std::string &from, const std::string &to, const std::string &scales,
                       const std::string &symbols = "") {
  return kernelText("single", "(%a: " + from + ") -> " + to,
                    "%0 = tn.resize <" + mode + "> %a {" + attributes +
                        ", scales = array<f64: " + scales + ">, extrapolation = 7.0 : f64} : (" +
                        from + ") -> " + to + "\nreturn %0 : " + to,
                    symbols);
}

std::string resizeAttributes(const std::string &coordinates, const std::string &nearest,
                             bool excludeOutside = false, bool antialias = false,
                             const std::string &roi = "") {
  auto flag = [](bool value) { return std::string(value ? "true" : "false"); };
  return "coordinates = \"" + coordinates + "\", nearest = \"" + nearest +
         "\", cubicA = -0.75 : f64, excludeOutside = " + flag(excludeOutside) +
         ", antialias = " + flag(antialias) + ", roi = array<f64" + (roi.empty() ? "" : ": ") +
         roi + ">";
}

TEST(IndexingTest, ResizesByEveryCoordinateMode) {
  for (const char *coordinates : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                                  "half_pixel_symmetric"}) {
    for (const char *mode : {"nearest", "linear", "cubic"}) {
      EXPECT_TRUE(matchesReference(
          resizeText(mode, resizeAttributes(coordinates, "round_prefer_floor"),
                     "tensor<1x2x5x6xf32>", "tensor<1x2x8x4xf32>", "1.0, 1.0, 1.6, 0.7")))
          << coordinates << " " << mode;
    }
  }
}

TEST(IndexingTest, ResizesToTheNearestOfEachKind) {
  for (const char *nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
    EXPECT_TRUE(matchesReference(resizeText("nearest", resizeAttributes("half_pixel", nearest),
                                            "tensor<2x4xi32>", "tensor<2x8xi32>", "1.0, 2.0")))
        << nearest;
  }
}

TEST(IndexingTest, ResizesWithAntialiasAndWithoutWhatIsOutside) {
  for (const char *mode : {"linear", "cubic"}) {
    EXPECT_TRUE(
        matchesReference(resizeText(mode, resizeAttributes("half_pixel", "floor", true, true),
                                    "tensor<9x13xf32>", "tensor<4x5xf32>", "0.5, 0.4")));
  }
}

TEST(IndexingTest, CropsAndExtrapolates) {
  for (const char *mode : {"nearest", "linear"}) {
    EXPECT_TRUE(matchesReference(resizeText(
        mode, resizeAttributes("tf_crop_and_resize", "floor", false, false, "0.2, 0.4, 1.3, 0.8"),
        "tensor<6x7xf32>", "tensor<5x6xf32>", "0.85, 0.9")));
  }
}

TEST(IndexingTest, ResizesADynamicDim) {
  std::string to = "tensor<2x?xf32, #tn.shape<()[s0] -> (2, s0 * 2)>>";
  EXPECT_TRUE(matchesReference(resizeText("linear", resizeAttributes("half_pixel", "floor"),
                                          "tensor<2x?xf32, #tn.shape<()[s0] -> (2, s0)>>", to,
                                          "1.0, 2.0", "#tn.symbol<\"s0\", 1, 64>"),
                               {7}));
}

TEST(IndexingTest, ScattersElementsInOrder) {
  for (const char *kind : {"none", "add", "mul", "max", "min"}) {
    EXPECT_TRUE(matchesReference(kernelText(
        "single",
        "(%a: tensor<4x3xf32>, %i: tensor<6x3xi64>, %u: tensor<6x3xf32>) -> tensor<4x3xf32>",
        std::string("%0 = tn.scatter_elements <") + kind +
            "> %a, %i, %u {axis = 0 : i64} : (tensor<4x3xf32>, tensor<6x3xi64>, "
            "tensor<6x3xf32>) -> tensor<4x3xf32>\nreturn %0 : tensor<4x3xf32>")))
        << kind;
  }
}

TEST(IndexingTest, ScattersSlices) {
  EXPECT_TRUE(matchesReference(
      kernelText("single",
                 "(%a: tensor<3x4x5xf16>, %i: tensor<7x2xi32>, %u: tensor<7x5xf16>) -> "
                 "tensor<3x4x5xf16>",
                 "%0 = tn.scatter_nd <add> %a, %i, %u : (tensor<3x4x5xf16>, tensor<7x2xi32>, "
                 "tensor<7x5xf16>) -> tensor<3x4x5xf16>\nreturn %0 : tensor<3x4x5xf16>")));
}

TEST(IndexingTest, SelectsTheLargestAndTheSmallest) {
  for (const char *largest : {"true", "false"}) {
    EXPECT_TRUE(matchesReference(kernelText(
        "single", "(%a: tensor<3x9x4xf32>) -> (tensor<3x5x4xf32>, tensor<3x5x4xi64>)",
        std::string("%0, %1 = tn.top_k %a {axis = 1 : i64, largest = ") + largest +
            ", sorted = true} : (tensor<3x9x4xf32>) -> (tensor<3x5x4xf32>, tensor<3x5x4xi64>)\n"
            "return %0, %1 : tensor<3x5x4xf32>, tensor<3x5x4xi64>")));
  }
}

TEST(IndexingTest, SelectsOfEqualOnesTheFirst) {
  EXPECT_TRUE(matchesReference(kernelText(
      "single", "(%a: tensor<9xui8>) -> (tensor<9xui8>, tensor<9xi64>)",
      "%0, %1 = tn.top_k %a {axis = 0 : i64, largest = true, sorted = true} : (tensor<9xui8>) -> "
      "(tensor<9xui8>, tensor<9xi64>)\nreturn %0, %1 : tensor<9xui8>, tensor<9xi64>")));
}

TEST(IndexingTest, QuantizesPerAxisAndBack) {
  for (const char *type : {"i8", "ui8", "i16", "ui16"}) {
    std::string t = type;
    EXPECT_TRUE(matchesReference(kernelText(
        "single",
        "(%a: tensor<2x3x21xf32>, %s: tensor<3xf32>, %z: tensor<3x" + t + ">) -> tensor<2x3x21x" +
            t + ">",
        "%e = tn.constant dense<0.003> : tensor<3xf32> : tensor<3xf32>\n"
        "%0 = tn.quantize %a, %e, %z {axis = 1 : i64} : (tensor<2x3x21xf32>, tensor<3xf32>, "
        "tensor<3x" +
            t + ">) -> tensor<2x3x21x" + t + ">\nreturn %0 : tensor<2x3x21x" + t + ">")))
        << type;
    EXPECT_TRUE(matchesReference(kernelText(
        "single",
        "(%a: tensor<37x" + t + ">, %s: tensor<f32>, %z: tensor<" + t + ">) -> tensor<37xf32>",
        "%0 = tn.dequantize %a, %s, %z {axis = 0 : i64} : (tensor<37x" + t +
            ">, tensor<f32>, "
            "tensor<" +
            t + ">) -> tensor<37xf32>\nreturn %0 : tensor<37xf32>")))
        << type;
  }
}

TEST(IndexingTest, TakesPartsOfADimFromItsStart) {
  EXPECT_TRUE(matchesReference(kernelText(
      "elementwise", "(%a: tensor<3x35xf32>) -> tensor<3x20xf32>",
      "%0 = tn.slice %a {starts = affine_map<() -> (0, 0)>, steps = array<i64: 1, 1>} : "
      "(tensor<3x35xf32>) -> tensor<3x20xf32>\n"
      "%1 = tn.slice %a {starts = affine_map<() -> (0, 15)>, steps = array<i64: 1, 1>} : "
      "(tensor<3x35xf32>) -> tensor<3x20xf32>\n"
      "%2 = tn.mul %0, %1 : (tensor<3x20xf32>, tensor<3x20xf32>) -> tensor<3x20xf32>\n"
      "return %2 : tensor<3x20xf32>")));
  EXPECT_TRUE(matchesReference(
      kernelText("elementwise", "(%a: tensor<6xf32>) -> tensor<1xf32>",
                 "%0 = tn.slice %a {starts = affine_map<() -> (0)>, steps = array<i64: 1>} : "
                 "(tensor<6xf32>) -> tensor<1xf32>\nreturn %0 : tensor<1xf32>")));
}

TEST(IndexingTest, ReducesNothingToTheNeutralElement) {
  EXPECT_TRUE(matchesReference(
      kernelText("single", "(%a: tensor<2x0x4xf32>) -> tensor<2x1x4xf32>",
                 "%0 = tn.reduce <sum> %a {axes = array<i64: 1>, keepdims = true} : "
                 "(tensor<2x0x4xf32>) -> tensor<2x1x4xf32>\nreturn %0 : tensor<2x1x4xf32>")));
}

TEST(IndexingTest, AttendsWithAMaskOfOneElement) {
  std::string tensor = "tensor<1x2x3x4xf32>";
  EXPECT_TRUE(matchesReference(kernelText(
      "attention",
      "(%q: " + tensor + ", %k: " + tensor + ", %v: " + tensor + ", %m: tensor<f32>) -> " + tensor,
      "%0 = tn.attention %q, %k, %v mask %m {causal = false, headsInner = array<i1: false, false, "
      "false, false>, scale = 0.5 : f64} : (" +
          tensor + ", " + tensor + ", " + tensor + ", tensor<f32>) -> " + tensor +
          "\nreturn %0 : " + tensor)));
}

TEST(IndexingTest, IntegerDivisionNeverTraps) {
  for (const char *op : {"div", "mod"}) {
    std::string text = kernelText(
        "elementwise", "(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32>",
        std::string("%0 = tn.") + op +
            " %a, %b : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>\nreturn %0 : tensor<4xi32>");
    reference::Tensor a = *reference::Tensor::create(DType::I32, {4});
    reference::Tensor b = *reference::Tensor::create(DType::I32, {4});
    const int32_t dividends[] = {7, INT32_MIN, -7, 7}, divisors[] = {0, -1, 2, -2};
    std::copy(dividends, dividends + 4, a.as<int32_t>());
    std::copy(divisors, divisors + 4, b.as<int32_t>());
    bool isDivision = std::string(op) == "div";
    std::vector<int32_t> expected =
        isDivision ? std::vector<int32_t>{0, INT32_MIN, -3, -3} : std::vector<int32_t>{0, 0, 1, -1};
    for (engine::CpuLevel level : machineLevels()) {
      llvm::Expected<Kernel> kernel = compileRegion(selectedForCpu(text), "tested", level);
      ASSERT_TRUE(bool(kernel)) << llvm::toString(kernel.takeError());
      int32_t status = TENON_KERNEL_OK;
      std::vector<reference::Tensor> results =
          runKernel(*kernel, level, {a, b}, {a}, {}, 1, &status);
      EXPECT_EQ(status, TENON_KERNEL_ARITHMETIC) << op;
      const int32_t *first = results.front().as<int32_t>();
      EXPECT_EQ(std::vector<int32_t>(first, first + 4), expected) << op;
      // What overflows is no division by zero.
      a.as<int32_t>()[0] = b.as<int32_t>()[0] = 1;
      runKernel(*kernel, level, {a, b}, {a}, {}, 1, &status);
      EXPECT_EQ(status, TENON_KERNEL_OK) << op;
      b.as<int32_t>()[0] = 0;
      a.as<int32_t>()[0] = 7;
    }
  }
}

TEST(IndexingTest, AnIntegerMeanOfNothingDoesNotTrap) {
  std::string text =
      kernelText("single", "(%a: tensor<2x0xi32>) -> tensor<2xi32>",
                 "%0 = tn.reduce <mean> %a {axes = array<i64: 1>, keepdims = false} : "
                 "(tensor<2x0xi32>) -> tensor<2xi32>\nreturn %0 : tensor<2xi32>");
  for (engine::CpuLevel level : machineLevels()) {
    llvm::Expected<Kernel> kernel = compileRegion(selectedForCpu(text), "tested", level);
    ASSERT_TRUE(bool(kernel)) << llvm::toString(kernel.takeError());
    int32_t status = TENON_KERNEL_OK;
    std::vector<reference::Tensor> results =
        runKernel(*kernel, level, {*reference::Tensor::create(DType::I32, {2, 0})},
                  {*reference::Tensor::create(DType::I32, {2})}, {}, 1, &status);
    EXPECT_EQ(status, TENON_KERNEL_ARITHMETIC);
    EXPECT_EQ(results.front().as<int32_t>()[0], 0);
  }
}

/// What one element of what is not there would be: four numbers behind a tensor of none.
reference::Tensor nothingBeforeSevens(std::vector<int64_t> dims) {
  reference::Tensor sevens = *reference::Tensor::create(DType::F32, {4});
  std::fill_n(sevens.as<float>(), 4, 7.0f);
  return sevens.reshaped(dims);
}

TEST(IndexingTest, NothingIsReadOfAnEmptyTensor) {
  reference::Tensor indices = *reference::Tensor::create(DType::I64, {4, 1});
  reference::Tensor result = *reference::Tensor::create(DType::F32, {4, 1});
  struct Case {
    std::string signature, body;
    std::vector<reference::Tensor> inputs;
    int32_t status = TENON_KERNEL_INDEX_RANGE;
  };
  std::string gathered = " : (tensor<0x1xf32>, tensor<4x1xi64>) -> tensor<4x1xf32>";
  std::string signature = "(%a: tensor<0x1xf32>, %i: tensor<4x1xi64>) -> tensor<4x1xf32>";
  reference::Tensor empty = nothingBeforeSevens({0, 1});
  for (const Case &tried : std::vector<Case>{
           {signature,
            "%0 = tn.gather_elements %a, %i {axis = 0 : i64}" + gathered,
            {empty, indices}},
           {signature,
            "%0 = tn.gather_nd %a, %i {batchDims = 0 : i64}" + gathered,
            {empty, indices}},
           {"(%a: tensor<0x1xf32>) -> tensor<4x1xf32>",
            "%0 = tn.pad <constant> %a {begins = array<i64: 4, 0>, ends = array<i64: 0, 0>} : "
            "(tensor<0x1xf32>) -> tensor<4x1xf32>",
            {empty},
            TENON_KERNEL_OK}}) {
    std::string text =
        kernelText("single", tried.signature, tried.body + "\nreturn %0 : tensor<4x1xf32>");
    for (engine::CpuLevel level : machineLevels()) {
      llvm::Expected<Kernel> kernel = compileRegion(selectedForCpu(text), "tested", level);
      ASSERT_TRUE(bool(kernel)) << llvm::toString(kernel.takeError());
      int32_t status = TENON_KERNEL_OK;
      std::vector<reference::Tensor> results =
          runKernel(*kernel, level, tried.inputs, {result}, {}, 1, &status);
      EXPECT_EQ(status, tried.status) << tried.body;
      const float *first = results.front().as<float>();
      EXPECT_EQ(std::vector<float>(first, first + 4), std::vector<float>(4, 0)) << tried.body;
    }
  }
}

TEST(IndexingTest, ConcatenatesWithNothing) {
  EXPECT_TRUE(matchesReference(kernelText(
      "single",
      "(%a: tensor<0x4xf32>, %b: tensor<3x4xf32>, %c: tensor<0x4xf32>) -> tensor<3x4xf32>",
      "%0 = tn.concat %a, %b, %c {axis = 0 : i64} : (tensor<0x4xf32>, tensor<3x4xf32>, "
      "tensor<0x4xf32>) -> tensor<3x4xf32>\nreturn %0 : tensor<3x4xf32>")));
}

} // namespace
} // namespace tenon::codegen::cpu
