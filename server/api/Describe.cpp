// nlohmann-json keeps the order in which keys are written here.

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
Json shapeOf(const ModelPort &port) {
  Json shape = Json::array();
  for (size_t i = 0; i < port.minDims.size(); ++i) {
    shape.push_back(port.minDims[i] == port.maxDims[i] ? port.maxDims[i] : -1);
  }
  return shape;
}

Json portsOf(const std::vector<ModelPort> &ports) {
  Json list = Json::array();
  for (const ModelPort &port : ports) {
    list.push_back(
        {{"name", port.name}, {"datatype", protocolName(port.dtype)}, {"shape", shapeOf(port)}});
  }
  return list;
}

Json configPortsOf(const Version &version, const std::vector<ModelPort> &ports) {
  Json list = Json::array();
  for (const ModelPort &port : ports) {
    Json dims = shapeOf(port);
    if (version.config.maxBatchSize > 0) {
      dims.erase(dims.begin());
    }
    list.push_back({{"name", port.name},
                    {"data_type", fmt::format("TYPE_{}", protocolName(port.dtype))},
                    {"dims", dims}});
  }
  return list;
}

Json policyOf(const VersionPolicy &policy) {
  switch (policy.kind) {
  case VersionPolicy::Kind::All:
    return {{"all", Json::object()}};
  case VersionPolicy::Kind::Specific:
    return {{"specific", {{"versions", policy.specific}}}};
  case VersionPolicy::Kind::Latest:
    break;
  }
  return {{"latest", {{"num_versions", policy.latest}}}};
}

Json instancesOf(const Version &version) {
  const Placement &placement = version.config.placement;
  std::string_view kind = placement.kind == Placement::Kind::Auto  ? "KIND_AUTO"
                          : placement.kind == Placement::Kind::Gpu ? "KIND_GPU"
                                                                   : "KIND_CPU";
  Json group = {{"name", version.model}, {"kind", kind}, {"count", version.config.instances}};
  if (version.device() && version.device()->gpu) {
    group["gpus"] = {*version.device()->gpu}; // that it was given
  }
  return group;
}

Json sumOf(const DurationSum &sum) { return {{"count", sum.count}, {"ns", sum.nanoseconds}}; }

Json batchesOf(const VersionStatistics &counted) {
  Json list = Json::array();
  for (const auto &[rows, batch] : counted.batches) {
    list.push_back({{"batch_size", rows},
                    {"compute_input", sumOf(batch.copyIn)},
                    {"compute_infer", sumOf(batch.compute)},
                    {"compute_output", sumOf({batch.compute.count, batch.copyOut})}});
  }
  return list;
}

Json statisticsOf(const Version &version) {
  const VersionStatistics &counted = *version.statistics;
  Json none = {{"count", 0}, {"ns", 0}};
  return {{"name", version.model},
          {"version", version.number},
          {"last_inference", counted.lastInference},
          {"inference_count", counted.inferences},
          {"execution_count", counted.executions},
          {"inference_stats",
           {{"success", sumOf(counted.success)},
            {"fail", sumOf(counted.failure)},
            {"queue", sumOf(counted.queue.sum())},
            {"compute_input", sumOf(counted.copyIn.sum())},
            {"compute_infer", sumOf(counted.compute.sum())},
            {"compute_output", sumOf(counted.copyOut.sum())},
            {"cache_hit", none},
            {"cache_miss", none}}},
          {"batch_stats", batchesOf(counted)},
          {"memory_usage", Json::array()},
          {"response_stats", Json::object()}};
}

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

Json policyOf(const QueuePolicy &policy) {
  return {{"timeout_action", policy.rejectsLate ? "REJECT" : "DELAY"},
          {"default_timeout_microseconds", policy.timeoutMicroseconds},
          {"allow_timeout_override", policy.allowsOwnTimeout},
          {"max_queue_size", policy.maxQueued}};
}

Json batchingOf(const BatchingConfig &batching) {
  Json policies = Json::object();
  for (const auto &[priority, policy] : batching.policies) {
    policies[std::to_string(priority)] = policyOf(policy);
  }
  return {{"preferred_batch_size", batching.preferred},
          {"max_queue_delay_microseconds", batching.delayMicroseconds},
          {"preserve_ordering", false},
          {"priority_levels", batching.priorityLevels},
          {"default_priority_level", batching.defaultPriority},
          {"default_queue_policy", policyOf(batching.policy)},
          {"priority_queue_policy", policies}};
}

} // namespace

