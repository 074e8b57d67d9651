// The graphs that are arguments of a node, and the values that they are given.
// Relies on such arguments having no names, as in torch's higher-order operators.
#pragma once

#include "compiler/frontend/pt2/Call.h"

namespace tenon::pt2 {

/// The graph at a position; null after an error without one.
const Graph *graphAt(Call &c, size_t index);
/// What an argument stands for; of a list, all of its elements.
std::vector<Value> valuesOf(Call &c, const Argument &argument);
/// As `valuesOf` at a position; none without an argument there.
std::vector<Value> valuesAt(Call &c, size_t index);
/// A value of its own, so that what a graph writes is not written to its caller's tensor.
Value copied(Call &c, const Value &value);

} // namespace tenon::pt2
