// One case for each operation of the table of routes.

#include "server/http/Api.h"

#include "server/protocol/ErrorMap.h"
#include "server/scheduler/Describe.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <new>

namespace tenon::server {
namespace {

/// Smaller replies gain nothing.
constexpr uint64_t kLeastCompressed = 1024;
/// Of outputs as JSON in one reply; some hundred MiB of text.
constexpr uint64_t kMostElements = 16 << 20;

HttpReply jsonReply(std::string body, unsigned status = 200) {
  HttpReply reply;
  reply.status = status;
  reply.body = std::move(body);
  return reply;
}

HttpReply resultReply(Result<std::string> body) { return body.isOk() ? jsonReply(std::move(*body)) : errorReply(body.status()); }

std::string_view textOf(Bytes bytes) { return {reinterpret_cast<const char *>(bytes.data()), bytes.size()}; }

/// The optional body of operations that take settings.
Status parseSettings(const std::string &body, nlohmann::json &settings) {
  settings = nlohmann::json::object();
  if (body.empty()) {
    return Status::ok();
  }
  TENON_TRY(parseJson(body, settings));
  return settings.is_object() ? Status::ok() : Status::error(ErrorId::BadRequest, "the JSON of the request is not an object");
}

Result<HttpReply> inferReply(InferResult result, const InferRequest &request) {
  HttpReply reply;
  reply.begun = Clock::now();
  const Version &version = *result.version;
  const std::vector<ModelPort> &ports = version.ports.outputs;
  std::vector<ReplyOutput> outputs;
  auto add = [&](size_t i, bool isBinary) {
    const TensorPlace &place = result.outputs[i];
    Bytes bytes = Bytes(result.slab->memory->bytes()).subspan(place.offset, place.bytes);
    outputs.push_back({ports[i].name, ports[i].dtype, place.dims, bytes, isBinary});
    if (isBinary) {
      reply.tensors.push_back(bytes);
    }
  };
  for (size_t i = 0; i < ports.size() && request.outputs.empty(); ++i) {
    add(i, request.binaryByDefault);
  }
  for (const RequestedOutput &asked : request.outputs) {
    for (size_t i = 0; i < ports.size(); ++i) {
      if (ports[i].name == asked.name) {
        add(i, asked.isBinary);
      }
    }
  }
  TENON_ASSIGN(InferReply written, writeInferReply(version.model, version.number, request.id, outputs, kMostElements));
  if (written.hasBinary) {
    reply.contentType = "application/octet-stream";
    reply.extraHeaders = fmt::format("Inference-Header-Content-Length: {}\r\n", written.json.size());
  }
  reply.body = std::move(written.json);
  reply.result = std::move(result);
  return reply;
}

} // namespace

uint64_t HttpReply::bytes() const {
  uint64_t sum = body.size();
  for (Bytes tensor : tensors) {
    sum += tensor.size();
  }
  return sum;
}

void HttpReply::compress(Encoding encoding) {
  if (encoding == Encoding::Identity || bytes() < kLeastCompressed) {
    return;
  }
  std::string compressed;
  try {
    Compressor compressor(encoding);
    compressor.append(body, tensors.empty(), compressed);
    for (Bytes &tensor : tensors) {
      compressor.append(textOf(tensor), &tensor == &tensors.back(), compressed);
    }
  } catch (const std::bad_alloc &) {
    return; // it goes as it is
  }
  body = std::move(compressed);
  tensors.clear();
  extraHeaders += fmt::format("Content-Encoding: {}\r\n", nameOf(encoding));
}

HttpReply errorReply(const Status &status, bool closes) {
  HttpReply reply = jsonReply(errorBody(status), wireStatusOf(status.id()).http);
  reply.closes = closes;
  if (reply.status == 429 || reply.status == 503) {
    reply.extraHeaders = "Retry-After: 1\r\n";
  } else if (reply.status == 401) {
    reply.extraHeaders = "WWW-Authenticate: Bearer\r\n";
  }
  return reply;
}

std::shared_ptr<Job> Api::perform(const HttpRequest &request, std::function<void(HttpReply)> onReply) {
  std::function<void(Status)> onStatus = [onReply](Status status) { onReply(status.isOk() ? jsonReply("{}") : errorReply(status)); };
  switch (request.match.route->operation) {
  case Operation::ModelInfer:
    return infer(request, std::move(onReply));
  case Operation::RepositoryLoad: {
    nlohmann::json settings;
    Status status = parseSettings(request.body, settings);
    if (status.isOk() && settings.contains("parameters") && !settings["parameters"].empty()) {
      status = Status::error(ErrorId::NotServed, "a load takes no configuration and no files from the request", "put them into the folder of the model, then load it");
    }
    status.isOk() ? models.load(request.match.model, std::move(onStatus)) : onStatus(std::move(status));
    return nullptr;
  }
  case Operation::RepositoryUnload:
    models.unload(request.match.model, std::move(onStatus));
    return nullptr;
  case Operation::ModelTraffic:
  case Operation::ModelRollback:
    if (request.match.route->method == Method::Post) {
      bool isRollback = request.match.route->operation == Operation::ModelRollback;
      Result<Traffic> traffic = isRollback ? Traffic() : parseTraffic(request.body);
      Status status = !traffic.isOk() ? traffic.takeStatus() : isRollback ? models.rollback(request.match.model) : models.setTraffic(request.match.model, std::move(*traffic));
      onReply(status.isOk() ? jsonReply(describeTraffic(models, request.match.model)) : errorReply(status));
      return nullptr;
    }
    onReply(performNow(request));
    return nullptr;
  case Operation::ModelMetadata:
  case Operation::ModelConfig: {
    Result<std::shared_ptr<Version>> asked = models.find(request.match.model, request.match.version);
    std::function<void()> reply = [this, &request, onReply] { onReply(performNow(request)); };
    asked.isOk() ? models.whenKnown(*asked, reply) : reply();
    return nullptr;
  }
  default:
    onReply(performNow(request));
    return nullptr;
  }
}

HttpReply Api::performNow(const HttpRequest &request) {
  const RouteMatch &match = request.match;
  Result<std::shared_ptr<Version>> asked = match.model.empty() ? Status::error(ErrorId::NoSuchModel, "no model") : models.find(match.model, match.version);
  if (!match.model.empty() && !asked.isOk()) {
    return errorReply(asked.status());
  }
  switch (match.route->operation) {
  case Operation::ServerLive:
    return jsonReply(R"({"live":true})");
  case Operation::ServerReady:
    return models.isReady() ? jsonReply(R"({"ready":true})") : jsonReply(R"({"ready":false})", 503);
  case Operation::ServerMetadata:
    return jsonReply(describeServer(version));
  case Operation::ModelReady: {
    Status status = models.isDraining() ? Status::error(ErrorId::ServerStopping, "the server is stopping") : models.readiness(**asked);
    return status.isOk() ? jsonReply(R"({"ready":true})") : errorReply(status);
  }
  case Operation::ModelMetadata:
  case Operation::ModelConfig: {
    Status status = models.readiness(**asked);
    if (!status.isOk()) {
      return errorReply(status);
    }
    bool isConfig = match.route->operation == Operation::ModelConfig;
    return jsonReply(isConfig ? describeConfig(**asked) : describeModel(models, **asked));
  }
  case Operation::ModelTraffic:
    return jsonReply(describeTraffic(models, match.model));
  case Operation::ModelStatistics:
    return resultReply(describeStatistics(models, match.model, match.version));
  case Operation::RepositoryIndex: {
    nlohmann::json settings;
    Status status = parseSettings(request.body, settings);
    return status.isOk() ? jsonReply(describeIndex(models, settings.value("ready", nlohmann::json(false)) == true)) : errorReply(status);
  }
  case Operation::Metrics: {
    HttpReply reply = jsonReply(describeMetrics(models));
    reply.contentType = "text/plain; version=0.0.4; charset=utf-8";
    return reply;
  }
  case Operation::TraceSetting:
  case Operation::Logging: {
    bool isTrace = match.route->operation == Operation::TraceSetting;
    if (match.route->method == Method::Get) {
      return jsonReply(isTrace ? R"({"trace_level":["OFF"],"trace_rate":"0","trace_count":"-1","log_frequency":"0","trace_file":""})"
                               : R"({"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0,"log_format":"default"})");
    }
    return errorReply(Status::error(ErrorId::NotServed, isTrace ? "tracing cannot be set" : "logging cannot be set while the server runs", "the server's log goes to its stderr"));
  }
  default:
    return errorReply(Status::error(ErrorId::NotServed, "shared-memory regions are not served", "send tensors in the body of the request"));
  }
}

