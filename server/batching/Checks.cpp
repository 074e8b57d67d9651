// What a request or a configuration says against what the engine says.

#include "server/batching/Rows.h"

#include "runtime/tensors/Seeded.h"
#include "server/protocol/DataType.h"
#include "server/protocol/Json.h"
#include "support/text/NearestName.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

namespace tenon::server {
namespace {

std::string rangeText(const ModelPort &port) {
  std::string text = "[";
  for (size_t i = 0; i < port.minDims.size(); ++i) {
    text += i == 0 ? "" : ",";
    text += port.minDims[i] == port.maxDims[i] ? fmt::format("{}", port.maxDims[i])
            : port.maxDims[i] == INT64_MAX
                ? fmt::format("{}..", port.minDims[i])
                : fmt::format("{}..{}", port.minDims[i], port.maxDims[i]);
  }
  return text + "]";
}

std::vector<std::string> namesOf(const std::vector<ModelPort> &ports) {
  std::vector<std::string> names;
  for (const ModelPort &port : ports) {
    names.push_back(port.name);
  }
  return names;
}

const ModelPort *findPort(const std::vector<ModelPort> &ports, std::string_view name) {
  for (const ModelPort &port : ports) {
    if (port.name == name) {
      return &port;
    }
  }
  return nullptr;
}

Status checkConfigPorts(const Version &version, const std::vector<ConfigPort> &configured,
                        const std::vector<ModelPort> &ports, std::string_view kind) {
  for (const ConfigPort &each : configured) {
    auto fault = [&](std::string_view what) {
      return Status::error(ErrorId::BadModelConfig, fmt::format("config.pbtxt:{}: {} '{}' {}",
                                                                each.line, kind, each.name, what));
    };
    const ModelPort *port = findPort(ports, each.name);
    if (!port) {
      return fault("is not in the engine; " +
                   didYouMean(each.name, namesOf(ports),
                              fmt::format("it has {}", fmt::join(namesOf(ports), ", "))));
    }
    if (port->dtype != each.dtype) {
      return fault(fmt::format("is TYPE_{}, but the engine has {}", protocolName(each.dtype),
                               protocolName(port->dtype)));
    }
    size_t batch = version.config.maxBatchSize > 0 ? 1 : 0;
    bool fits = each.dims.size() + batch == port->maxDims.size();
    for (size_t i = 0; fits && i < each.dims.size(); ++i) {
      int64_t least = port->minDims[i + batch], most = port->maxDims[i + batch];
      fits = each.dims[i] == -1 ? least != most : each.dims[i] >= least && each.dims[i] <= most;
    }
    if (!fits) {
      return fault(fmt::format("has dims [{}]{}, but the engine has {}", fmt::join(each.dims, ","),
                               batch ? " without the batch dimension" : "", rangeText(*port)));
    }
  }
  return Status::ok();
}

/// The least length that requests of this one are padded to.
int64_t bucketOf(const ModelConfig &config, int64_t length) {
  if (!config.buckets.empty()) {
    std::vector<int64_t>::const_iterator bucket =
        std::lower_bound(config.buckets.begin(), config.buckets.end(), length);
    return bucket == config.buckets.end() ? length : *bucket;
  }
  constexpr int64_t kMin = 16, kMax = int64_t(1) << 62;
  return length > kMax
             ? length
             : std::max(kMin, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length))));
}

Status badInput(std::string_view name, std::string_view what, std::string_view hint = {}) {
  return Status::error(ErrorId::BadRequestTensor, fmt::format("input '{}' {}", name, what), hint);
}

Status checkInput(const RequestInput &input, const ModelPort &port) {
  if (input.dtype != port.dtype) {
    return badInput(input.name, fmt::format("is {}, but the model expects {}",
                                            protocolName(input.dtype), protocolName(port.dtype)));
  }
  bool fits = input.dims.size() == port.maxDims.size();
  for (size_t i = 0; fits && i < input.dims.size(); ++i) {
    // Where a size is free it may be 0 too: the engine knows whether its outputs are empty then.
    bool isEmpty = input.dims[i] == 0 && port.minDims[i] < port.maxDims[i];
    fits = isEmpty || (input.dims[i] >= port.minDims[i] && input.dims[i] <= port.maxDims[i]);
  }
  if (!fits) {
    return badInput(input.name, fmt::format("has shape [{}], but the model expects {}",
                                            fmt::join(input.dims, ","), rangeText(port)));
  }
  bool hasOtherBools =
      port.dtype == DType::Bool && std::any_of(input.binary.begin(), input.binary.end(),
                                               [](std::byte b) { return b > std::byte(1); });
  return hasOtherBools ? badInput(input.name, "contains a boolean that is neither 0 nor 1")
                       : Status::ok();
}

