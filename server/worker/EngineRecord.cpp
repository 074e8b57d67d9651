// The record is what `tenon graph` shows (schema tenon.graph/1).

#include "server/worker/EngineRecord.h"

#include "server/worker/LoadedModel.h"
#include "support/json/Json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace tenon::server {
namespace {

/// Inputs are named, and their values found by that; outputs name theirs.
const Json *valueOf(const Json &graph, const Json &port, const std::string &name) {
  const Json &values = graph.at("values");
  if (port.is_object()) {
    size_t index = port.at("value").get<size_t>();
    return port.at("name") == name && index < values.size() ? &values[index] : nullptr;
  }
  for (const Json &value : values) {
    if (port == name && value.value("kind", "") == "input" && value.value("name", "") == name) {
      return &value;
    }
  }
  return nullptr;
}

bool readPorts(const Json &graph, const char *key, std::vector<ModelPort> &ports) {
  const Json &list = graph.at(key);
  if (list.size() != ports.size()) {
    return false;
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    const Json *value = valueOf(graph, list[i], ports[i].name);
    if (!value || value->at("shape").size() != ports[i].maxDims.size()) {
      return false;
    }
    for (const Json &dim : value->at("shape")) {
      ports[i].dims.push_back(dim.is_string() ? dim.get<std::string>() : dumpJson(dim));
    }
  }
  return true;
}

/// The record "rows" (schema tenon.rows/1).
std::optional<std::map<std::string, std::string>> readMeetings(const tenon_engine *engine) {
  const char *text = nullptr;
  size_t bytes = 0;
  if (!takeStatus(tenon_engine_record(engine, "rows", &text, &bytes)).isOk()) {
    return std::nullopt;
  }
  std::map<std::string, std::string> meetings;
  try {
    Json rows = parseJson({text, bytes});
    for (const Json &output : rows.at("outputs")) {
      std::string node = output.value("node", "");
      std::string how =
          output.at("independent").get<bool>() ? "" : output.at("how").get<std::string>();
      meetings[output.at("name").get<std::string>()] =
          how.empty() || node.empty() ? how : fmt::format("node '{}' {}", node, how);
    }
  } catch (const Json::exception &) {
    return std::nullopt; // of another release
  }
  return meetings;
}

double toleranceOf(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return 1e-10;
  case DType::F32:
    return 1e-4;
  case DType::F16:
    return 2.5e-3;
  case DType::BF16:
  case DType::F8E4M3FN:
  case DType::F8E5M2:
    return 2e-2;
  default:
    return 0;
  }
}

} // namespace

EngineRecord readRecord(const tenon_engine *engine, ModelPorts &ports) {
  const char *text = nullptr;
  size_t bytes = 0;
  EngineRecord record;
  bool isRead = takeStatus(tenon_engine_record(engine, "graph", &text, &bytes)).isOk();
  try {
    Json graph = isRead ? parseJson({text, bytes}) : Json();
    isRead = isRead && readPorts(graph, "inputs", ports.inputs) &&
             readPorts(graph, "outputs", ports.outputs);
    for (size_t i = 0; isRead && i < graph.at("symbols").size(); ++i) {
      const Json &symbol = graph["symbols"][i];
      RecordedSymbol read = {symbol.at("min").get<int64_t>(), symbol.at("max").get<int64_t>(), 1};
      read.typical =
          std::clamp(symbol.value("typical", read.min), read.min, std::max(read.min, read.max));
      record.symbols[symbol.at("name").get<std::string>()] = read;
    }
    for (size_t i = 0; isRead && i < graph.at("values").size(); ++i) {
      const Json &value = graph["values"][i];
      std::optional<DType> dtype = parseDType(value.value("dtype", ""));
      if (dtype && value.value("kind", "") == "node") {
        record.dtypes.insert(*dtype);
      }
    }
  } catch (const Json::exception &) {
    isRead = false; // of another release
  }
  if (!isRead) {
    record = {};
    for (std::vector<ModelPort> *list : {&ports.inputs, &ports.outputs}) {
      for (ModelPort &port : *list) {
        port.dims.clear();
      }
    }
  }
  record.meetings = readMeetings(engine);
  return record;
}

double usualTolerance(DType output, const EngineRecord &record) {
  double largest = toleranceOf(output);
  for (DType dtype : record.dtypes) {
    largest = std::max(largest, toleranceOf(dtype));
  }
  return largest;
}

} // namespace tenon::server
