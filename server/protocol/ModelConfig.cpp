// One function for each message of the file; all of them end in Reader::unknown for what they do
// not have. One file: the reader is one class, a function a message.

#include "server/protocol/ModelConfig.h"

#include "server/protocol/DataType.h"
#include "server/protocol/TextProto.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace tenon::server {
namespace {

constexpr uint64_t kMaxInstances = 64;
constexpr uint64_t kMaxGpus = 1024;
constexpr uint64_t kMaxBatch = 1 << 20;
constexpr uint64_t kMaxTexts = 1'000'000;
constexpr uint64_t kMaxPriorities = 1000;
constexpr uint64_t kMaxDrafts = 64; ///< tokens
/// 12 days: no sum of times overflows.
constexpr uint64_t kMaxMicroseconds = uint64_t(1) << 40;

class Reader {
public:
  Reader(std::string_view file, bool isLenient) : file(file), isLenient(isLenient) {}

  Status read(const std::vector<TextField> &fields) {
    for (const TextField &field : fields) {
      if (field.name == "name") {
        TENON_TRY(readString(field, config.name));
      } else if (field.name == "platform") {
        TENON_TRY(readString(field, config.platform));
      } else if (field.name == "backend") {
        TENON_TRY(readString(field, config.backend));
      } else if (field.name == "default_model_filename") {
        TENON_TRY(readString(field, config.fileName));
        if (config.fileName.find('/') != std::string::npos || config.fileName.starts_with('.')) {
          return fault(field, "'default_model_filename' is not a file name");
        }
      } else if (field.name == "max_batch_size") {
        config.hasMaxBatchSize = true;
        TENON_TRY(readNumber(field, kMaxBatch, config.maxBatchSize));
      } else if (field.name == "input") {
        TENON_TRY(readPort(field, config.inputs));
      } else if (field.name == "output") {
        TENON_TRY(readPort(field, config.outputs));
      } else if (field.name == "version_policy") {
        TENON_TRY(readVersions(field));
      } else if (field.name == "instance_group") {
        TENON_TRY(readInstances(field));
      } else if (field.name == "parameters") {
        TENON_TRY(readParameter(field));
      } else if (field.name == "dynamic_batching") {
        batchingField = &field;
        TENON_TRY(readBatching(field));
      } else {
        TENON_TRY(unknown(field));
      }
    }
    return checkBatching();
  }

  ModelConfig config;

private:
  Status fault(const TextField &field, std::string_view what) const {
    return Status::error(ErrorId::BadModelConfig, fmt::format("{}:{}: {}", file, field.line, what));
  }

  Status unknown(const TextField &field) {
    std::string what =
        fmt::format("Tenon does not support the field '{}'", field.name.substr(0, 64));
    if (!isLenient) {
      return Status::error(ErrorId::BadModelConfig,
                           fmt::format("{}:{}: {}", file, field.line, what),
                           "remove it, or ignore such fields with --lenient");
    }
    config.notes.push_back(fmt::format("{}:{}: {}; it is ignored", file, field.line, what));
    return Status::ok();
  }

  Status readString(const TextField &field, std::string &value) const {
    if (!field.isString) {
      return fault(field, fmt::format("'{}' is not a string", field.name));
    }
    value = field.value;
    return Status::ok();
  }

  Status readInteger(const TextField &field, int64_t least, int64_t most, int64_t &value) const {
    const char *end = field.value.data() + field.value.size();
    std::from_chars_result result = std::from_chars(field.value.data(), end, value);
    bool isNumber =
        !field.isString && !field.isMessage && result.ec == std::errc() && result.ptr == end;
    if (!isNumber || value < least || value > most) {
      return fault(
          field, fmt::format("'{}' must be a whole number from {} to {}", field.name, least, most));
    }
    return Status::ok();
  }

  Status readNumber(const TextField &field, uint64_t most, uint64_t &value) const {
    int64_t number = 0;
    TENON_TRY(readInteger(field, 0, static_cast<int64_t>(most), number));
    value = static_cast<uint64_t>(number);
    return Status::ok();
  }

  Status expectMessage(const TextField &field) const {
    return field.isMessage
               ? Status::ok()
               : fault(field, fmt::format("'{}' must be a message in braces", field.name));
  }

