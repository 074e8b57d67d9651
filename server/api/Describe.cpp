// Of the protocol, field by field; what it lacks, such as traffic, is JSON alone.

#include "server/api/Describe.h"

#include "server/protocol/DataType.h"
#include "server/protocol/Json.h"
#include "support/json/Json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace tenon::server {
namespace {

constexpr std::string_view kPlatform = "tenon";

/// Dims as metadata tell them: -1 where a dim varies.
std::vector<int64_t> shapeOf(const ModelPort &port) {
  std::vector<int64_t> shape;
  for (size_t i = 0; i < port.minDims.size(); ++i) {
    shape.push_back(port.minDims[i] == port.maxDims[i] ? port.maxDims[i] : -1);
  }
  return shape;
}

void writePorts(AnswerWriter &out, std::string_view name, const std::vector<ModelPort> &ports) {
  out.beginList(name);
  for (const ModelPort &port : ports) {
    out.begin();
    out.text("name", port.name);
    out.text("datatype", protocolName(port.dtype));
    out.numbers("shape", shapeOf(port));
    out.end();
  }
  out.end();
}

void writeConfigPorts(AnswerWriter &out, std::string_view name, const Version &version,
                      const std::vector<ModelPort> &ports) {
  out.beginList(name);
  for (const ModelPort &port : ports) {
    std::vector<int64_t> dims = shapeOf(port);
    out.begin();
    out.text("name", port.name);
    out.text("data_type", fmt::format("TYPE_{}", protocolName(port.dtype)));
    out.numbers("dims", std::span(dims).subspan(version.config.maxBatchSize > 0 ? 1 : 0));
    out.end();
  }
  out.end();
}

void writePolicy(AnswerWriter &out, const VersionPolicy &policy) {
  out.begin("version_policy");
  switch (policy.kind) {
  case VersionPolicy::Kind::All:
    out.begin("all");
    break;
  case VersionPolicy::Kind::Specific:
    out.begin("specific");
    out.numbers("versions", policy.specific);
    break;
  case VersionPolicy::Kind::Latest:
    out.begin("latest");
    out.number("num_versions", policy.latest);
    break;
  }
  out.end();
  out.end();
}

void writeInstances(AnswerWriter &out, const Version &version) {
  const Placement &placement = version.config.placement;
  out.beginList("instance_group");
  out.begin();
  out.text("name", version.model);
  out.text("kind", placement.kind == Placement::Kind::Auto  ? "KIND_AUTO"
                   : placement.kind == Placement::Kind::Gpu ? "KIND_GPU"
                                                            : "KIND_CPU");
  out.number("count", version.config.instances);
  if (version.device() && !version.device()->isCpu()) {
    const std::vector<uint64_t> &given = version.device()->gpus;
    out.numbers("gpus", std::vector<int64_t>(given.begin(), given.end()));
  }
  out.end();
  out.end();
}

void writePolicy(AnswerWriter &out, std::string_view name, const QueuePolicy &policy) {
  out.begin(name);
  out.text("timeout_action", policy.rejectsLate ? "REJECT" : "DELAY");
  out.number("default_timeout_microseconds", policy.timeoutMicroseconds);
  out.flag("allow_timeout_override", policy.allowsOwnTimeout);
  out.number("max_queue_size", policy.maxQueued);
  out.end();
}

void writeBatching(AnswerWriter &out, const BatchingConfig &batching) {
  out.begin("dynamic_batching");
  std::vector<int64_t> preferred(batching.preferred.begin(), batching.preferred.end());
  out.numbers("preferred_batch_size", preferred);
  out.number("max_queue_delay_microseconds", batching.delayMicroseconds);
  out.flag("preserve_ordering", false);
  out.number("priority_levels", batching.priorityLevels);
  out.number("default_priority_level", batching.defaultPriority);
  writePolicy(out, "default_queue_policy", batching.policy);
  out.begin("priority_queue_policy");
  for (const auto &[priority, policy] : batching.policies) {
    writePolicy(out, std::to_string(priority), policy);
  }
  out.end();
  out.end();
}

void writeSum(AnswerWriter &out, std::string_view name, const DurationSum &sum) {
  out.begin(name);
  out.number("count", sum.count);
  out.number("ns", sum.nanoseconds);
  out.end();
}

void writeStatistics(AnswerWriter &out, const Version &version) {
  const VersionStatistics &counted = *version.statistics;
  out.begin();
  out.text("name", version.model);
  out.text("version", version.number);
  out.number("last_inference", counted.lastInference);
  out.number("inference_count", counted.inferences);
  out.number("execution_count", counted.executions);
  out.begin("inference_stats");
  const std::pair<std::string_view, DurationSum> sums[] = {
      {"success", counted.success},
      {"fail", counted.failure},
      {"queue", counted.queue.sum()},
      {"compute_input", counted.copyIn.sum()},
      {"compute_infer", counted.compute.sum()},
      {"compute_output", counted.copyOut.sum()},
      {"cache_hit", {}},
      {"cache_miss", {}}};
  for (const auto &[name, sum] : sums) {
    writeSum(out, name, sum);
  }
  out.end();
  out.beginList("batch_stats");
  for (const auto &[rows, batch] : counted.batches) {
    out.begin();
    out.number("batch_size", rows);
    writeSum(out, "compute_input", batch.copyIn);
    writeSum(out, "compute_infer", batch.compute);
    writeSum(out, "compute_output", {batch.compute.count, batch.copyOut});
    out.end();
  }
  out.end();
  out.beginList("memory_usage");
  out.end();
  out.begin("response_stats");
  out.end();
  out.end();
}

} // namespace

