// A graph in the forms that people and other programs read. All rely on addGroups having run, and
// show hidden characters of names as escapes (the ONNX view and JSON keep names as they are).

#pragma once

#include "tools/view/Graph.h"

#include <string>

namespace tenon::view {

/// A line a node, those of a region together, and the totals.
std::string renderText(const Graph &graph);
/// For Graphviz; nodes are n0, n1, …, inputs i0, ….
std::string renderDot(const Graph &graph);
/// A drawing; large graphs have their modules folded.
std::string renderSvg(const Graph &graph);
/// One page with all that it needs, for any browser.
std::string renderHtml(const Graph &graph);
/// An ONNX ModelProto with the operators of `tn` in the domain "tenon" and no weights' data.
std::string renderOnnx(const Graph &graph);

} // namespace tenon::view
