// Implements the drawing of groups within groups: each open group is laid out by itself and is then
// one item of the group around it.

#include "tools/view/Layout.h"

#include "tools/view/Layers.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tenon::view {
namespace {

constexpr double kNodeWidth = 190, kNodeHeight = 40, kPortHeight = 28;
constexpr double kPadding = 16, kHeader = 24, kGateWidth = 6;

/// Numbers of things: nodes, then groups, inputs and outputs.
class Drawer {
public:
  Drawer(const Graph &shown, const std::vector<bool> &opened) : graph(shown), open(opened) {
    groupsAt = graph.nodes.size();
    inputsAt = groupsAt + graph.groups.size();
    outputsAt = inputsAt + graph.inputs.size();
    end = outputsAt + graph.outputs.size();
    findParents();
    collectLines();
  }

  Layout run() {
    Layout layout;
    Drawn top = draw(kTop);
    layout.width = top.width;
    layout.height = top.height;
    place(top, 0, 0, 0, layout);
    joinStretches(layout);
    return layout;
  }

private:
  static constexpr size_t kTop = static_cast<size_t>(-1);

  /// A line from one visible thing to another; its points come in stretches, sorted by their place.
  struct Joint {
    size_t from, to;
    std::vector<std::pair<int, std::vector<Point>>> points;
  };

  /// The part of a joint in one group: between two children, or from or to the group's border.
  struct Stretch {
    size_t joint;
    size_t from, to; ///< kTop for the border
    bool isUpward = false;
  };

  /// A group's contents, relative to its upper left corner.
  struct Drawn {
    double width = 0, height = 0;
    std::vector<size_t> things;
    std::vector<LayerItem> items;
    size_t firstThing = 0; ///< among the items; gates stand before and behind
    std::vector<LayerLine> lines;
    std::vector<Stretch> stretches; ///< by line
    std::map<size_t, Drawn> inner;
  };

  size_t parentOf(size_t thing) const {
    int64_t group = thing < groupsAt   ? graph.nodes[thing].group
                    : thing < inputsAt ? graph.groups[thing - groupsAt].parent
                                       : -1;
    return group < 0 ? kTop : groupsAt + static_cast<size_t>(group);
  }

  bool isOpen(size_t thing) const {
    return thing == kTop || (thing >= groupsAt && thing < inputsAt && open[thing - groupsAt]);
  }

  /// The thing itself, or the outermost closed group around it.
  size_t shownFor(size_t thing) const {
    size_t shown = thing;
    for (size_t group = parentOf(thing); group != kTop; group = parentOf(group)) {
      shown = isOpen(group) ? shown : group;
    }
    return shown;
  }

  void findParents() {
    first.assign(end, kTop);
    for (size_t i = 0; i < groupsAt; ++i) {
      for (size_t thing = i; thing != kTop && first[thing] == kTop; thing = parentOf(thing)) {
        first[thing] = i;
        children[parentOf(thing)].push_back(thing);
      }
    }
    for (size_t thing = inputsAt; thing < end; ++thing) {
      children[kTop].push_back(thing);
      first[thing] = thing < outputsAt ? 0 : groupsAt;
    }
    for (auto &[group, things] : children) {
      std::sort(things.begin(), things.end(), [&](size_t a, size_t b) {
        return std::tuple(first[a], rankOf(a), a) < std::tuple(first[b], rankOf(b), b);
      });
    }
  }

  /// Inputs come before the first node.
  int rankOf(size_t thing) const { return thing >= inputsAt && thing < outputsAt ? 0 : 1; }

  std::vector<size_t> pathOf(size_t thing) const {
    std::vector<size_t> path = {thing};
    while (path.back() != kTop) {
      path.push_back(parentOf(path.back()));
    }
    return path;
  }

  /// A line's middle belongs to the innermost group around both of its ends.
  void addLine(size_t producer, size_t consumer) {
    size_t from = shownFor(producer), to = shownFor(consumer);
    if (from == to || !joined.insert({from, to}).second) {
      return;
    }
    std::vector<size_t> a = pathOf(from), b = pathOf(to);
    while (a.size() > 1 && b.size() > 1 && a[a.size() - 2] == b[b.size() - 2]) {
      a.pop_back();
      b.pop_back();
    }
    if (a.size() < 2 || b.size() < 2) {
      return;
    }
    size_t joint = joints.size();
    joints.push_back({from, to, {}});
    stretches[a.back()].push_back({joint, a[a.size() - 2], b[b.size() - 2]});
    for (size_t i = a.size() - 2; i > 0; --i) {
      stretches[a[i]].push_back({joint, a[i - 1], kTop});
    }
    for (size_t i = b.size() - 2; i > 0; --i) {
      stretches[b[i]].push_back({joint, kTop, b[i - 1]});
    }
  }

