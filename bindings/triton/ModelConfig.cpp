// Types go by one table. Numbers of 64 bits may be text in the JSON of a protocol buffer, so both
// forms are read.

#include "bindings/triton/ModelConfig.h"

#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace tenon::triton {
namespace {

struct Type {
  tenon_dtype dtype;
  TRITONSERVER_DataType type;
  const char *name;
  uint64_t bytes;
};
constexpr Type kTypes[] = {
    {TENON_BOOL, TRITONSERVER_TYPE_BOOL, "TYPE_BOOL", 1},
    {TENON_U8, TRITONSERVER_TYPE_UINT8, "TYPE_UINT8", 1},
    {TENON_U16, TRITONSERVER_TYPE_UINT16, "TYPE_UINT16", 2},
    {TENON_U32, TRITONSERVER_TYPE_UINT32, "TYPE_UINT32", 4},
    {TENON_U64, TRITONSERVER_TYPE_UINT64, "TYPE_UINT64", 8},
    {TENON_I8, TRITONSERVER_TYPE_INT8, "TYPE_INT8", 1},
    {TENON_I16, TRITONSERVER_TYPE_INT16, "TYPE_INT16", 2},
    {TENON_I32, TRITONSERVER_TYPE_INT32, "TYPE_INT32", 4},
    {TENON_I64, TRITONSERVER_TYPE_INT64, "TYPE_INT64", 8},
    {TENON_F16, TRITONSERVER_TYPE_FP16, "TYPE_FP16", 2},
    {TENON_F32, TRITONSERVER_TYPE_FP32, "TYPE_FP32", 4},
    {TENON_F64, TRITONSERVER_TYPE_FP64, "TYPE_FP64", 8},
    {TENON_BF16, TRITONSERVER_TYPE_BF16, "TYPE_BF16", 2},
};

const char *nameOf(TRITONSERVER_DataType type) {
  return std::find_if(std::begin(kTypes), std::end(kTypes),
                      [&](const Type &each) { return each.type == type; })
      ->name;
}

Error readPort(const tenon_engine *engine, bool isInput, size_t index, Port &port) {
  tenon_port_info info = {};
  info.struct_size = sizeof(info);
  TRITON_TRY(isInput ? tenon_engine_input(engine, index, &info)
                     : tenon_engine_output(engine, index, &info));
  const Type *type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const Type &each) { return each.dtype == info.dtype; });
  if (type == std::end(kTypes)) {
    return fail(ErrorId::BadModelConfig, strCat(isInput ? "input '" : "output '", info.name,
                                                "' has a type for which Triton has no name"));
  }
  port = {info.name,
          type->type,
          type->bytes,
          {info.min_dims, info.min_dims + info.rank},
          {info.max_dims, info.max_dims + info.rank}};
  return nullptr;
}

/// False where it is no whole number.
bool readInteger(const Json &value, int64_t &number) {
  if (value.is_number_integer()) {
    number = value.get<int64_t>();
    return true;
  }
  if (!value.is_string()) {
    return false;
  }
  const std::string &text = value.get_ref<const std::string &>();
  std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

std::string listOf(const std::vector<int64_t> &dims) {
  std::string text;
  for (int64_t dim : dims) {
    text += strCat(text.empty() ? "" : ",", dim);
  }
  return strCat("[", text, "]");
}

/// As configurations have them: without the batch, -1 for a dim that varies, [1] for a scalar.
std::vector<int64_t> configDims(const ModelConfig &config, const Port &port) {
  std::vector<int64_t> dims;
  for (size_t i = config.maxBatchSize > 0 ? 1 : 0; i < port.maxDims.size(); ++i) {
    dims.push_back(port.minDims[i] == port.maxDims[i] ? port.maxDims[i] : -1);
  }
  return dims;
}

bool isScalar(const ModelConfig &config, const Port &port) {
  return config.maxBatchSize == 0 && port.maxDims.empty();
}

Json describe(const ModelConfig &config, const std::vector<Port> &ports) {
  Json list = Json::array();
  for (const Port &port : ports) {
    std::vector<int64_t> dims = configDims(config, port);
    Json entry = {{"name", port.name},
                  {"data_type", nameOf(port.type)},
                  {"dims", dims.empty() ? std::vector<int64_t>{1} : dims}};
    if (dims.empty() && !isScalar(config, port)) {
      entry["reshape"]["shape"] = Json::array(); // one number a row
    }
    list.push_back(std::move(entry));
  }
  return list;
}

/// The dims that the backend is given: those behind a reshape, where there is one.
bool readDims(const Json &entry, std::vector<int64_t> &dims) {
  const Json list = entry.contains("reshape") ? entry["reshape"].value("shape", Json::array())
                                              : entry.value("dims", Json::array());
  for (const Json &value : list) {
    if (!readInteger(value, dims.emplace_back())) {
      return false;
    }
  }
  return true;
}

bool fits(const ModelConfig &config, const Port &port, const std::vector<int64_t> &dims) {
  if (isScalar(config, port)) {
    return dims == std::vector<int64_t>{1};
  }
  size_t batch = config.maxBatchSize > 0 ? 1 : 0;
  bool doesFit = dims.size() + batch == port.maxDims.size();
  for (size_t i = 0; doesFit && i < dims.size(); ++i) {
    int64_t least = port.minDims[i + batch], most = port.maxDims[i + batch];
    doesFit = dims[i] == -1 ? least != most : dims[i] >= least && dims[i] <= most;
  }
  return doesFit;
}

Error checkPort(const ModelConfig &config, const std::vector<Port> &ports, const char *kind,
                const Json &entry) {
  std::string name = entry.value("name", "");
  auto fault = [&](std::string_view what) {
    return fail(ErrorId::BadModelConfig, strCat(kind, " '", name, "' ", what));
  };
  std::vector<Port>::const_iterator port =
      std::find_if(ports.begin(), ports.end(), [&](const Port &each) { return each.name == name; });
  if (port == ports.end()) {
    std::string names;
    for (const Port &each : ports) {
      names += strCat(names.empty() ? "" : ", ", each.name);
    }
    return fault(strCat("is not in the engine, which has ", names));
  }
  if (entry.value("data_type", "") != nameOf(port->type)) {
    return fault(
        strCat("is ", entry.value("data_type", ""), ", but the engine has ", nameOf(port->type)));
  }
  std::vector<int64_t> dims;
  if (!readDims(entry, dims) || !fits(config, *port, dims)) {
    return fault(
        strCat("has dims ", listOf(dims), config.maxBatchSize > 0 ? " besides the batch" : "",
               ", but the engine has from ", listOf(port->minDims), " to ", listOf(port->maxDims)));
  }
  return nullptr;
}

Error checkBatch(const ModelConfig &config, const std::vector<Port> &ports) {
  for (const Port &port : ports) {
    if (port.maxDims.empty() || port.minDims[0] > 1 || port.maxDims[0] < config.maxBatchSize) {
      return fail(ErrorId::BadModelConfig,
                  strCat("max_batch_size is ", config.maxBatchSize, ", but dim 0 of '", port.name,
                         "' cannot be a batch of that many rows: the engine has from ",
                         listOf(port.minDims), " to ", listOf(port.maxDims)),
                  "set max_batch_size: 0, or compile the model with a larger range of its dim 0");
    }
  }
  return nullptr;
}

} // namespace

