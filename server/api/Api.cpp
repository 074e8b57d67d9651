// The table of operations, and what each does. Those that a transport does by itself have their
// name and their role here.

#include "server/api/Api.h"

#include "server/api/Describe.h"
#include "server/api/ServerStatus.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {
namespace {

std::string describeConnections(const ConnectionCounts &counts) {
  return fmt::format(
      "# HELP tenon_connections Open connections.\n# TYPE tenon_connections "
      "gauge\ntenon_connections {}\n# HELP tenon_connections_beyond_limit_total Connections "
      "accepted beyond --max-connections; they can only ask for health.\n# TYPE "
      "tenon_connections_beyond_limit_total counter\ntenon_connections_beyond_limit_total {}\n",
      counts.open, counts.beyondLimit);
}

} // namespace

struct Api::Operations {
  /// Does what is asked; it may answer later.
  using Perform = void (*)(Api &, const Question &, std::string_view body, OnAnswer);
  struct Call {
    Api &api;
    const Question &asked;
    std::shared_ptr<Version> version; ///< that is asked of; null where no model is
  };
  using Respond = Result<Answer> (*)(const Call &);
  struct Entry {
    Operation operation;
    std::string_view name;
    Role role;
    Perform perform; ///< null: `answer` is all there is
    Respond answer;  ///< null: the transport's own, or what `perform` gives
  };
  static const Entry kAll[];
  static const Entry &of(Operation operation);

  static std::function<void(Status)> onStatus(OnAnswer onAnswer) {
    return [onAnswer = std::move(onAnswer)](Status status) {
      onAnswer(status.isOk() ? Result<Answer>("{}") : Result<Answer>(std::move(status)));
    };
  }

  // What changes the server.

  static void load(Api &api, const Question &asked, std::string_view, OnAnswer onAnswer) {
    if (asked.hasSettings) {
      onAnswer(Status::error(ErrorId::NotServed,
                             "a load request cannot contain a configuration or files",
                             "put them in the model's folder, then load the model"));
      return;
    }
    api.models.catalog.load(asked.model, onStatus(std::move(onAnswer)));
  }
  static void unload(Api &api, const Question &asked, std::string_view, OnAnswer onAnswer) {
    api.models.catalog.unload(asked.model, onStatus(std::move(onAnswer)));
  }
  static void trafficChanged(Api &api, const Question &asked, Status status, OnAnswer onAnswer) {
    if (status.isOk()) {
      api.monitoring.alerts.personActed(asked.model);
    }
    onAnswer(status.isOk() ? Result<Answer>(describeTraffic(api.models.traffic.of(asked.model)))
                           : Result<Answer>(std::move(status)));
  }
  static void setTraffic(Api &api, const Question &asked, std::string_view body,
                         OnAnswer onAnswer) {
    Result<Traffic> traffic = parseTraffic(body);
    trafficChanged(api, asked,
                   traffic.isOk() ? api.models.traffic.set(asked.model, std::move(*traffic))
                                  : traffic.takeStatus(),
                   std::move(onAnswer));
  }
  static void rollBack(Api &api, const Question &asked, std::string_view, OnAnswer onAnswer) {
    trafficChanged(api, asked, api.models.traffic.rollback(asked.model), std::move(onAnswer));
  }
  static void label(Api &api, const Question &asked, std::string_view body, OnAnswer onAnswer) {
    Status found = api.models.catalog.find(asked.model, asked.version).takeStatus();
    onAnswer(found.isOk() ? toAnswer(api.monitoring.drift.label(asked.model, body))
                          : Result<Answer>(std::move(found)));
  }
  static void changeRegistry(Api &api, const Question &asked, std::string_view body,
                             OnAnswer onAnswer) {
    auto onText = [onAnswer](Result<std::string> text) { onAnswer(toAnswer(std::move(text))); };
    if (!api.admin) {
      onAnswer(noRegistry());
    } else if (!api.models.catalog.model(asked.model).isOk()) {
      onAnswer(noModel(asked.model));
    } else if (asked.operation == Operation::RegistryHistory) {
      api.admin->query(asked.model, onText);
    } else if (asked.operation == Operation::RegistryLineage) {
      api.admin->lineage(asked.model, onText);
    } else if (asked.operation == Operation::RegistryPromote) {
      api.admin->promote(asked.model, body, asked.by, onText);
    } else {
      api.admin->rollback(asked.model, body, asked.by, onText);
    }
  }
  static void askRegistry(Api &api, const Question &asked, std::string_view body,
                          OnAnswer onAnswer) {
    Result<RegistryAdmin *> registry = api.registry(asked);
    if (!registry.isOk()) {
      onAnswer(registry.takeStatus());
      return;
    }
    (*registry)->ask(asked, std::string(body),
                     [onAnswer](Result<std::string> text) { onAnswer(toAnswer(std::move(text))); });
  }
  static Status noRegistry() {
    return Status::error(ErrorId::NotServed, "the models come from a folder, which has no history",
                         "serve registry:NAME@ALIAS");
  }
  /// Answers once the version's ports are known.
  static void awaitPorts(Api &api, const Question &asked, std::string_view, OnAnswer onAnswer) {
    Result<std::shared_ptr<Version>> version = api.models.catalog.find(asked.model, asked.version);
    std::function<void()> reply = [&api, asked, onAnswer] { onAnswer(api.answer(asked)); };
    version.isOk() ? api.models.catalog.residency.whenKnown(*version, reply) : reply();
  }

