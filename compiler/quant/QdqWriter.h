// Writes the quantizers of a plan into a model: QuantizeLinear and DequantizeLinear, weights and
// biases as integers, embedding tables in 8 bits.
#pragma once

#include "compiler/quant/ModelEdit.h"
#include "compiler/quant/Plan.h"
#include "compiler/quant/Quantize.h"
#include "compiler/quant/Weights.h"

namespace tenon::quant {

class QdqWriter {
public:
  /// `affines` has an element for each group of the plan.
  QdqWriter(const Graph &graph, const Plan &plan, std::span<const Affine> affines, ModelEdit &edit,
            onnx::ExternalFiles &files)
      : graph(graph), plan(plan), affines(affines), edit(edit), files(files) {}

  /// Collects all changes in the edit, and says what the weights lost.
  Status run(Facts &facts);

private:
  struct Parameters {
    std::string scale, zero;
  };
  Status writeLayer(const Layer &layer, LayerFacts &facts);
  Status foldNorm(const Layer &layer, Floats &weight, std::vector<float> &bias);
  void writeBias(const Layer &layer, const std::vector<float> &bias, std::span<const float> scales);
  Status writeEmbedding(const Embedding &embedding);
  void writeQuantizers();

  const Graph &graph;
  const Plan &plan;
  std::span<const Affine> affines;
  ModelEdit &edit;
  onnx::ExternalFiles &files;
};

} // namespace tenon::quant
