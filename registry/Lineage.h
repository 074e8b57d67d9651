// What a version was made from, and what was made from it, over any number of steps. Versions name
// others in their facts, and results of gates name the data that they were measured on.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::registry {

/// Facts of a version that name another one: what it was made from, the data of its training, its
/// calibration and its drift, and the record that it was tuned with.
inline constexpr const char *kRelations[] = {"parent", "data", "tuning"};

/// TN0105 where nothing of the one kind has one of the other in this relation.
Status checkRelation(std::string_view relation, std::string_view kind, std::string_view other);

struct Lineage {
  using Number = std::pair<std::string, int64_t>; ///< an object and a version
  struct Node {
    Number version;
    std::string kind;
    bool isDeleted = false;
    std::vector<std::string> aliases; ///< that are at it
  };
  struct Edge {
    Number from; ///< what something was made from, or measured on
    Number to;
    std::string relation; ///< one of kRelations, or "gate of ALIAS"
    bool operator==(const Edge &) const = default;
  };
  std::vector<Node> nodes; ///< the one that was asked for first
  std::vector<Edge> edges;
  bool isCut = false; ///< there are more
};

/// {"name", "version", "nodes": [{"version": "cnn:1", "kind", "deleted", "aliases"}], "edges":
/// [{"from", "to", "relation"}], "cut"}.
Json describe(const Lineage &lineage);
/// As a tree of lines.
std::string treeOf(const Lineage &lineage);

} // namespace tenon::registry
