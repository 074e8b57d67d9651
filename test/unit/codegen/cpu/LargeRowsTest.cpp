// The kernels of single operations at sizes of several vectors, odd ones and ones that a tile does
// not divide: what the loops over whole vectors, their ends and the pieces of several threads do.
#include "test/unit/codegen/PackedText.h"
#include "test/unit/codegen/RegionCheck.h"
#include "test/unit/codegen/cpu/AttentionText.h"

#include <algorithm>
#include <cstring>

namespace tenon::codegen::cpu {
namespace {

/// One op of one operand.
testing::AssertionResult matches(const std::string &op, const std::string &attributes,
                                 const std::string &from, const std::string &to) {
  return matchesReference(kernelText("single", "(%a: tensor<" + from + ">) -> tensor<" + to + ">",
                                     "%0 = \"" + op + "\"(%a) {" + attributes + "} : (tensor<" +
                                         from + ">) -> tensor<" + to + ">\nreturn %0 : tensor<" +
                                         to + ">"),
                          {}, 3);
}

TEST(LargeRowsTest, RunningSums) {
  for (const char *order :
       {"exclusive = false, reverse = false", "exclusive = true, reverse = false",
        "exclusive = false, reverse = true", "exclusive = true, reverse = true"}) {
    for (const char *shape : {"5x67xf32", "5x64xi32", "3x100xf16", "130xi64", "2x35xf64"}) {
      std::string last = std::count(shape, shape + strlen(shape), 'x') == 1 ? "0" : "1";
      EXPECT_TRUE(
          matches("tn.cumsum", std::string(order) + ", axis = " + last + " : i64", shape, shape))
          << shape;
    }
    EXPECT_TRUE(matches("tn.cumsum", std::string(order) + ", axis = 1 : i64", "3x9x2x150xf32",
                        "3x9x2x150xf32"));
    EXPECT_TRUE(
        matches("tn.cumsum", std::string(order) + ", axis = 0 : i64", "9x17xi32", "9x17xi32"));
  }
}

TEST(LargeRowsTest, ReductionsOfAnyDims) {
  for (const char *kind : {"sum", "max", "mean"}) {
    auto reduce = [&](const std::string &axes, const std::string &keeps, const std::string &from,
                      const std::string &to) {
      std::string attributes = "kind = #tn.reduce_kind<" + std::string(kind) +
                               ">, axes = array<i64: " + axes + ">, keepdims = " + keeps;
      EXPECT_TRUE(matches("tn.reduce", attributes, from, to)) << axes << from;
    };
    reduce("0", "false", "40x300xf32", "300xf32");
    reduce("0", "true", "40x131xf32", "1x131xf32");
    reduce("1", "false", "3x37x150xf32", "3x150xf32");
    reduce("1, 2", "true", "3x5x7x33xf32", "3x1x1x33xf32");
    reduce("0, 2", "false", "4x5x70xf32", "5xf32");
    reduce("0, 1, 2", "false", "4x5x70xf32", "f32");
    reduce("0", "false", "40x300xf16", "300xf16");
  }
}

TEST(LargeRowsTest, PlacesOfTheLargest) {
  for (const char *choice :
       {"largest = true, lastIndex = false", "largest = false, lastIndex = true"}) {
    for (const char *type : {"f32", "f16", "i32", "ui8"}) {
      std::string element = type, attributes = choice;
      EXPECT_TRUE(matches("tn.arg_reduce", attributes + ", axis = 1 : i64, keepdims = false",
                          "5x131x" + element, "5xi64"));
      EXPECT_TRUE(matches("tn.arg_reduce", attributes + ", axis = 0 : i64, keepdims = true",
                          "21x150x" + element, "1x150xi64"));
    }
  }
}

TEST(LargeRowsTest, SoftmaxOfAnyDim) {
  EXPECT_TRUE(matches("tn.softmax", "axis = 0 : i64", "37x150xf32", "37x150xf32"));
  EXPECT_TRUE(matches("tn.softmax", "axis = 1 : i64", "2x21x3x50xf32", "2x21x3x50xf32"));
  EXPECT_TRUE(matches("tn.softmax", "axis = 1 : i64, log", "2x21x300xf16", "2x21x300xf16"));
}

TEST(LargeRowsTest, TransposesInSquares) {
  for (const char *type : {"f32", "f16", "i8", "i64"}) {
    std::string element = type;
    EXPECT_TRUE(matches("tn.transpose", "permutation = array<i64: 1, 0>", "67x131x" + element,
                        "131x67x" + element));
    EXPECT_TRUE(matches("tn.transpose", "permutation = array<i64: 0, 2, 3, 1>",
                        "2x5x9x40x" + element, "2x9x40x5x" + element));
    EXPECT_TRUE(matches("tn.transpose", "permutation = array<i64: 3, 2, 1, 0>",
                        "33x2x18x3x" + element, "3x18x2x33x" + element));
  }
}

TEST(LargeRowsTest, ReadsByStepsAndBackwards) {
  EXPECT_TRUE(matches("tn.slice", "starts = affine_map<() -> (0, 1)>, steps = array<i64: 1, 2>",
                      "3x101xf32", "3x50xf32"));
  EXPECT_TRUE(matches("tn.slice", "starts = affine_map<() -> (0, 69)>, steps = array<i64: 1, -1>",
                      "3x70xf32", "3x70xf32"));
  EXPECT_TRUE(matches("tn.slice", "starts = affine_map<() -> (2, 98)>, steps = array<i64: -1, -3>",
                      "3x101xi8", "3x33xi8"));
}

TEST(LargeRowsTest, PoolsWithChannelsFirst) {
  for (const char *strides : {"1, 1", "2, 2", "1, 3"}) {
    bool isOne = strides[0] == '1' && strides[3] == '1', isTwo = strides[0] == '2';
    std::string to = isOne ? "2x3x9x70x" : isTwo ? "2x3x5x35x" : "2x3x9x24x";
    for (const char *type : {"f32", "i8"}) {
      EXPECT_TRUE(
          matches("tn.max_pool",
                  "kernel = array<i64: 3, 3>, strides = array<i64: " + std::string(strides) +
                      ">, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, "
                      "ceilMode = false, channelsLast = false",
                  std::string("2x3x9x70x") + type, to + type));
    }
  }
}

TEST(LargeRowsTest, GroupsOfOneBatch) {
  for (const char *groups : {"2", "8"}) {
    EXPECT_TRUE(matchesReference(
        kernelText("single",
                   "(%a: tensor<1x8x5x9xf32>, %s: tensor<8xf32>, %t: tensor<8xf32>) -> "
                   "tensor<1x8x5x9xf32>",
                   "%0 = tn.group_norm %a, %s, %t {groups = " + std::string(groups) +
                       " : i64, epsilon = 1.0e-05 : f64} : (tensor<1x8x5x9xf32>, tensor<8xf32>, "
                       "tensor<8xf32>) -> tensor<1x8x5x9xf32>\nreturn %0 : tensor<1x8x5x9xf32>"),
        {}, 3));
  }
}

TEST(LargeRowsTest, ResizesRowsAndColumns) {
  for (const char *mode : {"linear", "cubic"}) {
    for (const char *type : {"f32", "f16", "ui8"}) {
      std::string attributes =
          "mode = #tn.resize_mode<" + std::string(mode) +
          ">, coordinates = \"half_pixel\", nearest = \"floor\", cubicA = -0.75 : f64, "
          "excludeOutside = false, antialias = false, extrapolation = 0.0 : f64, "
          "roi = array<f64>, scales = array<f64: 1.0, 1.0, 2.0, 3.0>";
      EXPECT_TRUE(matches("tn.resize", attributes, std::string("1x3x5x13x") + type,
                          std::string("1x3x10x39x") + type));
    }
  }
}

TEST(LargeRowsTest, TheBestOfLongRows) {
  for (const char *k : {"1", "5", "40", "300"}) {
    std::string count = k;
    for (const char *type : {"f32", "f16", "i32", "ui8"}) {
      std::string from = std::string("tensor<3x300x") + type + ">";
      std::string to = "tensor<3x" + count + "x" + type + ">",
                  places = "tensor<3x" + count + "xi64>";
      EXPECT_TRUE(matchesReference(
          kernelText("single", "(%a: " + from + ") -> (" + to + ", " + places + ")",
                     "%0, %1 = tn.top_k %a {axis = 1 : i64, largest = true, sorted = true} : (" +
                         from + ") -> (" + to + ", " + places + ")\nreturn %0, %1 : " + to + ", " +
                         places),
          {}, 2));
    }
  }
}

TEST(LargeRowsTest, ConcatenatesLongRows) {
  EXPECT_TRUE(matchesReference(
      kernelText("single", "(%a: tensor<7x5000xf32>, %b: tensor<7x4001xf32>) -> tensor<7x9001xf32>",
                 "%0 = tn.concat %a, %b {axis = 1 : i64} : (tensor<7x5000xf32>, "
                 "tensor<7x4001xf32>) -> tensor<7x9001xf32>\nreturn %0 : tensor<7x9001xf32>"),
      {}, 3));
}

TEST(LargeRowsTest, ScattersIntoOwnedParts) {
  for (const char *kind : {"none", "add", "max"}) {
    EXPECT_TRUE(matchesReference(
        kernelText(
            "single",
            "(%a: tensor<2x9x70xf32>, %i: tensor<2x30x70xi64>, %u: tensor<2x30x70xf32>) -> "
            "tensor<2x9x70xf32>",
            "%0 = \"tn.scatter_elements\"(%a, %i, %u) {kind = #tn.scatter_kind<" +
                std::string(kind) +
                ">, axis = 1 : i64} : (tensor<2x9x70xf32>, tensor<2x30x70xi64>, "
                "tensor<2x30x70xf32>) -> tensor<2x9x70xf32>\nreturn %0 : tensor<2x9x70xf32>"),
        {}, 3));
    EXPECT_TRUE(matchesReference(
        kernelText(
            "single",
            "(%a: tensor<90xi32>, %i: tensor<200xi64>, %u: tensor<200xi32>) -> tensor<90xi32>",
            "%0 = \"tn.scatter_elements\"(%a, %i, %u) {kind = #tn.scatter_kind<" +
                std::string(kind) +
                ">, axis = 0 : i64} : (tensor<90xi32>, tensor<200xi64>, "
                "tensor<200xi32>) -> tensor<90xi32>\nreturn %0 : tensor<90xi32>"),
        {}, 3));
    EXPECT_TRUE(matchesReference(
        kernelText("single",
                   "(%a: tensor<4x5x33xf32>, %i: tensor<60x2xi64>, %u: tensor<60x33xf32>) -> "
                   "tensor<4x5x33xf32>",
                   "%0 = \"tn.scatter_nd\"(%a, %i, %u) {kind = #tn.scatter_kind<" +
                       std::string(kind) +
                       ">} : (tensor<4x5x33xf32>, tensor<60x2xi64>, tensor<60x33xf32>) -> "
                       "tensor<4x5x33xf32>\nreturn %0 : tensor<4x5x33xf32>"),
        {}, 3));
  }
}

TEST(LargeRowsTest, ProductsOfNarrowFloatsAndIntegers) {
  for (const char *type : {"f16", "bf16", "i32"}) {
    for (bool isTransposed : {false, true}) {
      std::string element = type, b = isTransposed ? "2x45x300x" : "2x300x45x";
      std::string a = "tensor<2x33x300x" + element + ">", y = "tensor<2x33x45x" + element + ">";
      b = "tensor<" + b + element + ">";
      EXPECT_TRUE(matchesReference(
          kernelText("contraction", "(%a: " + a + ", %b: " + b + ") -> " + y,
                     "%0 = tn.matmul %a, %b" + std::string(isTransposed ? " {transposeB}" : "") +
                         " : (" + a + ", " + b + ") -> " + y + "\nreturn %0 : " + y),
          {}, 3));
    }
  }
}

TEST(LargeRowsTest, ConvolutionsOfNarrowFloatsAndIntegers) {
  for (const char *type : {"f16", "bf16", "i32"}) {
    for (const char *groups : {"1", "3"}) {
      std::string element = std::string(type) + ">", x = "tensor<2x9x11x12x" + element;
      bool isOne = groups[0] == '1';
      PackedText packed = outputPanelsText({42, isOne ? 12 : 4, 3, 3}, 32, isOne ? 1 : 3, type);
      std::string y = "tensor<2x5x6x42x" + element, b = "tensor<42x" + element;
      EXPECT_TRUE(matchesReference(
          kernelText("contraction",
                     "(%a: " + x + ", %p: " + packed.type + ", %b: " + b + ") -> " + y,
                     packed.unpack() +
                         "%0 = \"tn.conv\"(%a, %w, %b) {strides = array<i64: 2, 2>, pads = "
                         "array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = " +
                         groups + " : i64, channelsLast = true} : (" + x + ", " + packed.weight +
                         ", " + b + ") -> " + y + "\nreturn %0 : " + y),
          {}, 3));
    }
  }
}

TEST(LargeRowsTest, ConvolutionsWithComputedWeights) {
  for (const char *type : {"bf16", "i32"}) {
    std::string element = std::string(type) + ">", x = "tensor<2x9x11x12x" + element;
    std::string weight = "tensor<42x4x3x3x" + element, y = "tensor<2x9x11x42x" + element;
    EXPECT_TRUE(matchesReference(
        kernelText(
            "contraction", "(%a: " + x + ", %w: " + weight + ") -> " + y,
            "%0 = \"tn.conv\"(%a, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, "
            "1>, dilations = array<i64: 1, 1>, groups = 3 : i64, channelsLast = true} : (" +
                x + ", " + weight + ") -> " + y + "\nreturn %0 : " + y),
        {}, 3));
  }
}

TEST(LargeRowsTest, AttentionOfNarrowFloats) {
  for (const char *type : {"f16", "bf16"}) {
    AttentionCase c = plainAttention(type, 2, 3, 70, 77, 24, 40);
    EXPECT_TRUE(matchesReference(attentionText(c), {}, 3));
    c.mask = std::string("tensor<70x77x") + type + ">";
    EXPECT_TRUE(matchesReference(attentionText(c), {}, 3));
  }
}

TEST(LargeRowsTest, ElementwiseDimsMerge) {
  EXPECT_TRUE(matchesReference(
      kernelText(
          "elementwise",
          "(%a: tensor<3x5x4xf32>, %b: tensor<5x4xf32>, %c: tensor<3x1x1xf32>) -> "
          "tensor<3x5x4xf32>",
          "%0 = tn.add %a, %b : (tensor<3x5x4xf32>, tensor<5x4xf32>) -> tensor<3x5x4xf32>\n"
          "%1 = tn.mul %0, %c : (tensor<3x5x4xf32>, tensor<3x1x1xf32>) -> tensor<3x5x4xf32>\n"
          "return %1 : tensor<3x5x4xf32>"),
      {}, 2));
}

TEST(LargeRowsTest, DividesIntegersInVectors) {
  for (const char *type : {"i8", "ui8", "i16", "i32", "ui32"}) {
    std::string tensor = std::string("tensor<3x70x") + type + ">";
    for (const char *op : {"tn.mod %a, %c", "tn.div %a, %c"}) {
      EXPECT_TRUE(matchesReference(
          kernelText("single", "(%a: " + tensor + ", %b: " + tensor + ") -> " + tensor,
                     "%one = tn.constant dense<1> : tensor<" + std::string(type) + "> : tensor<" +
                         type + ">\n%c = tn.add %b, %one : (" + tensor + ", tensor<" + type +
                         ">) -> " + tensor + "\n%0 = " + op + " : (" + tensor + ", " + tensor +
                         ") -> " + tensor + "\nreturn %0 : " + tensor),
          {}, 2));
    }
  }
}

} // namespace
} // namespace tenon::codegen::cpu
