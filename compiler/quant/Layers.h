// The layers of a model and the first guess of what stays wide.
#pragma once

#include "compiler/quant/Plan.h"

namespace tenon::quant {

/// Weights of fewer elements stay wide with their layer.
inline constexpr int64_t kSmallWeight = 1 << 14;

/// All convolutions and products, in the model's order.
std::vector<Layer> findLayers(const Graph &graph, const Overrides &overrides);

/// LSTM, GRU and RNN, of which at most the weights are small.
struct Recurrent {
  size_t node = 0;
  std::string reason; ///< why it is wide; empty where it is not
};
std::vector<Recurrent> recurrentLayers(const Graph &graph, const Overrides &overrides);

/// What multiplies in graphs inside of nodes.
struct Inside {
  std::string name, op, reason;
};
std::vector<Inside> layersInside(const Graph &graph);

/// Operations whose results are elements of their first operands (Concat: of all), so that both
/// have one scale.
bool isMovement(const Graph &graph, size_t node);

} // namespace tenon::quant
