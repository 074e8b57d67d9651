// A table of fields for each message, and one walk over JSON by it. libprotobuf would do the same
// by reflection, but Debian's archive of it cannot be linked into a shared library.

#include "server/grpc/Messages.h"

#include "server/protocol/InferRequest.h"
#include "support/json/Json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include <map>
#include <span>

namespace tenon::server {
namespace {

using protozero::pbf_reader;
using protozero::pbf_writer;
using protozero::tag_and_type;
using Wire = protozero::pbf_wire_type;

enum class Kind {
  Text,
  Bool,
  Integer,
  DataType,
  InstanceKind,
  TimeoutAction,
  Message,
  TextMap,
  NumberMap
};

struct Field {
  std::string_view name;
  uint32_t number;
  Kind kind;
  /// Of Message, and of the values of TextMap and NumberMap, which are maps from names and numbers
  /// to messages.
  std::span<const Field> fields;
};

// An array in JSON is a repeated field, an object under TextMap a map.
constexpr Field kLive[] = {{"live", 1, Kind::Bool, {}}};
constexpr Field kReady[] = {{"ready", 1, Kind::Bool, {}}};
constexpr Field kServer[] = {
    {"name", 1, Kind::Text, {}}, {"version", 2, Kind::Text, {}}, {"extensions", 3, Kind::Text, {}}};
constexpr Field kTensor[] = {
    {"name", 1, Kind::Text, {}}, {"datatype", 2, Kind::Text, {}}, {"shape", 3, Kind::Integer, {}}};
constexpr Field kModel[] = {{"name", 1, Kind::Text, {}},
                            {"versions", 2, Kind::Text, {}},
                            {"platform", 3, Kind::Text, {}},
                            {"inputs", 4, Kind::Message, kTensor},
                            {"outputs", 5, Kind::Message, kTensor}};

constexpr Field kLatest[] = {{"num_versions", 1, Kind::Integer, {}}};
constexpr Field kSpecific[] = {{"versions", 1, Kind::Integer, {}}};
constexpr Field kPolicy[] = {{"latest", 1, Kind::Message, kLatest},
                             {"all", 2, Kind::Message, {}},
                             {"specific", 3, Kind::Message, kSpecific}};
constexpr Field kConfigInput[] = {{"name", 1, Kind::Text, {}},
                                  {"data_type", 2, Kind::DataType, {}},
                                  {"dims", 4, Kind::Integer, {}}};
constexpr Field kConfigOutput[] = {{"name", 1, Kind::Text, {}},
                                   {"data_type", 2, Kind::DataType, {}},
                                   {"dims", 3, Kind::Integer, {}}};
constexpr Field kInstance[] = {{"name", 1, Kind::Text, {}},
                               {"kind", 4, Kind::InstanceKind, {}},
                               {"count", 2, Kind::Integer, {}},
                               {"gpus", 3, Kind::Integer, {}}};
constexpr Field kQueuePolicy[] = {{"timeout_action", 1, Kind::TimeoutAction, {}},
                                  {"default_timeout_microseconds", 2, Kind::Integer, {}},
                                  {"allow_timeout_override", 3, Kind::Bool, {}},
                                  {"max_queue_size", 4, Kind::Integer, {}}};
constexpr Field kBatching[] = {{"preferred_batch_size", 1, Kind::Integer, {}},
                               {"max_queue_delay_microseconds", 2, Kind::Integer, {}},
                               {"preserve_ordering", 3, Kind::Bool, {}},
                               {"priority_levels", 4, Kind::Integer, {}},
                               {"default_priority_level", 5, Kind::Integer, {}},
                               {"default_queue_policy", 6, Kind::Message, kQueuePolicy},
                               {"priority_queue_policy", 7, Kind::NumberMap, kQueuePolicy}};
constexpr Field kParameter[] = {{"string_value", 1, Kind::Text, {}}};
constexpr Field kConfig[] = {{"name", 1, Kind::Text, {}},
                             {"platform", 2, Kind::Text, {}},
                             {"backend", 17, Kind::Text, {}},
                             {"version_policy", 3, Kind::Message, kPolicy},
                             {"max_batch_size", 4, Kind::Integer, {}},
                             {"input", 5, Kind::Message, kConfigInput},
                             {"output", 6, Kind::Message, kConfigOutput},
                             {"dynamic_batching", 11, Kind::Message, kBatching},
                             {"instance_group", 7, Kind::Message, kInstance},
                             {"parameters", 14, Kind::TextMap, kParameter}};
constexpr Field kConfigAnswer[] = {{"config", 1, Kind::Message, kConfig}};

constexpr Field kDuration[] = {{"count", 1, Kind::Integer, {}}, {"ns", 2, Kind::Integer, {}}};
constexpr Field kInferStatistics[] = {
    {"success", 1, Kind::Message, kDuration},       {"fail", 2, Kind::Message, kDuration},
    {"queue", 3, Kind::Message, kDuration},         {"compute_input", 4, Kind::Message, kDuration},
    {"compute_infer", 5, Kind::Message, kDuration}, {"compute_output", 6, Kind::Message, kDuration},
    {"cache_hit", 7, Kind::Message, kDuration},     {"cache_miss", 8, Kind::Message, kDuration}};
constexpr Field kBatchStatistics[] = {{"batch_size", 1, Kind::Integer, {}},
                                      {"compute_input", 2, Kind::Message, kDuration},
                                      {"compute_infer", 3, Kind::Message, kDuration},
                                      {"compute_output", 4, Kind::Message, kDuration}};
constexpr Field kMemory[] = {
    {"type", 1, Kind::Text, {}}, {"id", 2, Kind::Integer, {}}, {"byte_size", 3, Kind::Integer, {}}};
constexpr Field kModelStatistics[] = {{"name", 1, Kind::Text, {}},
                                      {"version", 2, Kind::Text, {}},
                                      {"last_inference", 3, Kind::Integer, {}},
                                      {"inference_count", 4, Kind::Integer, {}},
                                      {"execution_count", 5, Kind::Integer, {}},
                                      {"inference_stats", 6, Kind::Message, kInferStatistics},
                                      {"batch_stats", 7, Kind::Message, kBatchStatistics},
                                      {"memory_usage", 8, Kind::Message, kMemory},
                                      {"response_stats", 9, Kind::TextMap, {}}};
constexpr Field kStatistics[] = {{"model_stats", 1, Kind::Message, kModelStatistics}};

constexpr Field kIndexed[] = {{"name", 1, Kind::Text, {}},
                              {"version", 2, Kind::Text, {}},
                              {"state", 3, Kind::Text, {}},
                              {"reason", 4, Kind::Text, {}}};
constexpr Field kIndex[] = {{"models", 1, Kind::Message, kIndexed}};
constexpr Field kTraceValue[] = {{"value", 1, Kind::Text, {}}};
constexpr Field kTrace[] = {{"settings", 1, Kind::TextMap, kTraceValue}};
constexpr Field kLogValue[] = {{"bool_param", 1, Kind::Bool, {}},
                               {"uint32_param", 2, Kind::Integer, {}},
                               {"string_param", 3, Kind::Text, {}}};
constexpr Field kLog[] = {{"settings", 1, Kind::TextMap, kLogValue}};

/// By the numbers of model_config.proto.
constexpr std::string_view kDataTypes[] = {
    "TYPE_INVALID", "TYPE_BOOL", "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32",
    "TYPE_UINT64",  "TYPE_INT8", "TYPE_INT16", "TYPE_INT32",  "TYPE_INT64",
    "TYPE_FP16",    "TYPE_FP32", "TYPE_FP64",  "TYPE_STRING", "TYPE_BF16"};
constexpr std::string_view kInstanceKinds[] = {"KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"};
constexpr std::string_view kTimeoutActions[] = {"REJECT", "DELAY"};

int32_t enumOf(std::span<const std::string_view> names, const std::string &name) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) {
      return static_cast<int32_t>(i);
    }
  }
  return 0;
}

