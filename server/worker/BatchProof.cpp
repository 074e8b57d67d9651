// What the record does not prove is batched only if somebody accepts it.

#include "server/worker/BatchProof.h"

#include "runtime/tensors/Tensor.h"
#include "server/worker/SecondLook.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

namespace tenon::server {
namespace {

/// Of a batch, where nobody says how large it may be.
constexpr uint64_t kUsualRows = 64;
/// So long the second look takes at most, and half as long as the load took before it; what every
/// model may take.
constexpr std::chrono::milliseconds kLongestLook{1000}, kShortestLook{50};
class Proof {
public:
  Proof(const ModelPorts &ports, const EngineRecord &record, const BatchPolicy &policy)
      : ports(ports), record(record), policy(policy) {}

  BatchInfo prove(const tenon_engine *engine, unsigned threads,
                  std::chrono::steady_clock::time_point loadBegan) {
    BatchInfo info;
    if (policy.kind == BatchPolicy::Kind::None) {
      return info;
    }
    Status status = findBatch();
    if (!status.isOk() && policy.kind == BatchPolicy::Kind::IfRecorded) {
      return info;
    }
    if (status.isOk() && !policy.acceptsMeetings) {
      status = findMeetings();
    }
    std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
    LookPlan plan = {maxRows, "",
                     now + std::clamp<std::chrono::nanoseconds>((now - loadBegan) / 2,
                                                                kShortestLook, kLongestLook)};
    auto look = [&]() -> Status {
      TENON_ASSIGN(double seen, secondLook(engine, threads, ports, record, policy, plan));
      info.difference = std::max(info.difference, seen);
      return Status::ok();
    };
    if (status.isOk()) {
      status = look();
    }
    info.batching = status.isOk() ? BatchInfo::State::Proven : BatchInfo::State::Refused;
    info.reason = reasonOf(status);
    info.maxRows = status.isOk() ? maxRows : 1;
    if (!policy.pads.empty()) {
      status = status.isOk() ? findPadding() : refusedBatch("its requests are not batched");
      if (status.isOk() && !policy.acceptsMeetings) {
        status = findReach(info.masks);
      }
      if (status.isOk()) {
        plan.paddedDim = paddedDim;
        status = look();
      }
      info.padding = status.isOk() ? BatchInfo::State::Proven : BatchInfo::State::Refused;
      info.padReason = reasonOf(status);
      info.paddedDim = status.isOk() ? paddedDim : "";
    }
    return info;
  }

private:
  static std::string reasonOf(const Status &status) {
    return status.isOk() || status.id() == ErrorId::NotBatchable
               ? std::string(status.message())
               : "the check could not be completed: " + status.toString();
  }

  bool isSymbol(const std::string &dim) const { return record.symbols.contains(dim); }

  /// Sets maxRows and, where there is a record, batchDim.
  Status findBatch() {
    uint64_t most = policy.maxRows ? policy.maxRows : kUsualRows;
    if (ports.inputs.empty() || ports.outputs.empty()) {
      return refusedBatch("it has no inputs or no outputs");
    }
    for (const std::vector<ModelPort> *list : {&ports.inputs, &ports.outputs}) {
      for (const ModelPort &port : *list) {
        bool isInput = list == &ports.inputs;
        std::string what = fmt::format("{} '{}'", isInput ? "input" : "output", port.name);
        if (port.maxDims.empty() || (isInput && port.minDims[0] > 1)) {
          return refusedBatch(what + " has no dim 0 that can be 1");
        }
        if (port.dims.empty() && policy.kind == BatchPolicy::Kind::IfRecorded) {
          return refusedBatch("the engine does not record which of its dims are equal");
        }
        if (!port.dims.empty()) {
          batchDim = batchDim.empty() ? port.dims[0] : batchDim;
          if (port.dims[0] != batchDim || !isSymbol(batchDim)) {
            return refusedBatch(
                fmt::format("dim 0 of {} is {}, which is not the batch{}", what, port.dims[0],
                            isSymbol(batchDim) ? fmt::format(" {}", batchDim) : ""));
          }
        }
        most = std::min(most, static_cast<uint64_t>(port.maxDims[0]));
      }
    }
    if (most < 2) {
      return refusedBatch("it takes one row at a time");
    }
    maxRows = most;
    return Status::ok();
  }

