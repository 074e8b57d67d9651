// One case for each operation of the table of routes.

#include "server/api/Api.h"

#include "server/api/Describe.h"
#include "server/api/ServerStatus.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tenon::server {
namespace {

/// The optional body of operations that take settings.
Status parseSettings(std::string_view text, Json &settings) {
  settings = Json::object();
  if (text.empty()) {
    return Status::ok();
  }
  TENON_TRY(parseRequestJson(text, settings));
  return settings.is_object()
             ? Status::ok()
             : Status::error(ErrorId::BadRequest, "the JSON of the request is not an object");
}

std::string describeConnections(const ConnectionCounts &counts) {
  return fmt::format(
      "# HELP tenon_connections Connections that are open.\n"
      "# TYPE tenon_connections gauge\ntenon_connections {}\n"
      "# HELP tenon_connections_beyond_limit_total Connections that came while there "
      "were --max-connections: they may ask for health alone.\n"
      "# TYPE tenon_connections_beyond_limit_total counter\n"
      "tenon_connections_beyond_limit_total {}\n",
      counts.open, counts.beyondLimit);
}

} // namespace

void Api::perform(const RouteMatch &match, std::string_view text,
                  std::function<void(Result<std::string>)> callback, const std::string &by) {
  std::function<void(Result<std::string>)> onAnswer =
      [this, match, callback = std::move(callback)](Result<std::string> answer) {
        // What is only asked for, by the page for one, is nobody's failure; why a load failed, the
        // models tell.
        if (!answer.isOk() && match.route->role != Role::Read &&
            match.route->operation != Operation::RepositoryLoad) {
          errors.add(match.model, answer.status());
        }
        callback(std::move(answer));
      };
  std::function<void(Status)> onStatus = [onAnswer](Status status) {
    onAnswer(status.isOk() ? Result<std::string>("{}") : Result<std::string>(std::move(status)));
  };
  switch (match.route->operation) {
  case Operation::RepositoryLoad: {
    Json settings;
    Status status = parseSettings(text, settings);
    if (status.isOk() && settings.contains("parameters") && !settings["parameters"].empty()) {
      status = Status::error(ErrorId::NotServed,
                             "a load takes no configuration and no files from the request",
                             "put them into the folder of the model, then load it");
    }
    status.isOk() ? models.catalog.load(match.model, std::move(onStatus))
                  : onStatus(std::move(status));
    return;
  }
  case Operation::RepositoryUnload:
    models.catalog.unload(match.model, std::move(onStatus));
    return;
  case Operation::ModelTraffic:
  case Operation::ModelRollback:
    if (match.route->method == Method::Post) {
      bool isRollback = match.route->operation == Operation::ModelRollback;
      Result<Traffic> traffic = isRollback ? Traffic() : parseTraffic(text);
      Status status = !traffic.isOk() ? traffic.takeStatus()
                      : isRollback    ? models.traffic.rollback(match.model)
                                      : models.traffic.set(match.model, std::move(*traffic));
      if (status.isOk()) {
        monitoring.personActed(match.model);
      }
      onAnswer(status.isOk() ? Result<std::string>(describeTraffic(models, match.model))
                             : Result<std::string>(std::move(status)));
      return;
    }
    onAnswer(answer(match, text));
    return;
  case Operation::ModelMetadata:
  case Operation::ModelConfig: {
    Result<std::shared_ptr<Version>> asked = models.catalog.find(match.model, match.version);
    std::function<void()> reply = [this, match, text = std::string(text), onAnswer] {
      onAnswer(answer(match, text));
    };
    asked.isOk() ? models.catalog.residency.whenKnown(*asked, reply) : reply();
    return;
  }
  case Operation::RegistryHistory:
  case Operation::RegistryPromote:
  case Operation::RegistryRollback:
    askRegistry(match, text, std::move(onAnswer), by);
    return;
  default:
    onAnswer(answer(match, text));
  }
}

void Api::askRegistry(const RouteMatch &match, std::string_view settings,
                      std::function<void(Result<std::string>)> onAnswer, const std::string &by) {
  if (!admin) {
    onAnswer(Status::error(ErrorId::NotServed,
                           "the models come from a folder, which keeps no history",
                           "serve registry:NAME@ALIAS"));
  } else if (match.model != admin->reference().name) {
    onAnswer(noModel(match.model));
  } else if (match.route->operation == Operation::RegistryHistory) {
    admin->query(std::move(onAnswer));
  } else if (match.route->operation == Operation::RegistryPromote) {
    admin->promote(settings, by, std::move(onAnswer));
  } else {
    admin->rollback(settings, by, std::move(onAnswer));
  }
}

