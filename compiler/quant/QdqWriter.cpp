// Forms that ONNX Runtime, OpenVINO and Tenon read alike: weights stored as int8 behind
// DequantizeLinear, biases as int32 with the scale of the sums that they are added to.
#include "compiler/quant/QdqWriter.h"

#include "compiler/quant/Blocks.h"
#include "support/text/Text.h"

#include <cmath>
#include <limits>

namespace tenon::quant {
namespace {

using onnx::DataType;
using onnx::Message;
using std::string_view;

template <typename T> string_view bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

} // namespace

Status QdqWriter::foldNorm(const Layer &layer, Floats &weight, std::vector<float> &bias) {
  const onnx::Node &norm = graph.node(*layer.norm);
  Floats parameters[4];
  for (size_t i = 0; i < 4; ++i) {
    TENON_ASSIGN(parameters[i], loadFloats(*graph.constant(norm.inputs[i + 1]), files));
  }
  quant::foldNorm(weight, bias, parameters[0].values, parameters[1].values, parameters[2].values,
                  parameters[3].values, realOf(norm, "epsilon", 1e-5F));
  edit.drop(*layer.norm);
  edit.setResult(layer.node, layer.output);
  return Status::ok();
}

/// Takes off the mean of what rounding the weights adds to each output channel (Nagel et al.,
/// 2019). A shift that is large beside the channel's own spread is left: the samples do not support
/// it.
void QdqWriter::correctBias(const Layer &layer, const Floats &weight, const QuantizedWeight &narrow,
                            std::vector<float> &bias, LayerFacts &facts) const {
  constexpr double kBound = 0.25;
  const onnx::Node &node = graph.node(layer.node);
  bool isConv = graph.isOp(layer.node, "Conv");
  bool isGemm = graph.isOp(layer.node, "Gemm") && realOf(node, "alpha", 1) == 1 &&
                realOf(node, "beta", 1) == 1;
  auto known = channels.find(node.inputs.front());
  bool hasBias = !bias.empty() || layer.bias.empty();
  if ((!isConv && !isGemm) || known == channels.end() || !hasBias ||
      layer.treatment != Treatment::Narrow) {
    return;
  }
  const Channels &inputs = *known->second;
  size_t axis = static_cast<size_t>(layer.weight->axis), outputs = narrow.scales.size();
  size_t depth = static_cast<size_t>(weight.dims[1 - axis]);
  size_t each = weight.values.size() / (outputs * depth); // taps of a convolution
  size_t groups = isConv ? static_cast<size_t>(integerOf(node, "group", 1)) : 1;
  auto factors = smoothed.find(node.inputs.front());
  if (inputs.means.size() != depth * groups) {
    return;
  }
  bias.resize(outputs);
  for (size_t output = 0; output < outputs; ++output) {
    double shift = 0, spread = 0;
    for (size_t k = 0; k < depth; ++k) {
      size_t channel = output / (outputs / groups) * depth + k;
      double factor = factors == smoothed.end() ? 1 : factors->second.factors[channel];
      for (size_t tap = 0; tap < each; ++tap) {
        size_t i = axis == 0 ? (output * depth + k) * each + tap : k * outputs + output;
        double kept = double(narrow.values[i]) * narrow.scales[output];
        shift += (kept - weight.values[i]) * inputs.means[channel] / factor;
        spread += double(weight.values[i]) * weight.values[i] * inputs.squares[channel] /
                  (factor * factor);
      }
    }
    double relative = std::fabs(shift) / std::max(std::sqrt(spread), 1e-30);
    if (shift != 0 && relative < kBound) {
      bias[output] -= static_cast<float>(shift);
      ++facts.corrected;
      facts.correction = std::max(facts.correction, relative);
    }
  }
}

/// As int32 where the operands are 8 bits, else as it is. A bias that 32 bits do not hold stays
/// too: then its channel has nearly no weights.
void QdqWriter::writeBias(const Layer &layer, const std::vector<float> &bias,
                          std::span<const float> scales, const LayerFacts &facts) {
  const onnx::Node &node = graph.node(layer.node);
  std::string base = strCat(nameOf(node), "_bias");
  std::vector<int64_t> dims = {static_cast<int64_t>(bias.size())};
  std::vector<int32_t> integers;
  std::vector<float> steps;
  bool isNarrow = layer.treatment == Treatment::Narrow && scales.size() == bias.size() &&
                  realOf(node, "alpha", 1) == 1 && realOf(node, "beta", 1) == 1;
  for (size_t c = 0; isNarrow && c < bias.size(); ++c) {
    float step = affines[plan.groupOf.at(node.inputs.front())].scale * scales[c];
    double value = std::nearbyint(double(bias[c]) / step);
    isNarrow = std::fabs(value) <= std::numeric_limits<int32_t>::max();
    steps.push_back(step);
    integers.push_back(isNarrow ? static_cast<int32_t>(value) : 0);
  }
  std::string name = edit.freshName(base);
  if (isNarrow) {
    std::string quantized = edit.freshName(base + "_quantized");
    std::string scale = edit.freshName(base + "_scale"),
                zero = edit.freshName(base + "_zero_point");
    edit.addConstant(quantized, DataType::Int32, dims, bytesOf(integers));
    edit.addConstant(scale, DataType::Float, dims, bytesOf(steps));
    edit.addConstant(zero, DataType::Int32, dims, bytesOf(std::vector<int32_t>(bias.size())));
    std::string inputs[] = {quantized, scale, zero};
    edit.insertBefore(layer.node,
                      nodeMessage("DequantizeLinear", edit.freshName(base + "_DequantizeLinear"),
                                  inputs, name, "axis", 0));
  } else if (layer.norm || facts.corrected != 0) {
    edit.addConstant(name, DataType::Float, dims, bytesOf(bias));
  } else {
    return;
  }
  if (node.inputs.size() > 2) {
    edit.setOperand({layer.node, 2}, name);
  } else {
    edit.addOperand(layer.node, name);
  }
}

QdqWriter::Stored QdqWriter::store(const std::string &base, QuantizedWeight weight) {
  Stored parts{edit.freshName(base + "_quantized"), "", "", std::move(weight)};
  edit.addConstant(parts.quantized, DataType::Int8, parts.weight.dims,
                   bytesOf(parts.weight.values));
  return parts;
}

/// What DequantizeLinear reads beside the numbers.
void QdqWriter::storeScales(const std::string &base, Stored &parts) {
  parts.scale = edit.freshName(base + "_scale");
  parts.zero = edit.freshName(base + "_zero_point");
  std::vector<int64_t> dims = {static_cast<int64_t>(parts.weight.scales.size())};
  edit.addConstant(parts.scale, DataType::Float, dims, bytesOf(parts.weight.scales));
  edit.addConstant(parts.zero, DataType::Int8, dims,
                   bytesOf(std::vector<int8_t>(parts.weight.scales.size())));
}

Status QdqWriter::writeLayer(const Layer &layer, LayerFacts &facts) {
  if (layer.treatment == Treatment::Wide || !layer.weight) {
    return Status::ok();
  }
  const onnx::Node &node = graph.node(layer.node);
  TENON_ASSIGN(Floats weight, loadFloats(*layer.weight->tensor, files));
  std::vector<float> bias;
  const onnx::Tensor *old = graph.constant(layer.bias);
  if (old && old->type == DataType::Float && old->dims.size() == 1) {
    TENON_ASSIGN(Floats values, loadFloats(*old, files));
    bias = values.values;
    // Gemm adds a bias of one number to all channels.
    if (bias.size() == 1) {
      bias.assign(static_cast<size_t>(weight.dims[static_cast<size_t>(layer.weight->axis)]),
                  bias[0]);
    }
  }
  if (layer.norm) {
    TENON_TRY(foldNorm(layer, weight, bias));
  }
  if (usesBlocks && layer.treatment == Treatment::WeightsOnly && graph.isOp(layer.node, "MatMul") &&
      weight.dims.size() == 2) {
    writeBlocks(layer, weight, facts);
    return Status::ok();
  }
  auto factors = smoothed.find(node.inputs.front());
  if (factors != smoothed.end() && layer.treatment == Treatment::Narrow) {
    smooth(weight, 1 - static_cast<size_t>(layer.weight->axis), factors->second.factors);
  }
  bool isOwn = layer.norm || (factors != smoothed.end() && layer.treatment == Treatment::Narrow);
  std::pair<string_view, int64_t> key(layer.weight->name, layer.weight->axis);
  std::string base = strCat(nameOf(node), "_weight");
  auto known = isOwn ? stored.end() : stored.find(key);
  Stored parts = known != stored.end()
                     ? known->second
                     : store(base, quantizeWeight(weight, layer.weight->axis, mostWeight));
  if (parts.scale.empty()) {
    storeScales(base, parts);
  }
  const QuantizedWeight &narrow = parts.weight;
  facts.weightError = narrow.error;
  correctBias(layer, weight, narrow, bias, facts);
  std::string name = edit.freshName(base);
  std::string inputs[] = {parts.quantized, parts.scale, parts.zero};
  Message wide = nodeMessage("DequantizeLinear", edit.freshName(base + "_DequantizeLinear"), inputs,
                             name, "axis", layer.weight->axis);
  if (sharesTranspose(layer)) {
    // Each layer gets a Transpose of its own: the others may read other weights, or the wide ones.
    std::string turned = edit.freshName(base + "_transposed");
    edit.insertBefore(layer.node, std::move(wide));
    edit.insertBefore(layer.node, nodeMessage("Transpose", edit.freshName(base + "_Transpose"),
                                              std::span(&name, 1), turned));
    edit.setOperand({layer.node, 1}, turned);
  } else {
    edit.insertBefore(layer.weight->use.node, std::move(wide));
    edit.setOperand(layer.weight->use, name);
  }
  leaveTranspose(layer);
  if (!bias.empty()) {
    writeBias(layer, bias, narrow.scales, facts);
  }
  if (!isOwn && (graph.uses(layer.weight->name).size() > 1 || sharesTranspose(layer))) {
    stored.emplace(key, std::move(parts));
  }
  return Status::ok();
}

/// MatMulNBits in place of the product.
void QdqWriter::writeBlocks(const Layer &layer, const Floats &weight, LayerFacts &facts) {
  const onnx::Node &node = graph.node(layer.node);
  BlockWeight narrow = quantizeBlocks(weight, static_cast<size_t>(layer.weight->axis));
  facts.weightError = narrow.error;
  facts.bits = 4;
  std::string base = strCat(nameOf(node), "_weight");
  std::string quantized = edit.freshName(base + "_quantized");
  std::string scale = edit.freshName(base + "_scale"), zero = edit.freshName(base + "_zero_point");
  std::vector<int64_t> dims = {narrow.columns, narrow.blocks, kBlock / 2};
  edit.addConstant(quantized, DataType::UInt8, dims, bytesOf(narrow.values));
  dims = {narrow.columns * narrow.blocks};
  edit.addConstant(scale, DataType::Float, dims, bytesOf(narrow.scales));
  dims = {static_cast<int64_t>(narrow.zeros.size())};
  edit.addConstant(zero, DataType::UInt8, dims, bytesOf(narrow.zeros));
  std::string inputs[] = {std::string(node.inputs.front()), quantized, scale, zero};
  Message product = nodeMessage("MatMulNBits", std::string(nameOf(node)), inputs,
                                std::string(node.outputs.front()));
  addInteger(product, "K", narrow.depth);
  addInteger(product, "N", narrow.columns);
  addInteger(product, "bits", 4);
  addInteger(product, "block_size", kBlock);
  edit.setDomain(product, "com.microsoft");
  edit.drop(layer.node);
  edit.insertBefore(layer.node, std::move(product));
  size_t reader = layer.weight->use.node;
  if (reader != layer.node && !sharesTranspose(layer)) {
    edit.drop(reader);
  }
  leaveTranspose(layer);
}

bool QdqWriter::sharesTranspose(const Layer &layer) const {
  size_t reader = layer.weight->use.node;
  return reader != layer.node && !graph.onlyReader(graph.node(reader).outputs.front());
}

/// A shared Transpose goes with the last of its readers.
void QdqWriter::leaveTranspose(const Layer &layer) {
  size_t transpose = layer.weight->use.node;
  if (sharesTranspose(layer)) {
    std::string_view turned = graph.node(transpose).outputs.front();
    size_t left = ++leavers[transpose];
    if (left == graph.uses(turned).size() && !graph.isKept(turned)) {
      edit.drop(transpose);
    }
  }
}

/// Rows of 8 bits with a scale each, which are read and only then become floats: a table behind
/// DequantizeLinear would be dequantized as a whole in each run.
Status QdqWriter::writeEmbedding(const Embedding &embedding, LayerFacts &facts) {
  if (embedding.treatment == Treatment::Wide) {
    return Status::ok();
  }
  const onnx::Node &node = graph.node(embedding.node);
  std::string base(embedding.table), output(node.outputs.front());
  // A head that shares the table has a scale for each of its rows too.
  auto known = stored.find({embedding.table, 0});
  if (known == stored.end()) {
    TENON_ASSIGN(Floats table, loadFloats(*embedding.tensor, files));
    known =
        stored.emplace(std::pair(embedding.table, 0), store(base, quantizeWeight(table, 0))).first;
  }
  const Stored &parts = known->second;
  facts.weightError = parts.weight.error;
  std::string scale = edit.freshName(base + "_row_scale");
  std::vector<int64_t> dims = {parts.weight.dims[0], 1};
  edit.addConstant(scale, DataType::Float, dims, bytesOf(parts.weight.scales));
  std::string rows = edit.freshName(output + "_quantized");
  std::string steps = edit.freshName(output + "_scale"), wide = edit.freshName(output + "_cast");
  edit.setOperand({embedding.node, 0}, parts.quantized);
  edit.setResult(embedding.node, rows);
  std::string gathered[] = {scale, std::string(node.inputs[1])}, factors[] = {wide, steps};
  edit.insertAfter(embedding.node,
                   nodeMessage("Gather", edit.freshName(output + "_Gather"), gathered, steps));
  edit.insertAfter(embedding.node,
                   nodeMessage("Cast", edit.freshName(output + "_Cast"), std::span(&rows, 1), wide,
                               "to", static_cast<int64_t>(DataType::Float)));
  edit.insertAfter(embedding.node,
                   nodeMessage("Mul", edit.freshName(output + "_Mul"), factors, output));
  return Status::ok();
}

/// The tensor divided by its factors.
std::string QdqWriter::writeSmoothing(string_view tensor) {
  auto found = smoothed.find(tensor);
  std::string base(tensor);
  if (found == smoothed.end()) {
    return base;
  }
  std::vector<float> inverse;
  for (float factor : found->second.factors) {
    inverse.push_back(1 / factor);
  }
  std::string factors = edit.freshName(base + "_smoothing");
  std::string result = edit.freshName(base + "_smoothed");
  std::vector<int64_t> dims = {static_cast<int64_t>(inverse.size())};
  edit.addConstant(factors, DataType::Float, dims, bytesOf(inverse));
  std::string inputs[] = {base, factors};
  insertBehind(tensor, nodeMessage("Mul", edit.freshName(base + "_Mul"), inputs, result));
  return result;
}

void QdqWriter::insertBehind(string_view tensor, Message node) {
  std::optional<size_t> producer = graph.producer(tensor);
  producer ? edit.insertAfter(*producer, std::move(node)) : edit.insertFirst(std::move(node));
}

/// QuantizeLinear and DequantizeLinear behind each tensor of a group; of a group all have the same
/// scale and zero point.
void QdqWriter::writeQuantizers() {
  std::vector<Parameters> parameters;
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    std::string base(plan.groups[i].tensors.front());
    parameters.push_back({edit.freshName(base + "_scale"), edit.freshName(base + "_zero_point")});
    edit.addScalar(parameters[i].scale, affines[i].scale);
    edit.addConstant(parameters[i].zero, DataType::UInt8, {},
                     string_view(reinterpret_cast<const char *>(&affines[i].zero), 1));
  }
  std::map<string_view, std::string> narrow;
  for (const Use &use : plan.uses) {
    string_view tensor = graph.node(use.node).inputs[use.operand];
    std::string &name = narrow[tensor];
    if (!name.empty()) {
      edit.setOperand(use, name);
      continue;
    }
    std::string base(tensor);
    std::string quantized = edit.freshName(base + "_quantized");
    name = edit.freshName(base + "_dequantized");
    const Parameters &own = parameters[plan.groupOf.at(tensor)];
    std::string inputs[] = {writeSmoothing(tensor), own.scale, own.zero};
    std::string back[] = {quantized, own.scale, own.zero};
    insertBehind(tensor, nodeMessage("QuantizeLinear", edit.freshName(base + "_QuantizeLinear"),
                                     inputs, quantized));
    insertBehind(tensor, nodeMessage("DequantizeLinear", edit.freshName(base + "_DequantizeLinear"),
                                     back, name));
    edit.setOperand(use, name);
  }
}

Status QdqWriter::run(Facts &facts) {
  auto factsOf = [&](size_t node, Treatment treatment, const std::string &reason) {
    LayerFacts own;
    own.name = nameOf(graph.node(node));
    own.op = graph.node(node).opType;
    own.treatment = treatment;
    own.reason = reason;
    return own;
  };
  for (const Layer &layer : plan.layers) {
    LayerFacts own = factsOf(layer.node, layer.treatment, layer.reason);
    TENON_TRY(writeLayer(layer, own));
    facts.layers.push_back(std::move(own));
  }
  for (const Embedding &embedding : plan.embeddings) {
    LayerFacts own = factsOf(embedding.node, embedding.treatment, embedding.reason);
    TENON_TRY(writeEmbedding(embedding, own));
    facts.tables.push_back(std::move(own));
  }
  writeQuantizers();
  return Status::ok();
}

} // namespace tenon::quant
