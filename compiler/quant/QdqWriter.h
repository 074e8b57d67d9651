// Writes the quantizers of a plan into a model: QuantizeLinear and DequantizeLinear, weights and
// biases as integers, embedding tables in 8 bits.
#pragma once

#include "compiler/quant/Blocks.h"
#include "compiler/quant/DynamicProducts.h"
#include "compiler/quant/ModelEdit.h"
#include "compiler/quant/Plan.h"
#include "compiler/quant/Quantize.h"
#include "compiler/quant/Weights.h"

namespace tenon::quant {

class QdqWriter {
public:
  /// `affines` has an element for each group of the plan, of smoothed tensors behind the factors.
  /// `channels` has what is known of the operands of layers; their biases are corrected by it.
  QdqWriter(const Graph &graph, const Plan &plan, std::span<const Affine> affines,
            const std::map<std::string_view, Smoothing> &smoothed,
            const std::map<std::string_view, const Channels *> &channels, ModelEdit &edit,
            onnx::ExternalFiles &files)
      : graph(graph), plan(plan), affines(affines), smoothed(smoothed), channels(channels),
        edit(edit), files(files) {}

  /// `opset` is that of the written model.
  void useScheme(Scheme wanted, int64_t opset) {
    scheme = wanted;
    opsetVersion = opset;
  }
  /// Weights of products that are stored in few bits have 4 of them.
  void useBlocks(const Settings &settings, const Grams &known) {
    usesBlocks = settings.weightBits == 4;
    blockForm = settings.blockForm;
    grams = &known;
  }
  void limitWeights(int most) { mostWeight = most; }
  /// Collects all changes in the edit, and says what the weights lost.
  Status run(QuantizationInfo &info);

private:
  struct Parameters {
    std::string scale, zero;
  };
  /// Names of a weight's parts, and what rounding it lost.
  struct Stored {
    std::string quantized, scale, zero;
    QuantizedWeight weight;
    onnx::DataType type = onnx::DataType::Int8;
  };
  Stored store(const std::string &base, QuantizedWeight weight,
               onnx::DataType type = onnx::DataType::Int8);
  void storeScales(const Layer &layer, const std::string &base, Stored &parts);
  bool isProduct(const Layer &layer) const;
  bool foldFactors(const Layer &layer, Floats &weight, std::vector<float> &bias);
  void keepFromQuantizer(const Layer &layer);
  bool hasIntegerBias(const Layer &layer, size_t channels, size_t biases) const;
  std::vector<float> scalesForBias(const Layer &layer, std::span<const float> bias,
                                   std::span<const float> scales) const;
  Status writeLayer(const Layer &layer, LayerInfo &info);
  Status foldNorm(const Layer &layer, Floats &weight, std::vector<float> &bias);
  void correctBias(const Layer &layer, const Floats &weight, const QuantizedWeight &narrow,
                   std::vector<float> &bias, LayerInfo &info) const;
  Status correctSum(const Layer &layer, const Floats &weight, const QuantizedWeight &narrow,
                    std::vector<float> &bias, LayerInfo &info);
  void takeOff(const Layer &layer, const Floats &weight, const QuantizedWeight &narrow,
               std::vector<float> &bias, LayerInfo &info) const;
  void writeBias(const Layer &layer, const std::vector<float> &bias, std::span<const float> scales,
                 const LayerInfo &info);
  void writeDynamic(const Layer &layer, const Floats &weight, LayerInfo &info);
  void writeBlocks(const Layer &layer, const Floats &weight, LayerInfo &info);
  void writeBlockProduct(const Layer &layer, const BlockWeight &weight);
  void writeBlockDequantize(const Layer &layer, const BlockWeight &weight);
  void leaveWeight(const Layer &layer);
  void readThrough(const Layer &layer, onnx::Message wide, const std::string &name,
                   const std::string &base);
  bool sharesTranspose(const Layer &layer) const;
  void leaveTranspose(const Layer &layer);
  Status writeEmbedding(const Embedding &embedding, LayerInfo &info);
  void writeQuantizers();
  std::string writeSmoothing(std::string_view tensor);
  bool isReadUnscaled(std::string_view tensor) const;
  std::string separated(std::string_view tensor, std::string value);
  void insertBehind(std::optional<size_t> producer, onnx::Message node);
  void writeBound(const std::string &value, const std::string &result,
                  std::optional<size_t> producer);

  const Graph &graph;
  const Plan &plan;
  std::span<const Affine> affines;
  const std::map<std::string_view, Smoothing> &smoothed;
  const std::map<std::string_view, const Channels *> &channels;
  ModelEdit &edit;
  onnx::ExternalFiles &files;
  Scheme scheme = Scheme::Static;
  int64_t opsetVersion = 0;
  std::map<std::string_view, DynamicRows> dynamicRows; ///< quantized operands of dynamic products
  bool usesBlocks = false;
  BlockForm blockForm = BlockForm::Product;
  const Grams *grams = nullptr;
  int mostWeight = kMaxWeight;
  std::set<std::string_view> forBranches; ///< weights that graphs inside of nodes read
  std::map<size_t, size_t> leavers;       ///< readers of a shared Transpose that have their own now
  /// Constants as they were stored for the first of their readers, by name and axis.
  std::map<std::pair<std::string_view, int64_t>, Stored> stored;
};

/// Whether a constant of FP32 has an element for each column and nothing else.
bool isRow(const onnx::Tensor &constant, int64_t columns);

/// The BatchNormalization behind a convolution, taken in by its weights.
Status foldNormBehind(const Graph &graph, const Layer &layer, onnx::ExternalFiles &files,
                      Floats &weight, std::vector<float> &bias);

} // namespace tenon::quant