std::string_view stateName(VersionState state) {
  switch (state) {
  case VersionState::Ready:
  case VersionState::Cold:
    return "READY";
  case VersionState::Loading:
    return "LOADING";
  case VersionState::Unloading:
    return "UNLOADING";
  case VersionState::Unloaded:
  case VersionState::Failed:
    break;
  }
  return "UNAVAILABLE";
}

std::string reasonOf(const Model &model, const Version &version) {
  const Status &problem = model.problem.isOk() ? version.problem() : model.problem;
  return !problem.isOk()                             ? problem.toString()
         : version.state() == VersionState::Unloaded ? "unloaded"
         : version.state() == VersionState::Cold     ? "not in memory: the next request loads it"
         : isBatchingRefused(version)                ? describeBatching(version)
                                                     : "";
}

Answer describeServer(std::string_view version) {
  return [version](AnswerWriter &out) {
    const std::string extensions[] = {"binary_tensor_data", "model_configuration",
                                      "model_repository", "statistics"};
    out.begin();
    out.text("name", "tenon");
    out.text("version", version);
    out.texts("extensions", extensions);
    out.end();
  };
}

Answer describeModel(const Model &model, std::shared_ptr<Version> version) {
  return [&model, version](AnswerWriter &out) {
    std::vector<std::string> versions;
    for (const auto &[number, each] : model.versions) {
      versions.push_back(each->number);
    }
    out.begin();
    out.text("name", version->model);
    out.texts("versions", versions);
    out.text("platform", kPlatform);
    writePorts(out, "inputs", version->ports.inputs);
    writePorts(out, "outputs", version->ports.outputs);
    out.end();
  };
}

Answer describeConfig(std::shared_ptr<Version> version) {
  return [version](AnswerWriter &out) {
    const ModelConfig &config = version->config;
    std::string batching = describeBatching(*version);
    std::map<std::string, std::string> parameters(config.parameters.begin(),
                                                  config.parameters.end());
    if (!batching.empty()) {
      parameters["tenon.batching"] = batching;
    }
    out.begin();
    out.text("name", version->model);
    out.text("platform", config.platform.empty() ? kPlatform : config.platform);
    out.text("backend", config.backend.empty() ? kPlatform : config.backend);
    writePolicy(out, config.versions);
    out.number("max_batch_size", config.maxBatchSize);
    writeConfigPorts(out, "input", *version, version->ports.inputs);
    writeConfigPorts(out, "output", *version, version->ports.outputs);
    writeInstances(out, *version);
    out.begin("parameters");
    for (const auto &[key, value] : parameters) {
      out.begin(key);
      out.text("string_value", value);
      out.end();
    }
    out.end();
    if (isBatched(*version)) {
      writeBatching(out, config.batching.value_or(BatchingConfig()));
    }
    out.end();
  };
}