std::span<const Field> answerFields(Operation operation) {
  switch (operation) {
  case Operation::ServerLive:
    return kLive;
  case Operation::ServerReady:
  case Operation::ModelReady:
    return kReady;
  case Operation::ServerMetadata:
    return kServer;
  case Operation::ModelMetadata:
    return kModel;
  case Operation::ModelConfig:
    return kConfigAnswer;
  case Operation::ModelStatistics:
    return kStatistics;
  case Operation::RepositoryIndex:
    return kIndex;
  case Operation::TraceSetting:
    return kTrace;
  case Operation::Logging:
    return kLog;
  default:
    return {};
  }
}

void writeMessage(const Json &object, std::span<const Field> fields, pbf_writer &writer);

void writeValue(const Json &value, const Field &field, pbf_writer &writer) {
  switch (field.kind) {
  case Kind::Text:
    writer.add_string(field.number, value.get<std::string>());
    return;
  case Kind::Bool:
    writer.add_bool(field.number, value.get<bool>());
    return;
  case Kind::Integer:
    value.is_number_unsigned() ? writer.add_uint64(field.number, value.get<uint64_t>())
                               : writer.add_int64(field.number, value.get<int64_t>());
    return;
  case Kind::DataType:
    writer.add_enum(field.number, enumOf(kDataTypes, value.get<std::string>()));
    return;
  case Kind::InstanceKind:
    writer.add_enum(field.number, enumOf(kInstanceKinds, value.get<std::string>()));
    return;
  case Kind::TimeoutAction:
    writer.add_enum(field.number, enumOf(kTimeoutActions, value.get<std::string>()));
    return;
  case Kind::Message: {
    pbf_writer message(writer, field.number);
    writeMessage(value, field.fields, message);
    return;
  }
  case Kind::TextMap:
  case Kind::NumberMap:
    // Maps of a message have no order: by the keys, it is always the same.
    std::map<std::string, Json> entries = value;
    for (const auto &[key, each] : entries) {
      pbf_writer entry(writer, field.number);
      field.kind == Kind::TextMap ? entry.add_string(1, key)
                                  : entry.add_uint64(1, std::stoull(key));
      pbf_writer message(entry, 2);
      writeMessage(each, field.fields, message);
    }
  }
}

