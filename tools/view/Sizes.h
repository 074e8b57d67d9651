// Sizes that figures are for: formulas over the symbols of a model, and the predicted times of an
// engine's records, for other sizes than those at which they were written.

#pragma once

#include "tools/view/Graph.h"

#include <map>

namespace tenon::view {

/// By the names of the symbols.
using Sizes = std::map<std::string, int64_t>;

/// "batch=1, tokens=128", for people; empty without symbols. Of a list of names and sizes of a
/// record, and of those that a graph is shown for.
std::string sizesText(const Json &sizes);
std::string sizesText(const Graph &graph);
/// Whether the user chooses the symbol's size: an input has it. Data decides others.
bool isOfInput(const Graph &graph, const std::string &symbol);
/// Leaves out of a record's list of sizes what the user does not choose.
Json sizesOfInputs(const Graph &graph, const Json &sizes);

/// The value of a formula as the records write them ("ceil(batch * 3 / 2) + 1"); none for a symbol
/// without a size, a number that leaves 64 bits, or text that is no formula.
std::optional<int64_t> evaluate(std::string_view formula, const Sizes &sizes);

/// The dims of each input, by its name.
using InputDims = std::map<std::string, std::vector<int64_t>>;
/// The size of every symbol of a graph when its inputs have these dims; of one that no input
/// decides the typical one.
Sizes sizesOf(const Graph &graph, const InputDims &dims);

/// Sets the typical counts of a graph, and what its symbols typically are.
void setSizes(Graph &graph, const Sizes &sizes);

/// The sizes that a record "fusion" is for; empty if it has none.
Sizes sizesOf(const Json &fusion);
/// Makes a record "fusion" one for a level that shares its regions with the one that decided about
/// them. `decided_on` names that one where the two differ in anything. Throws as setSizes does.
void setLevel(Json &fusion, const std::string &level, const std::string &decidedOn);
/// Makes a record "fusion" one for `sizes`: bytes, operations and predicted times of its regions,
/// candidates and edges follow the formulas of the record "placement". A time is that of starting
/// the kernel and of its bytes or its operations, whichever take longer; how far a kernel is from
/// these at its own sizes it is at others. Throws Json::exception for records that do not fit.
void setSizes(Json &fusion, const Json &placement, const Sizes &sizes);

} // namespace tenon::view
