// Implements the joining: record "graph" has the nodes, "fusion" the regions, "placement" and
// "memory" what the plan made of them, "precision" what was decided about nodes.

#include "tools/view/EngineGraph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace tenon::view {
namespace {

Status unfit(const std::string &record) {
  return Status::error(ErrorId::EngineBadRecord,
                       fmt::format("the record '{}' has another version or is damaged", record),
                       "compile the model again with this version of Tenon");
}

Result<Json> readRecord(const engine::EngineFile &file, const std::string &name,
                        const std::string &suffix) {
  TENON_ASSIGN(std::string_view text, file.record(name + suffix));
  Json json = parseJson(text);
  if (!json.is_object()) {
    return unfit(name);
  }
  return json;
}

std::vector<Region> readRegions(const Json &fusion) {
  std::vector<Region> regions;
  for (const Json &entry : fusion.at("regions")) {
    regions.push_back({.label = entry.at("label"),
                       .strategy = entry.at("strategy"),
                       .target = entry.at("target"),
                       .reason = entry.at("reason"),
                       .kernel = entry.value("kernel", ""),
                       .cost = entry.at("cost"),
                       .microseconds = std::nullopt});
  }
  for (const Json &edge : fusion.at("edges")) {
    size_t producer = edge.at("producerRegion"), consumer = edge.at("consumerRegion");
    Json apart = {{"producer", edge.at("producer")},
                  {"consumer", edge.at("consumer")},
                  {"rule", edge.at("rule")},
                  {"why", edge.at("why")},
                  {"decided", edge.at("decided")},
                  {"apart_us", edge.at("apart").at("us")},
                  {"fused_us", edge.at("fused").at("us")}};
    for (auto [own, other] : {std::pair(producer, consumer), std::pair(consumer, producer)}) {
      apart["region"] = other;
      regions.at(own).apart.push_back(apart);
    }
  }
  return regions;
}

/// What the plan made of the regions: instructions, and the buffers that they write.
void addPlan(Graph &graph, const engine::Plan &plan, const Json &placement, const Json &memory) {
  const Json &buffers = memory.at("buffers");
  for (const Json &row : placement.at("instructions")) {
    int64_t region = row.value("region", int64_t(-1));
    if (region < 0) {
      continue;
    }
    Region &owner = graph.regions.at(static_cast<size_t>(region));
    owner.instructions.push_back(row);
    // Renderings rely on these.
    row.at("kind").get_ref<const std::string &>();
    row.at("label").get_ref<const std::string &>();
    const engine::Instruction &instruction =
        plan.instructions.at(row.at("instruction").get<size_t>());
    for (size_t i = instruction.reads; i < instruction.buffers.size(); ++i) {
      const Json &buffer = buffers.at(instruction.buffers[i]);
      if (std::find(owner.memory.begin(), owner.memory.end(), buffer) == owner.memory.end()) {
        owner.memory.push_back(buffer);
      }
    }
  }
}

void addPrecision(Graph &graph, const Json &precision) {
  std::multimap<std::string, std::string> said;
  for (const char *list : {"wider", "clamped", "approximated"}) {
    for (const Json &row : precision.value(list, Json::array())) {
      for (const Json &node : row.at("nodes")) {
        said.emplace(node.get<std::string>(),
                     fmt::format("{} ({}): {}", list, row.at("rule").get<std::string>(),
                                 row.at("why").get<std::string>()));
      }
    }
  }
  for (Node &node : graph.nodes) {
    std::vector<std::string> names = node.names.empty() ? std::vector{node.name} : node.names;
    for (const std::string &name : names) {
      auto [begin, end] = said.equal_range(name);
      for (; begin != end; ++begin) {
        if (std::find(node.precision.begin(), node.precision.end(), begin->second) ==
            node.precision.end()) {
          node.precision.push_back(begin->second);
        }
      }
    }
  }
}

const engine::Variant *findVariant(const engine::EngineFile &file, const std::string &level) {
  for (const engine::Variant &variant : file.variants()) {
    if (variant.level == level) {
      return &variant;
    }
  }
  return nullptr;
}

} // namespace

Result<std::string> recordSuffix(const engine::EngineFile &file, const std::string &level) {
  if (level.empty()) {
    return std::string();
  }
  std::vector<std::string> levels;
  for (const engine::Variant &variant : file.variants()) {
    levels.push_back(variant.level);
  }
  auto own = std::find(levels.begin(), levels.end(), level);
  // Levels that share plans stand side by side; the first of them names their records.
  for (auto first = std::make_reverse_iterator(own == levels.end() ? own : own + 1);
       own != levels.end() && first != levels.rend(); ++first) {
    if (file.record("graph-" + *first).isOk()) {
      return "-" + *first;
    }
  }
  if (own != levels.end()) {
    return std::string();
  }
  return Status::error(ErrorId::BadArgument, fmt::format("the engine has no variant '{}'", level),
                       fmt::format("it has {}", fmt::join(levels, ", ")));
}