std::string describeServer(std::string_view version) {
  return dumpJson(
      {{"name", "tenon"},
       {"version", version},
       {"extensions",
        {"binary_tensor_data", "model_configuration", "model_repository", "statistics"}}});
}

std::string describeModel(const ModelServer &models, const Version &version) {
  Json versions = Json::array();
  for (const auto &[number, each] : models.catalog.all().at(version.model).versions) {
    versions.push_back(each->number);
  }
  return dumpJson({{"name", version.model},
                   {"versions", versions},
                   {"platform", kPlatform},
                   {"inputs", portsOf(version.ports.inputs)},
                   {"outputs", portsOf(version.ports.outputs)}});
}

std::string describeConfig(const Version &version) {
  Json parameters = Json::object();
  for (const auto &[key, value] : version.config.parameters) {
    parameters[key] = {{"string_value", value}};
  }
  if (std::string batching = describeBatching(version); !batching.empty()) {
    parameters["tenon.batching"] = {{"string_value", batching}};
  }
  Json config = {
      {"name", version.model},
      {"platform",
       version.config.platform.empty() ? kPlatform : std::string_view(version.config.platform)},
      {"backend",
       version.config.backend.empty() ? kPlatform : std::string_view(version.config.backend)},
      {"version_policy", policyOf(version.config.versions)},
      {"max_batch_size", version.config.maxBatchSize},
      {"input", configPortsOf(version, version.ports.inputs)},
      {"output", configPortsOf(version, version.ports.outputs)},
      {"instance_group", Json::array({instancesOf(version)})},
      {"parameters", parameters}};
  if (isBatched(version)) {
    config["dynamic_batching"] = batchingOf(version.config.batching.value_or(BatchingConfig()));
  }
  return dumpJson(config);
}

Result<std::string> describeStatistics(const ModelServer &models, const std::string &model,
                                       const std::string &version) {
  Json list = Json::array();
  if (!model.empty()) {
    TENON_ASSIGN(std::shared_ptr<Version> asked,
                 models.catalog.find(model, version)); // whether there is one
    if (!version.empty()) {
      list.push_back(statisticsOf(*asked));
      return dumpJson({{"model_stats", list}});
    }
  }
  for (const auto &[name, each] : models.catalog.all()) {
    for (const auto &[number, counted] : each.versions) {
      if (model.empty() || name == model) {
        list.push_back(statisticsOf(*counted));
      }
    }
  }
  return dumpJson({{"model_stats", list}});
}

std::string describeIndex(const ModelServer &models, bool onlyReady) {
  Json list = Json::array();
  for (const auto &[name, model] : models.catalog.all()) {
    for (const auto &[number, version] : model.versions) {
      if (onlyReady && !version->isServing()) {
        continue;
      }
      const Status &problem = model.problem.isOk() ? version->problem() : model.problem;
      std::string reason = !problem.isOk()                              ? problem.toString()
                           : version->state() == VersionState::Unloaded ? "unloaded"
                           : version->state() == VersionState::Cold
                               ? "not in memory: the next request loads it"
                               : "";
      if (reason.empty() && isBatchingRefused(*version)) {
        reason = describeBatching(*version);
      }
      list.push_back({{"name", name},
                      {"version", version->number},
                      {"state", stateName(version->state())},
                      {"reason", reason}});
    }
  }
  return dumpJson(list);
}

std::string describeTraffic(const ModelServer &models, const std::string &model) {
  const TrafficState &state = models.traffic.of(model);
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
    return bad("a split of traffic is not an object");
  }
  Traffic traffic;
  for (const auto &[key, member] : value.items()) {
    if (key == "weights" && member.is_object()) {
      for (const auto &[version, weight] : member.items()) {
        std::optional<int64_t> number = versionNumber(version);
        if (!number || !weight.is_number_integer()) {
          return bad(fmt::format("the weight of version '{}' is not a whole number of a version",
                                 version.substr(0, 64)));
        }
        traffic.weights[*number] = weight.get<int64_t>();
      }
    } else if (key == "shadow" && member.is_string() && versionNumber(member.get<std::string>())) {
      traffic.shadow = versionNumber(member.get<std::string>());
    } else {
      return bad(
          fmt::format("'{}' is neither the weights of versions nor a shadow", key.substr(0, 64)));
    }
  }
  return traffic;
}

} // namespace tenon::server
