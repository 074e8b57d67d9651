// Region formation: what joins, what must not, and that the record says why. Relies on parsing `tn`
// text and on the verifier for what dispatch leaves.
#include "compiler/dispatch/Dispatch.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Tn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace mlir;
namespace tn = tenon::tn;
using tenon::dispatch::EdgeRecord;
using tenon::dispatch::Records;

namespace {

class DispatchTest : public ::testing::Test {
protected:
  DispatchTest() { context.loadDialect<tn::TnDialect, func::FuncDialect>(); }

  /// Dispatches a function body; each region as "strategy(op, op)".
  std::vector<std::string> run(llvm::StringRef signature, llvm::StringRef body) {
    std::string text = ("func.func @main" + signature + " {\n" + body + "\n}").str();
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    if (!module ||
        failed(tenon::dispatch::dispatch(*module, tenon::dispatch::cpuProfile(), records))) {
      ADD_FAILURE() << "dispatch failed";
      return {};
    }
    EXPECT_TRUE(succeeded(verify(*module)));
    std::vector<std::string> regions;
    module->walk([&](tn::RegionOp region) {
      std::vector<std::string> ops;
      for (Operation &op : region.getBody().front().without_terminator()) {
        ops.push_back(op.getName().stripDialect().str());
      }
      regions.push_back(region.getStrategy().str() + "(" + llvm::join(ops, ", ") + ")");
    });
    return regions;
  }

  /// The rule of the only edge between operations of these kinds.
  std::string ruleOf(llvm::StringRef producer, llvm::StringRef consumer) {
    std::string rule;
    for (const EdgeRecord &edge : records.edges) {
      if (edge.producer == producer && edge.consumer == consumer) {
        rule += edge.rule;
      }
    }
    return rule;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Records records;
};

using Regions = std::vector<std::string>;

TEST_F(DispatchTest, EpilogueTakesBiasActivationAndResidual) {
  Regions regions = run("(%x: tensor<4x8xf32>, %r: tensor<4x16xf32>) -> tensor<4x16xf32>", R"(
    %w = tn.weight "w" : tensor<8x16xf32>
    %b = tn.weight "b" : tensor<16xf32>
    %0 = tn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = tn.add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %2 = tn.gelu %1 : tensor<4x16xf32>
    %3 = tn.add %r, %2 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    return %3 : tensor<4x16xf32>)");
  EXPECT_EQ(regions, (Regions{"contraction(unpack, matmul, add, gelu, add)"}));
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  tn::PackOp pack = *function.getOps<tn::PackOp>().begin();
  EXPECT_EQ(cast<RankedTensorType>(pack.getY().getType()).getShape(),
            (ArrayRef<int64_t>{1, 8, 32}));
  EXPECT_TRUE(records.edges.empty());
}

TEST_F(DispatchTest, DetourIsTakenOnlyIfItCloses) {
  llvm::StringRef head = R"(
    %w = tn.weight "w" : tensor<8x16xf32>
    %0 = tn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = tn.sigmoid %0 : tensor<4x16xf32>
    %2 = tn.mul %0, %1 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
)";
  EXPECT_EQ(run("(%x: tensor<4x8xf32>) -> tensor<4x16xf32>",
                (head + "return %2 : tensor<4x16xf32>").str()),
            (Regions{"contraction(unpack, matmul, sigmoid, mul)"}));
  EXPECT_EQ(run("(%x: tensor<4x8xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>)",
                (head + "return %1, %2 : tensor<4x16xf32>, tensor<4x16xf32>").str()),
            (Regions{"contraction(unpack, matmul)", "elementwise(sigmoid, mul)"}));
  EXPECT_EQ(ruleOf("tn.matmul", "tn.sigmoid"), "second-result");
}

TEST_F(DispatchTest, NoCycleThroughAnotherRegion) {
  Regions regions = run("(%x: tensor<8x8xf32>) -> tensor<8x8xf32>", R"(
    %0 = tn.exp %x : tensor<8x8xf32>
    %1 = tn.matmul %0, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = tn.softmax %1 {axis = 0 : i64} : tensor<8x8xf32>
    %3 = tn.sub %0, %2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %3 : tensor<8x8xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(exp)", "contraction(matmul)", "single(softmax)",
                              "elementwise(sub)"}));
  EXPECT_EQ(ruleOf("tn.exp", "tn.sub"), "cycle");
  EXPECT_EQ(ruleOf("tn.exp", "tn.matmul"), "contraction-reads-often");
  EXPECT_EQ(ruleOf("tn.matmul", "tn.softmax"), "compiled-alone");
}

