// The way of a request into the queue, and out of it by an answer, a time-out or a client that
// goes. Runs are in Runs.cpp.

#include "server/protocol/ErrorMap.h"
#include "server/scheduler/ModelManager.h"
#include "support/WallClock.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {
namespace {

/// Of a request for a model with priorities: its own if that is one of them, else the usual one.
uint64_t priorityOf(const ModelConfig &config, const InferRequest &payload) {
  uint64_t levels = config.batching ? config.batching->priorityLevels : 0;
  bool hasOwn = payload.priority > 0 && payload.priority <= levels;
  return levels == 0 ? 0 : hasOwn ? payload.priority : config.batching->defaultPriority;
}

} // namespace

Result<std::shared_ptr<Request>>
ModelManager::submit(const std::string &model, const std::string &version, InferRequest payload,
                     std::function<void(Result<InferResult>)> onEnd) {
  std::shared_ptr<Request> request = std::make_shared<Request>();
  request->arrival = Clock::now();
  request->version = version.empty() ? chooseByTraffic(model, payload.id) : nullptr;
  if (!request->version) {
    TENON_ASSIGN(request->version, find(model, version));
  }
  Version &target = *request->version;
  bool isBetweenWorkers = target.state == VersionState::Loading && target.isKnown();
  Status problem = draining ? Status::error(ErrorId::ServerStopping, "the server is stopping",
                                            "send the request to another server")
                   : isBetweenWorkers || target.isServing() ? Status::ok()
                                                            : readiness(target);
  target.statistics->unready += !problem.isOk();
  request->payload = std::move(payload);
  request->priority = priorityOf(target.config, request->payload);
  request->isChecked = target.isKnown();
  if (problem.isOk() && request->isChecked) {
    problem = checkRequest(target, *request);
  }
  if (problem.isOk()) {
    problem = admit(target, *request);
    target.statistics->rejected += !problem.isOk();
  }
  if (!problem.isOk()) {
    countFailure(*request, problem);
    return problem;
  }
  request->onEnd = std::move(onEnd);
  if (version.empty()) {
    beginShadow(request);
  }
  enqueue(request);
  return request;
}

void ModelManager::enqueue(const std::shared_ptr<Request> &request) {
  request->version->queue.push(request);
  request->version->lastUse = request->arrival;
  setDeadline(request);
  // Later: the caller must have the request before it ends, also where its model cannot be loaded.
  boost::asio::post(executor, [this, version = request->version] {
    reload(version);
    dispatch(*version);
  });
}

Status ModelManager::admit(const Version &version, const Request &request) const {
  size_t waiting = version.queue.size(), most = options.maxQueued;
  std::string whose;
  uint64_t own =
      version.config.batching ? version.config.batching->policyOf(request.priority).maxQueued : 0;
  if (own > 0 && version.queue.sizeOf(request.priority) >= own) {
    waiting = version.queue.sizeOf(request.priority);
    most = own;
    whose = version.config.batching->priorityLevels > 0
                ? fmt::format(" with priority {}", request.priority)
                : "";
  }
  return waiting < most ? Status::ok()
                        : Status::error(ErrorId::QueueFull,
                                        fmt::format("{} requests{} wait for model '{}' already",
                                                    waiting, whose, version.model),
                                        "send fewer at once, or try again later");
}

void ModelManager::setDeadline(const std::shared_ptr<Request> &request) {
  const std::optional<BatchingConfig> &batching = request->version->config.batching;
  QueuePolicy policy = batching ? batching->policyOf(request->priority) : QueuePolicy();
  uint64_t own = policy.allowsOwnTimeout ? request->payload.timeoutMicroseconds : 0;
  uint64_t wait = own > 0 && (policy.timeoutMicroseconds == 0 || own < policy.timeoutMicroseconds)
                      ? own
                      : policy.timeoutMicroseconds;
  if (wait > 0) {
    constexpr uint64_t kMaxWait = uint64_t(1) << 40; // of microseconds: no sum overflows
    request->maxWait = std::chrono::microseconds(std::min(wait, kMaxWait));
    request->deadline = deadlines.emplace(request->arrival + request->maxWait, request);
    armDeadline();
  }
}

void ModelManager::dropDeadline(Request &request) {
  if (request.deadline) {
    deadlines.erase(*std::exchange(request.deadline, std::nullopt));
  }
}

void ModelManager::cancel(const std::shared_ptr<Request> &request) {
  if (!request->onEnd) {
    return;
  }
  dropDeadline(*request);
  request->onEnd = nullptr;
  request->isCancelled = true;
  ++request->version->statistics->cancelled;
  request->version->queue.erase(request);
  finishUnload(*request->version);
  retryLoads();
}

void ModelManager::end(const std::shared_ptr<Request> &request, Result<InferResult> result) {
  dropDeadline(*request);
  if (!result.isOk() && !request->isCancelled) { // that is counted already
    countFailure(*request, result.status());
  }
  if (std::function<void(Result<InferResult>)> callback = std::exchange(request->onEnd, nullptr)) {
    callback(std::move(result));
  }
}

void ModelManager::armDeadline() {
  if (deadlines.empty()) {
    return;
  }
  deadline.expires_at(deadlines.begin()->first);
  deadline.async_wait([this](boost::system::error_code error) {
    if (error) {
      return;
    }
    while (!deadlines.empty() && deadlines.begin()->first <= Clock::now()) {
      std::shared_ptr<Request> request = deadlines.begin()->second.lock();
      if (!request) {
        deadlines.erase(deadlines.begin());
        continue;
      }
      dropDeadline(*request);
      timeOut(request);
    }
    armDeadline();
  });
}

void ModelManager::timeOut(const std::shared_ptr<Request> &request) {
  const std::optional<BatchingConfig> &batching = request->version->config.batching;
  if (batching && !batching->policyOf(request->priority).rejectsLate) {
    request->version->queue.putOff(request);
  } else if (request->version->queue.erase(request)) {
    ++request->version->statistics->timedOut;
    end(request, Status::error(ErrorId::RequestTimedOut,
                               fmt::format("the request waited longer than its time-out of {} µs",
                                           request->maxWait.count())));
    finishUnload(*request->version);
    retryLoads();
  }
}

void ModelManager::countFailure(const Request &request, const Status &status) {
  unsigned http = wireStatusOf(status.id()).http;
  VersionStatistics &statistics = *request.version->statistics;
  statistics.failure.add(nanosecondsSince(request.arrival));
  statistics.invalid += http >= 400 && http < 500 && status.id() != ErrorId::QueueFull;
  if (options.observer) {
    options.observer->failed(request);
  }
}

void ModelManager::countReply(InferResult &result, uint64_t copyOutNanoseconds) {
  VersionStatistics &statistics = *result.version->statistics;
  uint64_t total = nanosecondsSince(result.arrival);
  statistics.success.add(total);
  statistics.request.add(total);
  statistics.queue.add(result.times.queue);
  statistics.copyIn.add(result.times.copyIn);
  statistics.compute.add(result.times.compute);
  statistics.copyOut.add(copyOutNanoseconds);
  if (result.version->hasRows()) {
    statistics.batches[result.batchRows].copyOut += copyOutNanoseconds;
  }
  statistics.lastInference = static_cast<uint64_t>(wallClock());
  if (options.observer) {
    options.observer->replied(result, copyOutNanoseconds);
  }
}

} // namespace tenon::server
