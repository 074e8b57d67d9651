// Axes are numbered in the order of the nodes, so that reports name the first of each class.
#include "compiler/prune/Values.h"

#include <algorithm>

namespace tenon::prune {
namespace {

Axes addAxes(AxisClasses &axisClasses, const std::vector<int64_t> &dims) {
  Axes axes;
  for (int64_t dim : dims) {
    axes.push_back(axisClasses.add(dim < 0 || dim > kMaxIndices ? 0 : static_cast<uint32_t>(dim)));
    axes.back().extent = static_cast<uint64_t>(std::max<int64_t>(dim, 0));
  }
  return axes;
}

/// Whether zeros at an index of all operands that have its axis make zeros there.
bool keepsZeros(std::string_view op) {
  constexpr std::string_view ops[] = {
      "Abs",    "Add",   "Cast",      "Concat", "Div",       "Erf",     "Expand", "Flatten",
      "Gather", "Gemm",  "Identity",  "MatMul", "Mul",       "Neg",     "Relu",   "Reshape",
      "Sign",   "Sin",   "Slice",     "Split",  "Sqrt",      "Squeeze", "Sub",    "Tanh",
      "Tile",   "Round", "Transpose", "Pad",    "Unsqueeze", "Pow"};
  return std::find(std::begin(ops), std::end(ops), op) != std::end(ops) || op.starts_with("Reduce");
}

/// Of a value in all samples.
Axes addSampled(AxisClasses &axisClasses, const SampledDims &samples, const std::string &name) {
  const std::vector<int64_t> &dims = samples.front().at(name);
  Axes axes = addAxes(axisClasses, dims);
  for (const ValueDims &sample : samples) {
    auto other = sample.find(name);
    bool isThere = other != sample.end() && other->second.size() == dims.size();
    for (size_t i = 0; i < axes.size(); ++i) {
      axes[i].isFree = axes[i].isFree || !isThere || other->second[i] != dims[i];
    }
  }
  return axes;
}

} // namespace

Values::Values(const quant::Graph &graph, const SampledDims &samples, AxisClasses &axisClasses)
    : graph(graph) {
  auto addNamed = [&](std::string_view name) {
    std::string own(name);
    if (samples.front().contains(own) && !byName.contains(name)) {
      byName[name] = addSampled(axisClasses, samples, own);
    }
  };
  for (size_t node = 0; node < graph.all().size(); ++node) {
    const onnx::Node &own = graph.node(node);
    bool isParameter = keepsZeros(own.opType);
    for (size_t i = 0; i < own.inputs.size(); ++i) {
      std::string_view name = own.inputs[i];
      const onnx::Tensor *constant = graph.constant(name);
      isParameter = isParameter && (name.empty() || constant || parameters.contains(name));
      bool isPart = own.opType == "Slice" || own.opType == "Split";
      if (constant && constant->dims.size() < 2 && !isPart) {
        byUse[{node, i}] = addAxes(axisClasses, constant->dims);
      } else if (constant && !byName.contains(name)) {
        byName[name] = addAxes(axisClasses, constant->dims);
      } else if (!constant) {
        addNamed(name);
      }
    }
    for (std::string_view name : own.outputs) {
      if (isParameter) {
        parameters.insert(name);
      }
      if (!graph.constant(name)) {
        addNamed(name);
      }
    }
  }
}

const Axes *Values::named(std::string_view name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &found->second;
}

const Axes *Values::operand(quant::Use use) const {
  const onnx::Node &node = graph.node(use.node);
  if (use.operand >= node.inputs.size() || node.inputs[use.operand].empty()) {
    return nullptr;
  }
  auto found = byUse.find({use.node, use.operand});
  return found == byUse.end() ? named(node.inputs[use.operand]) : &found->second;
}

const Axes *Values::result(size_t node, size_t output) const {
  const onnx::Node &own = graph.node(node);
  return output < own.outputs.size() ? named(own.outputs[output]) : nullptr;
}

} // namespace tenon::prune
