// The values of a graph that its outputs or its effects need. What nobody needs may lack an import.
#pragma once

#include "compiler/frontend/pt2/wire/Program.h"

#include <string>
#include <unordered_set>

namespace tenon::pt2 {

/// Names of values that are outputs, or that nodes read which write, check or have live results.
std::unordered_set<std::string> liveValues(const Graph &graph);
/// Whether the node writes or checks something, or is none of ATen's, of which that is not known.
bool hasEffect(const Node &node);

} // namespace tenon::pt2
