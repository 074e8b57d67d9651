// Tests the shape rule of every operation: what follows from operands and attributes.
// Relies on the parser, which verifies what it reads.
#include "InferFixture.h"

using namespace mlir;
using namespace tenon::tn;

namespace {

struct Good {
  const char *arguments;
  const char *op;
  const char *result;
};

const Good kGood[] = {
    {"%0: {A}, %1: tensor<8xf32>", "tn.add %0, %1 : ({A}, tensor<8xf32>) -> {A}",
     "tensor<?x3x8xf32, #tn.shape<()[s0] -> (s0, 3, 8)>>"},
    {"%0: tensor<2x1xi32>, %1: tensor<1x3xi32>",
     "tn.sub %0, %1 : (tensor<2x1xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>", "tensor<2x3xi32>"},
    {"%0: tensor<4xi32>, %1: tensor<f32>",
     "tn.pow %0, %1 : (tensor<4xi32>, tensor<f32>) -> tensor<4xi32>", "tensor<4xi32>"},
    {"%0: tensor<4xf16>, %1: tensor<4xf16>",
     "tn.compare %0 <lt> %1 : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xi1>", "tensor<4xi1>"},
    {"%0: tensor<4x1xi1>, %1: tensor<3xf32>, %2: tensor<f32>",
     "tn.select %0, %1, %2 : (tensor<4x1xi1>, tensor<3xf32>, tensor<f32>) -> tensor<4x3xf32>",
     "tensor<4x3xf32>"},
    {"%0: {A}", "tn.is_nan %0 : ({A}) -> tensor<?x3x8xi1, #tn.shape<()[s0] -> (s0, 3, 8)>>",
     "tensor<?x3x8xi1, #tn.shape<()[s0] -> (s0, 3, 8)>>"},
    {"%0: {A}", "tn.relu %0 : {A}", "tensor<?x3x8xf32, #tn.shape<()[s0] -> (s0, 3, 8)>>"},
    {"%0: {A}",
     "tn.reduce <mean> %0 {axes = array<i64: 1, 2>, keepdims = true} : ({A}) -> "
     "tensor<?x1x1xf32, #tn.shape<()[s0] -> (s0, 1, 1)>>",
     "tensor<?x1x1xf32, #tn.shape<()[s0] -> (s0, 1, 1)>>"},
    {"%0: {A}",
     "tn.reduce <sum> %0 {axes = array<i64: 0, 2>, keepdims = false} : ({A}) -> "
     "tensor<3xf32>",
     "tensor<3xf32>"},
    {"%0: {A}",
     "tn.arg_reduce %0 {axis = 2 : i64, keepdims = false, largest = true, lastIndex = "
     "false} : ({A}) -> tensor<?x3xi64, #tn.shape<()[s0] -> (s0, 3)>>",
     "tensor<?x3xi64, #tn.shape<()[s0] -> (s0, 3)>>"},
    {"%0: {A}, %1: tensor<8xf32>",
     "tn.layer_norm %0 scale %1 {axis = 2 : i64, epsilon = 1.0e-5 : f64} : ({A}, tensor<8xf32>) -> "
     "{A}",
     "tensor<?x3x8xf32, #tn.shape<()[s0] -> (s0, 3, 8)>>"},
    {"%0: {A}, %1: tensor<3x8xf32>, %2: tensor<8xf32>",
     "tn.layer_norm %0 scale %1 bias %2 {axis = 1 : i64, epsilon = 1.0e-5 : f64} : ({A}, "
     "tensor<3x8xf32>, tensor<8xf32>) -> {A}",
     "tensor<?x3x8xf32, #tn.shape<()[s0] -> (s0, 3, 8)>>"},
    {"%0: tensor<2x6x5xf32>, %1: tensor<6xf32>",
     "tn.group_norm %0, %1, %1 {groups = 3 : i64, epsilon = 0.1 : f64} : (tensor<2x6x5xf32>, "
     "tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x5xf32>",
     "tensor<2x6x5xf32>"},
    {"%0: {A}, %1: tensor<8x5xf32>",
     "tn.matmul %0, %1 : ({A}, tensor<8x5xf32>) -> tensor<?x3x5xf32, #tn.shape<()[s0] -> (s0, 3, "
     "5)>>",
     "tensor<?x3x5xf32, #tn.shape<()[s0] -> (s0, 3, 5)>>"},
    {"%0: tensor<4x8x3xf32>, %1: tensor<2x1x5x8xf32>",
     "tn.matmul %0, %1 {transposeA, transposeB} : (tensor<4x8x3xf32>, tensor<2x1x5x8xf32>) -> "
     "tensor<2x4x3x5xf32>",
     "tensor<2x4x3x5xf32>"},
    {"%0: tensor<?x3x?xf32, #tn.shape<()[s0, s1] -> (s0, 3, s1)>>, %1: tensor<16x3x7xf32>",
     "tn.conv %0, %1 {strides = array<i64: 2>, pads = array<i64: 3, 3>, dilations = array<i64: 1>, "
     "groups = 1 : i64, channelsLast = false} : (tensor<?x3x?xf32, #tn.shape<()[s0, s1] -> (s0, 3, "
     "s1)>>, tensor<16x3x7xf32>) -> tensor<?x16x?xf32, #tn.shape<()[s0, s1] -> (s0, 16, (s1 + 1) "
     "floordiv 2)>>",
     "tensor<?x16x?xf32, #tn.shape<()[s0, s1] -> (s0, 16, (s1 + 1) floordiv 2)>>"},
    {"%0: tensor<2x9x9x8xf32>, %1: tensor<6x4x3x3xf32>, %2: tensor<6xf32>",
     "tn.conv %0, %1 bias %2 {strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 0>, dilations "
     "= array<i64: 1, 2>, groups = 2 : i64, channelsLast = true} : (tensor<2x9x9x8xf32>, "
     "tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<2x5x5x6xf32>",
     "tensor<2x5x5x6xf32>"},
    {"%0: tensor<1x4x5xf32>, %1: tensor<4x2x3xf32>",
     "tn.conv_transpose %0, %1 {strides = array<i64: 2>, pads = array<i64: 1, 1>, dilations = "
     "array<i64: 1>, outputPadding = array<i64: 1>, groups = 2 : i64} : (tensor<1x4x5xf32>, "
     "tensor<4x2x3xf32>) -> tensor<1x4x10xf32>",
     "tensor<1x4x10xf32>"},
    {"%0: tensor<2x7x4x8xf32>, %1: tensor<2x2x9x8xf32>, %2: tensor<2x2x9x6xf32>, %3: "
     "tensor<7x9xf32>",
     "tn.attention %0, %1, %2 mask %3 {scale = 1.0 : f64, causal = false, headsInner = array<i1: "
     "true, false, false, true>} : (tensor<2x7x4x8xf32>, tensor<2x2x9x8xf32>, tensor<2x2x9x6xf32>, "
     "tensor<7x9xf32>) -> tensor<2x7x4x6xf32>",
     "tensor<2x7x4x6xf32>"},
    {"%0: tensor<1x3x5x5xf32>",
     "tn.max_pool %0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, "
     "0, 0, 0>, dilations = array<i64: 1, 1>, ceilMode = true, channelsLast = false} : "
     "(tensor<1x3x5x5xf32>) -> tensor<1x3x3x3xf32>",
     "tensor<1x3x3x3xf32>"},
    // The third window of ceil mode would start in the padding at the end, so there are two.
    {"%0: tensor<1x1x2xf32>",
     "tn.avg_pool %0 {kernel = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 1, 1>, "
     "dilations = array<i64: 1>, ceilMode = true, countIncludePad = true, channelsLast = false} : "
     "(tensor<1x1x2xf32>) -> tensor<1x1x2xf32>",
     "tensor<1x1x2xf32>"},
    {"%0: {A}",
     "tn.transpose %0 [2, 0, 1] : ({A}) -> tensor<8x?x3xf32, "
     "#tn.shape<()[s0] -> (8, s0, 3)>>",
     "tensor<8x?x3xf32, #tn.shape<()[s0] -> (8, s0, 3)>>"},
    {"%0: {B}, %1: {B}",
     "tn.concat %0, %1 {axis = 1 : i64} : ({B}, {B}) -> tensor<?x?xf32, #tn.shape<()[s0, s1] -> "
     "(s0, "
     "s1 * 2)>>",
     "tensor<?x?xf32, #tn.shape<()[s0, s1] -> (s0, s1 * 2)>>"},
    {"%0: {B}",
     "tn.pad <constant> %0 {begins = array<i64: 1, 0>, ends = array<i64: 2, -1>} : ({B}) -> "
     "tensor<?x?xf32, #tn.shape<()[s0, s1] -> (s0 + 3, s1 - 1)>>",
     "tensor<?x?xf32, #tn.shape<()[s0, s1] -> (s0 + 3, s1 - 1)>>"},
    {"%0: tensor<30x8xf32>, %1: tensor<?x?xi64, #tn.shape<()[s0, s1] -> (s0, s1)>>",
     "tn.gather %0, %1 {axis = 0 : i64} : (tensor<30x8xf32>, tensor<?x?xi64, #tn.shape<()[s0, s1] "
     "-> (s0, s1)>>) -> tensor<?x?x8xf32, #tn.shape<()[s0, s1] -> (s0, s1, 8)>>",
     "tensor<?x?x8xf32, #tn.shape<()[s0, s1] -> (s0, s1, 8)>>"},
    {"%0: tensor<2x3x4x5xf32>, %1: tensor<2x7x2xi32>",
     "tn.gather_nd %0, %1 {batchDims = 1 : i64} : (tensor<2x3x4x5xf32>, tensor<2x7x2xi32>) -> "
     "tensor<2x7x5xf32>",
     "tensor<2x7x5xf32>"},
    {"%0: tensor<3x4xf32>, %1: tensor<2x4xi64>",
     "tn.gather_elements %0, %1 {axis = 0 : i64} : (tensor<3x4xf32>, tensor<2x4xi64>) -> "
     "tensor<2x4xf32>",
     "tensor<2x4xf32>"},
    {"%0: tensor<3x4xf32>, %1: tensor<5x1xi64>, %2: tensor<5x4xf32>",
     "tn.scatter_nd <add> %0, %1, %2 : (tensor<3x4xf32>, tensor<5x1xi64>, tensor<5x4xf32>) -> "
     "tensor<3x4xf32>",
     "tensor<3x4xf32>"},
    {"%0: {A}", "tn.reshape %0 : ({A}) -> tensor<?x4x6xf32, #tn.shape<()[s0] -> (s0, 4, 6)>>",
     "tensor<?x4x6xf32, #tn.shape<()[s0] -> (s0, 4, 6)>>"},
    {"%0: {B}",
     "tn.slice %0 {starts = affine_map<()[s0] -> (0, 0)>, steps = array<i64: 1, 1>} : "
     "({B}) -> tensor<?x1xf32, #tn.shape<()[s0] -> (s0, 1)>>",
     "tensor<?x1xf32, #tn.shape<()[s0] -> (s0, 1)>>"},
};

TEST_F(InferTest, GivesTheResultOfEachOperation) {
  for (const Good &row : kGood) {
    EXPECT_EQ(inferred(row.arguments, row.op), row.result) << row.op;
  }
}

TEST_F(InferTest, ChecksRegions) {
  const char *region = R"(func.func @f(%0: {A}) {
    %y = tn.region "cpu" "elementwise"(%0) {
    ^bb0(%a: {A}):
      %r = tn.relu %a : {A}
      tn.yield %r : {A}
    } : ({A}) -> {A}
    return })";
  EXPECT_TRUE(parse(region)) << message;
  std::string wrong = region;
  wrong.replace(wrong.find("-> {A}"), 6, "-> tensor<2x3x9xf32>");
  EXPECT_FALSE(parse(wrong));
  EXPECT_NE(message.find("yields types that do not agree"), std::string::npos) << message;
  EXPECT_FALSE(parse("func.func @f(%0: {A}) { tn.region \"cpu\" \"x\"(%0) {\n^bb0:\ntn.yield\n} : "
                     "({A}) -> ()\nreturn }"));
  EXPECT_NE(message.find("body arguments that do not agree"), std::string::npos) << message;
}