  Status readPort(const TextField &field, std::vector<ConfigPort> &ports) {
    TENON_TRY(expectMessage(field));
    ConfigPort port;
    port.line = field.line;
    bool hasType = false;
    for (const TextField &member : field.fields) {
      if (member.name == "name") {
        TENON_TRY(readString(member, port.name));
      } else if (member.name == "data_type") {
        std::optional<DType> dtype =
            member.value.starts_with("TYPE_")
                ? parseProtocolName(std::string_view(member.value).substr(5))
                : std::nullopt;
        if (!dtype) {
          return fault(
              member, fmt::format("'{}' is not the type of an engine", member.value.substr(0, 64)));
        }
        port.dtype = *dtype;
        hasType = true;
      } else if (member.name == "dims") {
        int64_t dim = 0;
        TENON_TRY(readInteger(member, -1, INT64_MAX, dim));
        port.dims.push_back(dim);
      } else {
        TENON_TRY(unknown(member));
      }
    }
    if (port.name.empty() || !hasType) {
      return fault(field, fmt::format("an {} needs a name and a data_type", field.name));
    }
    ports.push_back(std::move(port));
    return Status::ok();
  }

  Status readVersions(const TextField &field) {
    TENON_TRY(expectMessage(field));
    for (const TextField &policy : field.fields) {
      TENON_TRY(expectMessage(policy));
      VersionPolicy &versions = config.versions;
      versions = {};
      if (policy.name == "all") {
        versions.kind = VersionPolicy::Kind::All;
      } else if (policy.name == "specific") {
        versions.kind = VersionPolicy::Kind::Specific;
      } else if (policy.name != "latest") {
        TENON_TRY(unknown(policy));
      }
      for (const TextField &member : policy.fields) {
        if (policy.name == "latest" && member.name == "num_versions") {
          TENON_TRY(readNumber(member, UINT32_MAX, versions.latest));
        } else if (policy.name == "specific" && member.name == "versions") {
          versions.specific.emplace_back();
          TENON_TRY(readInteger(member, 0, INT64_MAX, versions.specific.back()));
        } else {
          TENON_TRY(unknown(member));
        }
      }
    }
    return Status::ok();
  }

  Status readBatching(const TextField &field) {
    TENON_TRY(expectMessage(field));
    BatchingConfig &batching = config.batching.emplace();
    for (const TextField &member : field.fields) {
      if (member.name == "preferred_batch_size") {
        TENON_TRY(readNumber(member, kMaxBatch, batching.preferred.emplace_back()));
      } else if (member.name == "max_queue_delay_microseconds") {
        TENON_TRY(readNumber(member, kMaxMicroseconds, batching.delayMicroseconds));
      } else if (member.name == "priority_levels") {
        TENON_TRY(readNumber(member, kMaxPriorities, batching.priorityLevels));
      } else if (member.name == "default_priority_level") {
        TENON_TRY(readNumber(member, kMaxPriorities, batching.defaultPriority));
      } else if (member.name == "default_queue_policy") {
        TENON_TRY(readPolicy(member, batching.policy));
      } else if (member.name == "priority_queue_policy") {
        TENON_TRY(readPriorityPolicy(member, batching));
      } else if (member.name == "preserve_ordering") {
        config.notes.push_back(fmt::format(
            "{}:{}: preserve_ordering is ignored: replies are sent as soon as they are ready", file,
            member.line));
      } else {
        TENON_TRY(unknown(member));
      }
    }
    std::sort(batching.preferred.begin(), batching.preferred.end());
    return Status::ok();
  }

  Status readPolicy(const TextField &field, QueuePolicy &policy) {
    TENON_TRY(expectMessage(field));
    policy.allowsOwnTimeout = false; // as Triton has it where a policy is given
    for (const TextField &member : field.fields) {
      if (member.name == "timeout_action" &&
          (member.value == "REJECT" || member.value == "DELAY")) {
        policy.rejectsLate = member.value == "REJECT";
      } else if (member.name == "default_timeout_microseconds") {
        TENON_TRY(readNumber(member, kMaxMicroseconds, policy.timeoutMicroseconds));
      } else if (member.name == "allow_timeout_override" &&
                 (member.value == "true" || member.value == "false")) {
        policy.allowsOwnTimeout = member.value == "true";
      } else if (member.name == "max_queue_size") {
        TENON_TRY(readNumber(member, UINT32_MAX, policy.maxQueued));
      } else {
        TENON_TRY(unknown(member));
      }
    }
    return Status::ok();
  }