/// Whether an input that hides places hides one of the request's own. A softmax over nothing but
/// hidden places depends on how many there are.
Result<bool> hidesOwn(const InferRequest &payload, const RequestInput &input, double hiding) {
  TENON_ASSIGN(Tensor place, Tensor::create("", input.dtype, {1}));
  setElement(place, 0, hiding);
  std::vector<std::byte> stored(input.list ? input.bytes : 0);
  if (input.list) {
    TENON_TRY(storeNumbers(payload.lists[*input.list], input.dtype, stored, input.name));
  }
  Bytes data = input.list ? Bytes(stored) : input.binary, hidden = place.bytes();
  for (size_t at = 0; at + hidden.size() <= data.size(); at += hidden.size()) {
    if (std::memcmp(data.data() + at, hidden.data(), hidden.size()) == 0) {
      return true;
    }
  }
  return false;
}

/// The length that padding may change, which is one number in all inputs.
Status checkLength(const Version &version, Request &request) {
  size_t at = 0; // in request.shape
  std::vector<size_t> places;
  for (size_t p = 0; p < version.ports.inputs.size(); ++p) {
    const ModelPort &port = version.ports.inputs[p];
    for (size_t i = 1; i < port.dims.size(); ++i, ++at) {
      if (port.dims[i] != version.batch->paddedDim) {
        continue;
      }
      if (!places.empty() && request.shape[at] != request.length) {
        return badInput(port.name,
                        fmt::format("has {} positions along {}, but another input has {}",
                                    request.shape[at], port.dims[i], request.length));
      }
      request.length = request.shape[at];
      request.bucket = std::min(bucketOf(version.config, request.length), port.maxDims[i]);
      places.push_back(at);
    }
  }
  for (const PadRule &mask : version.batch->masks) {
    for (const RequestInput &input : request.payload.inputs) {
      if (input.name == mask.input && request.bucket != request.length) {
        TENON_ASSIGN(bool isHidden, hidesOwn(request.payload, input, mask.value));
        request.bucket = isHidden ? request.length : request.bucket;
      }
    }
  }
  for (size_t place : places) {
    request.shape[place] = request.bucket;
  }
  return Status::ok();
}

/// The rows of all inputs, which are one number, and whether they may be batched with those of
/// others.
Status checkRows(const Version &version, Request &request) {
  for (size_t i : request.order) {
    const RequestInput &input = request.payload.inputs[i],
                       &first = request.payload.inputs[request.order[0]];
    request.rows = static_cast<uint64_t>(first.dims[0]);
    if (input.dims[0] != first.dims[0]) {
      return badInput(input.name, fmt::format("has {} rows, but input '{}' has {}", input.dims[0],
                                              first.name, first.dims[0]));
    }
    request.shape.insert(request.shape.end(), input.dims.begin() + 1, input.dims.end());
  }
  bool isEmpty = std::count(request.shape.begin(), request.shape.end(), 0) > 0;
  if (isPadded(version) && !isEmpty) {
    TENON_TRY(checkLength(version, request));
  }
  uint64_t most = version.config.maxBatchSize;
  if (most > 0 && request.rows > most) {
    return Status::error(
        ErrorId::BadRequestTensor,
        fmt::format("the batch has {} rows, but the model accepts at most {}", request.rows, most),
        "split it into several requests");
  }
  request.canBatch =
      isBatched(version) && !isEmpty && request.rows > 0 && request.rows < version.batch->maxRows;
  return Status::ok();
}

} // namespace

