// Rounding weights shifts the mean of each output channel (Nagel et al., 2019, "Data-free
// quantization through weight equalization and bias correction"): biases take that off, as far as
// samples tell it.
#include "compiler/quant/QdqWriter.h"

#include "support/text/Text.h"

#include <cmath>

namespace tenon::quant {

using onnx::DataType;
using std::string_view;

namespace {

/// A shift that is larger beside the channel's own deviation is left: samples do not support it.
constexpr double kBound = 0.25;
/// What is worth a sum that was not there.
constexpr double kWorthANode = 0.01;

/// What rounding does to the results of a layer, by output channel.
struct Shift {
  double mean = 0;     ///< of the error
  double variance = 0; ///< of the error, channels of the input taken as independent
  double square = 0;   ///< mean square of the result
};

} // namespace

/// Subtracts shifts within the bound from `bias`, and says so in the result.
void QdqWriter::takeOff(const Layer &layer, const Floats &weight, const QuantizedWeight &narrow,
                        std::vector<float> &bias, LayerInfo &info) const {
  const onnx::Node &node = graph.node(layer.node);
  auto known = channels.find(node.inputs.front());
  if (known == channels.end()) {
    return;
  }
  const Channels &inputs = *known->second;
  size_t axis = static_cast<size_t>(layer.weight->axis), outputs = narrow.scales.size();
  size_t depth = static_cast<size_t>(weight.dims[1 - axis]);
  size_t each = weight.values.size() / (outputs * depth); // taps of a convolution
  bool isConv = graph.isOp(layer.node, "Conv");
  size_t groups = isConv ? static_cast<size_t>(integerOf(node, "group", 1)) : 1;
  auto factors = smoothed.find(node.inputs.front());
  if (inputs.means.size() != depth * groups) {
    return;
  }
  bias.resize(outputs);
  double before = 0, after = 0;
  for (size_t output = 0; output < outputs; ++output) {
    Shift shift;
    for (size_t k = 0; k < depth; ++k) {
      size_t channel = output / (outputs / groups) * depth + k;
      double factor = factors == smoothed.end() ? 1 : factors->second.factors[channel];
      double mean = inputs.means[channel] / factor;
      double square = inputs.squares[channel] / (factor * factor);
      for (size_t tap = 0; tap < each; ++tap) {
        size_t i = axis == 0 ? (output * depth + k) * each + tap : k * outputs + output;
        double lost = double(narrow.values[i]) * narrow.scales[output] - weight.values[i];
        shift.mean += lost * mean;
        shift.variance += lost * lost * std::max(square - mean * mean, 0.0);
        shift.square += double(weight.values[i]) * weight.values[i] * square;
      }
    }
    double relative = std::fabs(shift.mean) / std::max(std::sqrt(shift.square), 1e-30);
    before += shift.variance + shift.mean * shift.mean;
    after += shift.variance;
    if (shift.mean != 0 && relative < kBound) {
      bias[output] -= static_cast<float>(shift.mean);
      ++info.corrected;
      info.correction = std::max(info.correction, relative);
    } else {
      after += shift.mean * shift.mean;
    }
  }
  info.correctionGain = 10 * std::log10(std::max(before, 1e-30) / std::max(after, 1e-30));
}

/// Of a convolution or Gemm, which have a bias of their own.
void QdqWriter::correctBias(const Layer &layer, const Floats &weight, const QuantizedWeight &narrow,
                            std::vector<float> &bias, LayerInfo &info) const {
  bool isGemm = graph.isOp(layer.node, "Gemm") && isRowsByMatrix(graph, layer);
  bool hasBias = !bias.empty() || layer.bias.empty();
  if ((isGemm || graph.isOp(layer.node, "Conv")) && hasBias &&
      layer.treatment == Treatment::Narrow && scheme == Scheme::Static) {
    takeOff(layer, weight, narrow, bias, info);
  }
}

/// Of a MatMul: in the constant that is added to it, which is then in `bias`, or in a sum of its
/// own.
Status QdqWriter::correctSum(const Layer &layer, const Floats &weight,
                             const QuantizedWeight &narrow, std::vector<float> &bias,
                             LayerInfo &info) {
  if (!graph.isOp(layer.node, "MatMul") || !isRowsByMatrix(graph, layer) ||
      layer.treatment != Treatment::Narrow || scheme != Scheme::Static) {
    return Status::ok();
  }
  int64_t columns = static_cast<int64_t>(narrow.scales.size());
  std::string name = strCat(nameOf(graph.node(layer.node)), "_corrected_bias");
  std::optional<size_t> sum = graph.onlyReader(layer.output);
  for (size_t operand = 0; sum && graph.isOp(*sum, "Add") && operand < 2; ++operand) {
    const onnx::Tensor *constant = graph.constant(graph.node(*sum).inputs[operand]);
    if (constant && isRow(*constant, columns)) {
      TENON_ASSIGN(Floats old, loadFloats(*constant, files));
      bias = std::move(old.values);
      takeOff(layer, weight, narrow, bias, info);
      if (info.corrected != 0) {
        std::string corrected = edit.freshName(name);
        edit.addConstant(corrected, DataType::Float, constant->dims, bytesOf(bias));
        edit.setOperand({*sum, operand}, corrected);
      }
      return Status::ok();
    }
  }
  std::vector<int64_t> dims = {columns};
  LayerInfo own = info;
  std::vector<float> shifts;
  takeOff(layer, weight, narrow, shifts, own);
  if (own.correction < kWorthANode || graph.isKept(layer.output)) {
    return Status::ok();
  }
  info = own;
  std::string sums = edit.freshName(strCat(std::string(layer.output), "_product"));
  std::string operands[] = {sums, edit.freshName(name)};
  edit.addConstant(operands[1], DataType::Float, dims, bytesOf(shifts));
  edit.setResult(layer.node, sums);
  edit.insertAfter(layer.node, nodeMessage("Add", edit.freshName(name + "_Add"), operands,
                                           std::string(layer.output)));
  return Status::ok();
}

} // namespace tenon::quant
