// Tests the shape rule and the verifier of every operation: what follows, and what is refused with
// which words. Relies on the parser, which verifies what it reads.
#include "compiler/graph/Shape.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace tenon::tn;

namespace {

/// Gives a single result a name.
std::string named(const std::string &op) { return op[0] == '%' ? op : "%y = " + op; }

struct InferTest : testing::Test {
  MLIRContext context;
  std::string message;

  InferTest() { context.loadDialect<TnDialect, func::FuncDialect>(); }

  OwningOpRef<ModuleOp> parse(std::string text) {
    // {A} is a symbolic tensor [s0, 3, 8], {B} [s0, s1], so that tables stay readable.
    auto replace = [&](const std::string &name, const std::string &type) {
      for (size_t at; (at = text.find(name)) != std::string::npos;) {
        text.replace(at, name.size(), type);
      }
    };
    replace("{A}", "tensor<?x3x8xf32, #tn.shape<()[s0] -> (s0, 3, 8)>>");
    replace("{B}", "tensor<?x?xf32, #tn.shape<()[s0, s1] -> (s0, s1)>>");
    message.clear();
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      message += diagnostic.str() + "\n";
      return success();
    });
    return parseSourceString<ModuleOp>(text, &context);
  }

  /// Parses one operation on arguments %0, %1, ... of these types and infers its result again.
  std::string inferred(const std::string &arguments, const std::string &op) {
    OwningOpRef<ModuleOp> module =
        parse("func.func @f(" + arguments + ") { " + named(op) + "\nreturn }");
    if (!module) {
      return "refused: " + message;
    }
    Operation *parsed = &*(*module->getOps<func::FuncOp>().begin()).getBody().front().begin();
    InferTypeOpInterface rule = dyn_cast<InferTypeOpInterface>(parsed);
    SmallVector<Type> types;
    if (!rule) {
      types.assign(parsed->result_type_begin(), parsed->result_type_end());
    } else if (failed(rule.inferReturnTypes(&context, parsed->getLoc(), parsed->getOperands(),
                                            parsed->getDiscardableAttrDictionary(),
                                            parsed->getPropertiesStorage(), parsed->getRegions(),
                                            types))) {
      return "failure";
    }
    std::string text;
    llvm::raw_string_ostream(text) << types[0];
    return text;
  }
};

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

struct Bad {
  const char *arguments;
  const char *op;
  const char *message;
};

const char kConvTail[] = "channelsLast = false} : (tensor<1x4x9xf32>, tensor<6x2x3xf32>) -> "
                         "tensor<1x6x7xf32>";

