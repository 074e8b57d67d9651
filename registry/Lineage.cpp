#include "registry/Lineage.h"

#include "registry/Registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace tenon::registry {
namespace {

using Number = Lineage::Number;
using Edges = std::multimap<Number, Lineage::Edge>; ///< by one of their ends

std::string nodeText(const Number &version) {
  return fmt::format("{}:{}", version.first, version.second);
}

/// NAME:VERSION of a fact, or "registry:NAME:VERSION" of a gate.
void addEdge(std::string_view named, const Number &to, const std::string &relation,
             std::vector<Lineage::Edge> &edges) {
  constexpr std::string_view kScheme = "registry:";
  Result<Reference> from =
      parseReference(named.starts_with(kScheme) ? named.substr(kScheme.size()) : named);
  if (from.isOk() && from->version != 0) {
    edges.push_back({{from->name, from->version}, to, relation});
  }
}

/// All versions that the edges lead to from one; at most so many.
std::set<Number> reach(const Number &root, const Edges &edges, Number Lineage::Edge::*end,
                       size_t most) {
  std::set<Number> found = {root};
  for (std::vector<Number> open = {root}; !open.empty() && found.size() < most;) {
    Number version = std::move(open.back());
    open.pop_back();
    for (auto [at, last] = edges.equal_range(version); at != last; ++at) {
      if (found.insert(at->second.*end).second) {
        open.push_back(at->second.*end);
      }
    }
  }
  return found;
}

/// Of a tree: the versions that edges lead to from `version`, each with what is behind it.
class Branches {
public:
  Branches(const Lineage &lineage, bool goesUp) : goesUp(goesUp) {
    for (const Lineage::Node &node : lineage.nodes) {
      nodes[node.version] = &node;
    }
    for (const Lineage::Edge &edge : lineage.edges) {
      edges.emplace(goesUp ? edge.to : edge.from, edge);
    }
  }
  void append(const Number &version, const std::string &indent, std::string &text) {
    auto [at, last] = edges.equal_range(version);
    for (; at != last; ++at) {
      const Number &other = goesUp ? at->second.from : at->second.to;
      bool isLast = std::next(at) == last, isNew = seen.insert(other).second;
      text += fmt::format("{}{} {}, {}{}\n", indent, isLast ? "└──" : "├──", lineOf(other),
                          at->second.relation, !isNew && edges.contains(other) ? ", as above" : "");
      if (isNew) {
        append(other, indent + (isLast ? "    " : "│   "), text);
      }
    }
  }
  std::string lineOf(const Number &version) const {
    std::map<Number, const Lineage::Node *>::const_iterator node = nodes.find(version);
    if (node == nodes.end()) {
      return nodeText(version);
    }
    std::string aliases = fmt::format("{}", fmt::join(node->second->aliases, ", "));
    return fmt::format("{} ({}{}{}{})", nodeText(version), node->second->kind,
                       node->second->isDeleted ? ", deleted" : "", aliases.empty() ? "" : ", at ",
                       aliases);
  }
  bool hasAny(const Number &version) const { return edges.contains(version); }

private:
  bool goesUp;
  std::map<Number, const Lineage::Node *> nodes;
  Edges edges;
  std::set<Number> seen;
};

} // namespace

Status checkRelation(std::string_view relation, std::string_view kind, std::string_view other) {
  bool isMade = other == "model" || other == "engine";
  bool fits = relation != "parent" ? other == relation
              : kind == "model"    ? other == "model"
              : kind == "engine"   ? isMade
              : kind == "data"     ? isMade || other == "data"
              : kind == "tuning"   ? isMade || other == "tuning"
                                   : true;
  if (fits) {
    return Status::ok();
  }
  return Status::error(
      ErrorId::BadArgument,
      relation == "parent"
          ? fmt::format("a version of kind {} cannot be made from one of kind {}", kind, other)
          : fmt::format("--{0} needs a version of kind {0}, but this one is of kind {1}", relation,
                        other),
      "--parent names the model that an engine was compiled from, --data the data set, --tuning "
      "the tuning record");
}