TEST_F(InferTest, FoldsConstantsToTheirValue) {
  OwningOpRef<ModuleOp> module =
      parse("func.func @f() { %y = tn.constant dense<3> : tensor<2xi32> : tensor<2xi32>\nreturn }");
  ASSERT_TRUE(module) << message;
  ConstantOp constant =
      cast<ConstantOp>(*(*module->getOps<func::FuncOp>().begin()).getBody().front().begin());
  SmallVector<OpFoldResult> results;
  ASSERT_TRUE(succeeded(constant->fold(results)));
  EXPECT_EQ(llvm::cast<Attribute>(results[0]), constant.getValue());
}

/// What is printed is read back as the same text.
TEST_F(InferTest, RoundTripsEveryRow) {
  for (const Good &row : kGood) {
    OwningOpRef<ModuleOp> module =
        parse(std::string("func.func @f(") + row.arguments + ") { " + named(row.op) + "\nreturn }");
    ASSERT_TRUE(module) << row.op << message;
    std::string first, second;
    llvm::raw_string_ostream(first) << *module;
    OwningOpRef<ModuleOp> again = parse(first);
    ASSERT_TRUE(again) << first << message;
    llvm::raw_string_ostream(second) << *again;
    EXPECT_EQ(first, second);
  }
}

} // namespace