  /// An entry of a map: a key and a value.
  Status readPriorityPolicy(const TextField &field, BatchingConfig &batching) {
    TENON_TRY(expectMessage(field));
    uint64_t priority = 0;
    QueuePolicy policy;
    for (const TextField &member : field.fields) {
      if (member.name == "key") {
        TENON_TRY(readNumber(member, kMaxPriorities, priority));
      } else if (member.name == "value") {
        TENON_TRY(readPolicy(member, policy));
      } else {
        TENON_TRY(unknown(member));
      }
    }
    batching.policies[priority] = policy;
    return Status::ok();
  }

  Status checkBatching() const {
    if (!config.batching) {
      return Status::ok();
    }
    const BatchingConfig &batching = *config.batching;
    if (config.hasMaxBatchSize && config.maxBatchSize == 0) {
      return fault(*batchingField, "dynamic_batching needs a max_batch_size above 0, or none: then "
                                   "the engine determines the batch size");
    }
    if (!batching.preferred.empty() &&
        (batching.preferred[0] == 0 ||
         (config.maxBatchSize > 0 && batching.preferred.back() > config.maxBatchSize))) {
      return fault(*batchingField, "a preferred_batch_size is 0 or above max_batch_size");
    }
    bool hasDefault =
        batching.priorityLevels == 0 ||
        (batching.defaultPriority > 0 && batching.defaultPriority <= batching.priorityLevels);
    bool hasLevels =
        batching.policies.empty() || (batching.policies.begin()->first > 0 &&
                                      batching.policies.rbegin()->first <= batching.priorityLevels);
    if (!hasDefault || !hasLevels) {
      return fault(*batchingField,
                   fmt::format("a priority must be from 1 to priority_levels, which is {}",
                               batching.priorityLevels));
    }
    return Status::ok();
  }

  Status readGpu(const TextField &field) {
    std::vector<uint64_t> &gpus = config.placement.gpus;
    uint64_t gpu = 0;
    TENON_TRY(readNumber(field, kMaxGpus, gpu));
    if (std::ranges::find(gpus, gpu) != gpus.end()) {
      return fault(field, "a GPU is given twice: each rank of a model has one of its own");
    }
    gpus.push_back(gpu);
    return Status::ok();
  }

  Status readInstances(const TextField &field) {
    TENON_TRY(expectMessage(field));
    if (std::exchange(hasInstances, true)) {
      return fault(field, "there is a second instance_group: a model runs on one device");
    }
    Placement &placement = config.placement;
    for (const TextField &member : field.fields) {
      if (member.name == "count") {
        TENON_TRY(readNumber(member, kMaxInstances, config.instances));
        config.instances = std::max<uint64_t>(config.instances, 1);
      } else if (member.name == "kind" &&
                 (member.value == "KIND_CPU" || member.value == "KIND_GPU" ||
                  member.value == "KIND_AUTO")) {
        placement.kind = member.value == "KIND_CPU"   ? Placement::Kind::Cpu
                         : member.value == "KIND_GPU" ? Placement::Kind::Gpu
                                                      : Placement::Kind::Auto;
      } else if (member.name == "gpus") {
        TENON_TRY(readGpu(member));
      } else if (member.name == "name") {
        TENON_TRY(readString(member, ignored));
      } else {
        TENON_TRY(unknown(member));
      }
    }
    return !placement.gpus.empty() && placement.kind == Placement::Kind::Cpu
               ? fault(field, "gpus are given with KIND_CPU")
               : Status::ok();
  }

