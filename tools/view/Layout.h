// A layered drawing of a graph, groups within groups: sources at the top, each node below those
// that it reads, lines bent round what lies between. Relies on a graph with groups; page/layout.js
// does the same.

#pragma once

#include "tools/view/Graph.h"

#include <vector>

namespace tenon::view {

/// A node, a group, or an input or output of the graph. Numbers are pixels from the top left.
struct Box {
  enum class Kind { Node, Group, Input, Output } kind = Kind::Node;
  int64_t index = 0;
  bool isOpen = false; ///< a group whose contents are drawn
  double x = 0, y = 0, width = 0, height = 0;
};

struct Point {
  double x = 0, y = 0;
};

struct Layout {
  double width = 0, height = 0;
  std::vector<Box> boxes; ///< a group comes before what it holds
  std::vector<std::vector<Point>>
      lines; ///< from the lower edge of a box to the upper one of another
};

/// Which groups are open so that about `most` boxes are shown: outer ones first.
std::vector<bool> chooseOpen(const Graph &graph, size_t most);
Layout layOut(const Graph &graph, const std::vector<bool> &open);

} // namespace tenon::view