  /// Whether the record proves that no row of an output sees another.
  Status findMeetings() const {
    if (!record.meetings) {
      return refusedBatch(
          "the engine does not record whether its rows are independent; compile the model "
          "again");
    }
    for (const ModelPort &port : ports.outputs) {
      std::map<std::string, std::string>::const_iterator found = record.meetings->find(port.name);
      if (found == record.meetings->end() || !found->second.empty()) {
        return refusedBatch(fmt::format(
            "rows of output '{}' are not independent: {}", port.name,
            found == record.meetings->end() ? "the record does not mention it" : found->second));
      }
    }
    return Status::ok();
  }

  /// The one symbol that the inputs to pad have besides the batch; nothing else may vary with it.
  Status findPadding() {
    for (const PadRule &pad : policy.pads) {
      const ModelPort *port = nullptr;
      for (const ModelPort &each : ports.inputs) {
        port = each.name == pad.input ? &each : port;
      }
      if (!port || port->dims.empty() || !isNumeric(port->dtype)) {
        return refusedBatch(
            fmt::format("'{}' in 'pad' is not an input with recorded dims", pad.input));
      }
      for (size_t i = 1; i < port->dims.size(); ++i) {
        bool isFree = port->minDims[i] != port->maxDims[i];
        if (isFree && !paddedDim.empty() && port->dims[i] != paddedDim) {
          return refusedBatch(
              fmt::format("input '{}' has the dim {} besides {}, but only one can be padded",
                          pad.input, port->dims[i], paddedDim));
        }
        if (isFree) {
          paddedDim = port->dims[i];
        }
      }
    }
    if (!isSymbol(paddedDim)) {
      return refusedBatch("no dim of the inputs to pad varies on its own");
    }
    for (const std::vector<ModelPort> *list : {&ports.inputs, &ports.outputs}) {
      for (const ModelPort &port : *list) {
        for (const std::string &dim : port.dims) {
          if (dim != paddedDim && !isSymbol(dim) && dim.find(paddedDim) != std::string::npos) {
            return refusedBatch(
                fmt::format("'{}' has the dim {}, which padding would change", port.name, dim));
          }
        }
        bool isPadded = std::any_of(policy.pads.begin(), policy.pads.end(),
                                    [&](const PadRule &pad) { return pad.input == port.name; });
        if (list == &ports.inputs && !isPadded &&
            std::find(port.dims.begin(), port.dims.end(), paddedDim) != port.dims.end()) {
          return refusedBatch(
              fmt::format("input '{}' also has the dim {}, but 'pad' gives no value for it",
                          port.name, paddedDim));
        }
      }
    }
    return Status::ok();
  }

  /// Whether the record proves that no padded place reaches an output; `masks` are what hides them.
  Status findReach(std::vector<PadRule> &masks) const {
    std::map<std::string, RecordedPadding>::const_iterator found = record.padding.find(paddedDim);
    if (found == record.padding.end()) {
      return refusedBatch(fmt::format("the engine does not record whether padding along {} reaches "
                                      "an output; compile the model again",
                                      paddedDim));
    }
    if (!found->second.reach.empty()) {
      return refusedBatch("padded positions reach " + found->second.reach);
    }
    masks = found->second.masks;
    for (const PadRule &mask : masks) {
      bool isHidden = std::any_of(policy.pads.begin(), policy.pads.end(), [&](const PadRule &pad) {
        return pad.input == mask.input && pad.value == mask.value;
      });
      if (!isHidden) {
        return refusedBatch(fmt::format("'{}' masks padded positions only if it is padded with "
                                        "{:g}, but the configuration pads it with another value",
                                        mask.input, mask.value));
      }
    }
    return Status::ok();
  }

  const ModelPorts &ports;
  const EngineRecord &record;
  const BatchPolicy &policy;
  std::string batchDim, paddedDim;
  uint64_t maxRows = 1;
};

} // namespace

BatchInfo proveBatch(const tenon_engine *engine, const ModelPorts &ports,
                     const EngineRecord &record, const BatchPolicy &policy, unsigned threads,
                     std::chrono::steady_clock::time_point loadBegan) {
  return Proof(ports, record, policy).prove(engine, threads, loadBegan);
}

} // namespace tenon::server
