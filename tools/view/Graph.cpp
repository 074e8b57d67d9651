// Implements reading, writing and adding up. The text may come from an engine that nobody vouches
// for.

#include "tools/view/Graph.h"

#include "tools/view/Labels.h"
#include "tools/view/Sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tenon::view {
namespace {

Count readCount(const Json &json) {
  if (json.is_number_integer()) {
    int64_t value = json.get<int64_t>();
    return {.formula = "", .least = value, .typical = value, .most = value};
  }
  Count count;
  if (json.is_null()) {
    return count;
  }
  auto at = [&](const char *key) {
    const Json &value = json.at(key);
    return value.is_null() ? std::nullopt : std::optional(value.get<int64_t>());
  };
  return {json.at("formula"), at("least"), at("typical"), at("most")};
}

Json writeCount(const Count &count) {
  if (count.formula.empty()) {
    return count.least ? Json(*count.least) : Json();
  }
  auto at = [](const std::optional<int64_t> &value) { return value ? Json(*value) : Json(); };
  return {{"formula", count.formula},
          {"least", at(count.least)},
          {"typical", at(count.typical)},
          {"most", at(count.most)}};
}

Value readValue(const Json &json) {
  Value value;
  value.kind = json.at("kind");
  value.name = json.value("name", "");
  value.dtype = json.at("dtype");
  value.shape.emplace();
  for (const Json &dim : json.at("shape")) {
    value.shape->push_back(dim.is_string() ? dim.get<std::string>()
                                           : std::to_string(dim.get<int64_t>()));
  }
  value.node = json.value("node", int64_t(-1));
  value.bytes = readCount(json.value("bytes", Json()));
  if (json.contains("range")) {
    value.range = {json.at("range").at(0).get<double>(), json.at("range").at(1).get<double>()};
  }
  return value;
}

Node readNode(const Json &json) {
  Node node;
  node.op = json.at("op");
  node.name = json.at("name");
  node.names = json.value("names", std::vector<std::string>());
  node.from = json.value("from", std::vector<std::string>());
  node.module = json.value("module", "");
  node.source = json.value("source", "");
  node.inputs = json.at("inputs").get<std::vector<int64_t>>();
  node.outputs = json.at("outputs").get<std::vector<int64_t>>();
  node.flops = readCount(json.at("flops"));
  node.bytes = readCount(json.at("bytes"));
  node.attributes = json.value("attributes", Json::object());
  node.region = json.value("region", int64_t(-1));
  return node;
}

/// Whether every index has its target, and every node comes after those that it reads.
bool isSound(const Graph &graph) {
  int64_t count = static_cast<int64_t>(graph.values.size());
  auto isValue = [&](int64_t id) { return id >= -1 && id < count; };
  for (int64_t id = 0; id < static_cast<int64_t>(graph.nodes.size()); ++id) {
    const Node &node = graph.nodes[id];
    for (int64_t input : node.inputs) {
      if (!isValue(input) || (input >= 0 && graph.values[input].node >= id)) {
        return false;
      }
    }
    for (int64_t output : node.outputs) {
      if (!isValue(output) || output < 0 || graph.values[output].node != id) {
        return false;
      }
    }
  }
  for (const Value &value : graph.values) {
    if (value.node < -1 || value.node >= static_cast<int64_t>(graph.nodes.size())) {
      return false;
    }
  }
  for (const Port &output : graph.outputs) {
    if (!isValue(output.value)) {
      return false;
    }
  }
  return true;
}

Graph parse(const Json &json) {
  Graph graph;
  for (const Json &symbol : json.at("symbols")) {
    graph.symbols.push_back({symbol.at("name"), symbol.at("min"), symbol.at("max"),
                             symbol.value("typical", symbol.at("max").get<int64_t>())});
  }
  for (const Json &value : json.at("values")) {
    graph.values.push_back(readValue(value));
  }
  for (const Json &node : json.at("nodes")) {
    graph.nodes.push_back(readNode(node));
  }
  for (const Json &output : json.at("outputs")) {
    graph.outputs.push_back({output.at("name"), output.at("value")});
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind == "input") {
      graph.inputs.push_back({graph.values[i].name, static_cast<int64_t>(i)});
    }
  }
  return graph;
}

Json describeValue(const Value &value) {
  Json json = {{"kind", value.kind}, {"dtype", value.dtype}, {"shape", Json()}};
  if (value.shape) {
    json["shape"] = *value.shape;
  }
  if (value.node >= 0) {
    json["node"] = value.node;
  } else {
    json["name"] = value.name;
    json["bytes"] = writeCount(value.bytes);
    if (value.range) {
      json["range"] = {value.range->first, value.range->second};
    }
  }
  return json;
}

