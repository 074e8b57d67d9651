// The first layer stands for all in what an error says.
#include "compiler/quant/Checks.h"

#include "compiler/quant/Layers.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::quant {

using std::string_view;

Status refuseQuantized(const Graph &graph) {
  constexpr string_view kinds[] = {"QuantizeLinear",       "DequantizeLinear", "QLinearConv",
                                   "QLinearMatMul",        "MatMulInteger",    "ConvInteger",
                                   "DynamicQuantizeLinear"};
  for (size_t i = 0; i < graph.all().size(); ++i) {
    const onnx::Node &node = graph.node(i);
    if (graph.isOneOf(i, kinds) || node.opType == "MatMulNBits" ||
        node.opType.starts_with("QLinear")) {
      return Status::error(
          ErrorId::BadArgument,
          strCat("the model is quantized already: it has ", node.opType, " '", nameOf(node), "'"),
          "quantize the FP32 model that it was made from");
    }
  }
  return Status::ok();
}

Status checkPlan(const Graph &graph, const Plan &plan, const QuantizationInfo &branches,
                 const Settings &settings) {
  for (const Overrides::value_type &decided : settings.overrides) {
    bool isLayer = std::any_of(plan.layers.begin(), plan.layers.end(), [&](const Layer &layer) {
      return nameOf(graph.node(layer.node)) == decided.first;
    });
    bool isTable =
        std::any_of(plan.embeddings.begin(), plan.embeddings.end(), [&](const Embedding &table) {
          return nameOf(graph.node(table.node)) == decided.first;
        });
    auto isNamed = [&](const LayerInfo &inside) { return inside.name == decided.first; };
    bool isInside = std::any_of(branches.layers.begin(), branches.layers.end(), isNamed) ||
                    std::any_of(branches.tables.begin(), branches.tables.end(), isNamed);
    std::vector<Recurrent> named = recurrentLayers(graph, {});
    bool isRecurrent = std::any_of(named.begin(), named.end(), [&](const Recurrent &own) {
      return nameOf(graph.node(own.node)) == decided.first;
    });
    if (!isLayer && !isTable && !isInside && !isRecurrent) {
      return Status::error(ErrorId::BadArgument,
                           strCat("no convolution, matmul or embedding of the model is called '",
                                  decided.first, "'"),
                           "'tenon inspect MODEL' lists the nodes");
    }
  }
  bool isAny = std::any_of(plan.layers.begin(), plan.layers.end(),
                           [](const Layer &layer) { return layer.treatment != Treatment::Wide; });
  bool isAnyTable =
      std::any_of(plan.embeddings.begin(), plan.embeddings.end(),
                  [](const Embedding &table) { return table.treatment != Treatment::Wide; });
  auto isSmall = [](const LayerInfo &inside) { return inside.treatment != Treatment::Wide; };
  bool isAnyInside = std::any_of(branches.layers.begin(), branches.layers.end(), isSmall) ||
                     std::any_of(branches.tables.begin(), branches.tables.end(), isSmall);
  std::vector<Recurrent> recurrent = recurrentLayers(graph, settings.overrides);
  bool isAnyRecurrent = std::any_of(recurrent.begin(), recurrent.end(),
                                    [](const Recurrent &own) { return own.reason.empty(); });
  if (isAny || isAnyTable || isAnyInside || isAnyRecurrent || settings.mayBeNone) {
    return Status::ok();
  }
  const std::vector<LayerInfo> &inside = branches.layers;
  std::string why =
      !plan.layers.empty()
          ? strCat("of ", nameOf(graph.node(plan.layers[0].node)), ": ", plan.layers[0].reason)
      : !inside.empty() ? strCat("of ", inside[0].name, ": ", inside[0].reason)
      : !recurrent.empty()
          ? strCat("of ", nameOf(graph.node(recurrent[0].node)), ": ", recurrent[0].reason)
          : "it has no convolution or matmul in FP32";
  auto wide = std::ranges::find_if(plan.layers, [](const Layer &layer) {
    return layer.reason.starts_with("its weights are ") &&
           (layer.reason.ends_with("float16") || layer.reason.ends_with("double"));
  });
  if (wide != plan.layers.end()) {
    return Status::error(ErrorId::BadArgument,
                         strCat("nothing in the model can be quantized: of ",
                                nameOf(graph.node(wide->node)), ": ", wide->reason,
                                ", but quantize reads FP32 weights"),
                         "export the model in FP32 (module.float() first), or convert the file as "
                         "in docs/guides/quantize.md, 'Models of FP16, BF16 and FP64'");
  }
  return Status::error(ErrorId::BadArgument, strCat("nothing in the model can be quantized: ", why),
                       "'tenon inspect MODEL' shows its operations");
}

} // namespace tenon::quant