  // What is only told.

  static Result<Answer> toAnswer(Result<std::string> text) {
    return text.isOk() ? Result<Answer>(std::move(*text)) : Result<Answer>(text.takeStatus());
  }
  static Result<Answer> live(const Call &) { return flagAnswer("live", true); }
  static Result<Answer> ready(const Call &call) { return flagAnswer("ready", call.api.isReady()); }
  static Result<Answer> server(const Call &call) { return describeServer(call.api.version); }
  static Status checkVersion(const std::shared_ptr<Version> &version) {
    return version ? version->readiness()
                   : Status::error(ErrorId::NoSuchModel, "the request does not name a model");
  }
  static Result<Answer> modelReady(const Call &call) {
    if (call.version && call.api.models.catalog.isDraining()) {
      return Status::error(ErrorId::ServerStopping, "the server is stopping");
    }
    TENON_TRY(checkVersion(call.version));
    return flagAnswer("ready", true);
  }
  static Result<Answer> model(const Call &call) {
    TENON_TRY(checkVersion(call.version));
    TENON_ASSIGN(const Model *model, call.api.models.catalog.model(call.asked.model));
    return describeModel(*model, call.version);
  }
  static Result<Answer> config(const Call &call) {
    TENON_TRY(checkVersion(call.version));
    return describeConfig(call.version);
  }
  static Result<Answer> statistics(const Call &call) {
    return describeStatistics(call.api.models.catalog, call.asked.model,
                              call.asked.version.empty() ? nullptr : call.version);
  }
  static Result<Answer> index(const Call &call) {
    return describeIndex(call.api.models.catalog, call.asked.onlyReady);
  }
  static Result<Answer> textModels(const Call &call) {
    std::vector<std::string> names;
    for (const auto &[name, model] : call.api.models.catalog.all()) {
      if (continuesTexts(model)) {
        names.push_back(name);
      }
    }
    return Answer(openAiModels(names, call.api.started / 1000));
  }
  static Result<Answer> textModel(const Call &call) {
    TENON_ASSIGN(const Model *model, call.api.models.catalog.model(call.asked.model));
    return continuesTexts(*model)
               ? Result<Answer>(openAiModel(model->name, call.api.started / 1000))
               : Result<Answer>(Status::error(
                     ErrorId::NoSuchModel,
                     fmt::format("'{}' is not a language model that is loaded", model->name),
                     "GET v1/models lists those that are"));
  }
  static bool continuesTexts(const Model &model) {
    return std::ranges::any_of(model.versions, [](const auto &each) {
      return each.second->language && each.second->isServing();
    });
  }
  static Result<Answer> traffic(const Call &call) {
    return Answer(describeTraffic(call.api.models.traffic.of(call.asked.model)));
  }
  static Result<Answer> drift(const Call &call) {
    return toAnswer(call.api.monitoring.drift.describe(call.asked.model, call.version->number));
  }
  static Result<Answer> metrics(const Call &call) {
    return Answer(describeMetrics(call.api.models) + call.api.models.catalog.repositoryMetrics() +
                  call.api.monitoring.metrics() + describeConnections(call.api.connections));
  }
  static Result<Answer> status(const Call &call) {
    TENON_ASSIGN(StatusQuery query, parseStatusQuery(call.asked.query));
    call.api.recent.look(call.api.models.catalog, Clock::now());
    return Answer(describeStatus(
        call.api.models, query, call.api.recent,
        {call.api.errors, call.api.texts, call.api.admin, call.api.version, call.api.started}));
  }
  static Result<Answer> trace(const Call &call) {
    return call.asked.hasSettings || call.asked.operation == Operation::SetTraceSetting
               ? cannotBeSet("tracing settings cannot be changed")
               : Result<Answer>(describeTraceSetting());
  }
  static Result<Answer> logging(const Call &call) {
    return call.asked.hasSettings || call.asked.operation == Operation::SetLogging
               ? cannotBeSet("logging settings cannot be changed while the server runs")
               : Result<Answer>(describeLogging());
  }
  static Result<Answer> cannotBeSet(std::string_view what) {
    return Status::error(ErrorId::NotServed, what, "the server logs to stderr");
  }
  static Result<Answer> regions(const Call &) { return regionsNotServed(); }
};

