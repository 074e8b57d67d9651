// Implements the table and the Graphviz form.

#include "tools/view/Escape.h"
#include "tools/view/Render.h"
#include "tools/view/Sizes.h"

#include <fmt/format.h>

namespace tenon::view {
namespace {

constexpr size_t kTypeWidth = 34;

std::string resultType(const Graph &graph, const Node &node) {
  return node.outputs.empty() ? "" : visible(typeText(graph.values[node.outputs[0]]));
}

std::string nodeLine(const Graph &graph, const Node &node) {
  std::string name = visible(node.name);
  if (node.names.size() > 1) {
    name += fmt::format(" and {} more", node.names.size() - 1);
  }
  if (!node.source.empty()) {
    name += "  " + visible(node.source);
  }
  return fmt::format("    {:<14} {:<{}}  {:>9} {:>11}  {}\n", visible(node.op),
                     resultType(graph, node), kTypeWidth, countText(node.flops),
                     countText(node.bytes), name);
}

/// The nodes of one region, behind a line with what runs them.
std::string regionText(const Graph &graph, size_t index) {
  const Region &region = graph.regions[index];
  std::string kind = "nothing to run";
  for (const Json &row : region.instructions) {
    kind = row.value("kind", kind);
  }
  std::string text = fmt::format("  region {} {} on {}, {}", index, visible(region.strategy),
                                 visible(region.target), visible(kind));
  if (!region.kernel.empty()) {
    text += " by " + visible(region.kernel);
  }
  text += region.microseconds ? fmt::format(", {:.2f} us measured", *region.microseconds)
                              : fmt::format(", about {:.2f} us", region.cost.value("us", 0.0));
  text += fmt::format(": {}\n", visible(region.reason));
  for (const Node &node : graph.nodes) {
    if (node.region == static_cast<int64_t>(index)) {
      text += nodeLine(graph, node);
    }
  }
  return text;
}

} // namespace

std::string renderText(const Graph &graph) {
  std::string text;
  if (std::string sizes = sizesText(graph); !sizes.empty()) {
    text = fmt::format("  counts{} are for {}; --shape INPUT:SIZES shows them for others\n",
                       graph.regions.empty() ? "" : " and times", sizes);
  }
  text += fmt::format("    {:<14} {:<{}}  {:>9} {:>11}  {}\n", "operation", "result", kTypeWidth,
                      "FLOPs", "bytes moved", "node");
  for (const Node &node : graph.nodes) {
    if (node.region < 0) {
      text += nodeLine(graph, node);
    }
  }
  for (size_t i = 0; i < graph.regions.size(); ++i) {
    text += regionText(graph, i);
  }
  Totals totals = totalsOf(graph);
  text += fmt::format("  total: {} nodes, {} FLOPs, {} bytes moved\n", graph.nodes.size(),
                      countText(totals.flops), countText(totals.bytes));
  if (totals.microseconds) {
    text += fmt::format("  time: {:.2f} us in the profiled regions\n", *totals.microseconds);
  }
  return text;
}

std::string renderDot(const Graph &graph) {
  auto quoted = [](const std::string &text) { return dumpJson(text); };
  std::string text = "digraph model {\n  rankdir=TB; node [shape=box];\n";
  std::vector<std::string> makers(graph.values.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    text +=
        fmt::format("  i{} [label={}, shape=ellipse];\n", i, quoted(visible(graph.inputs[i].name)));
    makers[graph.inputs[i].value] = fmt::format("i{}", i);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    text += fmt::format("  n{} [label={}];\n", i,
                        quoted(fmt::format("{}\n{}\n{}", visible(node.op), visible(node.name),
                                           resultType(graph, node))));
    for (int64_t input : node.inputs) {
      if (input >= 0 && !makers[input].empty()) {
        text += fmt::format("  {} -> n{};\n", makers[input], i);
      }
    }
    for (int64_t output : node.outputs) {
      makers[output] = fmt::format("n{}", i);
    }
  }
  return text + "}\n";
}

} // namespace tenon::view
