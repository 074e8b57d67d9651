// The tiled strategy: elementwise and movement regions, rows, and single ops, static and dynamic.
#include "test/unit/codegen/RegionCheck.h"

namespace tenon::codegen::cpu {
namespace {

TEST(TiledTest, AddsWithBroadcast) {
  EXPECT_TRUE(matchesReference(
      kernelText("elementwise", "(%a: tensor<5x37xf32>, %b: tensor<37xf32>) -> tensor<5x37xf32>",
                 "%0 = tn.add %a, %b : (tensor<5x37xf32>, tensor<37xf32>) -> tensor<5x37xf32>\n"
                 "%1 = tn.relu %0 : tensor<5x37xf32>\n"
                 "return %1 : tensor<5x37xf32>")));
}

TEST(TiledTest, RunsDynamicDims) {
  std::string tensor = "tensor<?x?x24xf32, #tn.shape<()[s0, s1] -> (s0, s1, 24)>>";
  EXPECT_TRUE(matchesReference(kernelText("elementwise", "(%a: " + tensor + ") -> " + tensor,
                                          "%0 = tn.gelu %a : " + tensor + "\nreturn %0 : " + tensor,
                                          "#tn.symbol<\"s0\", 1, 8>, #tn.symbol<\"s1\", 1, 64>"),
                               {3, 7}));
}

TEST(TiledTest, FusesMovementIntoElementwise) {
  EXPECT_TRUE(matchesReference(kernelText(
      "elementwise", "(%a: tensor<6x5x16xf32>, %b: tensor<5x6x16xf32>) -> tensor<5x6x16xf32>",
      "%0 = tn.transpose %a [1, 0, 2] : (tensor<6x5x16xf32>) -> tensor<5x6x16xf32>\n"
      "%1 = tn.mul %0, %b : (tensor<5x6x16xf32>, tensor<5x6x16xf32>) -> tensor<5x6x16xf32>\n"
      "return %1 : tensor<5x6x16xf32>")));
}

TEST(TiledTest, TransposesTheInnermostDim) {
  EXPECT_TRUE(matchesReference(
      kernelText("elementwise", "(%a: tensor<3x35x17xf32>) -> tensor<3x17x35xf32>",
                 "%0 = tn.transpose %a [0, 2, 1] : (tensor<3x35x17xf32>) -> tensor<3x17x35xf32>\n"
                 "return %0 : tensor<3x17x35xf32>")));
}

TEST(TiledTest, GivesSeveralResults) {
  EXPECT_TRUE(matchesReference(kernelText(
      "elementwise",
      "(%a: tensor<4x33xf32>, %b: tensor<4x33xf32>) -> (tensor<4x33xf32>, tensor<4x33xf32>)",
      "%0 = tn.add %a, %b : (tensor<4x33xf32>, tensor<4x33xf32>) -> tensor<4x33xf32>\n"
      "%1 = tn.exp %0 : tensor<4x33xf32>\n"
      "return %0, %1 : tensor<4x33xf32>, tensor<4x33xf32>")));
}

TEST(TiledTest, Softmax) {
  for (const char *size : {"5", "16", "131"}) {
    std::string tensor = std::string("tensor<3x4x") + size + "xf32>";
    EXPECT_TRUE(matchesReference(
        kernelText("rows", "(%a: " + tensor + ") -> " + tensor,
                   "%0 = tn.softmax %a {axis = 2 : i64} : " + tensor + "\nreturn %0 : " + tensor)));
  }
}

TEST(TiledTest, AddAndLayerNormWithBothResults) {
  EXPECT_TRUE(matchesReference(kernelText(
      "rows",
      "(%a: tensor<2x7x100xf32>, %b: tensor<2x7x100xf32>, %s: tensor<100xf32>, %t: tensor<100xf32>)"
      " -> (tensor<2x7x100xf32>, tensor<2x7x100xf32>)",
      "%0 = tn.add %a, %b : (tensor<2x7x100xf32>, tensor<2x7x100xf32>) -> tensor<2x7x100xf32>\n"
      "%1 = tn.layer_norm %0 scale %s bias %t {axis = 2 : i64, epsilon = 1.0e-05 : f64, "
      "operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<2x7x100xf32>, tensor<100xf32>, "
      "tensor<100xf32>) -> tensor<2x7x100xf32>\n"
      "return %0, %1 : tensor<2x7x100xf32>, tensor<2x7x100xf32>")));
}

TEST(TiledTest, DynamicLayerNorm) {
  std::string tensor = "tensor<?x?x48xf32, #tn.shape<()[s0, s1] -> (s0, s1, 48)>>";
  EXPECT_TRUE(matchesReference(
      kernelText("rows", "(%a: " + tensor + ", %b: " + tensor + ") -> " + tensor,
                 "%0 = tn.add %a, %b : (" + tensor + ", " + tensor + ") -> " + tensor +
                     "\n%1 = tn.layer_norm %0 {axis = 2 : i64, epsilon = 1.0e-05 : f64, "
                     "operandSegmentSizes = array<i32: 1, 0, 0>} : (" +
                     tensor + ") -> " + tensor + "\nreturn %1 : " + tensor,
                 "#tn.symbol<\"s0\", 1, 8>, #tn.symbol<\"s1\", 1, 64>"),
      {2, 5}));
}

TEST(TiledTest, DynamicAddAndLayerNormWithBothResults) {
  std::string tensor = "tensor<?x5x48xf32, #tn.shape<()[s0] -> (s0, 5, 48)>>";
  EXPECT_TRUE(matchesReference(
      kernelText("rows",
                 "(%a: " + tensor + ", %b: tensor<1x5x48xf32>) -> (" + tensor + ", " + tensor + ")",
                 "%0 = tn.add %a, %b : (" + tensor + ", tensor<1x5x48xf32>) -> " + tensor +
                     "\n%1 = tn.layer_norm %0 {axis = 2 : i64, epsilon = 1.0e-05 : f64, "
                     "operandSegmentSizes = array<i32: 1, 0, 0>} : (" +
                     tensor + ") -> " + tensor + "\nreturn %0, %1 : " + tensor + ", " + tensor,
                 "#tn.symbol<\"s0\", 1, 8>"),
      {3}));
}

TEST(TiledTest, DynamicSoftmaxRows) {
  std::string tensor = "tensor<?x?xf32, #tn.shape<()[s0, s1] -> (s0, s1)>>";
  EXPECT_TRUE(matchesReference(
      kernelText("rows", "(%a: " + tensor + ") -> " + tensor,
                 "%0 = tn.softmax %a {axis = 1 : i64} : " + tensor + "\nreturn %0 : " + tensor,
                 "#tn.symbol<\"s0\", 1, 8>, #tn.symbol<\"s1\", 1, 640>"),
      {3, 77}));
}

TEST(TiledTest, MeanOverSpatialDims) {
  EXPECT_TRUE(matchesReference(
      kernelText("single", "(%a: tensor<2x7x7x40xf32>) -> tensor<2x40xf32>",
                 "%0 = tn.reduce <mean> %a {axes = array<i64: 1, 2>, keepdims = false} : "
                 "(tensor<2x7x7x40xf32>) -> tensor<2x40xf32>\nreturn %0 : tensor<2x40xf32>")));
}

TEST(TiledTest, MaxPoolChannelsLast) {
  EXPECT_TRUE(matchesReference(kernelText(
      "single", "(%a: tensor<1x13x13x20xf32>) -> tensor<1x7x7x20xf32>",
      "%0 = tn.max_pool %a {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = "
      "array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceilMode = false, channelsLast = true}"
      " : (tensor<1x13x13x20xf32>) -> tensor<1x7x7x20xf32>\nreturn %0 : tensor<1x7x7x20xf32>")));
}

TEST(TiledTest, DepthwiseConvWithClamp) {
  EXPECT_TRUE(matchesReference(kernelText(
      "depthwise",
      "(%a: tensor<1x9x9x24xf32>, %w: tensor<24x1x3x3xf32>, %b: tensor<24xf32>) -> "
      "tensor<1x9x9x24xf32>",
      "%0 = tn.conv %a, %w bias %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, "
      "dilations = array<i64: 1, 1>, groups = 24 : i64, channelsLast = true} : "
      "(tensor<1x9x9x24xf32>, tensor<24x1x3x3xf32>, tensor<24xf32>) -> tensor<1x9x9x24xf32>\n"
      "%1 = tn.clamp %0 {lo = 0.0 : f64, hi = 6.0 : f64} : tensor<1x9x9x24xf32>\n"
      "return %1 : tensor<1x9x9x24xf32>")));
}

TEST(TiledTest, GathersRows) {
  EXPECT_TRUE(matchesReference(
      kernelText("single", "(%a: tensor<3x20xf32>, %i: tensor<2x6xi64>) -> tensor<2x6x20xf32>",
                 "%0 = tn.gather %a, %i {axis = 0 : i64} : (tensor<3x20xf32>, tensor<2x6xi64>) -> "
                 "tensor<2x6x20xf32>\nreturn %0 : tensor<2x6x20xf32>")));
}

TEST(TiledTest, GathersSlicesOfSeveralDims) {
  EXPECT_TRUE(matchesReference(kernelText(
      "single", "(%a: tensor<2x3x5x4x3xf16>, %i: tensor<2x3xi64>) -> tensor<2x2x3x5x4x3xf16>",
      "%0 = tn.gather %a, %i {axis = 1 : i64} : (tensor<2x3x5x4x3xf16>, tensor<2x3xi64>) -> "
      "tensor<2x2x3x5x4x3xf16>\nreturn %0 : tensor<2x2x3x5x4x3xf16>")));
  EXPECT_TRUE(matchesReference(kernelText(
      "single", "(%a: tensor<3x4x5x2xf32>, %i: tensor<2x3x2xi64>) -> tensor<2x3x5x2xf32>",
      "%0 = tn.gather_nd %a, %i {batchDims = 0 : i64} : (tensor<3x4x5x2xf32>, tensor<2x3x2xi64>) "
      "-> tensor<2x3x5x2xf32>\nreturn %0 : tensor<2x3x5x2xf32>")));
  EXPECT_TRUE(matchesReference(
      kernelText("single", "(%a: tensor<3x4xi32>, %i: tensor<i64>) -> tensor<4xi32>",
                 "%0 = tn.gather %a, %i {axis = 0 : i64} : (tensor<3x4xi32>, tensor<i64>) -> "
                 "tensor<4xi32>\nreturn %0 : tensor<4xi32>")));
}

TEST(TiledTest, MasksFromIntegers) {
  EXPECT_TRUE(matchesReference(kernelText(
      "elementwise", "(%m: tensor<2x19xi64>, %x: tensor<2x19xf32>) -> tensor<2x19xf32>",
      "%one = tn.constant dense<1> : tensor<i64> : tensor<i64>\n"
      "%low = tn.constant dense<-3.0e+38> : tensor<f32> : tensor<f32>\n"
      "%0 = tn.compare %m <eq> %one : (tensor<2x19xi64>, tensor<i64>) -> tensor<2x19xi1>\n"
      "%1 = tn.select %0, %x, %low : (tensor<2x19xi1>, tensor<2x19xf32>, tensor<f32>) -> "
      "tensor<2x19xf32>\n"
      "return %1 : tensor<2x19xf32>")));
}

TEST(TiledTest, ConcatenatesAndPads) {
  EXPECT_TRUE(matchesReference(
      kernelText("single", "(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) -> tensor<2x7xf32>",
                 "%0 = tn.concat %a, %b {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> "
                 "tensor<2x7xf32>\nreturn %0 : tensor<2x7xf32>")));
  EXPECT_TRUE(matchesReference(
      kernelText("single", "(%a: tensor<4x5xf32>) -> tensor<7x9xf32>",
                 "%0 = tn.pad <reflect> %a {begins = array<i64: 1, 2>, ends = array<i64: 2, 2>} : "
                 "(tensor<4x5xf32>) -> tensor<7x9xf32>\nreturn %0 : tensor<7x9xf32>")));
}

TEST(TiledTest, ArgMax) {
  EXPECT_TRUE(matchesReference(kernelText(
      "single", "(%a: tensor<5x21xf32>) -> tensor<5xi64>",
      "%0 = tn.arg_reduce %a {axis = 1 : i64, keepdims = false, largest = true, lastIndex = false} "
      ": (tensor<5x21xf32>) -> tensor<5xi64>\nreturn %0 : tensor<5xi64>")));
}

/// LLVM joins the roundings of a double to f32 and on to f16 into a call of a library.
TEST(TiledTest, DoublesRoundOnceTo16Bits) {
  for (std::string dims : {"", "5x", "33x"}) {
    for (std::string narrow : {"f16", "bf16"}) {
      std::string type = "tensor<" + dims + narrow + ">", wide = "tensor<" + dims + "f64>";
      EXPECT_TRUE(
          matchesReference(kernelText("elementwise", "(%x: " + type + ") -> " + type,
                                      "%y = tn.atan %x : " + type + "\nreturn %y : " + type)));
      EXPECT_TRUE(matchesReference(
          kernelText("elementwise", "(%x: " + wide + ") -> " + type,
                     "%y = tn.cast %x : (" + wide + ") -> " + type + "\nreturn %y : " + type)));
    }
  }
}

} // namespace
} // namespace tenon::codegen::cpu