const Api::Operations::Entry Api::Operations::kAll[] = {
    {Operation::ServerLive, "ServerLive", Role::Open, nullptr, live},
    {Operation::ServerReady, "ServerReady", Role::Open, nullptr, ready},
    {Operation::ServerMetadata, "ServerMetadata", Role::Read, nullptr, server},
    {Operation::ModelReady, "ModelReady", Role::Read, nullptr, modelReady},
    {Operation::ModelMetadata, "ModelMetadata", Role::Read, awaitPorts, model},
    {Operation::ModelConfig, "ModelConfig", Role::Read, awaitPorts, config},
    {Operation::ModelStatistics, "ModelStatistics", Role::Read, nullptr, statistics},
    {Operation::ModelInfer, "ModelInfer", Role::Infer, nullptr, nullptr},
    {Operation::RepositoryIndex, "RepositoryIndex", Role::Read, nullptr, index},
    {Operation::RepositoryLoad, "RepositoryLoad", Role::Admin, load, nullptr},
    {Operation::RepositoryUnload, "RepositoryUnload", Role::Admin, unload, nullptr},
    {Operation::ModelTraffic, "ModelTraffic", Role::Read, nullptr, traffic},
    {Operation::SetModelTraffic, "ModelTraffic", Role::Admin, setTraffic, nullptr},
    {Operation::ModelRollback, "ModelRollback", Role::Admin, rollBack, nullptr},
    {Operation::ModelDrift, "ModelDrift", Role::Read, nullptr, drift},
    {Operation::ModelLabels, "ModelLabels", Role::Infer, label, nullptr},
    // By gRPC settings are read and set by one call; since none can be set, it takes the role of
    // reading.
    {Operation::TraceSetting, "TraceSetting", Role::Read, nullptr, trace},
    {Operation::SetTraceSetting, "TraceSetting", Role::Admin, nullptr, trace},
    {Operation::Logging, "Logging", Role::Read, nullptr, logging},
    {Operation::SetLogging, "Logging", Role::Admin, nullptr, logging},
    {Operation::SharedMemory, "SharedMemory", Role::Read, nullptr, regions},
    {Operation::SetSharedMemory, "SharedMemory", Role::Admin, nullptr, regions},
    {Operation::Metrics, "Metrics", Role::Read, nullptr, metrics},
    {Operation::ModelStreamInfer, "ModelStreamInfer", Role::Infer, nullptr, nullptr},
    // Health tells no more than that the server runs, which probes ask without a token; the page
    // asks for one before it asks for data.
    {Operation::HealthCheck, "HealthCheck", Role::Open, nullptr, nullptr},
    {Operation::HealthWatch, "HealthWatch", Role::Open, nullptr, nullptr},
    {Operation::Reflection, "Reflection", Role::Read, nullptr, nullptr},
    {Operation::TextModels, "TextModels", Role::Read, nullptr, textModels},
    {Operation::TextModel, "TextModel", Role::Read, nullptr, textModel},
    {Operation::ChatCompletions, "ChatCompletions", Role::Infer, nullptr, nullptr},
    {Operation::Completions, "Completions", Role::Infer, nullptr, nullptr},
    {Operation::Page, "Page", Role::Open, nullptr, nullptr},
    {Operation::ServerStatus, "ServerStatus", Role::Read, nullptr, status},
    {Operation::RegistryHistory, "RegistryHistory", Role::Read, changeRegistry, nullptr},
    {Operation::RegistryLineage, "RegistryLineage", Role::Read, changeRegistry, nullptr},
    {Operation::RegistryPromote, "RegistryPromote", Role::Admin, changeRegistry, nullptr},
    {Operation::RegistryRollback, "RegistryRollback", Role::Admin, changeRegistry, nullptr},
    // Where the registry has tokens, these may be asked with them too: then its roles decide.
    {Operation::RegistryObjects, "RegistryObjects", Role::Read, askRegistry, nullptr},
    {Operation::RegistrySearch, "RegistrySearch", Role::Read, askRegistry, nullptr},
    {Operation::RegistryEvents, "RegistryEvents", Role::Read, askRegistry, nullptr},
    {Operation::RegistryObject, "RegistryObject", Role::Read, askRegistry, nullptr},
    {Operation::RegistryVersion, "RegistryVersion", Role::Read, askRegistry, nullptr},
    {Operation::RegistryFile, "RegistryFile", Role::Read, nullptr, nullptr},
    {Operation::RegistryPush, "RegistryPush", Role::Admin, nullptr, nullptr},
    {Operation::RegistryAliasPromote, "RegistryAliasPromote", Role::Admin, askRegistry, nullptr},
    {Operation::RegistryAliasRollback, "RegistryAliasRollback", Role::Admin, askRegistry, nullptr},
    {Operation::RegistryRules, "RegistryRules", Role::Read, askRegistry, nullptr},
    {Operation::SetRegistryRules, "RegistryRules", Role::Admin, askRegistry, nullptr},
};

