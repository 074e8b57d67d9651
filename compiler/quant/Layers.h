// The layers of a model and the first guess of what stays wide.
#pragma once

#include "compiler/quant/Plan.h"

namespace tenon::quant {

/// All convolutions and products, in the model's order.
std::vector<Layer> findLayers(const Graph &graph, const Overrides &overrides);

/// What multiplies and is not a layer of the plan: recurrent layers, and those of graphs inside of
/// nodes.
struct Outside {
  std::string name, op, reason;
};
std::vector<Outside> recurrentLayers(const Graph &graph);
std::vector<Outside> layersInside(const Graph &graph);

/// Operations whose results are elements of their first operands (Concat: of all), so that both
/// have one scale.
bool isMovement(const Graph &graph, size_t node);

} // namespace tenon::quant
