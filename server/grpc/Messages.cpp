// A table of fields for each message, by which answers are written. libprotobuf would do the same
// by reflection, but Debian's archive of it cannot be linked into a shared library.

#include "server/grpc/Messages.h"

#include "server/protocol/InferRequest.h"
#include "support/Check.h"

#include <fmt/format.h>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <deque>
#include <optional>
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

// A list is a repeated field.
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

int32_t enumOf(std::span<const std::string_view> names, std::string_view name) {
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

/// Whether the answer, which is a value by itself, is the only field of its message.
bool isWrapped(Operation operation) {
  return operation == Operation::RepositoryIndex || operation == Operation::ModelConfig ||
         operation == Operation::TraceSetting || operation == Operation::Logging;
}

class MessageAnswer final : public AnswerWriter {
public:
  explicit MessageAnswer(Operation operation) : operation(operation) {
    push(answerFields(operation)).writer.emplace(message);
  }

  std::string take() {
    frames.pop_back();
    return std::move(message);
  }

  void begin(std::string_view name) override {
    Frame &parent = frames.back();
    if (frames.size() == 1 && !isWrapped(operation)) {
      push(parent.fields); // the answer is the message
      return;
    }
    const Field &field = fieldOf(name);
    pbf_writer &writer = writerOf();
    if (isMap(parent)) {
      writeKey(push(field.fields), field, name, writer);
    } else if (field.kind == Kind::TextMap || field.kind == Kind::NumberMap) {
      push({}).repeated = &field;
    } else {
      push(field.fields).writer.emplace(writer, field.number);
    }
  }
  void beginList(std::string_view name) override {
    const Field &field = fieldOf(name);
    push({}).repeated = &field;
  }
  void end() override { frames.pop_back(); }

  void text(std::string_view name, std::string_view value) override {
    write(name, Kind::Text, [&](const Field &field, pbf_writer &writer) {
      std::span<const std::string_view> names = namesOf(field.kind);
      names.empty() ? writer.add_string(field.number, value.data(), value.size())
                    : writer.add_enum(field.number, enumOf(names, value));
    });
  }
  void flag(std::string_view name, bool value) override {
    write(name, Kind::Bool,
          [&](const Field &field, pbf_writer &writer) { writer.add_bool(field.number, value); });
  }
  void number(std::string_view name, uint64_t value) override {
    write(name, Kind::Integer,
          [&](const Field &field, pbf_writer &writer) { writer.add_uint64(field.number, value); });
  }
  void numbers(std::string_view name, std::span<const int64_t> values) override {
    writerOf().add_packed_int64(fieldOf(name).number, values.begin(), values.end());
  }
  void texts(std::string_view name, std::span<const std::string> values) override {
    write(name, Kind::Text, [&](const Field &field, pbf_writer &writer) {
      for (const std::string &value : values) {
        writer.add_string(field.number, value);
      }
    });
  }

private:
  /// What was begun: a message, or the values of a repeated field, which lie in the message below.
  struct Frame {
    std::span<const Field> fields;
    const Field *repeated = nullptr;
    std::optional<pbf_writer> entry, writer; ///< ended in the other order
  };

  static bool isMap(const Frame &frame) {
    return frame.repeated && frame.repeated->kind != Kind::Message;
  }
  static std::span<const std::string_view> namesOf(Kind kind) {
    switch (kind) {
    case Kind::DataType:
      return kDataTypes;
    case Kind::InstanceKind:
      return kInstanceKinds;
    case Kind::TimeoutAction:
      return kTimeoutActions;
    default:
      return {};
    }
  }
  Frame &push(std::span<const Field> fields) {
    Frame &frame = frames.emplace_back();
    frame.fields = fields;
    return frame;
  }
  pbf_writer &writerOf() {
    return *std::find_if(frames.rbegin(), frames.rend(), [](const Frame &frame) {
              return frame.writer.has_value();
            })->writer;
  }
  const Field &fieldOf(std::string_view name) const {
    const Frame &frame = frames.back();
    if (frame.repeated) {
      return *frame.repeated;
    }
    const Field *found =
        name.empty() // the only one
            ? frame.fields.data()
            : std::find_if(frame.fields.data(), frame.fields.data() + frame.fields.size(),
                           [&](const Field &each) { return each.name == name; });
    TENON_CHECK(found < frame.fields.data() + frame.fields.size(),
                "an answer has a field that its message lacks");
    return *found;
  }
  static void writeKey(Frame &entry, const Field &map, std::string_view key, pbf_writer &writer) {
    entry.entry.emplace(writer, map.number);
    map.kind == Kind::TextMap ? entry.entry->add_string(1, key.data(), key.size())
                              : entry.entry->add_uint64(1, std::stoull(std::string(key)));
    entry.writer.emplace(*entry.entry, 2);
  }
  /// A value of a map is a message, whose field for values of `kind` it is.
  template <typename Add> void write(std::string_view name, Kind kind, const Add &add) {
    const Field &field = fieldOf(name);
    if (!isMap(frames.back())) {
      add(field, writerOf());
      return;
    }
    Frame entry;
    writeKey(entry, field, name, writerOf());
    add(*std::find_if(field.fields.begin(), field.fields.end(),
                      [&](const Field &each) { return each.kind == kind; }),
        *entry.writer);
  }

  const Operation operation;
  std::string message;
  std::deque<Frame> frames;
};

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

Status readGrpcRequest(std::string_view message, Question &asked) {
  Operation operation = asked.operation;
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
        TENON_TRY(readText(reader, asked.model));
      } else if (model == 1 && reader.tag() == 2 && isText) {
        TENON_TRY(readText(reader, asked.version));
      } else if (operation == Operation::RepositoryIndex && reader.tag() == 2 &&
                 reader.wire_type() == Wire::varint) {
        // get_bool would read a byte past a message that ends at the tag.
        asked.onlyReady = reader.get_uint64() != 0;
      } else {
        // What they are does not count: none can be given.
        asked.hasSettings |= parameters != 0 && reader.tag() == parameters && isText;
        reader.skip();
      }
    }
  } catch (const protozero::exception &error) {
    return Status::error(ErrorId::BadGrpcMessage,
                         fmt::format("the gRPC message is not valid: {}", error.what()));
  }
  return Status::ok();
}

std::string writeGrpcAnswer(Operation operation, const Answer &answer) {
  MessageAnswer writer(operation);
  if (const std::function<void(AnswerWriter &)> *fields = std::get_if<1>(&answer)) {
    (*fields)(writer);
  }
  return writer.take();
}

std::string writeHealth(Health health) {
  std::string message;
  pbf_writer(message).add_enum(1, static_cast<int32_t>(health));
  return message;
}

} // namespace tenon::server
