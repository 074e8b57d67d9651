// The one way of an inference through the rooms.

#include "server/api/ModelServer.h"

namespace tenon::server {

ModelServer::ModelServer(boost::asio::any_io_executor executor,
                         std::unique_ptr<ModelRepository> repository,
                         const ModelServerOptions &options)
    : batching(executor, options.maxQueued, options.observer),
      catalog(executor, std::move(repository), options,
              {[this](Version &version) {
                 return std::make_unique<TextScheduler>(version, batching, catalog.residency);
               },
               options.onProblem}) {
  batching.offload = options.offload;
}

Status ModelServer::readinessOf(const Version &version) const {
  if (catalog.isDraining()) {
    return Status::error(ErrorId::ServerStopping, "the server is stopping",
                         "send the request to another server");
  }
  return version.takesRequests() ? Status::ok() : version.readiness();
}

Result<std::shared_ptr<TextRun>> ModelServer::submitText(const std::string &model, TextAsk ask,
                                                         MemoryBudget &budget,
                                                         TextRun::OnEvent onEvent) {
  std::shared_ptr<Version> version = traffic.choose(model, "");
  if (!version) {
    TENON_ASSIGN(version, catalog.find(model, ""));
  }
  std::shared_ptr<TextRun> run =
      std::make_shared<TextRun>(version, std::move(ask), &budget, std::move(onEvent));
  Status status = readinessOf(*version);
  if (!status.isOk()) {
    ++version->statistics->unready;
    version->statistics->failure.add(nanosecondsSince(run->arrival));
    return status;
  }
  TENON_TRY(TextScheduler::of(*version).submit(run));
  return run;
}

Result<std::shared_ptr<Request>> ModelServer::submit(const std::string &model,
                                                     const std::string &number,
                                                     InferRequest payload, Request::OnEnd onEnd) {
  std::shared_ptr<Version> version = number.empty() ? traffic.choose(model, payload.id) : nullptr;
  if (!version) {
    TENON_ASSIGN(version, catalog.find(model, number));
  }
  BatchScheduler &scheduler = BatchScheduler::of(*version);
  std::shared_ptr<Request> request = std::make_shared<Request>(version, std::move(payload));
  Status status = readinessOf(*version);
  if (!status.isOk()) {
    ++version->statistics->unready;
    scheduler.countFailure(*request, status);
    return status;
  }
  TENON_TRY(scheduler.admitCounted(*request));
  request->begin(std::move(onEnd));
  if (number.empty()) {
    traffic.beginShadow(*request);
  }
  scheduler.enqueue(request);
  return request;
}

} // namespace tenon::server
