// Quantizers stand where narrow layers read, and move up through movement to where values are made;
// what shares a scale becomes one group.
#include "compiler/quant/Plan.h"

#include "compiler/quant/Layers.h"
#include "support/text/Text.h"

#include <algorithm>
#include <numeric>

namespace tenon::quant {
namespace {

using std::string_view;

/// Tables of fewer elements are not worth three nodes.
constexpr int64_t kSmallTable = 1 << 14;
/// Rows of fewer numbers are coordinates or the like, which one scale does not fit.
constexpr int64_t kFewColumns = 16;

class Planner {
public:
  Planner(const Graph &graph, const Overrides &overrides, Mode mode)
      : graph(graph), overrides(overrides), mode(mode) {
    plan.layers = findLayers(graph, overrides);
    for (Layer &layer : plan.layers) {
      bool isDynamic = mode == Mode::Dynamic && isRowsByMatrix(graph, layer);
      if (mode != Mode::Narrow && layer.treatment == Treatment::Narrow && !isDynamic) {
        layer.treatment = layer.weight ? Treatment::WeightsOnly : Treatment::Wide;
        layer.reason = !layer.weight           ? "it has no weights"
                       : mode == Mode::Dynamic ? "no product of rows by a matrix"
                                               : "";
      }
    }
  }

  Plan run();

private:
  /// The tensor's set, made at the first question: sets are joined where scales are shared.
  size_t setOf(string_view tensor);
  void want(string_view tensor);
  void wantResiduals();
  void shareThroughMovement();
  void readPooled();
  void findEmbeddings();
  const Layer *convBehind(string_view tensor) const;

