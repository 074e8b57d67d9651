// Information on a graph, of a model or of an engine, as docs/explanation/graph.md describes them:
// the one value that every rendering shows. Nodes are in an order in which each comes after those
// that it reads.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::view {

/// A number that may depend on symbols; a member is empty where it leaves 64 bits or is not known.
struct Count {
  std::string formula; ///< empty for a constant
  std::optional<int64_t> least;
  std::optional<int64_t> typical; ///< at the sizes that the graph is shown for
  std::optional<int64_t> most;
};

struct Symbol {
  std::string name;
  int64_t min = 1;
  int64_t max = 1;
  int64_t typical = 1; ///< the size that the graph is shown for: the likely one, or the user's
};

struct Value {
  std::string kind; ///< "input", "parameter", "constant" or "node"
  std::string name; ///< of a constant what it says; empty for a node's
  std::string dtype;
  std::optional<std::vector<std::string>> shape; ///< none where no rank is declared
  int64_t node = -1;                             ///< that makes it
  Count bytes;                                   ///< of a parameter or constant
  /// The least and the largest element of a parameter, where known.
  std::optional<std::pair<double, double>> range = std::nullopt;
};

struct Node {
  std::string op;
  std::string name;
  std::vector<std::string> names = {}; ///< where it stands for several of the model's nodes
  std::vector<std::string> from = {};  ///< the model's own operators
  std::string module = {};             ///< "encoder/layer.0"
  std::string source = {};             ///< "model.py:12"
  std::vector<int64_t> inputs = {};    ///< values; -1 where one is left out
  std::vector<int64_t> outputs = {};
  Count flops = {};
  Count bytes = {};
  Json attributes = Json::object();
  std::vector<std::string> precision = {}; ///< what the precision pass decided about it
  int64_t region = -1;
  int64_t group = -1; ///< the innermost
};

/// What an engine runs as one, with what was decided about it.
struct Region {
  std::string label;
  std::string strategy;
  std::string target;
  std::string reason;
  std::string kernel;                ///< the family with its configuration
  Json cost = Json::object();        ///< as in the record "fusion"
  Json instructions = Json::array(); ///< rows of the record "placement"
  Json memory = Json::array();       ///< rows of the record "memory": what it writes
  Json apart = Json::array();        ///< neighbours that were not fused, and why
  std::optional<double> microseconds;
};

/// What can be folded: a module of the model, a region of several nodes, or a part of a long list.
struct Group {
  std::string title;
  std::string kind; ///< "module", "region" or "part"
  int64_t parent = -1;
  int64_t region = -1;
};

struct Port {
  std::string name;
  int64_t value = -1;
};

struct Graph {
  std::string title;
  std::string source; ///< "model" or "engine"
  std::string level;  ///< of an engine: the variant that it shows
  std::vector<Symbol> symbols;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Region> regions;
  std::vector<Group> groups; ///< parents come before their children
};

struct Totals {
  Count flops;
  Count bytes;
  uint64_t parameters = 0;
  uint64_t parameterBytes = 0;
  std::optional<double> microseconds;
};

/// Reads "tenon.graph/1" as the compiler writes it; EngineBadRecord for anything else, also for
/// indices that point nowhere.
Result<Graph> readGraph(std::string_view json);
Json toJson(const Graph &graph);

/// Fills `groups` and each node's `group`, from modules and regions.
void addGroups(Graph &graph);

Totals totalsOf(const Graph &graph);
/// "f32 [batch, 3, 224, 224]".
std::string typeText(const Value &value);

} // namespace tenon::view
