// Forms the groups that people fold: the tree of modules, below it the regions of several nodes,
// and parts where a group would show too much at once. Relies on the order of the nodes.

#include "tools/view/Graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tenon::view {
namespace {

/// A group shows at most so many things; parts of a longer list have a few less.
constexpr size_t kMaxChildren = 60;
constexpr size_t kPartSize = 24;
/// Modules within modules beyond this are one group: names decide how deep the tree is.
constexpr size_t kDeepest = 16;

/// The end of the path's part that holds at most kDeepest modules.
std::string_view shallow(std::string_view path) {
  size_t end = 0;
  for (size_t depth = 0; depth < kDeepest && end != std::string_view::npos; ++depth) {
    end = path.find('/', end + (depth > 0));
  }
  return path.substr(0, end);
}

class Grouper {
public:
  explicit Grouper(Graph &shown) : graph(shown) {}

  void run() {
    placeNodes();
    mergeChains();
    splitLong();
    sortParentsFirst();
  }

private:
  int64_t addGroup(Group group) {
    graph.groups.push_back(std::move(group));
    return static_cast<int64_t>(graph.groups.size()) - 1;
  }

  int64_t moduleGroup(std::string_view path) {
    if (path.empty()) {
      return -1;
    }
    std::map<std::string, int64_t, std::less<>>::iterator known = modules.find(path);
    if (known != modules.end()) {
      return known->second;
    }
    size_t slash = path.rfind('/');
    int64_t parent = slash == std::string_view::npos ? -1 : moduleGroup(path.substr(0, slash));
    std::string title(slash == std::string_view::npos ? path : path.substr(slash + 1));
    int64_t group = addGroup({std::move(title), "module", parent, -1});
    modules.emplace(path, group);
    return group;
  }

  /// The innermost module that holds more than half of a region's nodes.
  std::string_view moduleOf(const std::vector<int64_t> &nodes) const {
    std::map<std::string_view, size_t> held;
    for (int64_t node : nodes) {
      std::string_view path = shallow(graph.nodes[node].module);
      for (size_t end = path.size(); end != 0 && end != std::string_view::npos;
           end = path.rfind('/', end - 1)) {
        ++held[path.substr(0, end)];
      }
    }
    std::string_view best;
    for (const auto &[path, count] : held) {
      if (2 * count > nodes.size() && path.size() > best.size()) {
        best = path;
      }
    }
    return best;
  }

  void placeNodes() {
    std::vector<std::vector<int64_t>> byRegion(graph.regions.size());
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      Node &node = graph.nodes[i];
      if (node.region >= 0) {
        byRegion[node.region].push_back(static_cast<int64_t>(i));
      } else {
        node.group = moduleGroup(shallow(node.module));
      }
    }
    for (size_t region = 0; region < byRegion.size(); ++region) {
      const std::vector<int64_t> &nodes = byRegion[region];
      int64_t group = nodes.empty() ? -1 : moduleGroup(moduleOf(nodes));
      if (nodes.size() > 1) {
        group = addGroup({regionTitle(nodes), "region", group, static_cast<int64_t>(region)});
      }
      for (int64_t node : nodes) {
        graph.nodes[node].group = group;
      }
    }
  }

  /// "matmul + add + gelu": the label of a region is as long as its nodes' names.
  std::string regionTitle(const std::vector<int64_t> &nodes) const {
    std::string title;
    for (size_t i = 0; i < nodes.size() && i < 3; ++i) {
      title += (i == 0 ? "" : " + ") + graph.nodes[nodes[i]].op;
    }
    return nodes.size() > 3 ? fmt::format("{} + {} more", title, nodes.size() - 3) : title;
  }