std::shared_ptr<Job> Api::infer(const HttpRequest &request, std::function<void(HttpReply)> onReply) {
  Result<InferRequest> parsed = Status::error(ErrorId::OutOfMemory, "no memory for the request", "send tensors as binary data, or fewer requests at once");
  try {
    parsed = parseInferRequest(request.body, request.jsonBytes);
  } catch (const std::bad_alloc &) {
    // The others are served on.
  }
  if (parsed.isOk() && parsed->listBytes() > request.mostLists) {
    parsed = Status::error(ErrorId::QueueFull, "the requests that wait take all memory that they may", "try again later, or send tensors as binary data");
  }
  if (!parsed.isOk()) {
    onReply(errorReply(parsed.status()));
    return nullptr;
  }
  // The job keeps what the reply needs of the request.
  std::shared_ptr<std::weak_ptr<Job>> self = std::make_shared<std::weak_ptr<Job>>();
  Result<std::shared_ptr<Job>> job = models.submit(request.match.model, request.match.version, std::move(*parsed), [this, self, onReply](Result<InferResult> result) {
    std::shared_ptr<Job> job = self->lock();
    bool isResult = result.isOk();
    Result<HttpReply> reply = Status::error(ErrorId::OutOfMemory, "no memory for the reply", "ask for fewer outputs, or for binary data");
    try {
      reply = isResult ? inferReply(std::move(*result), job->request) : Result<HttpReply>(result.takeStatus());
    } catch (const std::bad_alloc &) {
      // The others are served on.
    }
    if (isResult && !reply.isOk()) {
      models.countFailure(*job);
    }
    onReply(reply.isOk() ? std::move(*reply) : errorReply(reply.status()));
  });
  if (!job.isOk()) {
    onReply(errorReply(job.status()));
    return nullptr;
  }
  *self = *job;
  return std::move(*job);
}

} // namespace tenon::server
