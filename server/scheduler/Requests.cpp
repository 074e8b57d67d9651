// The way of a request into the queue, and out of it by an answer, a time-out or a client that
// goes. Runs are in Runs.cpp.

#include "server/scheduler/Models.h"
#include "support/WallClock.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {
namespace {

/// Of a request for a model with priorities: its own if that is one of them, else the usual one.
uint64_t priorityOf(const ModelConfig &config, const InferRequest &request) {
  uint64_t levels = config.batching ? config.batching->priorityLevels : 0;
  bool hasOwn = request.priority > 0 && request.priority <= levels;
  return levels == 0 ? 0 : hasOwn ? request.priority : config.batching->defaultPriority;
}

} // namespace

Result<std::shared_ptr<Job>> Models::submit(const std::string &model, const std::string &version,
                                            InferRequest request,
                                            std::function<void(Result<InferResult>)> onEnd) {
  if (draining) {
    return Status::error(ErrorId::ServerStopping, "the server is stopping",
                         "send the request to another server");
  }
  std::shared_ptr<Job> job = std::make_shared<Job>();
  job->arrival = Clock::now();
  job->version = version.empty() ? chooseByTraffic(model) : nullptr;
  if (!job->version) {
    TENON_ASSIGN(job->version, find(model, version));
  }
  Version &target = *job->version;
  bool isBetweenWorkers = target.state == VersionState::Loading && target.isKnown();
  if (!isBetweenWorkers && !target.isServing()) {
    TENON_TRY(readiness(target));
  }
  job->request = std::move(request);
  job->priority = priorityOf(target.config, job->request);
  job->isChecked = target.isKnown();
  Status problem = job->isChecked ? checkRequest(target, *job) : Status::ok();
  if (problem.isOk()) {
    problem = admit(target, *job);
    target.statistics->rejected += !problem.isOk();
  }
  if (!problem.isOk()) {
    countFailure(*job);
    return problem;
  }
  job->onEnd = std::move(onEnd);
  if (version.empty()) {
    beginShadow(job);
  }
  enqueue(job);
  return job;
}

void Models::enqueue(const std::shared_ptr<Job> &job) {
  job->version->queue.push(job);
  job->version->lastUse = job->arrival;
  setDeadline(job);
  // Later: the caller must have the job before it ends, also where its model cannot be loaded.
  boost::asio::post(executor, [this, version = job->version] {
    wake(version);
    dispatch(*version);
  });
}

Status Models::admit(const Version &version, const Job &job) const {
  size_t waiting = version.queue.size(), most = options.mostQueued;
  std::string whose;
  uint64_t own =
      version.config.batching ? version.config.batching->policyOf(job.priority).mostQueued : 0;
  if (own > 0 && version.queue.sizeOf(job.priority) >= own) {
    waiting = version.queue.sizeOf(job.priority);
    most = own;
    whose = version.config.batching->priorityLevels > 0
                ? fmt::format(" with priority {}", job.priority)
                : "";
  }
  return waiting < most ? Status::ok()
                        : Status::error(ErrorId::QueueFull,
                                        fmt::format("{} requests{} wait for model '{}' already",
                                                    waiting, whose, version.model),
                                        "send fewer at once, or try again later");
}

void Models::setDeadline(const std::shared_ptr<Job> &job) {
  const std::optional<BatchingConfig> &batching = job->version->config.batching;
  QueuePolicy policy = batching ? batching->policyOf(job->priority) : QueuePolicy();
  uint64_t own = policy.allowsOwnTimeout ? job->request.timeoutMicroseconds : 0;
  uint64_t wait = own > 0 && (policy.timeoutMicroseconds == 0 || own < policy.timeoutMicroseconds)
                      ? own
                      : policy.timeoutMicroseconds;
  if (wait > 0) {
    constexpr uint64_t kMostWait = uint64_t(1) << 40; // of microseconds: no sum overflows
    job->mostWait = std::chrono::microseconds(std::min(wait, kMostWait));
    job->deadline = deadlines.emplace(job->arrival + job->mostWait, job);
    armDeadline();
  }
}

void Models::dropDeadline(Job &job) {
  if (job.deadline) {
    deadlines.erase(*std::exchange(job.deadline, std::nullopt));
  }
}

void Models::cancel(const std::shared_ptr<Job> &job) {
  if (!job->onEnd) {
    return;
  }
  dropDeadline(*job);
  job->onEnd = nullptr;
  job->isCancelled = true;
  ++job->version->statistics->cancelled;
  job->version->queue.erase(job);
  finishRetired(*job->version);
  retryLoads();
}

void Models::end(const std::shared_ptr<Job> &job, Result<InferResult> result) {
  dropDeadline(*job);
  if (!result.isOk() && !job->isCancelled) { // that is counted already
    countFailure(*job);
  }
  if (std::function<void(Result<InferResult>)> tell = std::exchange(job->onEnd, nullptr)) {
    tell(std::move(result));
  }
}

void Models::armDeadline() {
  if (deadlines.empty()) {
    return;
  }
  deadline.expires_at(deadlines.begin()->first);
  deadline.async_wait([this](boost::system::error_code error) {
    if (error) {
      return;
    }
    while (!deadlines.empty() && deadlines.begin()->first <= Clock::now()) {
      std::shared_ptr<Job> job = deadlines.begin()->second.lock();
      if (!job) {
        deadlines.erase(deadlines.begin());
        continue;
      }
      dropDeadline(*job);
      timeOut(job);
    }
    armDeadline();
  });
}

void Models::timeOut(const std::shared_ptr<Job> &job) {
  const std::optional<BatchingConfig> &batching = job->version->config.batching;
  if (batching && !batching->policyOf(job->priority).rejectsLate) {
    job->version->queue.putOff(job);
  } else if (job->version->queue.erase(job)) {
    ++job->version->statistics->timedOut;
    end(job, Status::error(ErrorId::RequestTimedOut,
                           fmt::format("the request waited longer than its time-out of {} µs",
                                       job->mostWait.count())));
    finishRetired(*job->version);
    retryLoads();
  }
}

void Models::countFailure(const Job &job) {
  job.version->statistics->failure.add(nanosecondsSince(job.arrival));
  if (options.observer) {
    options.observer->failed(job);
  }
}

void Models::countReply(InferResult &result, uint64_t copyOutNanoseconds) {
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