  /// What lies in each group, and last at the top, in the order of the nodes. Groups are numbers
  /// behind those of the nodes.
  std::vector<std::vector<int64_t>> children() const {
    size_t nodes = graph.nodes.size();
    std::vector<std::vector<int64_t>> result(graph.groups.size() + 1);
    std::vector<bool> placed(graph.groups.size());
    auto holder = [&](int64_t parent) -> std::vector<int64_t> & {
      return parent < 0 ? result.back() : result[parent];
    };
    for (size_t i = 0; i < nodes; ++i) {
      holder(graph.nodes[i].group).push_back(static_cast<int64_t>(i));
      for (int64_t group = graph.nodes[i].group; group >= 0 && !placed[group];
           group = graph.groups[group].parent) {
        placed[group] = true;
        holder(graph.groups[group].parent).push_back(static_cast<int64_t>(nodes) + group);
      }
    }
    return result;
  }

  void setParent(int64_t child, int64_t parent) {
    int64_t nodes = static_cast<int64_t>(graph.nodes.size());
    (child < nodes ? graph.nodes[child].group : graph.groups[child - nodes].parent) = parent;
  }

  /// A module that holds one thing only is shown as one with it. Children come behind their
  /// parents.
  void mergeChains() {
    std::vector<std::vector<int64_t>> held = children();
    int64_t nodes = static_cast<int64_t>(graph.nodes.size());
    for (size_t i = graph.groups.size(); i-- > 0;) {
      const Group &group = graph.groups[i];
      if (held[i].size() != 1 || group.kind != "module") {
        continue;
      }
      int64_t child = held[i][0];
      if (child >= nodes) {
        Group &inner = graph.groups[child - nodes];
        inner.title = group.title + (inner.kind == "module" ? "/" : ": ") + inner.title;
      }
      setParent(child, group.parent);
      std::vector<int64_t> &siblings = group.parent < 0 ? held.back() : held[group.parent];
      std::replace(siblings.begin(), siblings.end(), nodes + static_cast<int64_t>(i), child);
    }
  }

  void splitLong() {
    std::vector<std::vector<int64_t>> held = children();
    for (size_t i = 0; i < held.size(); ++i) {
      int64_t parent = i + 1 == held.size() ? -1 : static_cast<int64_t>(i);
      std::vector<int64_t> items = held[i];
      while (items.size() > kMaxChildren) {
        std::vector<int64_t> parts;
        for (size_t begin = 0; begin < items.size(); begin += kPartSize) {
          int64_t part =
              addGroup({fmt::format("part {}", begin / kPartSize + 1), "part", parent, -1});
          for (size_t j = begin; j < std::min(begin + kPartSize, items.size()); ++j) {
            setParent(items[j], part);
          }
          parts.push_back(static_cast<int64_t>(graph.nodes.size()) + part);
        }
        items = std::move(parts);
      }
    }
  }

  /// Leaves out the groups that hold nothing.
  void sortParentsFirst() {
    std::vector<std::vector<int64_t>> held = children();
    int64_t nodes = static_cast<int64_t>(graph.nodes.size());
    std::vector<Group> sorted;
    std::vector<int64_t> waiting(held.back().rbegin(), held.back().rend());
    while (!waiting.empty()) {
      int64_t group = waiting.back() - nodes;
      waiting.pop_back();
      if (group < 0) {
        continue;
      }
      int64_t place = static_cast<int64_t>(sorted.size());
      sorted.push_back(graph.groups[group]);
      for (size_t i = held[group].size(); i-- > 0;) {
        waiting.push_back(held[group][i]);
      }
      for (int64_t child : held[group]) {
        moved[child] = place;
      }
      if (std::map<int64_t, int64_t>::iterator parent = moved.find(group + nodes);
          parent != moved.end()) {
        sorted.back().parent = parent->second;
      }
    }
    for (int64_t i = 0; i < nodes; ++i) {
      std::map<int64_t, int64_t>::iterator place = moved.find(i);
      graph.nodes[i].group = place == moved.end() ? -1 : place->second;
    }
    graph.groups = std::move(sorted);
  }

  Graph &graph;
  std::map<std::string, int64_t, std::less<>> modules;
  std::map<int64_t, int64_t> moved; ///< a child, and its parent's place
};

} // namespace

void addGroups(Graph &graph) { Grouper(graph).run(); }

} // namespace tenon::view