const Bad kBad[] = {
    {"%0: tensor<2xf32>, %1: tensor<3xf32>",
     "tn.add %0, %1 : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>", "do not broadcast"},
    {"%0: tensor<2xf32>, %1: tensor<2xf16>",
     "tn.add %0, %1 : (tensor<2xf32>, tensor<2xf16>) -> tensor<2xf32>", "different element types"},
    {"%0: tensor<2xi1>", "tn.add %0, %0 : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>",
     "must be ranked tensor of"},
    {"%0: tensor<2xi32>", "tn.exp %0 : tensor<2xi32>", "must be ranked tensor of"},
    {"%0: tensor<2xf32>", "tn.shift %0, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
     "must be ranked tensor of"},
    {"%0: tensor<2xf32>", "tn.add %0, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>",
     "incompatible"},
    {"%0: tensor<2xf32>", "tn.cast %0 : (tensor<2xf32>) -> tensor<3xi32>", "shape"},
    {"%0: {A}", "tn.cast %0 : ({A}) -> tensor<?x3x8xi32, #tn.shape<()[s0, s1] -> (s1, 3, 8)>>",
     "the result of a cast"},
    {"%0: {A}", "tn.reduce <sum> %0 {axes = array<i64: 3>, keepdims = true} : ({A}) -> {A}",
     "axis 3 is outside a tensor of rank 3"},
    {"%0: {A}", "tn.reduce <sum> %0 {axes = array<i64: 1, 1>, keepdims = true} : ({A}) -> {A}",
     "axis 1 is repeated or out of order"},
    {"%0: {A}", "tn.softmax %0 {axis = -1 : i64} : {A}", "axis -1 is outside"},
    {"%0: tensor<2x0xf32>",
     "tn.arg_reduce %0 {axis = 1 : i64, keepdims = false, largest = true, lastIndex = false} : "
     "(tensor<2x0xf32>) -> tensor<2xi64>",
     "axis 1 has size 0"},
    {"%0: tensor<2x8xf32>, %1: tensor<7xf32>",
     "tn.layer_norm %0 scale %1 {axis = 1 : i64, epsilon = 0.1 : f64} : (tensor<2x8xf32>, "
     "tensor<7xf32>) -> tensor<2x8xf32>",
     "scale of shape [7] does not broadcast to [8]"},
    {"%0: tensor<2x6x5xf32>, %1: tensor<6xf32>",
     "tn.group_norm %0, %1, %1 {groups = 4 : i64, epsilon = 0.1 : f64} : (tensor<2x6x5xf32>, "
     "tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x5xf32>",
     "4 groups do not divide 6 channels"},
    {"%0: tensor<2x3xf32>, %1: tensor<4x5xf32>",
     "tn.matmul %0, %1 : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>",
     "sums over: 3 and 4 differ"},
    {"%0: {B}, %1: tensor<4x5xf32>",
     "tn.matmul %0, %1 : ({B}, tensor<4x5xf32>) -> tensor<?x5xf32, #tn.shape<()[s0] -> (s0, 5)>>",
     "s1 and 4 are not known to be equal"},
    {"%0: tensor<3xf32>, %1: tensor<3x5xf32>",
     "tn.matmul %0, %1 : (tensor<3xf32>, tensor<3x5xf32>) -> tensor<5xf32>", "rank 2 or more"},
    {"%0: tensor<2x7x4x8xf32>, %1: tensor<2x3x9x8xf32>",
     "tn.attention %0, %1, %1 {scale = 1.0 : f64, causal = false, headsInner = array<i1: false, "
     "false, false, false>} : (tensor<2x7x4x8xf32>, tensor<2x3x9x8xf32>, tensor<2x3x9x8xf32>) -> "
     "tensor<2x7x4x8xf32>",
     "3 heads of k do not divide 7 heads of q"},
    {"%0: tensor<2x4x4x8xf32>",
     "tn.attention %0, %0, %0 {scale = 1.0 : f64, causal = false, headsInner = array<i1: false>} : "
     "(tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32>",
     "headsInner has 1 entries"},
    {"%0: tensor<1x1x2xf32>",
     "tn.max_pool %0 {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 2, 0>, "
     "dilations = array<i64: 1>, ceilMode = false, channelsLast = false} : (tensor<1x1x2xf32>) -> "
     "tensor<1x1x3xf32>",
     "without an element"},
    {"%0: tensor<1x1x2xf32>",
     "tn.max_pool %0 {kernel = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 0, 0>, "
     "dilations = array<i64: 1>, ceilMode = true, channelsLast = false} : (tensor<1x1x2xf32>) -> "
     "tensor<1x1x1xf32>",
     "a window of 3 does not fit"},
    {"%0: tensor<1x1x2xf32>, %1: tensor<1x1x2xf32>",
     "tn.conv_transpose %0, %1 {strides = array<i64: 1>, pads = array<i64: 2, 1>, dilations = "
     "array<i64: 1>, outputPadding = array<i64: 0>, groups = 1 : i64} : (tensor<1x1x2xf32>, "
     "tensor<1x1x2xf32>) -> tensor<1x1x1xf32>",
     "is empty"},
    {"%0: {A}", "tn.transpose %0 [0, 0, 1] : ({A}) -> {A}", "each of 3 dims once"},
    {"%0: {A}", "tn.transpose %0 [0, 1, 3] : ({A}) -> {A}", "each of 3 dims once"},
    {"%0: tensor<2x3xf32>, %1: tensor<3x3xf32>",
     "tn.concat %0, %1 {axis = 1 : i64} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x6xf32>",
     "beside the concatenated axis: 2 and 3 differ"},
    {"%0: tensor<4611686018427387904x0xf32>",
     "tn.concat %0, %0 {axis = 0 : i64} : (tensor<4611686018427387904x0xf32>, "
     "tensor<4611686018427387904x0xf32>) -> tensor<1x0xf32>",
     "overflow"},
    {"%0: tensor<2xf32>",
     "tn.pad <constant> %0 {begins = array<i64: -2>, ends = array<i64: -1>} : (tensor<2xf32>) -> "
     "tensor<0xf32>",
     "do not fit dim 0 of size 2"},
    {"%0: tensor<2xf32>",
     "tn.pad <edge> %0 {begins = array<i64: 9223372036854775807>, ends = array<i64: 1>} : "
     "(tensor<2xf32>) -> tensor<3xf32>",
     "pad is 9223372036854775807"},
    {"%0: tensor<0xf32>",
     "tn.pad <reflect> %0 {begins = array<i64: 1>, ends = array<i64: 1>} : (tensor<0xf32>) -> "
     "tensor<2xf32>",
     "nothing to repeat"},
    {"%0: tensor<3x4xf32>, %1: tensor<2xi64>",
     "tn.gather %0, %1 {axis = 2 : i64} : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<3x4xf32>",
     "axis 2 is outside"},
    {"%0: tensor<3x4xf32>, %1: tensor<2xf32>",
     "tn.gather %0, %1 {axis = 1 : i64} : (tensor<3x4xf32>, tensor<2xf32>) -> tensor<3x2xf32>",
     "must be ranked tensor of"},
    {"%0: tensor<3x4xf32>, %1: tensor<4x5xi64>",
     "tn.gather_elements %0, %1 {axis = 0 : i64} : (tensor<3x4xf32>, tensor<4x5xi64>) -> "
     "tensor<4x5xf32>",
     "reach beyond dim 1"},
    {"%0: tensor<3x4xf32>, %1: tensor<2x3xi64>",
     "tn.gather_nd %0, %1 {batchDims = 0 : i64} : (tensor<3x4xf32>, tensor<2x3xi64>) -> "
     "tensor<2xf32>",
     "index tuples of length 3 do not fit"},
    {"%0: tensor<3x4xf32>, %1: tensor<2x1xi64>, %2: tensor<2x5xf32>",
     "tn.scatter_nd <none> %0, %1, %2 : (tensor<3x4xf32>, tensor<2x1xi64>, tensor<2x5xf32>) -> "
     "tensor<3x4xf32>",
     "updates: 5 and 4 differ"},
    {"%0: {A}", "tn.reshape %0 : ({A}) -> tensor<?x25xf32, #tn.shape<()[s0] -> (s0, 25)>>",
     "changes the number of elements from s0 * 24 to s0 * 25"},
    {"%0: {A}", "tn.broadcast %0 : ({A}) -> tensor<4x3x8xf32>", "does not broadcast to"},
    {"%0: tensor<4xf32>",
     "tn.slice %0 {starts = affine_map<() -> (2)>, steps = array<i64: 2>} : (tensor<4xf32>) -> "
     "tensor<2xf32>",
     "reads outside dim 0 of size 4"},
    {"%0: tensor<4xf32>",
     "tn.slice %0 {starts = affine_map<() -> (0)>, steps = array<i64: 0>} : (tensor<4xf32>) -> "
     "tensor<2xf32>",
     "step 0"},
    {"%0: tensor<4xf32>",
     "%z:2 = tn.top_k %0 {axis = 0 : i64, largest = true, sorted = true} : (tensor<4xf32>) -> "
     "(tensor<5xf32>, tensor<5xi64>)",
     "more than the 4 elements"},
    {"%0: tensor<2x4xf32>, %1: tensor<3xf32>, %2: tensor<3xi8>",
     "tn.quantize %0, %1, %2 {axis = 1 : i64} : (tensor<2x4xf32>, tensor<3xf32>, tensor<3xi8>) -> "
     "tensor<2x4xi8>",
     "scale: 3 and 4 differ"},
    {"%0: tensor<4xf32>",
     "tn.resize <linear> %0 {coordinates = \"somewhere\", nearest = \"floor\", scales = array<f64: "
     "2.0>, cubicA = -0.75 : f64, excludeOutside = false, antialias = false, extrapolation = 0.0 : "
     "f64, roi = array<f64>} : (tensor<4xf32>) -> tensor<8xf32>",
     "does not know the coordinates 'somewhere'"},
    {"%0: tensor<4xf32>",
     "tn.resize <linear> %0 {coordinates = \"asymmetric\", nearest = \"floor\", scales = "
     "array<f64: 0.0>, cubicA = -0.75 : f64, excludeOutside = false, antialias = false, "
     "extrapolation = 0.0 : f64, roi = array<f64>} : (tensor<4xf32>) -> tensor<8xf32>",
     "not positive and finite"},
    {"", "tn.sizes affine_map<()[s0] -> (s0, 1)> : tensor<3xi64>", "each of 3 elements"},
    {"", "tn.sizes affine_map<()[s0] -> (s0)> : tensor<1xf32>", "list of signed integers"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 {permutation = array<i64: 0, 1>, rows = 1 : i64, panel = 4 : i64, groups = 1 : "
     "i64} : (tensor<4x6xf32>) -> tensor<2x4x5xf32>",
     "gives 'tensor<2x4x4xf32>'"},
};

TEST_F(InferTest, RefusesWhatIsWrongInWords) {
  for (const Bad &row : kBad) {
    std::string result = inferred(row.arguments, row.op);
    EXPECT_NE(result.find(std::string("refused: ")), std::string::npos) << row.op << "\n" << result;
    EXPECT_NE(result.find(row.message), std::string::npos) << row.op << "\n" << result;
  }
}

TEST_F(InferTest, RefusesHostileConvolutions) {
  struct Row {
    const char *attributes;
    const char *message;
  };
  const Row rows[] = {
      {"strides = array<i64: 0>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 2",
       "stride is 0"},
      {"strides = array<i64: -1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 2",
       "stride is -1"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 0>, groups = 2",
       "dilation is 0"},
      {"strides = array<i64: 1>, pads = array<i64: 0, -1>, dilations = array<i64: 1>, groups = 2",
       "pad is -1"},
      {"strides = array<i64: 1>, pads = array<i64: 0>, dilations = array<i64: 1>, groups = 2",
       "pad has 1 entries where 2 are needed"},
      {"strides = array<i64: 1, 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 2",
       "stride has 2 entries"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: "
       "9223372036854775807>, groups = 2",
       "dilation is 9223372036854775807"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 900000000000>, "
       "groups = 2",
       "larger than any tensor"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 5>, groups = 2",
       "a window of 11 does not fit into a dim of 9 with 0 of padding"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 0",
       "0 groups do not divide"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = -2",
       "-2 groups do not divide"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 4",
       "4 groups do not divide 6"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = "
       "6917529027641081856",
       "groups do not divide 6"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 3",
       "(times groups): 4 and 6 differ"},
  };
  for (const Row &row : rows) {
    std::string result =
        inferred("%0: tensor<1x4x9xf32>, %1: tensor<6x2x3xf32>",
                 std::string("tn.conv %0, %1 {") + row.attributes + " : i64, " + kConvTail);
    EXPECT_NE(result.find(row.message), std::string::npos) << row.attributes << "\n" << result;
  }
}

TEST_F(InferTest, RefusesTensorsThatInt64CannotCount) {
  std::string huge = "tensor<4294967296x1xf32>";
  std::string other = "tensor<1x4294967296xf32>";
  std::string result = inferred("%0: " + huge + ", %1: " + other,
                                "tn.add %0, %1 : (" + huge + ", " + other + ") -> tensor<1x1xf32>");
  EXPECT_NE(result.find("more bytes than int64 can count"), std::string::npos) << result;
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