Json describe(const Lineage &lineage) {
  Json nodes = Json::array(), edges = Json::array();
  for (const Lineage::Node &node : lineage.nodes) {
    nodes.push_back({{"version", nodeText(node.version)},
                     {"kind", node.kind},
                     {"deleted", node.isDeleted},
                     {"aliases", node.aliases}});
  }
  for (const Lineage::Edge &edge : lineage.edges) {
    edges.push_back(
        {{"from", nodeText(edge.from)}, {"to", nodeText(edge.to)}, {"relation", edge.relation}});
  }
  const Number &root = lineage.nodes.front().version;
  return {{"name", root.first},
          {"version", root.second},
          {"nodes", nodes},
          {"edges", edges},
          {"cut", lineage.isCut}};
}

std::string treeOf(const Lineage &lineage) {
  const Number &root = lineage.nodes.front().version;
  Branches above(lineage, true), below(lineage, false);
  std::string text = above.lineOf(root) + "\n";
  if (above.hasAny(root)) {
    text += "made from, or measured on\n";
    above.append(root, "", text);
  }
  if (below.hasAny(root)) {
    text += "made from it, or measured on it\n";
    below.append(root, "", text);
  }
  return text + (lineage.isCut ? "and more\n" : "");
}

Result<Lineage> Registry::lineage(const Version &version, size_t most) {
  std::vector<Lineage::Edge> all;
  std::map<Number, Lineage::Node> known;
  // One pass over what names others: who was made from a version is written at none.
  Query versions(*database,
                 fmt::format("SELECT object, number, kind, blob, facts FROM version WHERE {}",
                             isSeen("object")));
  while (true) {
    TENON_ASSIGN(bool hasRow, versions.next());
    if (!hasRow) {
      break;
    }
    Number number = {versions.text(0), versions.number(1)};
    known[number] = {number, versions.text(2), versions.isNull(3), {}};
    Json facts = parseJson(versions.text(4));
    for (const char *relation : kRelations) {
      if (facts.contains(relation) && facts[relation].is_string()) {
        addEdge(facts[relation].get<std::string>(), number, relation, all);
      }
    }
  }
  Query gates(*database, "SELECT object, version, alias, detail FROM event WHERE action = 'gate'");
  while (true) {
    TENON_ASSIGN(bool hasRow, gates.next());
    if (!hasRow) {
      break;
    }
    Json conditions = parseJson(gates.text(3)).value("conditions", Json::object());
    std::string data = conditions.value("data", "");
    if (data.starts_with("registry:")) {
      addEdge(data, {gates.text(0), gates.number(1)}, "gate of " + gates.text(2), all);
    }
  }
  Query aliases(*database, "SELECT object, version, name FROM alias ORDER BY name");
  while (true) {
    TENON_ASSIGN(bool hasRow, aliases.next());
    if (!hasRow) {
      break;
    }
    auto found = known.find({aliases.text(0), aliases.number(1)});
    if (found != known.end()) {
      found->second.aliases.push_back(aliases.text(2));
    }
  }
  Edges above, below;
  for (const Lineage::Edge &edge : all) {
    above.emplace(edge.to, edge);
    below.emplace(edge.from, edge);
  }
  Number root = {version.name, version.number};
  std::set<Number> upward = reach(root, above, &Lineage::Edge::from, most),
                   downward = reach(root, below, &Lineage::Edge::to, most);
  Lineage lineage;
  lineage.isCut = upward.size() >= most || downward.size() >= most;
  lineage.nodes.push_back(known[root]);
  for (const std::set<Number> *side : {&upward, &downward}) {
    for (const Number &each : *side) {
      if (each != root && known.contains(each)) {
        lineage.nodes.push_back(known[each]);
      }
    }
    for (const Lineage::Edge &edge : all) {
      bool isInside = side->contains(edge.from) && side->contains(edge.to);
      bool isSeen = known.contains(edge.from) && known.contains(edge.to);
      if (isInside && isSeen && std::ranges::find(lineage.edges, edge) == lineage.edges.end()) {
        lineage.edges.push_back(edge);
      }
    }
  }
  return lineage;
}

} // namespace tenon::registry