  const Graph &graph;
  const Overrides &overrides;
  Mode mode;
  Plan plan;
  std::map<string_view, size_t> wanted; ///< tensors with a quantizer, and their sets
  std::vector<size_t> parents;
};

size_t Planner::setOf(string_view tensor) {
  size_t set = wanted.at(tensor);
  while (parents[set] != set) {
    set = parents[set];
  }
  return set;
}

void Planner::want(string_view tensor) {
  if (wanted.emplace(tensor, parents.size()).second) {
    parents.push_back(parents.size());
  }
}

/// The convolution that makes a value which nothing else reads.
const Layer *Planner::convBehind(string_view tensor) const {
  for (const Layer &layer : plan.layers) {
    bool isConv = graph.isOp(layer.node, "Conv") || graph.isOp(layer.node, "ConvTranspose");
    if (layer.output == tensor && isConv && layer.treatment == Treatment::Narrow) {
      return &layer;
    }
  }
  return nullptr;
}

/// Where a convolution adds to what came before it, that is read in 8 bits: the sum itself is
/// computed where the convolution ends.
void Planner::wantResiduals() {
  for (size_t i = 0; i < graph.all().size(); ++i) {
    const std::vector<string_view> &inputs = graph.node(i).inputs;
    if (!graph.isOp(i, "Add") || inputs.size() != 2) {
      continue;
    }
    for (size_t main : {size_t{0}, size_t{1}}) {
      string_view skip = inputs[1 - main];
      bool ends = convBehind(inputs[main]) && graph.onlyReader(inputs[main]) == i;
      if (ends && (wanted.contains(skip) || convBehind(skip))) {
        want(skip);
        plan.uses.push_back({i, 1 - main});
        break;
      }
    }
  }
}

/// A quantizer behind movement stands before it too. From the last node to the first, so that
/// chains are followed.
void Planner::shareThroughMovement() {
  for (size_t i = graph.all().size(); i-- > 0;) {
    const onnx::Node &node = graph.node(i);
    bool isWanted = std::any_of(node.outputs.begin(), node.outputs.end(),
                                [&](string_view output) { return wanted.contains(output); });
    if (!isWanted || !isMovement(graph, i) ||
        (graph.isOp(i, "MaxPool") && node.outputs.size() > 1)) {
      continue;
    }
    size_t operands = graph.isOp(i, "Concat") ? node.inputs.size() : 1;
    bool isComputed = std::none_of(node.inputs.begin(), node.inputs.begin() + operands,
                                   [&](string_view input) { return graph.constant(input); });
    if (!isComputed) {
      continue;
    }
    for (size_t operand = 0; operand < operands; ++operand) {
      want(node.inputs[operand]);
      plan.uses.push_back({i, operand});
    }
    for (string_view output : node.outputs) {
      if (output.empty()) {
        continue;
      }
      want(output);
      for (size_t operand = 0; operand < operands; ++operand) {
        parents[setOf(output)] = setOf(node.inputs[operand]);
      }
    }
  }
}

/// Means of values that are narrow anyway read them so.
void Planner::readPooled() {
  constexpr string_view kPoolings[] = {"AveragePool", "GlobalAveragePool"};
  for (size_t i = 0; i < graph.all().size(); ++i) {
    if (graph.isOneOf(i, kPoolings) && wanted.contains(graph.node(i).inputs.front())) {
      plan.uses.push_back({i, 0});
    }
  }
}

void Planner::findEmbeddings() {
  for (size_t i = 0; i < graph.all().size(); ++i) {
    if (!graph.isOp(i, "Gather") || integerOf(graph.node(i), "axis", 0) != 0) {
      continue;
    }
    const onnx::Tensor *table = graph.constant(graph.node(i).inputs.front());
    if (table && table->type == onnx::DataType::Float && table->dims.size() == 2 &&
        table->dims[0] * table->dims[1] >= kSmallTable) {
      Embedding embedding;
      embedding.node = i;
      embedding.table = graph.node(i).inputs.front();
      embedding.tensor = table;
      if (table->dims[1] < kFewColumns) {
        embedding.treatment = Treatment::Wide;
        embedding.reason = strCat("fewer than ", kFewColumns, " columns");
      }
      auto decided = overrides.find(nameOf(graph.node(i)));
      if (decided != overrides.end()) {
        bool isKept = decided->second.first == Treatment::Wide;
        embedding.treatment = isKept ? Treatment::Wide : Treatment::WeightsOnly;
        embedding.reason = decided->second.second;
      }
      plan.embeddings.push_back(std::move(embedding));
    }
  }
}

Plan Planner::run() {
  for (const Layer &layer : plan.layers) {
    bool isNarrow = layer.treatment == Treatment::Narrow && mode == Mode::Narrow;
    for (size_t operand = 0; isNarrow && operand < 2; ++operand) {
      if (operand == 0 || !layer.weight) {
        want(graph.node(layer.node).inputs[operand]);
        plan.uses.push_back({layer.node, operand});
      }
    }
  }
  wantResiduals();
  shareThroughMovement();
  readPooled();
  findEmbeddings();
  std::map<size_t, size_t> groups;
  for (const auto &[tensor, set] : wanted) {
    auto [group, isNew] = groups.emplace(setOf(tensor), plan.groups.size());
    if (isNew) {
      plan.groups.emplace_back();
    }
    plan.groups[group->second].tensors.push_back(tensor);
    plan.groupOf[tensor] = group->second;
  }
  for (Group &group : plan.groups) {
    for (string_view tensor : group.tensors) {
      std::optional<size_t> producer = graph.producer(tensor);
      bool isMoved =
          producer && isMovement(graph, *producer) &&
          plan.groupOf.contains(graph.node(*producer).inputs.front()) &&
          plan.groupOf.at(graph.node(*producer).inputs.front()) == plan.groupOf.at(tensor);
      if (!isMoved) {
        group.sources.push_back(tensor);
      }
    }
  }
  return std::move(plan);
}

} // namespace

std::string_view nameOf(Treatment treatment) {
  switch (treatment) {
  case Treatment::Narrow:
    return "int8";
  case Treatment::WeightsOnly:
    return "weights only";
  case Treatment::Wide:
    return "wide";
  }
  return "";
}

bool isRowsByMatrix(const Graph &graph, const Layer &layer) {
  const onnx::Node &node = graph.node(layer.node);
  bool isGemm = graph.isOp(layer.node, "Gemm") && integerOf(node, "transA", 0) == 0 &&
                realOf(node, "alpha", 1) == 1 && realOf(node, "beta", 1) == 1;
  return layer.weight && layer.weight->tensor->dims.size() == 2 &&
         (isGemm || graph.isOp(layer.node, "MatMul"));
}

Plan makePlan(const Graph &graph, const Overrides &overrides, Mode mode) {
  return Planner(graph, overrides, mode).run();
}

} // namespace tenon::quant