Status checkConfig(const Version &version) {
  for (const std::vector<ModelPort> *ports : {&version.ports.inputs, &version.ports.outputs}) {
    for (const ModelPort &port : *ports) {
      if (protocolName(port.dtype).empty()) {
        return Status::error(
            ErrorId::NotServed,
            fmt::format("'{}' has elements of type {}, for which the protocol has no name",
                        port.name, nameOf(port.dtype)),
            "convert them to a wider type in the model");
      }
      bool hasBatch = !port.maxDims.empty() && port.minDims[0] <= 1 &&
                      static_cast<uint64_t>(port.maxDims[0]) >= version.config.maxBatchSize;
      if (version.config.maxBatchSize > 0 && !hasBatch) {
        return Status::error(ErrorId::BadModelConfig,
                             fmt::format("max_batch_size is {}, but '{}' has the dims {}",
                                         version.config.maxBatchSize, port.name, rangeText(port)),
                             fmt::format("compile with --shape so that dim 0 is [1..{}]",
                                         version.config.maxBatchSize));
      }
    }
  }
  for (const auto &[name, value] : version.config.pads) {
    if (!findPort(version.ports.inputs, name)) {
      return Status::error(
          ErrorId::BadModelConfig,
          fmt::format("the parameter 'pad' names '{}', which is not an input", name),
          didYouMean(name, namesOf(version.ports.inputs),
                     fmt::format("it has {}", fmt::join(namesOf(version.ports.inputs), ", "))));
    }
  }
  TENON_TRY(checkConfigPorts(version, version.config.inputs, version.ports.inputs, "input"));
  return checkConfigPorts(version, version.config.outputs, version.ports.outputs, "output");
}

Status Request::checkPorts() {
  if (version->language) {
    return Status::error(
        ErrorId::NotServed,
        fmt::format("{} is a language model, which continues texts", version->title()),
        "POST v1/chat/completions or v1/completions");
  }
  const std::vector<ModelPort> &ports = version->ports.inputs;
  for (const RequestInput &input : payload.inputs) {
    if (!findPort(ports, input.name)) {
      return badInput(input.name.substr(0, 255), "is not in the model",
                      didYouMean(input.name.substr(0, 255), namesOf(ports),
                                 fmt::format("it has {}", fmt::join(namesOf(ports), ", "))));
    }
  }
  for (const ModelPort &port : ports) {
    size_t at = 0;
    while (at < payload.inputs.size() && payload.inputs[at].name != port.name) {
      ++at;
    }
    if (at == payload.inputs.size()) {
      return badInput(port.name, "is missing");
    }
    TENON_TRY(checkInput(payload.inputs[at], port));
    order.push_back(at);
  }
  std::set<const ModelPort *> asked;
  for (const RequestedOutput &output : payload.outputs) {
    const ModelPort *port = findPort(version->ports.outputs, output.name);
    if (!port) {
      std::vector<std::string> names = namesOf(version->ports.outputs);
      return Status::error(ErrorId::BadRequestTensor,
                           fmt::format("the model has no output '{}'", output.name.substr(0, 255)),
                           didYouMean(output.name.substr(0, 255), names,
                                      fmt::format("it has {}", fmt::join(names, ", "))));
    }
    if (!asked.insert(port).second) {
      return Status::error(ErrorId::BadRequestTensor,
                           fmt::format("output '{}' is requested twice", output.name));
    }
  }
  return hasRows(*version) ? checkRows(*version, *this) : Status::ok();
}

BatchPolicy batchPolicyOf(const ModelConfig &config) {
  BatchPolicy policy;
  bool isAsked = config.batching.has_value(), isForbidden = config.hasMaxBatchSize && !isAsked;
  policy.kind = isForbidden ? BatchPolicy::Kind::None
                : isAsked   ? BatchPolicy::Kind::Stated
                            : BatchPolicy::Kind::IfRecorded;
  policy.maxRows = config.maxBatchSize;
  policy.tolerance = config.batchTolerance;
  policy.acceptsMeetings = config.acceptsMeetings;
  for (const auto &[name, value] : config.pads) {
    policy.pads.push_back({name, value});
  }
  return policy;
}

std::string describeBatching(const Version &version) {
  if (!version.batch || version.batch->batching == BatchInfo::State::None) {
    return {};
  }
  const BatchInfo &batch = *version.batch;
  if (batch.batching == BatchInfo::State::Refused) {
    return Status::error(ErrorId::NotBatchable, batch.reason, "its requests run one at a time")
        .toString();
  }
  std::string padding =
      batch.padding == BatchInfo::State::Proven
          ? fmt::format(", and padded along {}", batch.paddedDim)
      : batch.padding == BatchInfo::State::Refused
          ? ", but not padded: " + Status::error(ErrorId::NotBatchable, batch.padReason).toString()
          : "";
  return fmt::format(
      "requests are batched up to {} rows{}; outputs of seeded rows, alone and batched, {}",
      batch.maxRows, padding,
      batch.difference == 0
          ? "are bitwise equal"
          : fmt::format("differ by at most {:.2g} of their largest value", batch.difference));
}

bool isBatchingRefused(const Version &version) {
  return version.batch && (version.batch->batching == BatchInfo::State::Refused ||
                           version.batch->padding == BatchInfo::State::Refused);
}

} // namespace tenon::server