Json describeNode(const Graph &graph, const Node &node, size_t id) {
  Json json = {{"id", id},
               {"op", node.op},
               {"name", node.name},
               {"names", node.names},
               {"what", whatOf(graph, node)},
               {"where", whereOf(node)},
               {"family", familyOf(node)},
               {"from", node.from},
               {"module", node.module},
               {"source", node.source},
               {"inputs", node.inputs},
               {"outputs", node.outputs},
               {"flops", writeCount(node.flops)},
               {"bytes", writeCount(node.bytes)},
               {"attributes", node.attributes},
               {"group", node.group}};
  if (node.region >= 0) {
    json["region"] = node.region;
    json["precision"] = node.precision;
  }
  return json;
}

Json describeRegion(const Region &region) {
  Json json = {{"label", region.label},
               {"strategy", region.strategy},
               {"target", region.target},
               {"reason", region.reason},
               {"kernel", region.kernel},
               {"cost", region.cost},
               {"instructions", region.instructions},
               {"memory", region.memory},
               {"apart", region.apart}};
  if (region.microseconds) {
    json["us"] = *region.microseconds;
  }
  return json;
}

Json describePorts(const std::vector<Port> &ports) {
  Json list = Json::array();
  for (const Port &port : ports) {
    list.push_back({{"name", port.name}, {"value", port.value}});
  }
  return list;
}

/// What is not known makes the sum unknown; formulas are not added up.
void add(Count &sum, const Count &count) {
  for (std::optional<int64_t> Count::*member : {&Count::least, &Count::typical, &Count::most}) {
    int64_t result = 0;
    bool known = sum.*member && count.*member &&
                 !__builtin_add_overflow(*(sum.*member), *(count.*member), &result);
    sum.*member = known ? std::optional(result) : std::nullopt;
  }
}

} // namespace

Result<Graph> readGraph(std::string_view text) {
  try {
    Json json = parseJson(text);
    if (json.at("schema") == "tenon.graph/1") {
      Graph graph = parse(json);
      if (isSound(graph)) {
        return graph;
      }
    }
  } catch (const Json::exception &) {
  }
  return Status::error(ErrorId::EngineBadRecord, "the record 'graph' has another version",
                       "compile the model again with this version of Tenon");
}

Json toJson(const Graph &graph) {
  Json symbols = Json::array();
  for (const Symbol &symbol : graph.symbols) {
    symbols.push_back({{"name", symbol.name},
                       {"min", symbol.min},
                       {"max", symbol.max},
                       {"typical", symbol.typical},
                       {"of_input", isOfInput(graph, symbol.name)}});
  }
  Json values = Json::array(), nodes = Json::array(), groups = Json::array();
  for (const Value &value : graph.values) {
    values.push_back(describeValue(value));
  }
  for (const Node &node : graph.nodes) {
    nodes.push_back(describeNode(graph, node, nodes.size()));
  }
  for (const Group &group : graph.groups) {
    groups.push_back({{"title", group.title},
                      {"kind", group.kind},
                      {"parent", group.parent},
                      {"region", group.region}});
  }
  Totals totals = totalsOf(graph);
  Json json = {{"schema", "tenon.graph/1"},
               {"title", graph.title},
               {"source", graph.source},
               {"symbols", symbols},
               {"inputs", describePorts(graph.inputs)},
               {"outputs", describePorts(graph.outputs)},
               {"totals",
                {{"nodes", graph.nodes.size()},
                 {"flops", writeCount(totals.flops)},
                 {"bytes", writeCount(totals.bytes)},
                 {"parameters", totals.parameters},
                 {"parameter_bytes", totals.parameterBytes}}},
               {"values", values},
               {"nodes", nodes},
               {"groups", groups}};
  if (totals.microseconds) {
    json["totals"]["us"] = *totals.microseconds;
  }
  if (graph.source == "engine") {
    json["level"] = graph.level;
    json["regions"] = Json::array();
    for (const Region &region : graph.regions) {
      json["regions"].push_back(describeRegion(region));
    }
  }
  return json;
}

Totals totalsOf(const Graph &graph) {
  Totals totals;
  totals.flops = totals.bytes = {.formula = "", .least = 0, .typical = 0, .most = 0};
  for (const Node &node : graph.nodes) {
    add(totals.flops, node.flops);
    add(totals.bytes, node.bytes);
  }
  // A sum of symbolic counts has no formula of its own; the symbols' names say what it depends on.
  for (Count *count : {&totals.flops, &totals.bytes}) {
    if (count->least != count->most) {
      count->formula = "sum over the nodes";
    }
  }
  for (const Value &value : graph.values) {
    if (value.kind == "parameter") {
      ++totals.parameters;
      totals.parameterBytes += static_cast<uint64_t>(value.bytes.most.value_or(0));
    }
  }
  for (const Region &region : graph.regions) {
    if (region.microseconds) {
      totals.microseconds = totals.microseconds.value_or(0) + *region.microseconds;
    }
  }
  return totals;
}

std::string typeText(const Value &value) {
  return value.shape ? fmt::format("{} [{}]", value.dtype, fmt::join(*value.shape, ", "))
                     : value.dtype;
}

} // namespace tenon::view