Error readPorts(const tenon_engine *engine, Ports &ports) {
  ports.inputs.resize(tenon_engine_input_count(engine));
  ports.outputs.resize(tenon_engine_output_count(engine));
  for (size_t i = 0; i < ports.inputs.size(); ++i) {
    TRITON_TRY(readPort(engine, true, i, ports.inputs[i]));
  }
  for (size_t i = 0; i < ports.outputs.size(); ++i) {
    TRITON_TRY(readPort(engine, false, i, ports.outputs[i]));
  }
  return nullptr;
}

Error readConfig(const Json &json, ModelConfig &config) {
  if (json.contains("max_batch_size") &&
      !readInteger(json["max_batch_size"], config.maxBatchSize)) {
    return fail(ErrorId::BadModelConfig, "max_batch_size must be a whole number");
  }
  if (std::string file = json.value("default_model_filename", ""); !file.empty()) {
    config.file = file;
  }
  Json threads = json.value("parameters", Json::object())
                     .value("threads", Json::object())
                     .value("string_value", Json("0"));
  constexpr int64_t kMaxThreads = 4096;
  int64_t number = 0;
  if (!readInteger(threads, number) || number < 0 || number > kMaxThreads) {
    return fail(ErrorId::BadModelConfig,
                strCat("the parameter 'threads' must be a whole number from 0 to ", kMaxThreads));
  }
  config.threads = static_cast<unsigned>(number);
  return nullptr;
}

void completeConfig(const ModelConfig &config, const Ports &ports, Json &json, bool &isChanged) {
  isChanged = false;
  for (const auto &[key, list] :
       {std::pair("input", &ports.inputs), std::pair("output", &ports.outputs)}) {
    if (json.value(key, Json::array()).empty()) {
      json[key] = describe(config, *list);
      isChanged = true;
    }
  }
}

Error checkConfig(const ModelConfig &config, const Ports &ports, const Json &json) {
  if (config.maxBatchSize > 0) {
    TRITON_TRY(checkBatch(config, ports.inputs));
    TRITON_TRY(checkBatch(config, ports.outputs));
  }
  const Json inputs = json.value("input", Json::array()),
             outputs = json.value("output", Json::array());
  for (const Json &entry : inputs) {
    TRITON_TRY(checkPort(config, ports.inputs, "input", entry));
  }
  for (const Json &entry : outputs) {
    TRITON_TRY(checkPort(config, ports.outputs, "output", entry));
  }
  for (const Port &port : ports.inputs) {
    bool isListed = std::any_of(inputs.begin(), inputs.end(), [&](const Json &entry) {
      return entry.value("name", "") == port.name;
    });
    if (!isListed) {
      return fail(ErrorId::BadModelConfig,
                  strCat("the engine's input '", port.name, "' is not in the configuration"),
                  "list all inputs, or none: then Triton completes the configuration");
    }
  }
  return nullptr;
}

} // namespace tenon::triton
