// One function a structure and direction, the fields in their order.

#include "server/ipc/ModelInfo.h"

#include "server/ipc/MessageText.h"

namespace tenon::server {
namespace {

Status damaged(std::string_view what) { return Status::error(ErrorId::InternalError, what); }

void putPorts(TextWriter &out, const std::vector<ModelPort> &ports) {
  out.number(ports.size());
  for (const ModelPort &port : ports) {
    out.string(port.name).number(static_cast<uint64_t>(port.dtype)).number(port.minDims.size());
    for (size_t i = 0; i < port.minDims.size(); ++i) {
      out.number(static_cast<uint64_t>(port.minDims[i]))
          .number(static_cast<uint64_t>(port.maxDims[i]));
    }
    out.number(port.dims.size());
    for (const std::string &dim : port.dims) {
      out.string(dim);
    }
  }
}

void takePort(TextReader &in, ModelPort &port) {
  uint64_t dtype = 0;
  in.string(port.name).number(dtype);
  uint64_t rank = in.count();
  for (uint64_t i = 0; i < rank && in.isGood(); ++i) {
    uint64_t least = 0, most = 0;
    in.number(least).number(most);
    port.minDims.push_back(static_cast<int64_t>(least));
    port.maxDims.push_back(static_cast<int64_t>(most));
  }
  uint64_t dims = in.count();
  port.dims.resize(in.isGood() ? dims : 0);
  for (std::string &dim : port.dims) {
    in.string(dim);
  }
  if (dtype > kLastDType || !isDType(static_cast<uint8_t>(dtype)) || (dims != 0 && dims != rank)) {
    in.fail();
    return;
  }
  port.dtype = static_cast<DType>(dtype);
}

void takePorts(TextReader &in, std::vector<ModelPort> &ports) {
  uint64_t count = in.count();
  for (uint64_t i = 0; i < count && in.isGood(); ++i) {
    takePort(in, ports.emplace_back());
  }
}

void putPads(TextWriter &out, const std::vector<PadRule> &pads) {
  out.number(pads.size());
  for (const PadRule &pad : pads) {
    out.string(pad.input).real(pad.value);
  }
}

void takePads(TextReader &in, std::vector<PadRule> &pads) {
  uint64_t count = in.count();
  for (uint64_t i = 0; i < count && in.isGood(); ++i) {
    PadRule &pad = pads.emplace_back();
    in.string(pad.input).real(pad.value);
  }
}

bool takeState(TextReader &in, BatchInfo::State &state) {
  uint64_t value = 0;
  in.number(value);
  state = static_cast<BatchInfo::State>(value);
  return value <= static_cast<uint64_t>(BatchInfo::State::Refused);
}

} // namespace

std::string encodeLoad(const LoadRequest &request) {
  std::string text;
  TextWriter out(text);
  const BatchPolicy &batch = request.batch;
  out.string(request.sha256)
      .number(static_cast<uint64_t>(batch.kind))
      .number(batch.maxRows)
      .real(batch.tolerance)
      .number(batch.acceptsMeetings)
      .number(batch.memory);
  putPads(out, batch.pads);
  out.number(request.texts.users).number(request.texts.tokens).number(request.texts.memory);
  out.number(request.draftTokens).number(request.hasDraft).string(request.draftSha256);
  return text;
}

Result<LoadRequest> decodeLoad(std::string_view text) {
  LoadRequest request;
  BatchPolicy &batch = request.batch;
  TextReader in(text);
  uint64_t kind = 0, accepts = 0, hasDraft = 0;
  in.string(request.sha256).number(kind).number(batch.maxRows).real(batch.tolerance);
  in.number(accepts).number(batch.memory);
  takePads(in, batch.pads);
  in.number(request.texts.users).number(request.texts.tokens).number(request.texts.memory);
  in.number(request.draftTokens).number(hasDraft).string(request.draftSha256);
  if (!in.isWhole() || kind > static_cast<uint64_t>(BatchPolicy::Kind::Stated)) {
    return damaged("a request to load a model is damaged");
  }
  batch.kind = static_cast<BatchPolicy::Kind>(kind);
  batch.acceptsMeetings = accepts != 0;
  request.hasDraft = hasDraft != 0;
  return request;
}

std::string encodeModelInfo(const ModelInfo &info) {
  std::string text;
  TextWriter out(text);
  putPorts(out, info.ports.inputs);
  putPorts(out, info.ports.outputs);
  const BatchInfo &batch = info.batch;
  out.number(static_cast<uint64_t>(batch.batching))
      .number(static_cast<uint64_t>(batch.padding))
      .number(batch.maxRows)
      .real(batch.difference);
  out.string(batch.reason)
      .string(batch.padReason)
      .string(batch.paddedDim)
      .number(info.sharedBytes)
      .number(info.bytes);
  putPads(out, batch.masks);
  out.number(info.phases.size());
  for (const LoadPhase &phase : info.phases) {
    out.string(phase.name).real(phase.seconds);
  }
  out.number(info.language.has_value());
  if (info.language) {
    out.number(info.language->positions)
        .number(info.language->vocabulary)
        .number(info.language->hasTemplate);
  }
  return text;
}

Result<ModelInfo> decodeModelInfo(std::string_view text) {
  ModelInfo info;
  TextReader in(text);
  takePorts(in, info.ports.inputs);
  takePorts(in, info.ports.outputs);
  BatchInfo &batch = info.batch;
  bool hasStates = takeState(in, batch.batching) && takeState(in, batch.padding);
  in.number(batch.maxRows)
      .real(batch.difference)
      .string(batch.reason)
      .string(batch.padReason)
      .string(batch.paddedDim)
      .number(info.sharedBytes)
      .number(info.bytes);
  takePads(in, batch.masks);
  uint64_t phases = in.count();
  for (uint64_t i = 0; i < phases && in.isGood(); ++i) {
    LoadPhase &phase = info.phases.emplace_back();
    in.string(phase.name).real(phase.seconds);
  }
  uint64_t isLanguage = 0, hasTemplate = 0;
  in.number(isLanguage);
  if (isLanguage == 1) {
    LanguageInfo &language = info.language.emplace();
    in.number(language.positions).number(language.vocabulary).number(hasTemplate);
    language.hasTemplate = hasTemplate != 0;
  }
  if (!in.isWhole() || !hasStates || batch.maxRows == 0 || isLanguage > 1) {
    return damaged("the description of a model from a worker is damaged");
  }
  return info;
}

} // namespace tenon::server
