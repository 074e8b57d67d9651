// Versions are drawn, not dealt in turn: a client's own pattern would give each version other
// requests. The same id always has the same version.

#include "server/scheduler/Traffic.h"

#include "server/ipc/TensorDifference.h"
#include "server/scheduler/ModelManager.h"
#include "support/Hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon::server {
namespace {

/// The largest; splits finer than that are of nobody's use.
constexpr int64_t kMaxWeight = 1'000'000;
constexpr size_t kMaxHistory = 100;

Status badTraffic(std::string_view what, std::string_view hint = {}) {
  return Status::error(ErrorId::BadTraffic, what, hint);
}

Result<Tensor> outputOf(const ModelPort &port, const InferResult &result, size_t i) {
  const TensorPlace &place = result.outputs[i];
  TENON_ASSIGN(Tensor tensor, Tensor::create(port.name, port.dtype, place.dims));
  std::copy_n(result.buffer->memory->data() + place.offset, place.bytes, tensor.data.data());
  return tensor;
}

/// Of an output of two results; infinite where they cannot be compared.
TensorDifference compareOutput(const InferResult &served, const InferResult &shadow, size_t i) {
  constexpr TensorDifference kNotComparable = {true, HUGE_VAL};
  const std::vector<ModelPort> &ports = served.version->ports.outputs,
                               &others = shadow.version->ports.outputs;
  bool fits = i < others.size() && others[i].name == ports[i].name &&
              others[i].dtype == ports[i].dtype && served.outputs[i].dims == shadow.outputs[i].dims;
  if (!fits) {
    return kNotComparable;
  }
  Result<Tensor> ours = outputOf(ports[i], served, i), theirs = outputOf(others[i], shadow, i);
  return ours.isOk() && theirs.isOk() ? differenceOf(*ours, *theirs) : kNotComparable;
}

void count(ShadowStatistics &statistics, const InferResult &served, const InferResult &shadow) {
  ++statistics.compared;
  bool isSame = true;
  for (size_t i = 0; i < served.outputs.size(); ++i) {
    TensorDifference difference = compareOutput(served, shadow, i);
    ShadowDifference &output = statistics.outputs[served.version->ports.outputs[i].name];
    output.different += difference.isAny;
    output.largest = std::max(output.largest, difference.largest);
    isSame = isSame && !difference.isAny;
  }
  statistics.different += !isSame;
}

/// Both results of one request, of which either may come first.
struct Comparison {
  std::optional<InferResult> served, shadow;
};

} // namespace

Status ModelManager::setTraffic(const std::string &name, Traffic traffic) {
  std::map<std::string, Model>::iterator found = models.find(name);
  if (found == models.end()) {
    return noModel(name);
  }
  const std::map<int64_t, std::shared_ptr<Version>> &versions = found->second.versions;
  auto serves = [&](int64_t number) {
    std::map<int64_t, std::shared_ptr<Version>>::const_iterator version = versions.find(number);
    return version != versions.end() && version->second->isServing();
  };
  int64_t sum = 0;
  for (const auto &[number, weight] : traffic.weights) {
    if (!serves(number)) {
      return badTraffic(fmt::format("model '{}' has no version {} that is ready", name, number),
                        "v2/repository/index lists versions; version_policy says which are loaded");
    }
    if (weight < 0 || weight > kMaxWeight) {
      return badTraffic(fmt::format("the weight {} of version {} is not from 0 to {}", weight,
                                    number, kMaxWeight));
    }
    sum += weight;
  }
  if (!traffic.weights.empty() && sum == 0) {
    return badTraffic("all weights are 0: no version would answer",
                      "give a version a weight above 0, or none a weight for the newest");
  }
  if (traffic.shadow && !serves(*traffic.shadow)) {
    return badTraffic(
        fmt::format("model '{}' has no version {} that is ready and could be the shadow", name,
                    *traffic.shadow));
  }
  TrafficState &state = found->second.traffic;
  state.before.push_back(std::move(state.now));
  if (state.before.size() > kMaxHistory) {
    state.before.erase(state.before.begin());
  }
  state.now = std::move(traffic);
  state.shadow = {};
  options.log(fmt::format("model '{}' has other traffic", name));
  return Status::ok();
}

