// How many kernels and calls a GPU runs for the real models: a change that splits a layer shows
// here. Relies on the committed graphs in models/, whose weights are not read.
#include "compiler/dispatch/Dispatch.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/graph/Tn.h"
#include "compiler/opt/ConvertPrecision.h"
#include "compiler/opt/Passes.h"
#include "compiler/pipeline/SelectKernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <map>

using namespace mlir;
using namespace tenon;

namespace {

using Counts = std::map<std::string, int>;

struct Expected {
  const char *model;
  /// Regions by strategy.
  Counts counts;
  opt::Precision type = opt::Precision::Fp16;
};

void PrintTo(const Expected &expected, std::ostream *out) { *out << expected.model; }

class GpuModel : public testing::TestWithParam<Expected> {};

TEST_P(GpuModel, HasTheseRegions) {
  MLIRContext context;
  context.loadDialect<func::FuncDialect, tn::TnDialect>();
  tn::WeightStore weights;
  Result<onnx::ImportResult> imported =
      onnx::importOnnx(std::string(TENON_SOURCE_DIR) + "/models/" + GetParam().model + ".onnx", {},
                       context, weights);
  ASSERT_TRUE(imported) << imported.status().toString();
  OwningOpRef<ModuleOp> module = std::move(imported->module);
  opt::PrecisionRecord precision;
  dispatch::Records records;
  ASSERT_TRUE(succeeded(opt::optimize(*module, weights, {})));
  ASSERT_TRUE(succeeded(opt::convertPrecision(*module, weights, GetParam().type,
                                              opt::QuantizedProducts::Convert, precision)));
  ASSERT_TRUE(succeeded(opt::optimizeForGpu(*module, weights, {})));
  const target::Target &gpu = target::targetOf("sm_90");
  pipeline::CodeTarget code = pipeline::cudaTarget(gpu);
  pipeline::WantedKernels none;
  pipeline::KernelSelector selector(code, none);
  ASSERT_TRUE(succeeded(selector.formRegions(*module, gpu, records)));
  ASSERT_TRUE(succeeded(verify(*module)));
  Counts counts;
  std::string all;
  for (const dispatch::RegionRecord &region : records.regions) {
    ++counts[region.strategy];
    all += region.strategy + "(" + llvm::join(region.operations, ", ") + ")\n";
  }
  EXPECT_EQ(counts, GetParam().counts) << all;
}

/// A layer is 7 regions: QKV, attention, its product with the residual, norm, two products, norm;
/// the erf form of GELU ends kernels for few rows, and is a loop behind a library's call for more.
/// Embeddings are part of the first norm.
std::vector<Expected> encoder(std::vector<const char *> models, int layers) {
  std::vector<Expected> result;
  for (const char *model : models) {
    result.push_back({model,
                      {{"attention", layers},
                       {"contraction", 4 * layers},
                       {"rows", 2 * layers + 1},
                       {"elementwise", 1}}}); // the mask
  }
  return result;
}

/// The two exports of a model give the same regions.
std::vector<Expected> both(const char *dynamo, const char *torchscript, const Counts &counts) {
  return {{dynamo, counts}, {torchscript, counts}};
}

INSTANTIATE_TEST_SUITE_P(BertBase, GpuModel,
                         testing::ValuesIn(encoder({"graphs/bert_base.dynamo",
                                                    "graphs/bert_base.dynamo_eager",
                                                    "graphs/bert_base.torchscript"},
                                                   12)));
INSTANTIATE_TEST_SUITE_P(BertLarge, GpuModel,
                         testing::ValuesIn(encoder({"large/bert_large.dynamo"}, 24)));
INSTANTIATE_TEST_SUITE_P(
    MiniLm, GpuModel,
    testing::ValuesIn(encoder({"graphs/minilm_l6.dynamo", "graphs/minilm_l6.torchscript"}, 6)));
// The tanh form of GELU is the product's epilogue, and so is the cast of the result.
INSTANTIATE_TEST_SUITE_P(Gpt2, GpuModel,
                         testing::ValuesIn(both("graphs/gpt2.dynamo", "graphs/gpt2.torchscript",
                                                {{"attention", 12},
                                                 {"contraction", 49},
                                                 {"rows", 25},
                                                 {"elementwise", 1},
                                                 {"single", 1}})));
// Patches are a product; the class token and the positions are part of the first norm.
INSTANTIATE_TEST_SUITE_P(
    Vit, GpuModel,
    testing::ValuesIn(
        both("graphs/vit_b16.dynamo", "graphs/vit_b16.torchscript",
             {{"attention", 12}, {"contraction", 50}, {"rows", 25}, {"elementwise", 14}})));
// The layout of the picture with its padding, two poolings.
INSTANTIATE_TEST_SUITE_P(
    ResNet, GpuModel,
    testing::ValuesIn(both("graphs/resnet50.dynamo", "graphs/resnet50.torchscript",
                           {{"contraction", 54}, {"elementwise", 1}, {"single", 2}})));
// No library clamps at six: products with a clamp are kernels of ours.
INSTANTIATE_TEST_SUITE_P(
    MobileNet, GpuModel,
    testing::ValuesIn(
        both("graphs/mobilenet_v2.dynamo", "graphs/mobilenet_v2.torchscript",
             {{"contraction", 36}, {"depthwise", 17}, {"elementwise", 1}, {"single", 1}})));

// A layer: QKV with the norm before, one bundle for two rotary embeddings and two updates of the
// cache, attention, its product with the residual, gate and up with their norm and product, down
// with the residual. Around them the embedding, angles and the mask in one bundle, and casts of the
// cache (32 in, 32 out, which states do not have).
INSTANTIATE_TEST_SUITE_P(
    Llama, GpuModel,
    testing::Values(Expected{
        "large/llama_1b_decode",
        {{"attention", 16}, {"contraction", 65}, {"bundle", 16 + 1}, {"elementwise", 65}},
        opt::Precision::Bf16}));

} // namespace