Answer describeStatistics(const ModelCatalog &catalog, const std::string &model,
                          std::shared_ptr<Version> only) {
  return [&catalog, model, only](AnswerWriter &out) {
    out.begin();
    out.beginList("model_stats");
    for (const auto &[name, each] : catalog.all()) {
      for (const auto &[number, version] : each.versions) {
        if ((model.empty() || name == model) && (!only || version == only)) {
          writeStatistics(out, *version);
        }
      }
    }
    out.end();
    out.end();
  };
}

Answer describeIndex(const ModelCatalog &catalog, bool onlyReady) {
  return [&catalog, onlyReady](AnswerWriter &out) {
    out.beginList();
    for (const auto &[name, model] : catalog.all()) {
      for (const auto &[number, version] : model.versions) {
        if (onlyReady && !version->isServing()) {
          continue;
        }
        out.begin();
        out.text("name", name);
        out.text("version", version->number);
        out.text("state", stateName(version->state()));
        out.text("reason", reasonOf(model, *version));
        out.end();
      }
    }
    out.end();
  };
}

Answer describeTraceSetting() {
  return [](AnswerWriter &out) {
    const std::string off[] = {"OFF"};
    out.begin();
    out.texts("trace_level", off);
    out.text("trace_rate", "0");
    out.text("trace_count", "-1");
    out.text("log_frequency", "0");
    out.text("trace_file", "");
    out.text("trace_mode", "triton");
    out.end();
  };
}

Answer describeLogging() {
  return [](AnswerWriter &out) {
    out.begin();
    out.text("log_file", "");
    for (std::string_view level : {"log_info", "log_warning", "log_error"}) {
      out.flag(level, true);
    }
    out.number("log_verbose_level", 0);
    out.text("log_format", "default");
    out.end();
  };
}

std::string describeTraffic(const TrafficState &state) {
  Json weights = Json::object(), outputs = Json::object();
  for (const auto &[version, weight] : state.now.weights) {
    weights[std::to_string(version)] = weight;
  }
  for (const auto &[name, output] : state.shadow.outputs) {
    Json largest = std::isfinite(output.largest) ? Json(output.largest) : Json("not comparable");
    outputs[name] = {{"different", output.different}, {"largest_difference", largest}};
  }
  Json value = {{"weights", weights}};
  if (state.now.shadow) {
    value["shadow"] = std::to_string(*state.now.shadow);
    value["shadow_stats"] = {{"compared", state.shadow.compared},
                             {"different", state.shadow.different},
                             {"failed", state.shadow.failed},
                             {"dropped", state.shadow.dropped},
                             {"outputs", outputs}};
  }
  return dumpJson(value);
}

Result<Traffic> parseTraffic(std::string_view text) {
  auto bad = [](std::string_view what) {
    return Status::error(ErrorId::BadTraffic, what,
                         R"(for example {"weights": {"1": 90, "2": 10}, "shadow": "3"})");
  };
  Json value;
  TENON_TRY(parseRequestJson(text.empty() ? "{}" : text, value));
  if (!value.is_object()) {
    return bad("a traffic split is not an object");
  }
  Traffic traffic;
  for (const auto &[key, member] : value.items()) {
    if (key == "weights" && member.is_object()) {
      for (const auto &[version, weight] : member.items()) {
        std::optional<int64_t> number = versionNumber(version);
        if (!number || !weight.is_number_integer()) {
          return bad(
              fmt::format("the weight of version '{}' is not a whole number or not for a version",
                          version.substr(0, 64)));
        }
        traffic.weights[*number] = weight.get<int64_t>();
      }
    } else if (key == "shadow" && member.is_string() && versionNumber(member.get<std::string>())) {
      traffic.shadow = versionNumber(member.get<std::string>());
    } else {
      return bad(fmt::format("'{}' is neither 'weights' nor 'shadow'", key.substr(0, 64)));
    }
  }
  return traffic;
}

} // namespace tenon::server
