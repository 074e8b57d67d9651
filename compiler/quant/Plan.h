// What of a model becomes 8 bits: the treatment of each layer with its reason, and the quantization
// groups, tensors that share one range. Relies on Graph; nothing here looks at data.
#pragma once

#include "compiler/quant/Graph.h"

#include <map>
#include <string>

namespace tenon::quant {

enum class Treatment : uint8_t {
  Narrow,      ///< activations and weights in 8 bits
  WeightsOnly, ///< weights are stored in 8 bits, the product is computed wide
  Wide,        ///< stays as it is
};
/// "int8", "weights only", "wide".
std::string_view nameOf(Treatment treatment);

/// A constant that a layer multiplies by.
struct Weight {
  std::string_view name;
  const onnx::Tensor *tensor = nullptr;
  Use use;          ///< the operand that is to read its dequantized form
  int64_t axis = 0; ///< along which it has a scale for each index: that of the output channels
};

/// A convolution or product of the model.
struct Layer {
  size_t node = 0;
  Treatment treatment = Treatment::Narrow;
  std::string reason;           ///< why it is not narrow
  std::optional<Weight> weight; ///< none for a product of two computed values
  std::string_view bias;        ///< of Conv, ConvTranspose and Gemm; may be empty
  std::optional<size_t> norm;   ///< the BatchNormalization behind it, which its weights take in
  std::string_view output;      ///< its result, behind the norm
};

/// Tensors with one scale: operations between them only move or select elements.
struct Group {
  std::vector<std::string_view> tensors;
  std::vector<std::string_view> sources; ///< those that others are taken from: what to observe
};

/// An embedding table, of which rows are read.
struct Embedding {
  size_t node = 0;
  Treatment treatment = Treatment::WeightsOnly;
  std::string reason; ///< why it is wide
  std::string_view table;
  const onnx::Tensor *tensor = nullptr;
};

/// What the user, or a search, decides about a layer or table by the name of its node.
using Overrides = std::map<std::string, std::pair<Treatment, std::string>, std::less<>>;

struct Plan {
  std::vector<Layer> layers;
  std::vector<Embedding> embeddings;
  std::vector<Group> groups;
  std::map<std::string_view, size_t> groupOf; ///< by tensor
  std::vector<Use> uses;                      ///< operands that read the quantized form
};

/// What becomes of layers that the rules do not leave wide.
enum class Mode : uint8_t {
  Narrow,      ///< activations have ranges that samples tell
  WeightsOnly, ///< activations stay wide
  Dynamic, ///< products find the scale of each row when they run; the rest keeps wide activations
};

/// A product of rows by a constant matrix, and at most a bias behind it: what other operators than
/// MatMul and Gemm can say.
bool isRowsByMatrix(const Graph &graph, const Layer &layer);

Plan makePlan(const Graph &graph, const Overrides &overrides, Mode mode = Mode::Narrow);

} // namespace tenon::quant
