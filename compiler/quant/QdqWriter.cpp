// Weights are stored as int8 behind DequantizeLinear, biases as int32 with the scale of the sums
// that they are added to.
#include "compiler/quant/QdqWriter.h"

#include "compiler/quant/Blocks.h"
#include "compiler/quant/Float8.h"
#include "compiler/quant/Layers.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cmath>

namespace tenon::quant {

using onnx::DataType;
using onnx::Message;
using std::string_view;

bool isRow(const onnx::Tensor &constant, int64_t columns) {
  return constant.type == DataType::Float && !constant.dims.empty() &&
         constant.dims.back() == columns &&
         std::all_of(constant.dims.begin(), constant.dims.end() - 1,
                     [](int64_t dim) { return dim == 1; });
}

Status foldNormBehind(const Graph &graph, const Layer &layer, onnx::ExternalFiles &files,
                      Floats &weight, std::vector<float> &bias) {
  const onnx::Node &norm = graph.node(*layer.norm);
  Floats parameters[4];
  for (size_t i = 0; i < 4; ++i) {
    TENON_ASSIGN(parameters[i], loadFloats(*graph.constant(norm.inputs[i + 1]), files));
  }
  foldNorm(weight, bias, parameters[0].values, parameters[1].values, parameters[2].values,
           parameters[3].values, realOf(norm, "epsilon", 1e-5F));
  return Status::ok();
}

Status QdqWriter::foldNorm(const Layer &layer, Floats &weight, std::vector<float> &bias) {
  TENON_TRY(foldNormBehind(graph, layer, files, weight, bias));
  edit.drop(*layer.norm);
  edit.setResult(layer.node, layer.output);
  return Status::ok();
}

/// As int32 where the operands are 8 bits, else as it is.
void QdqWriter::writeBias(const Layer &layer, const std::vector<float> &bias,
                          std::span<const float> scales, const LayerInfo &info) {
  const onnx::Node &node = graph.node(layer.node);
  std::string base = strCat(nameOf(node), "_bias");
  std::vector<int64_t> dims = {static_cast<int64_t>(bias.size())};
  std::vector<int32_t> integers;
  std::vector<float> steps;
  bool isNarrow = hasIntegerBias(layer, scales.size(), bias.size());
  for (size_t c = 0; isNarrow && c < bias.size(); ++c) {
    steps.push_back(affines[plan.groupOf.at(node.inputs.front())].scale * scales[c]);
    integers.push_back(static_cast<int32_t>(std::nearbyint(double(bias[c]) / steps[c])));
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
  } else if (layer.norm || info.corrected != 0) {
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

/// None for a constant that is not the model's own, but a branch's.
std::optional<WeightKey> QdqWriter::keyOf(string_view weight, int64_t axis,
                                          WeightKey::Form form) const {
  bool isShared = !graph.isClosed() && graph.outermost().isOwnConstant(weight) &&
                  graph.constant(weight) == graph.outermost().constant(weight);
  return isShared ? std::optional(WeightKey{std::string(weight), axis, form}) : std::nullopt;
}

const StoredWeight *QdqWriter::find(const std::optional<WeightKey> &key) const {
  auto known = key ? stored.find(*key) : stored.end();
  return known == stored.end() ? nullptr : &known->second;
}

StoredWeight QdqWriter::store(const std::string &base, QuantizedWeight weight, DataType type) {
  StoredWeight parts{"", "", "", std::move(weight), type, {}, ""};
  parts.quantized =
      edit.addShared(base + "_quantized", type, parts.weight.dims, bytesOf(parts.weight.values));
  return parts;
}

bool QdqWriter::isProduct(const Layer &layer) const {
  return graph.isOp(layer.node, "MatMul") || graph.isOp(layer.node, "Gemm");
}

/// What DequantizeLinear reads beside the numbers.
void QdqWriter::storeScales(const Layer &layer, const std::string &base, StoredWeight &parts) {
  std::vector<int64_t> dims = {static_cast<int64_t>(parts.weight.scales.size())};
  parts.scale =
      edit.addShared(base + "_scale", DataType::Float, dims, bytesOf(parts.weight.scales));
  // Products of ONNX Runtime take no zero points for columns of batched weights.
  if (isProduct(layer) && parts.weight.dims.size() > 2) {
    return;
  }
  parts.zero = edit.addShared(base + "_zero_point", parts.type, dims,
                              bytesOf(std::vector<int8_t>(parts.weight.scales.size())));
}

Status QdqWriter::writeLayer(const Layer &layer, LayerInfo &info) {
  if (layer.treatment == Treatment::Wide || !layer.weight) {
    return Status::ok();
  }
  const onnx::Node &node = graph.node(layer.node);
  TENON_ASSIGN(Floats weight, loadFloats(*layer.weight->tensor, files));
  bool isBlocked = usesBlocks && isRowsByMatrix(graph, layer);
  if (isBlocked && blockForm == BlockForm::Dequantize) {
    // OpenVINO reads none whose last block is shorter.
    int64_t depth = weight.dims[1 - static_cast<size_t>(layer.weight->axis)];
    isBlocked = depth % blockOf(depth) == 0;
  }
  if (layer.treatment == Treatment::WeightsOnly && !isBlocked &&
      lossOfInputs(weight, layer.weight->axis) > kMaxLoss) {
    info.treatment = Treatment::Wide;
    info.reason = "8 bits lose its small weights beside large ones";
    return Status::ok();
  }
  std::vector<float> bias;
  const onnx::Tensor *old = graph.constant(layer.bias);
  int64_t channels = weight.dims[static_cast<size_t>(layer.weight->axis)];
  if (old && old->type == DataType::Float && (old->dims.size() == 1 || isRow(*old, channels))) {
    TENON_ASSIGN(Floats values, loadFloats(*old, files));
    bias = std::move(values.values);
    // Gemm adds a bias of one number to all channels.
    if (bias.size() == 1) {
      bias.assign(static_cast<size_t>(channels), bias[0]);
    }
  }
  if (layer.norm) {
    TENON_TRY(foldNorm(layer, weight, bias));
  }
  if (isBlocked && layer.treatment == Treatment::WeightsOnly) {
    writeBlocks(layer, weight, info);
    return Status::ok();
  }
  auto factors = smoothed.find(node.inputs.front());
  if (factors != smoothed.end() && layer.treatment == Treatment::Narrow) {
    smooth(weight, 1 - static_cast<size_t>(layer.weight->axis), factors->second.factors);
  }
  bool isOwn = layer.norm || (factors != smoothed.end() && layer.treatment == Treatment::Narrow);
  std::string base = strCat(nameOf(node), "_weight");
  bool isNarrow = layer.treatment == Treatment::Narrow;
  if (isNarrow && isDynamic(scheme)) {
    writeDynamic(layer, weight, info);
    return Status::ok();
  }
  isOwn = foldFactors(layer, weight, bias) || isOwn;
  bool isFloat8 = isNarrow && scheme == Scheme::Float8;
  // Weights in two forms are not shared.
  isOwn = isOwn || isFloat8;
  int64_t axis = layer.weight->axis;
  std::optional<WeightKey> key = keyOf(layer.weight->name, axis);
  const StoredWeight *known = isOwn ? nullptr : find(key);
  QuantizedWeight narrow = known      ? known->weight
                           : isFloat8 ? quantizeWeightFloat8(weight, axis)
                                      : quantizeWeight(weight, axis, mostWeight);
  correctBias(layer, weight, narrow, bias, info);
  std::vector<float> sum;
  TENON_TRY(correctSum(layer, weight, narrow, sum, info));
  std::vector<float> least = scalesForBias(layer, sum.empty() ? bias : sum, narrow.scales);
  if (!least.empty()) {
    narrow = quantizeWeight(weight, axis, mostWeight, least);
    isOwn = true;
    known = nullptr;
  }
  info.weightError = narrow.error;
  StoredWeight parts =
      known ? *known
            : store(base, std::move(narrow), isFloat8 ? DataType::Float8E4M3FN : DataType::Int8);
  if (parts.scale.empty()) {
    storeScales(layer, base, parts);
  }
  // A graph inside of a node reads the weights too: it gets the dequantized ones by their old name.
  bool isForBranch = !isOwn && !graph.producer(layer.weight->name) &&
                     graph.isOwnConstant(layer.weight->name) && graph.isKept(layer.weight->name) &&
                     !graph.isReadByScan(layer.weight->name) &&
                     forBranches.insert(layer.weight->name).second;
  std::string name = isForBranch ? std::string(layer.weight->name) : nameOfWide(parts, base);
  if (isForBranch) {
    edit.leaveOut(layer.weight->name);
  }
  std::vector<std::string> inputs = {parts.quantized, parts.scale};
  if (!parts.zero.empty()) {
    inputs.push_back(parts.zero);
  }
  // Counted from the end, so that ONNX Runtime leaves a product with small weights as it is: it
  // makes one of it that rounds activations to 8 bits too where it finds axis 1.
  bool isPlain = layer.treatment == Treatment::WeightsOnly && isProduct(layer) && axis == 1 &&
                 weight.dims.size() == 2;
  Message wide = nodeMessage("DequantizeLinear", edit.freshName(base + "_DequantizeLinear"), inputs,
                             name, "axis", isPlain ? -1 : axis);
  isForBranch ? edit.insertFirst(std::move(wide))
              : readThrough(layer, parts, {std::move(wide)}, name, base);
  parts.wide = graph.isInner() ? name : parts.wide;
  if (!bias.empty()) {
    writeBias(layer, bias, parts.weight.scales, info);
  }
  if (isNarrow && isProduct(layer) && weight.dims.size() > 2) {
    keepFromQuantizer(layer);
  }
  bool isShared = graph.uses(layer.weight->name).size() > 1 || sharesTranspose(layer) ||
                  !graph.isOwnConstant(layer.weight->name);
  if (!isOwn && key && isShared) {
    stored.insert_or_assign(*key, std::move(parts));
  }
  return Status::ok();
}

/// Rows of 8 bits with a scale each, which are read and only then become floats: a table behind
/// DequantizeLinear would be dequantized as a whole in each run.
Status QdqWriter::writeEmbedding(const Embedding &embedding, LayerInfo &info) {
  if (embedding.treatment == Treatment::Wide) {
    return Status::ok();
  }
  const onnx::Node &node = graph.node(embedding.node);
  std::string base(embedding.table), output(node.outputs.front());
  // A head that shares the table has a scale for each of its rows too.
  std::optional<WeightKey> key = keyOf(embedding.table, 0);
  const StoredWeight *known = find(key);
  StoredWeight own;
  if (!known) {
    TENON_ASSIGN(Floats table, loadFloats(*embedding.tensor, files));
    own = store(base, quantizeWeight(table, 0));
    known = key ? &stored.emplace(*key, std::move(own)).first->second : &own;
  }
  const StoredWeight &parts = *known;
  info.weightError = parts.weight.error;
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
  insertBehind(graph.producer(tensor),
               nodeMessage("Mul", edit.freshName(base + "_Mul"), inputs, result));
  return result;
}

void QdqWriter::insertBehind(std::optional<size_t> producer, Message node) {
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
    edit.addConstant(parameters[i].zero,
                     scheme == Scheme::Float8 ? DataType::Float8E4M3FN : DataType::UInt8, {},
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
    std::string inputs[] = {separated(tensor, writeSmoothing(tensor)), own.scale, own.zero};
    std::string back[] = {quantized, own.scale, own.zero};
    insertBehind(
        graph.producer(tensor),
        nodeMessage("QuantizeLinear", edit.freshName(base + "_QuantizeLinear"), inputs, quantized));
    insertBehind(
        graph.producer(tensor),
        nodeMessage("DequantizeLinear", edit.freshName(base + "_DequantizeLinear"), back, name));
    edit.setOperand(use, name);
  }
}

Status QdqWriter::run(QuantizationInfo &info) {
  auto infoOf = [&](size_t node, Treatment treatment, const std::string &reason) {
    LayerInfo own;
    own.name = nameOf(graph.node(node));
    own.op = graph.node(node).opType;
    own.treatment = treatment;
    own.reason = reason;
    return own;
  };
  for (const Layer &layer : plan.layers) {
    LayerInfo own = infoOf(layer.node, layer.treatment, layer.reason);
    TENON_TRY(writeLayer(layer, own));
    info.layers.push_back(std::move(own));
  }
  for (const Recurrent &recurrent : recurrentLayers(graph, settings->overrides)) {
    LayerInfo own = infoOf(recurrent.node, Treatment::Wide, recurrent.reason);
    TENON_TRY(writeRecurrent(recurrent, own));
    info.layers.push_back(std::move(own));
  }
  for (const Embedding &embedding : plan.embeddings) {
    LayerInfo own = infoOf(embedding.node, embedding.treatment, embedding.reason);
    TENON_TRY(writeEmbedding(embedding, own));
    info.tables.push_back(std::move(own));
  }
  writeQuantizers();
  return Status::ok();
}

} // namespace tenon::quant
