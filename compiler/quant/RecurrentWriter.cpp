// Weights of LSTM, GRU and RNN in 8 bits, a scale for each row of both matrices. A step of one row
// reads them all, so that the time goes with their size; products stay wide.
#include "compiler/quant/QdqWriter.h"

#include "support/text/Text.h"

#include <algorithm>
#include <limits>

namespace tenon::quant {

Status QdqWriter::writeRecurrent(const Recurrent &recurrent, LayerInfo &info) {
  constexpr int64_t kRows = 1;
  const onnx::Node &node = graph.node(recurrent.node);
  if (!recurrent.reason.empty()) {
    return Status::ok();
  }
  if (settings->mayBeNone) {
    info.reason = "a recurrent layer: a search leaves it";
    return Status::ok();
  }
  Floats weights[2];
  for (size_t i = 0; i < 2; ++i) {
    TENON_ASSIGN(weights[i], loadFloats(*graph.constant(node.inputs[i + 1]), files));
    if (lossOfInputs(weights[i], kRows) > kMaxLoss) {
      info.reason = "8 bits lose its small weights beside large ones";
      return Status::ok();
    }
  }
  info.treatment = Treatment::WeightsOnly;
  info.reason = "a recurrent layer";
  for (size_t i = 0; i < 2; ++i) {
    Layer layer;
    layer.node = recurrent.node;
    layer.weight = Weight{
        node.inputs[i + 1], graph.constant(node.inputs[i + 1]), {recurrent.node, i + 1}, kRows};
    std::string base = strCat(nameOf(node), i == 0 ? "_weight" : "_recurrence");
    std::optional<WeightKey> key = keyOf(layer.weight->name, kRows);
    const StoredWeight *known = find(key);
    StoredWeight parts =
        known ? *known : store(base, quantizeWeight(weights[i], kRows, mostWeight));
    if (parts.scale.empty()) {
      storeScales(layer, base, parts);
    }
    info.weightError = std::max(info.weightError, parts.weight.error);
    std::string name = nameOfWide(parts, base);
    std::vector<std::string> inputs = {parts.quantized, parts.scale};
    if (!parts.zero.empty()) {
      inputs.push_back(parts.zero);
    }
    // Beside layers of 8 bits OpenVINO keeps what dequantizes, and its recurrent layers want
    // constants; it looks through no bound.
    bool isBounded = settings->weightBits == 0 && !isDynamic(scheme);
    std::string bound = edit.freshName(base + "_lowest"), made = edit.freshName(name + "_stored");
    std::string operands[] = {isBounded ? made : name, bound};
    std::vector<onnx::Message> wide = {nodeMessage("DequantizeLinear",
                                                   edit.freshName(base + "_DequantizeLinear"),
                                                   inputs, operands[0], "axis", kRows)};
    if (isBounded && name != parts.wide) {
      std::vector<float> lowest = {std::numeric_limits<float>::lowest()};
      operands[1] = edit.addShared(bound, onnx::DataType::Float, {}, bytesOf(lowest));
      wide.push_back(nodeMessage("Max", edit.freshName(base + "_Max"), operands, name));
    }
    readThrough(layer, parts, std::move(wide), name, base);
    parts.wide = graph.isInner() ? name : parts.wide;
    if (key) {
      stored.insert_or_assign(*key, std::move(parts));
    }
  }
  return Status::ok();
}

} // namespace tenon::quant
