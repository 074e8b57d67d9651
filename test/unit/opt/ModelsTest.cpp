// What the passes make of the real models of both torch exporters: the operations that are left,
// and for the small models the same numbers as before. Relies on the committed graphs in models/.
#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/graph/Tn.h"
#include "compiler/opt/Passes.h"
#include "tools/tenon-opt/CheckNumbers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace tenon;

namespace {

/// A model imported into its own context.
class Model {
public:
  explicit Model(const std::string &name) {
    context.loadDialect<func::FuncDialect, tn::TnDialect>();
    Result<onnx::ImportResult> imported = onnx::importOnnx(
        std::string(TENON_SOURCE_DIR) + "/models/" + name + ".onnx", {}, context, weights);
    EXPECT_TRUE(imported) << imported.status().toString();
    if (imported) {
      EXPECT_TRUE(imported->gaps.empty());
      module = std::move(imported->module);
    }
  }

  llvm::StringMap<int> count() {
    llvm::StringMap<int> counts;
    module->walk([&](Operation *op) { ++counts[op->getName().stripDialect()]; });
    return counts;
  }

  MLIRContext context;
  tn::WeightStore weights;
  OwningOpRef<ModuleOp> module;
};

struct Expected {
  const char *model;
  /// Operation and how many are left; those that are not listed here are not looked at.
  std::vector<std::pair<const char *, int>> counts;
};

void PrintTo(const Expected &expected, std::ostream *out) { *out << expected.model; }

std::vector<Expected> encoder(std::vector<const char *> models, int layers, int productsALayer,
                              int otherProducts, int transposes) {
  std::vector<Expected> result;
  for (const char *model : models) {
    result.push_back({model,
                      {{"attention", layers},
                       {"gelu", layers},
                       {"layer_norm", 2 * layers + 1},
                       {"matmul", productsALayer * layers + otherProducts},
                       {"transpose", transposes},
                       {"softmax", 0},
                       {"is_nan", 0},
                       {"erf", 0},
                       {"tanh", 0},
                       {"reduce", 0},
                       {"gather_nd", 0},
                       {"mul", 0}}});
  }
  return result;
}

std::vector<Expected> convolutional(std::vector<const char *> models, int convolutions,
                                    int transposes) {
  std::vector<Expected> result;
  for (const char *model : models) {
    result.push_back({model,
                      {{"conv", convolutions},
                       {"transpose", transposes},
                       {"batch_norm", 0},
                       {"mul", 0},
                       {"matmul", 1}}});
  }
  return result;
}

class OptimizedModel : public testing::TestWithParam<Expected> {};

TEST_P(OptimizedModel, HasTheseOperations) {
  Model model(GetParam().model);
  ASSERT_TRUE(model.module);
  ASSERT_TRUE(succeeded(opt::optimize(*model.module, model.weights, {})));
  llvm::StringMap<int> counts = model.count();
  for (const auto &[name, count] : GetParam().counts) {
    EXPECT_EQ(counts.lookup(name), count) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Bert, OptimizedModel,
                         testing::ValuesIn(encoder({"graphs/bert_base.dynamo",
                                                    "graphs/bert_base.dynamo_eager",
                                                    "graphs/bert_base.torchscript"},
                                                   12, 6, 0, 0)));
INSTANTIATE_TEST_SUITE_P(MiniLm, OptimizedModel,
                         testing::ValuesIn(encoder({"graphs/minilm_l6.dynamo",
                                                    "graphs/minilm_l6.torchscript"},
                                                   6, 6, 0, 0)));
INSTANTIATE_TEST_SUITE_P(
    Gpt2, OptimizedModel,
    testing::ValuesIn(encoder({"graphs/gpt2.dynamo", "graphs/gpt2.torchscript"}, 12, 6, 1, 0)));
INSTANTIATE_TEST_SUITE_P(Vit, OptimizedModel,
                         testing::ValuesIn(encoder({"graphs/vit_b16.dynamo",
                                                    "graphs/vit_b16.torchscript"},
                                                   12, 6, 1, 1)));
INSTANTIATE_TEST_SUITE_P(ResNet, OptimizedModel,
                         testing::ValuesIn(convolutional(
                             {"graphs/resnet50.dynamo", "graphs/resnet50.torchscript"}, 53, 1)));
INSTANTIATE_TEST_SUITE_P(MobileNet, OptimizedModel,
                         testing::ValuesIn(convolutional({"graphs/mobilenet_v2.dynamo",
                                                          "graphs/mobilenet_v2.torchscript"},
                                                         52, 1)));
// One channel: the transpose at the input is a reshape.
INSTANTIATE_TEST_SUITE_P(FashionCnn, OptimizedModel,
                         testing::ValuesIn(convolutional({"fashion_cnn"}, 4, 0)));

class SmallModel : public testing::TestWithParam<const char *> {};

TEST_P(SmallModel, ComputesTheSame) {
  Model model(GetParam());
  ASSERT_TRUE(model.module);
  Result<std::vector<reference::Tensor>> before =
      tools::evaluateSeeded(*model.module, model.weights);
  ASSERT_TRUE(before) << before.status().toString();
  ASSERT_TRUE(succeeded(opt::optimize(*model.module, model.weights, {})));
  Result<std::vector<reference::Tensor>> after =
      tools::evaluateSeeded(*model.module, model.weights);
  ASSERT_TRUE(after) << after.status().toString();
  EXPECT_EQ(tools::difference(*before, *after), "");
}

INSTANTIATE_TEST_SUITE_P(Models, SmallModel,
                         testing::Values("fashion_cnn", "graphs/minilm_l6.dynamo",
                                         "graphs/minilm_l6.torchscript"));

} // namespace