Result<std::string> Api::answer(const RouteMatch &match, std::string_view text) {
  std::shared_ptr<Version> asked;
  if (!match.model.empty()) {
    TENON_ASSIGN(asked, models.catalog.find(match.model, match.version));
  }
  switch (match.route->operation) {
  case Operation::ServerLive:
    return std::string(R"({"live":true})");
  case Operation::ServerReady:
    return std::string(models.catalog.isReady() ? R"({"ready":true})" : R"({"ready":false})");
  case Operation::ServerMetadata:
    return describeServer(version);
  case Operation::ModelReady:
  case Operation::ModelMetadata:
  case Operation::ModelConfig: {
    if (!asked) {
      return Status::error(ErrorId::NoSuchModel, "the request names no model");
    }
    bool asksReady = match.route->operation == Operation::ModelReady;
    if (asksReady && models.catalog.isDraining()) {
      return Status::error(ErrorId::ServerStopping, "the server is stopping");
    }
    TENON_TRY(asked->readiness());
    return asksReady                                          ? R"({"ready":true})"
           : match.route->operation == Operation::ModelConfig ? describeConfig(*asked)
                                                              : describeModel(models, *asked);
  }
  case Operation::ModelTraffic:
    return describeTraffic(models, match.model);
  case Operation::ModelStatistics:
    return describeStatistics(models, match.model, match.version);
  case Operation::ModelDrift:
    return monitoring.describe(match.model, match.version);
  case Operation::ModelLabels:
    return monitoring.label(match.model, text);
  case Operation::RepositoryIndex: {
    Json settings;
    TENON_TRY(parseSettings(text, settings));
    return describeIndex(models, settings.value("ready", Json(false)) == true);
  }
  case Operation::Metrics:
    return describeMetrics(models) + monitoring.metrics() + describeConnections(connections);
  case Operation::ServerStatus:
    return describeStatus(models, errors, admin, version, started);
  case Operation::TraceSetting:
  case Operation::Logging: {
    bool isTrace = match.route->operation == Operation::TraceSetting;
    if (match.route->method == Method::Get ||
        (match.route->transport == Transport::Grpc && text.empty())) {
      return std::string(
          isTrace
              ? R"({"trace_level":["OFF"],"trace_rate":"0","trace_count":"-1","log_frequency":"0","trace_file":"","trace_mode":"triton"})"
              : R"({"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0,"log_format":"default"})");
    }
    return Status::error(ErrorId::NotServed,
                         isTrace ? "tracing cannot be set"
                                 : "logging cannot be set while the server runs",
                         "the server's log goes to its stderr");
  }
  default:
    return regionsNotServed();
  }
}

Result<std::shared_ptr<Request>> Api::infer(const RouteMatch &match, InferRequest request,
                                            OnResult onResult) {
  // The request keeps what the reply needs of its payload.
  std::shared_ptr<std::weak_ptr<Request>> self = std::make_shared<std::weak_ptr<Request>>();
  Result<std::shared_ptr<Request>> pending =
      models.submit(match.model, match.version, std::move(request),
                    [this, self, onResult = std::move(onResult)](Result<InferResult> result) {
                      std::shared_ptr<Request> pending = self->lock();
                      if (!result.isOk()) {
                        errors.add(pending->version->model, result.status());
                      }
                      onResult(std::move(result), std::move(pending));
                    });
  if (!pending.isOk()) {
    errors.add(match.model, pending.status());
    return pending;
  }
  *self = *pending;
  return pending;
}

void Api::replyFailed(const Request &request, const Status &status) {
  errors.add(request.version->model, status);
  BatchScheduler::of(*request.version).countFailure(request, status);
}

void Api::countReply(InferResult &result, Clock::time_point begun) {
  BatchScheduler::of(*result.version)
      .countReply(result,
                  static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - begun).count()));
}

std::vector<AskedOutput> askedOutputs(const Version &version, const InferRequest &request) {
  const std::vector<ModelPort> &ports = version.ports.outputs;
  std::vector<AskedOutput> asked;
  for (size_t i = 0; i < ports.size() && request.outputs.empty(); ++i) {
    asked.push_back({i, request.binaryByDefault});
  }
  for (const RequestedOutput &output : request.outputs) {
    for (size_t i = 0; i < ports.size(); ++i) {
      if (ports[i].name == output.name) {
        asked.push_back({i, output.isBinary});
      }
    }
  }
  return asked;
}

Bytes elementsOf(const InferResult &result, size_t port) {
  const TensorPlace &place = result.outputs[port];
  return Bytes(result.buffer->memory->bytes()).subspan(place.offset, place.bytes);
}

} // namespace tenon::server