Result<RegistryAdmin *> Api::registry(const Question &asked) const {
  return admin             ? Result<RegistryAdmin *>(admin)
         : asked.isUnknown ? unknownToken()
                           : Operations::noRegistry();
}

const Api::Operations::Entry &Api::Operations::of(Operation operation) {
  return *std::find_if(std::begin(kAll), std::end(kAll),
                       [&](const Entry &each) { return each.operation == operation; });
}

std::string_view nameOf(Operation operation) { return Api::Operations::of(operation).name; }

Role roleOf(Operation operation) { return Api::Operations::of(operation).role; }

bool continuesText(Operation operation) {
  return operation == Operation::ChatCompletions || operation == Operation::Completions;
}

bool isOfRegistry(Operation operation) { return operation >= Operation::RegistryObjects; }

void Api::perform(const Question &asked, std::string_view body, OnAnswer callback) {
  const Operations::Entry &entry = Operations::of(asked.operation);
  OnAnswer onAnswer = [this, model = asked.model, callback = std::move(callback),
                       // What is only asked for, by the page for one, is nobody's failure; why a
                       // load failed, the models tell.
                       isNoted =
                           entry.role != Role::Read &&
                           asked.operation != Operation::RepositoryLoad](Result<Answer> answer) {
    if (!answer.isOk() && isNoted) {
      errors.add(model, answer.status());
    }
    callback(std::move(answer));
  };
  entry.perform ? entry.perform(*this, asked, body, std::move(onAnswer)) : onAnswer(answer(asked));
}

Result<Answer> Api::answer(const Question &asked) {
  std::shared_ptr<Version> version;
  if (!asked.model.empty()) {
    TENON_ASSIGN(version, models.catalog.find(asked.model, asked.version));
  }
  return Operations::of(asked.operation).answer({*this, asked, version});
}

Result<std::shared_ptr<Request>> Api::infer(const Question &asked, InferRequest request,
                                            OnResult onResult) {
  // The request keeps what the reply needs of its payload.
  std::shared_ptr<std::weak_ptr<Request>> self = std::make_shared<std::weak_ptr<Request>>();
  Result<std::shared_ptr<Request>> pending =
      models.submit(asked.model, asked.version, std::move(request),
                    [this, self, onResult = std::move(onResult)](Result<InferResult> result) {
                      std::shared_ptr<Request> pending = self->lock();
                      if (!result.isOk()) {
                        errors.add(pending->version->model, result.status());
                      }
                      onResult(std::move(result), std::move(pending));
                    });
  if (!pending.isOk()) {
    errors.add(asked.model, pending.status());
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
