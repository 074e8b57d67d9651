// Products that other operators stand for: MatMulInteger, MatMulNBits, and weights of 4 bits behind
// DequantizeLinear. With them what becomes of a Transpose that weights stand behind.
#include "compiler/quant/QdqWriter.h"

#include "support/text/Text.h"

#include <algorithm>

namespace tenon::quant {

using onnx::DataType;
using onnx::Message;
using std::string_view;

/// MatMulInteger in place of the product; its weights are stored as [depth, columns].
void QdqWriter::writeDynamic(const Layer &layer, const Floats &weight, LayerInfo &info) {
  const onnx::Node &node = graph.node(layer.node);
  std::string base = strCat(nameOf(node), "_weight");
  bool isRows = layer.weight->axis == 0, isTied = isRows && isTable(layer.weight->name);
  std::optional<WeightKey> key =
      isTied ? keyOf(layer.weight->name, 0)
             : keyOf(layer.weight->name, layer.weight->axis, WeightKey::Form::Turned);
  const StoredWeight *known = find(key);
  StoredWeight parts;
  if (known) {
    parts = *known;
  } else {
    bool turns = isRows && !isTied;
    parts = store(base,
                  quantizeWeight(turns ? transposed(weight) : weight, isTied ? 0 : 1, mostWeight));
  }
  info.weightError = parts.weight.error;
  if (parts.scale.empty()) {
    std::vector<int64_t> dims = {static_cast<int64_t>(parts.weight.scales.size())};
    parts.scale =
        edit.addShared(base + "_scale", DataType::Float, dims, bytesOf(parts.weight.scales));
  }
  if (key) {
    stored.insert_or_assign(*key, parts);
  }
  if (isTied) {
    // An embedding reads rows of the same table.
    std::string turned = edit.freshName(base + "_transposed");
    edit.insertBefore(layer.node, nodeMessage("Transpose", edit.freshName(base + "_Transpose"),
                                              std::span(&parts.quantized, 1), turned));
    parts.quantized = turned;
  }
  string_view value = node.inputs.front();
  auto rows = dynamicRows.find(value);
  if (rows == dynamicRows.end()) {
    std::string name(value);
    rows = dynamicRows
               .emplace(value, scheme == Scheme::DynamicToken
                                   ? quantizeTokens(edit, layer.node, name, opsetVersion)
                                   : quantizeTensor(edit, layer.node, name))
               .first;
  }
  if (!layer.bias.empty()) {
    edit.keep(layer.bias);
  }
  replaceProduct(edit, graph, layer.node,
                 {rows->second, parts.quantized, parts.scale, std::string(layer.bias)});
  leaveWeight(layer);
}

/// Whether rows of the constant are an embedding's.
bool QdqWriter::isTable(string_view constant) const {
  return find(keyOf(constant, 0)) ||
         std::any_of(plan.embeddings.begin(), plan.embeddings.end(), [&](const Embedding &own) {
           return own.table == constant && own.treatment != Treatment::Wide;
         });
}

void QdqWriter::writeBlocks(const Layer &layer, const Floats &weight, LayerInfo &info) {
  auto known = grams->find(graph.node(layer.node).inputs.front());
  bool fits = known != grams->end() && known->second.rows() > 0 &&
              known->second.depth() ==
                  static_cast<size_t>(weight.dims[1 - static_cast<size_t>(layer.weight->axis)]);
  std::optional<WeightKey> key =
      keyOf(layer.weight->name, layer.weight->axis, WeightKey::Form::Blocks);
  StoredWeight parts;
  if (const StoredWeight *same = find(key)) {
    parts = *same;
  } else {
    parts.blocks = quantizeBlocks(weight, static_cast<size_t>(layer.weight->axis),
                                  fits ? &known->second : nullptr);
    info.roundingGain = parts.blocks.gain;
    blockForm == BlockForm::Product ? storeBlockProduct(layer, parts)
                                    : storeBlockDequantize(layer, parts);
    // The numbers themselves are not needed again.
    parts.blocks.levels.clear();
  }
  info.weightError = parts.blocks.error;
  info.bits = 4;
  blockForm == BlockForm::Product ? writeBlockProduct(layer, parts)
                                  : writeBlockDequantize(layer, parts);
  if (key) {
    stored.insert_or_assign(*key, std::move(parts));
  }
}

void QdqWriter::storeBlockProduct(const Layer &layer, StoredWeight &parts) {
  const BlockWeight &weight = parts.blocks;
  std::string base = strCat(nameOf(graph.node(layer.node)), "_weight");
  std::vector<uint8_t> zeros = packZerosForProduct(weight);
  int64_t dims[] = {weight.columns, weight.blocks, weight.block / 2};
  int64_t blocks[] = {weight.columns * weight.blocks}, bytes[] = {int64_t(zeros.size())};
  parts.quantized =
      edit.addShared(base + "_quantized", DataType::UInt8, dims, bytesOf(packForProduct(weight)));
  parts.scale = edit.addShared(base + "_scale", DataType::Float, blocks, bytesOf(weight.scales));
  parts.zero = edit.addShared(base + "_zero_point", DataType::UInt8, bytes, bytesOf(zeros));
}

void QdqWriter::storeBlockDequantize(const Layer &layer, StoredWeight &parts) {
  PackedBlocks packed = packForDequantize(parts.blocks, static_cast<size_t>(layer.weight->axis));
  std::string base = strCat(nameOf(graph.node(layer.node)), "_weight");
  parts.quantized = edit.addShared(base + "_quantized", DataType::UInt4, layer.weight->tensor->dims,
                                   bytesOf(packed.levels));
  parts.scale =
      edit.addShared(base + "_scale", DataType::Float, packed.scaleDims, bytesOf(packed.scales));
  parts.zero = edit.addShared(base + "_zero_point", DataType::UInt4, packed.scaleDims,
                              bytesOf(packed.zeros));
}

/// MatMulNBits in place of the product, and a sum behind it where a Gemm has a bias.
void QdqWriter::writeBlockProduct(const Layer &layer, const StoredWeight &parts) {
  const onnx::Node &node = graph.node(layer.node);
  const BlockWeight &weight = parts.blocks;
  std::string result(node.outputs.front());
  std::string inputs[] = {std::string(node.inputs.front()), parts.quantized, parts.scale,
                          parts.zero};
  std::string sums = layer.bias.empty() ? result : edit.freshName(result + "_product");
  Message product = nodeMessage("MatMulNBits", std::string(nameOf(node)), inputs, sums);
  addInteger(product, "K", weight.depth);
  addInteger(product, "N", weight.columns);
  addInteger(product, "bits", 4);
  addInteger(product, "block_size", weight.block);
  edit.setDomain(product, "com.microsoft");
  edit.drop(layer.node);
  edit.insertBefore(layer.node, std::move(product));
  if (!layer.bias.empty()) {
    std::string operands[] = {sums, std::string(layer.bias)};
    edit.insertBefore(layer.node, nodeMessage("Add", edit.freshName(strCat(nameOf(node), "_Add")),
                                              operands, result));
    edit.keep(layer.bias);
  }
  leaveWeight(layer);
}

/// DequantizeLinear with blocks of 4-bit integers, which the product reads as it read its weights.
void QdqWriter::writeBlockDequantize(const Layer &layer, StoredWeight &parts) {
  size_t axis = static_cast<size_t>(layer.weight->axis);
  std::string base = strCat(nameOf(graph.node(layer.node)), "_weight");
  std::string inputs[] = {parts.quantized, parts.scale, parts.zero};
  std::string name = nameOfWide(parts, base);
  Message wide = nodeMessage("DequantizeLinear", edit.freshName(base + "_DequantizeLinear"), inputs,
                             name, "axis", static_cast<int64_t>(1 - axis));
  addInteger(wide, "block_size", parts.blocks.block);
  readThrough(layer, parts, {std::move(wide)}, name, base);
  parts.wide = name;
}

/// The product of a layer is gone, and a Transpose of its weights with it.
void QdqWriter::leaveWeight(const Layer &layer) {
  size_t reader = layer.weight->use.node;
  if (reader != layer.node && !sharesTranspose(layer)) {
    edit.drop(reader);
  }
  leaveTranspose(layer);
}

/// Of the dequantized weights: graphs inside of nodes read the same.
std::string QdqWriter::nameOfWide(const StoredWeight &parts, const std::string &base) {
  return graph.isInner() && !parts.wide.empty() ? parts.wide : edit.freshName(base);
}

/// The layer reads dequantized weights.
void QdqWriter::readThrough(const Layer &layer, const StoredWeight &parts,
                            std::vector<Message> wide, const std::string &name,
                            const std::string &base) {
  auto add = [&](size_t node) {
    // Inside of a node, ONNX Runtime's fusions and OpenVINO's Scan fail on one that reads constants
    // from around it; and one does for all graphs.
    for (Message &own : wide) {
      if (!graph.isInner()) {
        edit.insertBefore(node, std::move(own));
      } else if (name != parts.wide) {
        edit.insertOutermost(std::move(own));
      }
    }
  };
  if (sharesTranspose(layer)) {
    // Each layer gets a Transpose of its own: the others may read other weights, or the wide ones.
    std::string turned = edit.freshName(base + "_transposed");
    add(layer.node);
    edit.insertBefore(layer.node, nodeMessage("Transpose", edit.freshName(base + "_Transpose"),
                                              std::span(&name, 1), turned));
    edit.setOperand({layer.node, 1}, turned);
  } else {
    add(layer.weight->use.node);
    edit.setOperand(layer.weight->use, name);
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

} // namespace tenon::quant
