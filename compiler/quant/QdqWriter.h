// Writes the quantizers of a plan into a model: QuantizeLinear and DequantizeLinear, weights and
// biases as integers, embedding tables in 8 bits.
#pragma once

#include "compiler/quant/Blocks.h"
#include "compiler/quant/DynamicProducts.h"
#include "compiler/quant/Layers.h"
#include "compiler/quant/ModelEdit.h"
#include "compiler/quant/Plan.h"
#include "compiler/quant/Quantize.h"
#include "compiler/quant/StoredWeights.h"
#include "compiler/quant/Weights.h"

namespace tenon::quant {

/// Of weights that are stored alone: 0.01 is a signal 20 dB above the noise for every input.
inline constexpr double kMaxLoss = 0.01;

class QdqWriter {
public:
  /// `affines` has an element for each group of the plan, of smoothed tensors behind the factors.
  /// `channels` has what is known of the operands of layers; their biases are corrected by it.
  QdqWriter(const Graph &graph, const Plan &plan, std::span<const Affine> affines,
            const std::map<std::string_view, Smoothing> &smoothed,
            const std::map<std::string_view, const Channels *> &channels, ModelEdit &edit,
            onnx::ExternalFiles &files, StoredWeights &stored)
      : graph(graph), plan(plan), affines(affines), smoothed(smoothed), channels(channels),
        edit(edit), files(files), stored(stored) {}

  /// `opset` is that of the written model.
  void useScheme(Scheme wanted, int64_t opset) {
    scheme = wanted;
    opsetVersion = opset;
  }
  /// Before run. Where weights have 4 bits, those of products in few bits do.
  void useSettings(const Settings &wanted, const Grams &known) {
    settings = &wanted;
    usesBlocks = wanted.weightBits == 4;
    blockForm = wanted.blockForm;
    grams = &known;
  }
  void limitWeights(int most) { mostWeight = most; }
  /// Collects all changes in the edit, and says what the weights lost.
  Status run(QuantizationInfo &info);

private:
  struct Parameters {
    std::string scale, zero;
  };
  StoredWeight store(const std::string &base, QuantizedWeight weight,
                     onnx::DataType type = onnx::DataType::Int8);
  void storeScales(const Layer &layer, const std::string &base, StoredWeight &parts);
  std::optional<WeightKey> keyOf(std::string_view weight, int64_t axis,
                                 WeightKey::Form form = WeightKey::Form::Rows) const;
  const StoredWeight *find(const std::optional<WeightKey> &key) const;
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
  void storeBlockProduct(const Layer &layer, StoredWeight &parts);
  void storeBlockDequantize(const Layer &layer, StoredWeight &parts);
  void writeBlockProduct(const Layer &layer, const StoredWeight &parts);
  void writeBlockDequantize(const Layer &layer, StoredWeight &parts);
  std::string nameOfWide(const StoredWeight &parts, const std::string &base);
  bool isTable(std::string_view constant) const;
  void leaveWeight(const Layer &layer);
  void readThrough(const Layer &layer, const StoredWeight &parts, std::vector<onnx::Message> wide,
                   const std::string &name, const std::string &base);
  bool sharesTranspose(const Layer &layer) const;
  void leaveTranspose(const Layer &layer);
  Status writeRecurrent(const Recurrent &recurrent, LayerInfo &info);
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
  const Settings *settings = nullptr;
  Scheme scheme = Scheme::Static;
  int64_t opsetVersion = 0;
  std::map<std::string_view, DynamicRows> dynamicRows; ///< quantized operands of dynamic products
  bool usesBlocks = false;
  BlockForm blockForm = BlockForm::Product;
  const Grams *grams = nullptr;
  int mostWeight = kMaxWeight;
  std::set<std::string_view> forBranches; ///< weights that graphs inside of nodes read
  std::map<size_t, size_t> leavers;       ///< readers of a shared Transpose that have their own now
  StoredWeights &stored;
};

/// Whether a constant of FP32 has an element for each column and nothing else.
bool isRow(const onnx::Tensor &constant, int64_t columns);

/// The BatchNormalization behind a convolution, taken in by its weights.
Status foldNormBehind(const Graph &graph, const Layer &layer, onnx::ExternalFiles &files,
                      Floats &weight, std::vector<float> &bias);

} // namespace tenon::quant