namespace {

Result<Graph> readNodes(const engine::EngineFile &file, const std::string &suffix) {
  if (!file.record("graph" + suffix).isOk()) {
    return unfit("graph");
  }
  TENON_ASSIGN(std::string_view text, file.record("graph" + suffix));
  return readGraph(text);
}

} // namespace

Result<Json> fusionOf(const engine::EngineFile &file, const std::string &level,
                      const InputDims &dims) {
  TENON_ASSIGN(std::string suffix, recordSuffix(file, level));
  TENON_ASSIGN(Json fusion, readRecord(file, "fusion", suffix));
  TENON_ASSIGN(Json placement, readRecord(file, "placement", suffix));
  try {
    std::string decidedOn = placement.at("level");
    fusion["level"] = level.empty() ? decidedOn : level;
    setLevel(fusion, fusion["level"], decidedOn);
    if (sizesOf(fusion).empty()) {
      return fusion;
    }
    TENON_ASSIGN(Graph graph, readNodes(file, suffix));
    setSizes(fusion, placement, sizesOf(graph, dims));
    for (const char *list : {"sizes", "decided_at"}) {
      if (fusion.contains(list)) {
        fusion[list] = sizesOfInputs(graph, fusion[list]);
      }
    }
    return fusion;
  } catch (const Json::exception &) {
    return unfit("fusion");
  } catch (const std::out_of_range &) {
    return unfit("fusion");
  }
}

Result<Graph> engineGraph(const engine::EngineFile &file, const std::string &level,
                          const InputDims &dims) {
  TENON_ASSIGN(std::string suffix, recordSuffix(file, level));
  TENON_ASSIGN(Graph graph, readNodes(file, suffix));
  TENON_ASSIGN(Json fusion, fusionOf(file, level, dims));
  TENON_ASSIGN(Json placement, readRecord(file, "placement", suffix));
  TENON_ASSIGN(Json memory, readRecord(file, "memory", suffix));
  std::string reading = "fusion";
  try {
    graph.source = "engine";
    setSizes(graph, sizesOf(graph, dims));
    graph.regions = readRegions(fusion);
    reading = "placement";
    graph.level = level.empty() ? placement.at("level").get<std::string>() : level;
    const engine::Variant *variant = findVariant(file, graph.level);
    if (!variant) {
      return unfit(reading);
    }
    addPlan(graph, variant->plan, placement, memory);
    reading = "precision";
    if (file.record(reading).isOk()) {
      bool isOfLevel = file.record(reading + suffix).isOk();
      TENON_ASSIGN(Json precision, readRecord(file, reading, isOfLevel ? suffix : ""));
      addPrecision(graph, precision);
    }
  } catch (const Json::exception &) {
    return unfit(reading);
  } catch (const std::out_of_range &) {
    return unfit(reading);
  }
  for (const Node &node : graph.nodes) {
    if (node.region < -1 || node.region >= static_cast<int64_t>(graph.regions.size())) {
      return unfit("graph");
    }
  }
  return graph;
}

Status addTimes(Graph &graph, std::string_view profile) {
  std::map<int64_t, std::pair<size_t, std::string>> known;
  for (size_t i = 0; i < graph.regions.size(); ++i) {
    for (const Json &row : graph.regions[i].instructions) {
      known[row.at("instruction").get<int64_t>()] = {i, row.value("label", "")};
    }
  }
  try {
    Json json = parseJson(profile);
    for (const Json &row : json.at("regions")) {
      auto found = known.find(row.at("instruction").get<int64_t>());
      if (found == known.end()) {
        continue; // a copy
      }
      const auto &[region, label] = found->second;
      if (row.at("label") != label) {
        return Status::error(
            ErrorId::BadArgument,
            fmt::format(
                "the profile belongs to another engine: its instruction {} is '{}', here '{}'",
                found->first, row.at("label").get<std::string>(), label),
            "measure this engine with tenon bench --regions --json");
      }
      std::optional<double> &sum = graph.regions[region].microseconds;
      sum = sum.value_or(0) + row.at("time_us").get<double>();
    }
    return Status::ok();
  } catch (const Json::exception &) {
    return Status::error(ErrorId::BadArgument, "the profile has no region times",
                         "tenon bench ENGINE --regions --json writes them");
  }
}

} // namespace tenon::view
