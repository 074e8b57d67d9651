// Layers that no plan has: recurrent ones, of which the weights become small at most, and those of
// graphs inside of nodes.
#include "compiler/quant/Layers.h"
#include "support/text/Text.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tenon::quant {

using std::string_view;

std::vector<Recurrent> recurrentLayers(const Graph &graph, const Overrides &overrides) {
  constexpr string_view kRecurrent[] = {"LSTM", "GRU", "RNN"};
  std::vector<Recurrent> result;
  for (size_t i = 0; i < graph.all().size(); ++i) {
    const onnx::Node &node = graph.node(i);
    if (!graph.isOneOf(i, kRecurrent) || node.inputs.size() < 3) {
      continue;
    }
    Recurrent own{i, ""};
    int64_t size = 0;
    for (size_t operand : {size_t{1}, size_t{2}}) {
      const onnx::Tensor *weight = graph.constant(node.inputs[operand]);
      own.reason = !weight ? "its weights are computed"
                   : weight->type != onnx::DataType::Float
                       ? strCat("its weights are ", nameOf(weight->type))
                   : weight->dims.size() != 3 ? "its weights are no matrices"
                                              : own.reason;
      size += !own.reason.empty() ? 0
                                  : std::accumulate(weight->dims.begin(), weight->dims.end(),
                                                    int64_t{1}, std::multiplies<int64_t>());
    }
    own.reason = own.reason.empty() && size < kSmallWeight
                     ? strCat("a recurrent layer of fewer than ", kSmallWeight, " weights")
                     : own.reason;
    auto decided = overrides.find(nameOf(node));
    if (decided != overrides.end() && decided->second.first == Treatment::Wide) {
      own.reason = decided->second.second;
    }
    result.push_back(std::move(own));
  }
  return result;
}

std::vector<Inside> layersInside(const Graph &graph) {
  constexpr string_view kLayers[] = {"Conv", "ConvTranspose", "Gemm", "MatMul",
                                     "LSTM", "GRU",           "RNN"};
  std::vector<Inside> result;
  for (const onnx::Node &node : graph.all()) {
    std::string reason = strCat("inside of ", node.opType, " '", nameOf(node), "'");
    std::function<void(const onnx::Node &)> visit = [&](const onnx::Node &own) {
      for (const onnx::Attribute &attribute : own.attributes) {
        for (size_t k = 0; attribute.graph && k < attribute.graph->nodes.size(); ++k) {
          const onnx::Node &inner = attribute.graph->nodes[k];
          if (std::find(std::begin(kLayers), std::end(kLayers), inner.opType) !=
              std::end(kLayers)) {
            result.push_back({std::string(nameOf(inner)), std::string(inner.opType), reason});
          }
          visit(inner);
        }
      }
    };
    visit(node);
  }
  return result;
}

} // namespace tenon::quant