  void collectLines() {
    std::map<int64_t, size_t> inputOf;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      inputOf[graph.inputs[i].value] = inputsAt + i;
    }
    auto producerOf = [&](int64_t value) {
      if (value < 0) {
        return kTop;
      }
      int64_t node = graph.values[value].node;
      std::map<int64_t, size_t>::iterator input = inputOf.find(value);
      return node >= 0 ? static_cast<size_t>(node) : input == inputOf.end() ? kTop : input->second;
    };
    auto join = [&](int64_t value, size_t consumer) {
      if (size_t producer = producerOf(value); producer != kTop) {
        addLine(producer, consumer);
      }
    };
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (int64_t input : graph.nodes[i].inputs) {
        join(input, i);
      }
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      join(graph.outputs[i].value, outputsAt + i);
    }
  }

  /// Adds a gate for each beginning of lines that cross the group's border on that side.
  std::map<size_t, size_t> addGates(size_t group, LayerItem::Place place, Drawn &drawn) {
    std::map<size_t, size_t> gates;
    for (const Stretch &stretch : stretches[group]) {
      bool crosses = (place == LayerItem::Place::First ? stretch.from : stretch.to) == kTop;
      if (crosses && gates.try_emplace(joints[stretch.joint].from, drawn.items.size()).second) {
        drawn.items.push_back({.width = kGateWidth, .place = place});
      }
    }
    return gates;
  }

  /// Each child behind those that it reads, as far as there is no cycle; else in the order of the
  /// nodes.
  std::vector<size_t> sorted(size_t group) {
    std::map<size_t, std::vector<size_t>> readers;
    std::map<size_t, size_t> missing, rank;
    std::vector<size_t> &things = children[group];
    for (const Stretch &stretch : stretches[group]) {
      if (stretch.from != kTop && stretch.to != kTop) {
        readers[stretch.from].push_back(stretch.to);
        ++missing[stretch.to];
      }
    }
    std::set<size_t> ready, waiting; // ranks: a cycle is cut where its first child stands
    for (size_t i = 0; i < things.size(); ++i) {
      rank[things[i]] = i;
      (missing[things[i]] == 0 ? ready : waiting).insert(i);
    }
    std::vector<size_t> result;
    while (!ready.empty() || !waiting.empty()) {
      std::set<size_t> &from = ready.empty() ? waiting : ready;
      size_t thing = things[*from.begin()];
      from.erase(from.begin());
      result.push_back(thing);
      for (size_t reader : readers[thing]) {
        if (--missing[reader] == 0 && waiting.erase(rank[reader]) > 0) {
          ready.insert(rank[reader]);
        }
      }
    }
    return result;
  }

  Drawn draw(size_t group) {
    Drawn drawn;
    drawn.things = sorted(group);
    std::map<size_t, size_t> entries = addGates(group, LayerItem::Place::First, drawn), placeOf;
    drawn.firstThing = drawn.items.size();
    for (size_t thing : drawn.things) {
      LayerItem item{.width = kNodeWidth, .height = thing >= inputsAt ? kPortHeight : kNodeHeight};
      if (isOpen(thing)) {
        const Drawn &inner = drawn.inner[thing] = draw(thing);
        item.width = std::max(inner.width + 2 * kPadding, kNodeWidth);
        item.height = inner.height + kPadding + kHeader + kPadding / 2;
      }
      placeOf[thing] = drawn.items.size();
      drawn.items.push_back(item);
    }
    std::map<size_t, size_t> exits = addGates(group, LayerItem::Place::Last, drawn);
    drawn.stretches = stretches[group];
    for (Stretch &stretch : drawn.stretches) {
      size_t source = joints[stretch.joint].from;
      size_t from = stretch.from == kTop ? entries.at(source) : placeOf.at(stretch.from);
      size_t to = stretch.to == kTop ? exits.at(source) : placeOf.at(stretch.to);
      // A group may both feed and read another one; such a line runs upwards.
      stretch.isUpward = from > to;
      drawn.lines.push_back({std::min(from, to), std::max(from, to), {}});
    }
    std::tie(drawn.width, drawn.height) = layOutLayers(drawn.items, drawn.lines);
    return drawn;
  }

  Box boxOf(size_t thing) const {
    return thing < groupsAt ? Box{Box::Kind::Node, static_cast<int64_t>(thing)}
           : thing < inputsAt
               ? Box{Box::Kind::Group, static_cast<int64_t>(thing - groupsAt), isOpen(thing)}
           : thing < outputsAt ? Box{Box::Kind::Input, static_cast<int64_t>(thing - inputsAt)}
                               : Box{Box::Kind::Output, static_cast<int64_t>(thing - outputsAt)};
  }

  void place(const Drawn &drawn, double x, double y, int depth, Layout &layout) {
    for (size_t i = 0; i < drawn.things.size(); ++i) {
      const LayerItem &item = drawn.items[drawn.firstThing + i];
      Box box = boxOf(drawn.things[i]);
      box.x = x + item.x;
      box.y = y + item.y;
      box.width = item.width;
      box.height = item.height;
      boxAt[drawn.things[i]] = layout.boxes.size();
      layout.boxes.push_back(box);
      if (box.isOpen) {
        const Drawn &inner = drawn.inner.at(drawn.things[i]);
        place(inner, box.x + (item.width - inner.width) / 2, box.y + kHeader + kPadding / 2,
              depth + 1, layout);
      }
    }
    for (size_t i = 0; i < drawn.lines.size(); ++i) {
      const Stretch &stretch = drawn.stretches[i];
      std::vector<Point> points;
      auto add = [&](double toX, double toY) { points.push_back({x + toX, y + toY}); };
      if (stretch.from == kTop) {
        add(drawn.items[drawn.lines[i].from].x + kGateWidth / 2, 0);
      }
      for (auto [bendX, bendY] : drawn.lines[i].bends) {
        add(bendX, bendY);
      }
      if (stretch.to == kTop) {
        add(drawn.items[drawn.lines[i].to].x + kGateWidth / 2, drawn.height);
      }
      if (stretch.isUpward) {
        std::reverse(points.begin(), points.end());
      }
      int order = stretch.from == kTop ? depth : stretch.to == kTop ? -depth : 0;
      joints[stretch.joint].points.emplace_back(order, std::move(points));
    }
  }

  /// From the lower edge of the one box to the upper edge of the other.
  void joinStretches(Layout &layout) {
    for (Joint &joint : joints) {
      std::sort(joint.points.begin(), joint.points.end(),
                [](const auto &a, const auto &b) { return a.first < b.first; });
      const Box &from = layout.boxes[boxAt.at(joint.from)], &to = layout.boxes[boxAt.at(joint.to)];
      std::vector<Point> line = {{from.x + from.width / 2, from.y + from.height}};
      for (const auto &[order, points] : joint.points) {
        line.insert(line.end(), points.begin(), points.end());
      }
      line.push_back({to.x + to.width / 2, to.y});
      layout.lines.push_back(std::move(line));
    }
  }

  const Graph &graph;
  const std::vector<bool> &open;
  size_t groupsAt, inputsAt, outputsAt, end;
  std::map<size_t, std::vector<size_t>> children;
  std::vector<size_t> first;                        ///< by thing: the first node in it
  std::map<size_t, std::vector<Stretch>> stretches; ///< by group
  std::vector<Joint> joints;
  std::set<std::pair<size_t, size_t>> joined;
  std::map<size_t, size_t> boxAt;
};

} // namespace

