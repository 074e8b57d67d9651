// What the box of a node says: what it computes with the numbers that tell it from others, where in
// the model it stands, and which color it has. Drawing and page say the same.

#pragma once

#include "tools/view/Graph.h"

namespace tenon::view {

/// "conv 3x3, 64", "matmul, 768", "reduce mean".
std::string whatOf(const Graph &graph, const Node &node);
/// The end of its name, without a last part that only repeats the operator: "stem.0" of
/// "/stem/stem.0/Conv". Empty for a node without a name.
std::string whereOf(const Node &node);
/// "product", "row", "move" or "point" (elementwise).
const char *familyOf(const Node &node);

} // namespace tenon::view
