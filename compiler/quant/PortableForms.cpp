// Forms that ONNX Runtime and OpenVINO read right: where they fuse what a file says and compute
// something else, or refuse it, it is said otherwise. test/e2e/written_forms.py holds all of them.
#include "compiler/quant/QdqWriter.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace tenon::quant {

using onnx::Message;
using std::string_view;

/// What runtimes with QLinearConv and the like want: others round a bias of floats by themselves,
/// and saturate where it is beyond 32 bits.
bool QdqWriter::hasIntegerBias(const Layer &layer, size_t channels, size_t biases) const {
  return layer.treatment == Treatment::Narrow && scheme == Scheme::Static && channels == biases;
}

/// The factors of a Gemm go into its constants: ONNX Runtime rounds its bias by itself where it has
/// any. Whether there were some.
bool QdqWriter::foldFactors(const Layer &layer, Floats &weight, std::vector<float> &bias) {
  const onnx::Node &node = graph.node(layer.node);
  float alpha = realOf(node, "alpha", 1), beta = realOf(node, "beta", 1);
  bool isConstant = layer.bias.empty() || !bias.empty();
  if (!graph.isOp(layer.node, "Gemm") || layer.treatment != Treatment::Narrow || !isConstant ||
      scheme != Scheme::Static || (alpha == 1 && beta == 1)) {
    return false;
  }
  std::for_each(weight.values.begin(), weight.values.end(), [&](float &value) { value *= alpha; });
  std::for_each(bias.begin(), bias.end(), [&](float &value) { value *= beta; });
  edit.dropAttribute(layer.node, "alpha");
  edit.dropAttribute(layer.node, "beta");
  return true;
}

/// The least scales of the weights with which the bias stays within 31 bits, so that a sum of
/// products and the bias stays within 32; none if the weights have such scales. A channel whose
/// scale grows has nearly no weights: a norm that is dead, as its factor decayed to 0.
std::vector<float> QdqWriter::scalesForBias(const Layer &layer, std::span<const float> bias,
                                            std::span<const float> scales) const {
  constexpr double kMost = 1 << 30;
  if (!hasIntegerBias(layer, scales.size(), bias.size())) {
    return {};
  }
  float step = affines[plan.groupOf.at(graph.node(layer.node).inputs.front())].scale;
  std::vector<float> least;
  for (float value : bias) {
    least.push_back(static_cast<float>(std::fabs(double(value)) / (kMost * step)));
  }
  bool fits = std::equal(least.begin(), least.end(), scales.begin(), std::less_equal<>());
  return fits ? std::vector<float>() : least;
}

/// ONNX Runtime makes one operator of a product and the quantizer behind it, which takes no scales
/// for columns of batched weights: then a bound stands between them.
void QdqWriter::keepFromQuantizer(const Layer &layer) {
  constexpr string_view kBounds[] = {"Relu", "Clip"};
  std::optional<size_t> reader = graph.onlyReader(layer.output);
  bool isBounded = reader && graph.isOneOf(*reader, kBounds);
  if (!plan.groupOf.contains(isBounded ? graph.node(*reader).outputs.front() : layer.output)) {
    return;
  }
  std::string result(layer.output);
  std::string product = edit.freshName(result + "_product");
  edit.setResult(layer.node, product);
  writeBound(product, result, layer.node);
}

/// A bound that bounds nothing, which runtimes do not look through.
void QdqWriter::writeBound(const std::string &value, const std::string &result,
                           std::optional<size_t> producer) {
  std::string bound = edit.freshName(value + "_lowest"), operands[] = {value, bound};
  edit.addScalar(bound, std::numeric_limits<float>::lowest());
  insertBehind(producer, nodeMessage("Max", edit.freshName(value + "_Max"), operands, result));
}

/// Whether a product makes the tensor, scales and shifts follow, and something else reads what is
/// not scaled or shifted yet.
bool QdqWriter::isReadUnscaled(string_view tensor) const {
  constexpr string_view kScales[] = {"Add", "Sub", "Mul", "Div"};
  constexpr string_view kViews[] = {"Neg",     "Reshape",   "Flatten", "Transpose",
                                    "Squeeze", "Unsqueeze", "Identity"};
  constexpr string_view kProducts[] = {"MatMul", "Gemm", "Conv"};
  auto isQuantized = [&](const Use &use) {
    return std::any_of(plan.uses.begin(), plan.uses.end(), [&](const Use &own) {
      return own.node == use.node && own.operand == use.operand;
    });
  };
  bool isScaled = smoothed.contains(tensor), isShared = false;
  const std::vector<Use> &uses = graph.uses(tensor);
  bool isOwn = std::all_of(uses.begin(), uses.end(), isQuantized) && !graph.isKept(tensor);
  for (string_view value = tensor;; isOwn = graph.onlyReader(value).has_value()) {
    isShared = isShared || (isScaled && !isOwn);
    std::optional<size_t> producer = graph.producer(value);
    if (!producer) {
      return false;
    }
    const std::vector<string_view> &inputs = graph.node(*producer).inputs;
    bool isScale = graph.isOneOf(*producer, kScales) &&
                   (graph.constant(inputs[0]) || graph.constant(inputs[1]));
    if (!isScale && !graph.isOneOf(*producer, kViews)) {
      return isShared && graph.isOneOf(*producer, kProducts);
    }
    isScaled = isScaled || isScale;
    value = isScale && graph.constant(inputs[0]) ? inputs[1] : inputs[0];
  }
}

/// What the quantizer of a tensor reads. ONNX Runtime leaves out a Relu before E4M3, as if that had
/// no negative numbers; OpenVINO takes scales and shifts into a product that others read without.
std::string QdqWriter::separated(string_view tensor, std::string value) {
  constexpr string_view kBounds[] = {"Relu", "Clip"};
  std::optional<size_t> producer = graph.producer(tensor);
  bool isBounded = scheme == Scheme::Float8 && producer && graph.isOneOf(*producer, kBounds);
  if (!isBounded && !isReadUnscaled(tensor)) {
    return value;
  }
  std::string result = edit.freshName(value + "_bounded");
  writeBound(value, result, producer);
  return result;
}

} // namespace tenon::quant