  Status readParameter(const TextField &field) {
    TENON_TRY(expectMessage(field));
    std::pair<std::string, std::string> parameter;
    for (const TextField &member : field.fields) {
      if (member.name == "key") {
        TENON_TRY(readString(member, parameter.first));
      } else if (member.name == "value") {
        TENON_TRY(expectMessage(member));
        for (const TextField &value : member.fields) {
          TENON_TRY(value.name == "string_value" ? readString(value, parameter.second)
                                                 : unknown(value));
        }
      } else {
        TENON_TRY(unknown(member));
      }
    }
    if (parameter.first == "batch_tolerance" &&
        !(parseNumber(parameter.second, config.batchTolerance) && config.batchTolerance > 0 &&
          config.batchTolerance < 1)) {
      return fault(field, "'batch_tolerance' must be a number above 0 and below 1");
    }
    if (parameter.first == "answers_may_depend_on_other_requests") {
      config.acceptsMeetings = parameter.second == "accepted";
      if (!config.acceptsMeetings) {
        return fault(field, "'answers_may_depend_on_other_requests' must be \"accepted\"");
      }
    }
    if (parameter.first == "pin") {
      config.isPinned = parameter.second == "true";
      if (!config.isPinned && parameter.second != "false") {
        return fault(field, "'pin' must be true or false");
      }
    }
    if (parameter.first == "worker") {
      config.hasOwnWorker = parameter.second == "own";
      if (!config.hasOwnWorker && parameter.second != "shared") {
        return fault(field, "'worker' must be own or shared");
      }
    }
    if (parameter.first == "draft_tokens") {
      uint64_t tokens = 0;
      if (!parseNumber(parameter.second, tokens) || tokens > kMaxDrafts) {
        return fault(field,
                     fmt::format("'draft_tokens' must be a number from 0 to {}", kMaxDrafts));
      }
      config.draftTokens = tokens;
    }
    if (parameter.first == "draft_model") {
      config.draftModel = parameter.second;
      if (config.draftModel.find('/') != std::string::npos || config.draftModel.starts_with('.') ||
          config.draftModel.empty()) {
        return fault(field, "'draft_model' is not a file name");
      }
    }
    for (auto [key, value] : {std::pair("users", &config.users), {"tokens", &config.tokens}}) {
      bool isRight = parameter.first != key ||
                     (parseNumber(parameter.second, *value) && *value > 0 && *value <= kMaxTexts);
      if (!isRight) {
        return fault(field,
                     fmt::format("'{}' must be a whole number from 1 to {}", key, kMaxTexts));
      }
    }
    if (parameter.first == "pad" && !readPads(parameter.second)) {
      return fault(field, "'pad' must have the form \"input: 0, other_input: -1\"");
    }
    if (parameter.first == "buckets" && !readBuckets(parameter.second)) {
      return fault(field, "'buckets' must have the form \"16, 32, 64\", ascending");
    }
    config.parameters.push_back(std::move(parameter));
    return Status::ok();
  }

  template <typename Number> static bool parseNumber(std::string_view text, Number &value) {
    std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), value);
    return result.ec == std::errc() && result.ptr == text.data() + text.size();
  }

  /// What stands before the next comma, without blanks; `text` goes on behind it.
  static std::string_view nextItem(std::string_view &text) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view item = trim(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    return item;
  }

  static std::string_view trim(std::string_view text) {
    size_t first = std::min(text.find_first_not_of(' '), text.size());
    return text.substr(first, text.find_last_not_of(' ') + 1 - first);
  }

  bool readPads(std::string_view text) {
    while (!text.empty()) {
      std::string_view item = nextItem(text);
      size_t colon = item.rfind(':');
      double value = 0;
      if (colon == std::string_view::npos || !parseNumber(trim(item.substr(colon + 1)), value)) {
        return false;
      }
      config.pads.emplace_back(trim(item.substr(0, colon)), value);
    }
    return !config.pads.empty();
  }

  bool readBuckets(std::string_view text) {
    while (!text.empty()) {
      int64_t length = 0;
      if (!parseNumber(nextItem(text), length) ||
          length <= (config.buckets.empty() ? 0 : config.buckets.back())) {
        return false;
      }
      config.buckets.push_back(length);
    }
    return !config.buckets.empty();
  }

  std::string_view file;
  bool isLenient;
  std::string ignored;
  bool hasInstances = false;
  const TextField *batchingField = nullptr;
};

} // namespace

Result<ModelConfig> parseModelConfig(std::string_view text, std::string_view file, bool isLenient) {
  TENON_ASSIGN(std::vector<TextField> fields, parseTextProto(text, file));
  Reader reader(file, isLenient);
  TENON_TRY(reader.read(fields));
  return std::move(reader.config);
}

} // namespace tenon::server
