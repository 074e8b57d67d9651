// `--precision` on whole models and on weights: how far results move, what stays wider, and that
// weights are converted once. What each rule does to single operations is in test/lit.
#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/graph/Tn.h"
#include "compiler/opt/ConvertPrecision.h"
#include "compiler/opt/Float8Products.h"
#include "compiler/opt/Passes.h"
#include "tools/tenon-opt/CheckNumbers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;
using namespace tenon;
using opt::Precision;

namespace {

class PrecisionTest : public testing::Test {
protected:
  PrecisionTest() { context.loadDialect<func::FuncDialect, tn::TnDialect>(); }

  void import(const std::string &name) {
    Result<onnx::ImportResult> imported = onnx::importOnnx(
        std::string(TENON_SOURCE_DIR) + "/models/" + name + ".onnx", {}, context, weights);
    ASSERT_TRUE(imported) << imported.status().toString();
    module = std::move(imported->module);
    ASSERT_TRUE(succeeded(opt::optimize(*module, weights, {})));
  }

  void parse(llvm::StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
  }

  /// Converts, and gives the largest error of a result relative to its largest element.
  double errorAfter(Precision precision) {
    Result<std::vector<reference::Tensor>> before = tools::evaluateSeeded(*module, weights);
    EXPECT_TRUE(succeeded(opt::convertPrecision(*module, weights, precision,
                                                opt::QuantizedProducts::Convert, record)));
    Result<std::vector<reference::Tensor>> after = tools::evaluateSeeded(*module, weights);
    EXPECT_TRUE(before && after);
    double worst = 0;
    for (auto [left, right] : llvm::zip_equal(*before, *after)) {
      EXPECT_EQ(left.dtype(), right.dtype());
      double largest = 0, error = 0;
      for (int64_t i = 0; i < left.count(); ++i) {
        double x = left.as<float>()[i];
        double y = right.as<float>()[i];
        largest = std::max(largest, std::abs(x));
        error = std::max(error, std::abs(x - y));
      }
      worst = std::max(worst, error / largest);
    }
    return worst;
  }

  int count(llvm::StringRef operation) {
    int total = 0;
    module->walk([&](Operation *op) { total += op->getName().getStringRef() == operation; });
    return total;
  }

