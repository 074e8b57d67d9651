// The sizes of free dims that a model is pruned at and checked at: at two of each the narrower
// model has to have the dims that were planned.

#pragma once

#include "compiler/prune/Prune.h"
#include "support/ShapeArgument.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// For each sample all inputs with constant dims.
using SampledShapes = std::vector<std::vector<ShapeArgument>>;

/// The first sample has the sizes of `given`, else those of the model, else likely ones; the others
/// have another of each free dim, where the model takes one. `dims` are those of all values.
Result<SampledShapes> sampleShapes(const std::string &model,
                                   const std::vector<ShapeArgument> &given,
                                   const prune::Pruner &pruner, prune::SampledDims &dims);

} // namespace tenon::tool
