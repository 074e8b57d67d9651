// The record is what `tenon graph` shows (schema tenon.graph/1).

#include "server/worker/EngineRecord.h"

#include "server/worker/LoadedModel.h"
#include "support/json/Json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

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

/// "node 'x' takes the mean over the rows"
std::string wordsOf(const Json &entry) {
  std::string node = entry.value("node", ""), how = entry.at("how").get<std::string>();
  return node.empty() ? how : fmt::format("node '{}' {}", node, how);
}

/// The record "rows" (schema tenon.rows/1).
void readRows(const tenon_engine *engine, EngineRecord &record) {
  const char *text = nullptr;
  size_t bytes = 0;
  if (!takeStatus(tenon_engine_record(engine, "rows", &text, &bytes)).isOk()) {
    return;
  }
  try {
    Json rows = parseJson({text, bytes});
    std::map<std::string, std::string> meetings;
    for (const Json &output : rows.at("outputs")) {
      meetings[output.at("name").get<std::string>()] =
          output.at("independent").get<bool>() ? "" : wordsOf(output);
    }
    for (const Json &dim : rows.value("padding", Json::array())) {
      RecordedPadding &padding = record.padding[dim.at("dim").get<std::string>()];
      if (!dim.at("independent").get<bool>()) {
        padding.reach =
            fmt::format("output '{}': {}", dim.at("output").get<std::string>(), wordsOf(dim));
        continue;
      }
      for (const auto &[input, value] : dim.at("masks").items()) {
        padding.masks.push_back({input, value.get<double>()});
      }
    }
    const Json limits = rows.value("limits", Json::object());
    for (const auto &[input, limit] : limits.items()) {
      record.limits[input] = limit.get<double>();
    }
    record.meetings = std::move(meetings);
  } catch (const Json::exception &) {
    record.padding.clear(); // of another release
  }
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
  readRows(engine, record);
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