Status ModelManager::rollback(const std::string &name) {
  std::map<std::string, Model>::iterator found = models.find(name);
  if (found == models.end()) {
    return noModel(name);
  }
  TrafficState &state = found->second.traffic;
  if (!state.before.empty()) {
    state.now = std::move(state.before.back());
    state.before.pop_back();
  } else {
    // From the version that answers now, or most of it, to the newest before it.
    int64_t current = -1, most = 0;
    for (const auto &[number, version] : found->second.versions) {
      std::map<int64_t, int64_t>::const_iterator weight = state.now.weights.find(number);
      int64_t share = state.now.weights.empty()           ? (version->isServing() ? number : 0)
                      : weight == state.now.weights.end() ? 0
                                                          : weight->second;
      if (share >= most && share > 0) {
        most = share;
        current = number;
      }
    }
    int64_t previous = -1;
    for (const auto &[number, version] : found->second.versions) {
      previous = number < current && version->isServing() ? number : previous;
    }
    if (previous < 0) {
      return Status::error(
          ErrorId::NothingToRollBack,
          fmt::format(
              "model '{}' has no earlier split of traffic, and no earlier version that is loaded",
              name),
          "let version_policy keep the version before, for example `latest { num_versions: 2 }`");
    }
    state.now = {{{previous, 1}}, std::nullopt};
  }
  state.shadow = {};
  options.log(fmt::format("model '{}' was rolled back", name));
  return Status::ok();
}

std::shared_ptr<Version> ModelManager::chooseByTraffic(const std::string &name,
                                                       const std::string &id) {
  std::map<std::string, Model>::iterator found = models.find(name);
  if (found == models.end()) {
    return nullptr;
  }
  // Those that went are left out: the others share what was their part.
  std::vector<std::pair<std::shared_ptr<Version>, uint64_t>> shares;
  uint64_t sum = 0;
  for (const auto &[number, weight] : found->second.traffic.now.weights) {
    std::map<int64_t, std::shared_ptr<Version>>::iterator version =
        found->second.versions.find(number);
    if (weight > 0 && version != found->second.versions.end() &&
        (version->second->isServing() || version->second->isKnown()) &&
        version->second->state != VersionState::Failed) {
      sum += static_cast<uint64_t>(weight);
      shares.emplace_back(version->second, sum);
    }
  }
  if (shares.empty()) {
    return nullptr;
  }
  uint64_t drawn = (id.empty() ? chance.next() : hashText(id).low) % sum;
  return std::find_if(shares.begin(), shares.end(),
                      [&](const auto &share) { return drawn < share.second; })
      ->first;
}

void ModelManager::beginShadow(const std::shared_ptr<Request> &request) {
  std::map<std::string, Model>::iterator model = models.find(request->version->model);
  if (model == models.end() || !model->second.traffic.now.shadow) {
    return;
  }
  std::map<int64_t, std::shared_ptr<Version>>::iterator found =
      model->second.versions.find(*model->second.traffic.now.shadow);
  if (found == model->second.versions.end() || found->second == request->version) {
    return;
  }
  const std::string name = model->first;
  ShadowStatistics &statistics = model->second.traffic.shadow;
  std::shared_ptr<Request> copy = std::make_shared<Request>();
  copy->arrival = request->arrival;
  copy->version = found->second;
  copy->priority = request->priority;
  copy->payload = request->payload;
  copy->isChecked = found->second->isKnown();
  for (RequestInput &input : copy->payload.inputs) {
    copy->owned.emplace_back(input.binary.begin(),
                             input.binary.end()); // the body goes with the reply
    input.binary = copy->owned.back();
  }
  bool mayRun = found->second->isServing() && copy->isChecked &&
                checkRequest(*found->second, *copy).isOk() && admit(*found->second, *copy).isOk();
  if (!mayRun) {
    ++statistics.dropped;
    return;
  }
  std::shared_ptr<Comparison> comparison = std::make_shared<Comparison>();
  // Null where the model has another shadow by then.
  auto current = [this, name, shadow = *model->second.traffic.now.shadow]() -> ShadowStatistics * {
    std::map<std::string, Model>::iterator now = models.find(name);
    return now != models.end() && now->second.traffic.now.shadow == shadow
               ? &now->second.traffic.shadow
               : nullptr;
  };
  auto compare = [comparison, current] {
    ShadowStatistics *counted = current();
    if (comparison->served && comparison->shadow && counted) {
      count(*counted, *comparison->served, *comparison->shadow);
    }
  };
  request->onEnd = [comparison, compare,
                    callback = std::move(request->onEnd)](Result<InferResult> result) {
    if (result.isOk()) {
      comparison->served = *result;
    }
    callback(std::move(result));
    compare();
  };
  copy->onEnd = [this, comparison, current, compare](Result<InferResult> result) {
    if (!result.isOk()) {
      ShadowStatistics *counted = current();
      if (counted) {
        ++counted->failed;
      }
      return;
    }
    countReply(*result, 0);
    comparison->shadow = std::move(*result);
    compare();
  };
  enqueue(copy);
}

} // namespace tenon::server