void writeMessage(const Json &object, std::span<const Field> fields, pbf_writer &writer) {
  for (const Field &field : fields) {
    Json::const_iterator found = object.find(field.name);
    if (found == object.end()) {
      continue;
    }
    if (!found->is_array()) {
      writeValue(*found, field, writer);
    } else if (field.kind == Kind::Integer) {
      std::vector<int64_t> values = found->get<std::vector<int64_t>>();
      writer.add_packed_int64(field.number, values.begin(), values.end());
    } else {
      for (const Json &each : *found) {
        writeValue(each, field, writer);
      }
    }
  }
}

/// Settings as their messages have them: each a list of texts, or one of several types.
Json settingsOf(const Json &object, bool isTrace) {
  Json settings = Json::object();
  for (const auto &[key, value] : object.items()) {
    if (isTrace) {
      settings[key]["value"] = value.is_array() ? value : Json::array({value});
    } else {
      settings[key][value.is_boolean()  ? "bool_param"
                    : value.is_number() ? "uint32_param"
                                        : "string_param"] = value;
    }
  }
  return settings;
}

Status readText(pbf_reader &reader, std::string &text) {
  protozero::data_view view = reader.get_view();
  if (view.size() > kMaxName) {
    return Status::error(
        ErrorId::BadGrpcMessage,
        fmt::format("the gRPC message is not valid: a name is longer than {} bytes", kMaxName));
  }
  text.assign(view.data(), view.size());
  return Status::ok();
}

/// Where the name of the model stands in the request of an operation; its version stands behind
/// `name`.
uint32_t modelField(Operation operation) {
  switch (operation) {
  case Operation::RepositoryLoad:
  case Operation::RepositoryUnload:
  case Operation::TraceSetting:
    return 2;
  case Operation::ModelReady:
  case Operation::ModelMetadata:
  case Operation::ModelConfig:
  case Operation::ModelStatistics:
  case Operation::HealthCheck:
  case Operation::HealthWatch:
    return 1;
  default:
    return 0;
  }
}

} // namespace

Status readGrpcRequest(std::string_view message, RouteMatch &match, std::string &settings) {
  Operation operation = match.route->operation;
  uint32_t model = modelField(operation);
  uint32_t parameters = operation == Operation::RepositoryLoad ? 3
                        : operation == Operation::TraceSetting || operation == Operation::Logging
                            ? 1
                            : 0;
  try {
    pbf_reader reader(message.data(), message.size());
    while (reader.next()) {
      bool isText = reader.wire_type() == Wire::length_delimited;
      if (model != 0 && reader.tag() == model && isText) {
        TENON_TRY(readText(reader, match.model));
      } else if (model == 1 && reader.tag() == 2 && isText) {
        TENON_TRY(readText(reader, match.version));
      } else if (operation == Operation::RepositoryIndex && reader.tag() == 2 &&
                 reader.wire_type() == Wire::varint) {
        settings = reader.get_bool() ? R"({"ready":true})" : "";
      } else {
        // What they are does not count: none can be given.
        settings = parameters != 0 && reader.tag() == parameters && isText
                       ? R"({"parameters":{"any":true}})"
                       : settings;
        reader.skip();
      }
    }
  } catch (const protozero::exception &error) {
    return Status::error(ErrorId::BadGrpcMessage,
                         fmt::format("the gRPC message is not valid: {}", error.what()));
  }
  return Status::ok();
}

Result<std::string> writeGrpcAnswer(Operation operation, std::string_view text) {
  std::string message;
  try {
    Json answer = parseJson(text);
    if (operation == Operation::RepositoryIndex) {
      answer = {{"models", answer}};
    } else if (operation == Operation::ModelConfig) {
      answer = {{"config", answer}};
    } else if (operation == Operation::TraceSetting || operation == Operation::Logging) {
      answer = {{"settings", settingsOf(answer, operation == Operation::TraceSetting)}};
    }
    pbf_writer writer(message);
    writeMessage(answer, answerFields(operation), writer);
  } catch (const Json::exception &error) {
    return Status::error(ErrorId::InternalError,
                         fmt::format("an answer is not as its message is: {}", error.what()));
  }
  return message;
}

std::string writeHealth(Health health) {
  std::string message;
  pbf_writer(message).add_enum(1, static_cast<int32_t>(health));
  return message;
}

} // namespace tenon::server
