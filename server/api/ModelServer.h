// The rooms of the models put together: the catalog with what is in memory, batching, and traffic.
// One thread, that of the executor: it never waits and never runs code of an engine.

#pragma once

#include "server/residency/ModelCatalog.h"
#include "server/texts/TextScheduler.h"
#include "server/traffic/Traffic.h"

#include <functional>
#include <memory>
#include <string>

namespace tenon::server {

struct ModelServerOptions : ResidencyOptions {
  /// Requests that wait for an instance of a version.
  size_t maxQueued = 256;
  /// Called for each load that failed; may be empty.
  std::function<void(const std::string &model, const Status &problem)> onProblem;
  RequestObserver *observer = nullptr; ///< outlives the models; null: none
  /// For copying what is large: see BatchingContext.
  std::function<void(std::function<void()> work, std::function<void()> then)> offload;
};

class ModelServer {
  BatchingContext batching;

public:
  ModelServer(boost::asio::any_io_executor executor, std::unique_ptr<ModelRepository> repository,
              const ModelServerOptions &options);

  /// Queues a request for a version, or for the one whose turn it is where `version` is empty.
  /// `onEnd` is called once, later; never where the error is given.
  Result<std::shared_ptr<Request>> submit(const std::string &model, const std::string &version,
                                          InferRequest payload, Request::OnEnd onEnd);

  /// Has a language model continue a prompt, in the same way.
  Result<std::shared_ptr<TextRun>> submitText(const std::string &model, TextAsk ask,
                                              MemoryBudget &budget, TextRun::OnEvent onEvent);

  ModelCatalog catalog;
  TrafficControl traffic{catalog};

private:
  /// ok, or why the version takes no request now.
  Status readinessOf(const Version &version) const;
};

} // namespace tenon::server