  MLIRContext context;
  tn::WeightStore weights;
  OwningOpRef<ModuleOp> module;
  opt::PrecisionRecord record;
};

/// Roundings of all operations, added up as independent errors are.
double bound(const opt::PrecisionRecord &record) {
  double rounding = record.precision == Precision::Fp16 ? 0x1p-11 : 0x1p-8;
  return rounding * std::sqrt(static_cast<double>(record.narrow));
}

TEST_F(PrecisionTest, ModelsStayWithinTheirRoundings) {
  for (const char *name : {"fashion_cnn", "graphs/minilm_l6.torchscript"}) {
    for (Precision precision : {Precision::Fp16, Precision::Bf16}) {
      record = {};
      import(name);
      double error = errorAfter(precision);
      EXPECT_GT(error, 0) << name;
      EXPECT_LT(error, bound(record)) << name;
    }
  }
}

TEST_F(PrecisionTest, TransformersAreNarrowButForTheirMask) {
  import("graphs/bert_base.dynamo_eager");
  ASSERT_TRUE(succeeded(opt::convertPrecision(*module, weights, Precision::Fp16,
                                              opt::QuantizedProducts::Convert, record)));
  ASSERT_EQ(record.wider.size(), 1u);
  EXPECT_EQ(record.wider[0].operation, "tn.select");
  EXPECT_EQ(record.wider[0].rule.name, "constant-out-of-range");
  ASSERT_EQ(record.clamped.size(), 1u);
  EXPECT_EQ(count("tn.cast"), 3); // of the mask's input, of the mask, of the result
  std::string json = record.toJson([](Location) { return std::vector<std::string>{"node"}; });
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(json);
  ASSERT_TRUE(static_cast<bool>(parsed));
  const llvm::json::Object &object = *parsed->getAsObject();
  EXPECT_EQ(object.getString("precision"), "fp16");
  EXPECT_EQ(object.getInteger("narrow_weights"), record.weights);
  EXPECT_EQ(object.getArray("wider")->size(), 1u);
}

TEST_F(PrecisionTest, TransformersMultiplyFloat8WithoutCalibration) {
  import("graphs/minilm_l6.torchscript");
  Result<std::vector<reference::Tensor>> exact = tools::evaluateSeeded(*module, weights);
  ASSERT_TRUE(exact);
  ASSERT_TRUE(succeeded(opt::convertPrecision(*module, weights, Precision::Fp8,
                                              opt::QuantizedProducts::Convert, record)));
  ASSERT_TRUE(succeeded(opt::optimizeForGpu(*module, weights, {})));
  ASSERT_TRUE(succeeded(opt::float8Products(*module, weights, target::targetOf("sm_90a"),
                                            {.quantizes = true, .isAlways = true}, record)));
  // Four products a layer: merged projections, output, and two of the feed-forward block.
  EXPECT_EQ(record.float8, 24);
  EXPECT_EQ(count("tn.encode"), 24);
  for (const opt::PrecisionRecord::Entry &entry : record.notFloat8) {
    ADD_FAILURE() << entry.rule.name.str();
  }
  Result<std::vector<reference::Tensor>> got = tools::evaluateSeeded(*module, weights);
  ASSERT_TRUE(got);
  double error = 0, length = 0;
  for (int64_t i = 0; i < exact->front().count(); ++i) {
    double truth = exact->front().as<float>()[i];
    double difference = got->front().as<float>()[i] - truth;
    error += difference * difference;
    length += truth * truth;
  }
  // Roundings to 4 bits of both operands: 0.096, and no less with scales that are 8 times larger or
  // smaller (0.098, 0.101), so that no number of weight is saturated or too small.
  EXPECT_GT(std::sqrt(error / length), 0.01);
  EXPECT_LT(std::sqrt(error / length), 0.105);
}

TEST_F(PrecisionTest, OlderGpusStayInFp16) {
  import("graphs/minilm_l6.torchscript");
  ASSERT_TRUE(succeeded(opt::convertPrecision(*module, weights, Precision::Fp8,
                                              opt::QuantizedProducts::Convert, record)));
  ASSERT_TRUE(succeeded(opt::float8Products(*module, weights, target::targetOf("sm_86"),
                                            {.quantizes = true, .isAlways = true}, record)));
  EXPECT_EQ(record.float8, 0);
  ASSERT_FALSE(record.notFloat8.empty());
  EXPECT_EQ(record.notFloat8.front().rule.name, "float8-architecture");
}

TEST_F(PrecisionTest, TanhGeluOfNarrowValuesOnly) {
  parse(R"(func.func @main(%x: tensor<8xf32>, %y: tensor<8xf16>) -> (tensor<8xf32>, tensor<8xf16>) {
    %0 = tn.gelu %x : tensor<8xf32>
    %1 = tn.gelu %y : tensor<8xf16>
    return %0, %1 : tensor<8xf32>, tensor<8xf16>
  })");
  opt::approximateGelu(*module, record);
  ASSERT_EQ(record.approximated.size(), 1u);
  EXPECT_EQ(record.approximated[0].rule.name, "tanh-gelu");
  module->walk([](tn::GeluOp gelu) {
    EXPECT_EQ(gelu.getApproximate(), getElementTypeOrSelf(gelu.getType()).isF16());
  });
}

TEST_F(PrecisionTest, EqualWeightsAreConvertedOnceAndWhenRead) {
  std::vector<char> bytes(64 * sizeof(float));
  for (int i = 0; i < 64; ++i) {
    float number = i == 7 ? -1e9f : 1.0f / static_cast<float>(i + 1);
    std::memcpy(bytes.data() + i * sizeof(float), &number, sizeof(float));
  }
  weights.addOwned("a", bytes, "test");
  weights.addOwned("b", bytes, "test");
  bytes[0] = 1;
  weights.addOwned("c", bytes, "test");
  parse(R"(func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %a = tn.weight "a" : tensor<8x8xf32>
    %b = tn.weight "b" : tensor<8x8xf32>
    %c = tn.weight "c" : tensor<8x8xf32>
    %0 = tn.matmul %x, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = tn.matmul %0, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = tn.matmul %1, %c : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  })");
  ASSERT_TRUE(succeeded(opt::convertPrecision(*module, weights, Precision::Fp16,
                                              opt::QuantizedProducts::Convert, record)));
  EXPECT_EQ(record.weights, 2);
  EXPECT_EQ(record.weightBytes, 2 * 128);
  llvm::SmallVector<std::string> ids;
  module->walk([&](tn::WeightOp weight) { ids.push_back(weight.getId().str()); });
  llvm::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  EXPECT_EQ(ids, (llvm::SmallVector<std::string>{"a.f16", "c.f16"}));
  EXPECT_TRUE(weights.find("a.f16")->bytes.empty());
  ArrayRef<char> narrow = weights.bytes("a.f16");
  ASSERT_EQ(narrow.size(), 128u);
  uint16_t halves[8];
  std::memcpy(halves, narrow.data(), sizeof(halves));
  EXPECT_EQ(halves[0], 0x3C00);
  EXPECT_EQ(halves[1], 0x3800);
  EXPECT_EQ(halves[7], 0xFBFF); // held to the largest finite half
}

} // namespace
