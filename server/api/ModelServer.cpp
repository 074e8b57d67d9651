// The one way of an inference through the rooms.

#include "server/api/ModelServer.h"

namespace tenon::server {

ModelServer::ModelServer(boost::asio::any_io_executor executor,
                         std::unique_ptr<ModelRepository> repository,
                         const ModelServerOptions &options)
    : batching(executor, options.maxQueued, options.observer),
      catalog(executor, std::move(repository), options,
              {[this](Version &version) {
                 return std::make_unique<BatchScheduler>(version, batching, catalog.residency);
               },
               options.onProblem}) {
  batching.offload = options.offload;
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
  Status status = catalog.isDraining()
                      ? Status::error(ErrorId::ServerStopping, "the server is stopping",
                                      "send the request to another server")
                  : version->takesRequests() ? Status::ok()
                                             : version->readiness();
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
