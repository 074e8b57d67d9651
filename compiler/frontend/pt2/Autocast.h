// The casts of torch.autocast, which a saved program implies and does not hold.
#pragma once

#include "compiler/frontend/pt2/Importer.h"

namespace tenon::pt2 {

/// A node of a region of torch.autocast with its floating-point inputs in the type that autocast
/// runs it in, which the type of its result tells. Casts are added to the scope.
Node withAutocast(Importer &importer, const Node &node, const Graph &graph, Scope &scope);

} // namespace tenon::pt2
