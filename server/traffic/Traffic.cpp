// Versions are drawn, not dealt in turn: a client's own pattern would give each version other
// requests. The same id always has the same version.

#include "server/traffic/Traffic.h"

#include "server/ipc/TensorDifference.h"
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

const TrafficState &TrafficControl::of(const std::string &model) const {
  static const TrafficState none;
  std::map<std::string, TrafficState>::const_iterator found = states.find(model);
  return found == states.end() ? none : found->second;
}

Status TrafficControl::changed(const std::string &model, Traffic now, std::string_view what) {
  TrafficState &state = states[model];
  state.now = std::move(now);
  state.shadow = {};
  catalog.residency.log(fmt::format("model '{}' {}", model, what));
  return Status::ok();
}

Status TrafficControl::set(const std::string &name, Traffic traffic) {
  TENON_ASSIGN(const Model *model, catalog.model(name));
  auto serves = [&](int64_t number) {
    std::map<int64_t, std::shared_ptr<Version>>::const_iterator version =
        model->versions.find(number);
    return version != model->versions.end() && version->second->takesRequests();
  };
  int64_t sum = 0;
  for (const auto &[number, weight] : traffic.weights) {
    if (!serves(number)) {
      return badTraffic(
          fmt::format("model '{}' has no version {} that is ready", name, number),
          "v2/repository/index lists versions; version_policy decides which are loaded");
    }
    if (weight < 0 || weight > kMaxWeight) {
      return badTraffic(fmt::format("the weight {} of version {} is not from 0 to {}", weight,
                                    number, kMaxWeight));
    }
    sum += weight;
  }
  if (!traffic.weights.empty() && sum == 0) {
    return badTraffic("all weights are 0: no version would answer",
                      "give a version a weight above 0, or no weights to use the newest");
  }
  if (traffic.shadow && !serves(*traffic.shadow)) {
    return badTraffic(
        fmt::format("model '{}' has no ready version {} for the shadow", name, *traffic.shadow));
  }
  TrafficState &state = states[name];
  state.before.push_back(std::move(state.now));
  if (state.before.size() > kMaxHistory) {
    state.before.erase(state.before.begin());
  }
  return changed(name, std::move(traffic), "has other traffic");
}

Status TrafficControl::rollback(const std::string &name) {
  TENON_ASSIGN(const Model *model, catalog.model(name));
  TrafficState &state = states[name];
  if (!state.before.empty()) {
    Traffic before = std::move(state.before.back());
    state.before.pop_back();
    return changed(name, std::move(before), "was rolled back");
  }
  // From the version that answers now, or most of it, to the newest before it.
  int64_t current = -1, most = 0;
  for (const auto &[number, version] : model->versions) {
    std::map<int64_t, int64_t>::const_iterator weight = state.now.weights.find(number);
    int64_t share = state.now.weights.empty()           ? (version->takesRequests() ? number : 0)
                    : weight == state.now.weights.end() ? 0
                                                        : weight->second;
    if (share >= most && share > 0) {
      most = share;
      current = number;
    }
  }
  int64_t previous = -1;
  for (const auto &[number, version] : model->versions) {
    previous = number < current && version->takesRequests() ? number : previous;
  }
  if (previous < 0) {
    return Status::error(
        ErrorId::NothingToRollBack,
        fmt::format("model '{}' has no earlier traffic split and no earlier loaded version", name),
        "keep the previous version with version_policy, for example `latest { num_versions: 2 }`");
  }
  return changed(name, {{{previous, 1}}, std::nullopt}, "was rolled back");
}

std::shared_ptr<Version> TrafficControl::choose(const std::string &name, const std::string &id) {
  Result<const Model *> model = catalog.model(name);
  std::map<std::string, TrafficState>::iterator found = states.find(name);
  if (!model.isOk() || found == states.end()) {
    return nullptr;
  }
  // Those that went are left out: the others share what was their part.
  std::vector<std::pair<std::shared_ptr<Version>, uint64_t>> shares;
  uint64_t sum = 0;
  for (const auto &[number, weight] : found->second.now.weights) {
    std::map<int64_t, std::shared_ptr<Version>>::const_iterator version =
        (*model)->versions.find(number);
    if (weight > 0 && version != (*model)->versions.end() && version->second->takesRequests()) {
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

void TrafficControl::beginShadow(Request &request) {
  const std::string name = request.version->model;
  std::map<std::string, TrafficState>::iterator found = states.find(name);
  if (found == states.end() || !found->second.now.shadow) {
    return;
  }
  int64_t shadow = *found->second.now.shadow;
  Result<std::shared_ptr<Version>> version = catalog.find(name, std::to_string(shadow));
  if (!version.isOk() || *version == request.version) {
    return;
  }
  BatchScheduler &scheduler = BatchScheduler::of(**version);
  std::shared_ptr<Request> copy = Request::copyFor(*version, request);
  bool mayRun =
      copy && (*version)->isServing() && (*version)->isKnown() && scheduler.admit(*copy).isOk();
  if (!mayRun) {
    ++found->second.shadow.dropped;
    return;
  }
  std::shared_ptr<Comparison> comparison = std::make_shared<Comparison>();
  // Null where the model has another shadow by then.
  auto current = [this, name, shadow]() -> ShadowStatistics * {
    TrafficState &state = states[name];
    return state.now.shadow == shadow ? &state.shadow : nullptr;
  };
  auto compare = [comparison, current] {
    ShadowStatistics *counted = current();
    if (comparison->served && comparison->shadow && counted) {
      count(*counted, *comparison->served, *comparison->shadow);
    }
  };
  request.begin([comparison, compare, callback = request.takeEnd()](Result<InferResult> result) {
    if (result.isOk()) {
      comparison->served = *result;
    }
    callback(std::move(result));
    compare();
  });
  copy->begin([comparison, current, compare, &scheduler](Result<InferResult> result) {
    if (!result.isOk()) {
      ShadowStatistics *counted = current();
      if (counted) {
        ++counted->failed;
      }
      return;
    }
    scheduler.countReply(*result, 0);
    comparison->shadow = std::move(*result);
    compare();
  });
  scheduler.enqueue(copy);
}

} // namespace tenon::server
