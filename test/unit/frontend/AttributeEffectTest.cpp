// Every attribute of every operator changes what a node imports to, or refuses it, in some case of
// ONNX's node suite: none is read and then forgotten. Relies on the suite of the Python package
// onnx having a case for each operator.
#include "compiler/frontend/onnx/OpTable.h"
#include "test/unit/frontend/NodeSuite.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <set>

namespace tenon::onnx {
namespace {

/// Before it, operands of equal shape need no attributes for broadcasting.
constexpr int64_t kFirstOpset = 7;

/// Attributes that by ONNX's definition change nothing of what Tenon computes.
const std::set<std::string> kWithoutEffect = {
    "Dropout.ratio",                   // of training
    "GRU.activation_alpha",            // of activations that no case has
    "GRU.activation_beta",             //
    "LSTM.activation_alpha",           //
    "LSTM.activation_beta",            //
    "LinearAttention.chunk_size",      // how an implementation may cut the sequence
    "MelWeightMatrix.output_datatype", // its sizes are inputs of all cases, which makes it a gap
    "RNN.activation_alpha",            //
    "RNN.activation_beta",             //
    "TfIdfVectorizer.weights",         // not of mode TF, which all cases have
};

/// The values to try in place of what the node has, of the attribute's type.
std::vector<Attribute> otherValues(const AttributeRow &row) {
  std::vector<Attribute> values;
  auto add = [&]() -> Attribute & {
    Attribute &value = values.emplace_back();
    value.name = row.name;
    value.type = row.type;
    return value;
  };
  switch (row.type) {
  case AttributeType::Int:
    for (int64_t i : {0, 1, 2, -1, 10}) {
      add().i = i;
    }
    break;
  case AttributeType::Float:
    add().f = 0.37f;
    break;
  case AttributeType::String:
    add().s = "nothing";
    break;
  case AttributeType::Ints:
    add().ints = {1};
    add().ints = {2, 2};
    break;
  case AttributeType::Floats:
    add().floats = {0.37f};
    break;
  case AttributeType::Strings:
    add().strings = {"Relu"};
    break;
  default: // graphs and tensors, which are not left out without an error
    break;
  }
  return values;
}

/// Whether some value of the attribute changes what the case imports to.
bool hasEffect(const std::string &folder, const AttributeRow &row) {
  std::set<std::string> texts;
  texts.insert(importCase(folder, [&](Model &model) {
    std::erase_if(model.graph.nodes[0].attributes,
                  [&](const Attribute &attribute) { return attribute.name == row.name; });
  }));
  for (Attribute &value : otherValues(row)) {
    texts.insert(importCase(folder, [&](Model &model) {
      std::vector<Attribute> &attributes = model.graph.nodes[0].attributes;
      std::erase_if(attributes, [&](const Attribute &other) { return other.name == row.name; });
      attributes.push_back(std::move(value));
    }));
  }
  return texts.size() > 1 || row.type == AttributeType::Tensor ||
         row.type == AttributeType::SparseTensor || row.type == AttributeType::Graph;
}

/// The operator's name and row of a case that is one node; null for others.
const OpRow *onlyOperator(const OpTable &table, const std::string &folder, int64_t &opset) {
  const OpRow *row = nullptr;
  importCase(folder, [&](Model &model) {
    if (model.graph.nodes.size() == 1) {
      opset = model.opsets[0].version;
      const Node &node = model.graph.nodes[0];
      row = rowOf(table.find(node.domain, node.opType), opset);
    }
  });
  return row;
}

TEST(AttributeEffect, EveryAttributeChangesWhatIsImported) {
  std::string root;
  namespace fs = std::filesystem;
  for (const fs::directory_entry &entry : fs::directory_iterator(TENON_SOURCE_DIR "/.venv/lib")) {
    root = entry.path() / "site-packages/onnx/backend/test/data";
  }
  OpTable table;
  std::set<std::string> tried, effective;
  for (const std::string &folder : listCases(root)) {
    int64_t opset = 0;
    const OpRow *row = onlyOperator(table, folder, opset);
    for (const AttributeRow &attribute : row ? row->attributes : Attributes()) {
      std::string name = std::string(row->name) + "." + attribute.name;
      if (opset >= kFirstOpset && attribute.isIn(opset) && !effective.count(name)) {
        tried.insert(name);
        if (hasEffect(folder, attribute)) {
          effective.insert(name);
        }
      }
    }
  }
  EXPECT_GT(tried.size(), 100u);
  for (const std::string &name : tried) {
    EXPECT_NE(effective.count(name), kWithoutEffect.count(name)) << name;
  }
}

} // namespace
} // namespace tenon::onnx