std::vector<bool> chooseOpen(const Graph &graph, size_t most) {
  std::vector<size_t> held(graph.groups.size()), top;
  size_t shown = graph.inputs.size() + graph.outputs.size();
  for (const Node &node : graph.nodes) {
    ++(node.group < 0 ? shown : held[node.group]);
  }
  for (const Group &group : graph.groups) {
    ++(group.parent < 0 ? shown : held[group.parent]);
  }
  std::vector<bool> open(graph.groups.size());
  // By depth, so that modules of one level are alike; parents come first in the list.
  std::vector<size_t> depth(graph.groups.size());
  std::map<size_t, std::vector<size_t>> byDepth;
  for (size_t i = 0; i < graph.groups.size(); ++i) {
    depth[i] = graph.groups[i].parent < 0 ? 0 : depth[graph.groups[i].parent] + 1;
    byDepth[depth[i]].push_back(i);
  }
  for (const auto &[level, groups] : byDepth) {
    for (size_t group : groups) {
      int64_t parent = graph.groups[group].parent;
      if ((parent < 0 || open[parent]) && shown + held[group] <= most) {
        open[group] = true;
        shown += held[group];
      }
    }
  }
  return open;
}

Layout layOut(const Graph &graph, const std::vector<bool> &open) {
  return Drawer(graph, open).run();
}

} // namespace tenon::view