TEST_F(DispatchTest, EpilogueWaitsForItsOtherOperand) {
  // The add joins the first product although the second stands between them.
  Regions regions = run("(%x: tensor<8x8xf32>) -> tensor<8x8xf32>", R"(
    %0 = tn.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = tn.matmul %x, %x {transposeA} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = tn.add %0, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>)");
  EXPECT_EQ(regions, (Regions{"contraction(matmul)", "contraction(matmul, add)"}));
}

TEST_F(DispatchTest, RowsTakeTheResidualAndKeepTheSum) {
  Regions regions =
      run("(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)", R"(
    %s = tn.weight "s" : tensor<8xf32>
    %0 = tn.add %x, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = tn.layer_norm %0 scale %s {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %2 = tn.relu %1 : tensor<4x8xf32>
    return %0, %2 : tensor<4x8xf32>, tensor<4x8xf32>)");
  EXPECT_EQ(regions, (Regions{"rows(add, layer_norm, relu)"}));
}

TEST_F(DispatchTest, RowsMustBeTrailingAndF32) {
  Regions regions =
      run("(%x: tensor<4x8xf32>, %i: tensor<4x8xi64>) -> (tensor<8xf32>, tensor<4xi64>)", R"(
    %0 = tn.reduce <sum> %x {axes = array<i64: 0>, keepdims = false} : (tensor<4x8xf32>) -> tensor<8xf32>
    %1 = tn.reduce <sum> %i {axes = array<i64: 1>, keepdims = false} : (tensor<4x8xi64>) -> tensor<4xi64>
    return %0, %1 : tensor<8xf32>, tensor<4xi64>)");
  EXPECT_EQ(regions, (Regions{"single(reduce)", "single(reduce)"}));
}

TEST_F(DispatchTest, RowLargerThanTheCacheStandsAlone) {
  Regions regions = run("(%x: tensor<2x400000xf32>) -> tensor<2x400000xf32>", R"(
    %0 = tn.exp %x : tensor<2x400000xf32>
    %1 = tn.softmax %0 {axis = 1 : i64} : tensor<2x400000xf32>
    return %1 : tensor<2x400000xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(exp)", "rows(softmax)"}));
  EXPECT_EQ(ruleOf("tn.exp", "tn.softmax"), "row-too-large");
}

TEST_F(DispatchTest, ElementwiseChainCarriesScalarsAndMovement) {
  Regions regions = run("(%x: tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)", R"(
    %c = tn.constant dense<2.0> : tensor<f32> : tensor<f32>
    %0 = tn.transpose %x [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %1 = tn.mul %0, %c : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    %2 = tn.exp %1 : tensor<8x4xf32>
    return %1, %2 : tensor<8x4xf32>, tensor<8x4xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(constant, transpose, mul, exp)"}));
}

TEST_F(DispatchTest, MovementReadsInputsOnly) {
  Regions regions = run("(%x: tensor<4x4xf32>) -> tensor<4x4xf32>", R"(
    %0 = tn.exp %x : tensor<4x4xf32>
    %1 = tn.transpose %0 [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(exp)", "elementwise(transpose)"}));
  EXPECT_EQ(ruleOf("tn.exp", "tn.transpose"), "movement-reads-inputs");
}

TEST_F(DispatchTest, ReshapesStayOutsideAndAreNamed) {
  Regions regions = run("(%x: tensor<4x8xf32>) -> tensor<32xf32>", R"(
    %0 = tn.exp %x : tensor<4x8xf32>
    %1 = tn.reshape %0 : (tensor<4x8xf32>) -> tensor<32xf32>
    %2 = tn.neg %1 : tensor<32xf32>
    return %2 : tensor<32xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(exp)", "elementwise(neg)"}));
  EXPECT_EQ(ruleOf("tn.exp", "tn.neg"), "reshape-between");
}

TEST_F(DispatchTest, ConvolutionsPackOrGoDepthwise) {
  Regions regions = run("(%x: tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>", R"(
    %w = tn.weight "w" : tensor<4x4x3x3xf32>
    %d = tn.weight "d" : tensor<4x1x3x3xf32>
    %0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x8x8x4xf32>, tensor<4x4x3x3xf32>) -> tensor<1x8x8x4xf32>
    %1 = tn.relu %0 : tensor<1x8x8x4xf32>
    %2 = tn.conv %1, %d {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 4 : i64, channelsLast = true} : (tensor<1x8x8x4xf32>, tensor<4x1x3x3xf32>) -> tensor<1x8x8x4xf32>
    %3 = tn.relu %2 : tensor<1x8x8x4xf32>
    return %3 : tensor<1x8x8x4xf32>)");
  EXPECT_EQ(regions, (Regions{"contraction(unpack, conv, relu)", "depthwise(unpack, conv, relu)"}));
}

TEST_F(DispatchTest, EqualPacksAreMadeOnce) {
  run("(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)", R"(
    %w = tn.weight "w" : tensor<8x8xf32>
    %0 = tn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = tn.matmul %0, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %2 = tn.matmul %0, %w {transposeB} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>)");
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  EXPECT_EQ(llvm::range_size(function.getOps<tn::PackOp>()), 2);
}

TEST_F(DispatchTest, RecordsCarryCostsOfBothWays) {
  run("(%x: tensor<64x64xf32>) -> tensor<64x64xf32>", R"(
    %0 = tn.exp %x : tensor<64x64xf32>
    %1 = tn.transpose %0 [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>)");
  ASSERT_EQ(records.edges.size(), 1u);
  const EdgeRecord &edge = records.edges.front();
  EXPECT_EQ(edge.apart.bytes, 4 * 64 * 64 * 4);
  EXPECT_EQ(edge.fused.bytes, 2 * 64 * 64 * 4);
  EXPECT_EQ(edge.apart.launches, 2);
  EXPECT_EQ(edge.fused.launches, 1);
  EXPECT_GT(edge.apart.microseconds, edge.fused.microseconds);
}

TEST_F(DispatchTest, LooksOnlySoFar) {
  // Between the two stand more regions than dispatch looks through; the work stays linear.
  std::string body = "%p = tn.exp %x : tensor<4x4xf32>\n%0 = tn.softmax %y {axis = 0 : i64} : "
                     "tensor<4x4xf32>\n";
  int count = 5000;
  for (int i = 1; i < count; ++i) {
    body += "%" + std::to_string(i) + " = tn.softmax %" + std::to_string(i - 1) +
            " {axis = 0 : i64} : tensor<4x4xf32>\n";
  }
  body += "%c = tn.neg %p : tensor<4x4xf32>\nreturn %c, %" + std::to_string(count - 1) +
          " : tensor<4x4xf32>, tensor<4x4xf32>";
  run("(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)", body);
  EXPECT_EQ(ruleOf("tn.exp", "tn.neg"), "too-far");
}

TEST_F(DispatchTest, UnknownDimIsRefused) {
  module = parseSourceString<ModuleOp>(R"(
    func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %0 = tn.exp %x : tensor<?x4xf32>
      return %0 : tensor<?x4xf32>
    })",
                                       &context);
  ASSERT_TRUE(module);
  std::string message;
  ScopedDiagnosticHandler handler(&context,
                                  [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
  EXPECT_TRUE(failed(tenon::dispatch::dispatch(*module, tenon::dispatch::cpuProfile(), records)));
  EXPECT_NE(message.find("not known before running"), std::string::npos) << message;
}

} // namespace
