// The way of a request into the line and out of it: by an answer, a time-out or a client that goes.

#include "server/batching/BatchScheduler.h"

#include "server/protocol/ErrorMap.h"
#include "support/WallClock.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {
namespace {

/// What is left for outputs of which nothing is known yet, and what is remembered of them.
constexpr uint64_t kFirstRoom = 16 << 10, kMaxRemembered = 64 << 20;
/// Bytes that are copied into a shared buffer at once, on this thread.
constexpr uint64_t kLittle = 256 << 10;
/// Requests that are looked at for one batch.
constexpr size_t kMaxLookedAt = 4096;

std::shared_ptr<Request> requestOf(const WaitingLine::Pointer &waiting) {
  return std::static_pointer_cast<Request>(waiting);
}

/// The largest preferred number of rows that is there; 0 where there is none.
uint64_t preferredRows(const BatchingConfig &batching, uint64_t rows) {
  uint64_t best = 0;
  for (uint64_t each : batching.preferred) {
    best = each <= rows ? each : best;
  }
  return best;
}

} // namespace

BatchScheduler::BatchScheduler(Version &version, BatchingContext &context, Residency &residency)
    : version(version), context(context), residency(residency),
      line(context.deadlines,
           version.config.batching ? QueueConfig(*version.config.batching) : QueueConfig(),
           context.maxQueued,
           [this](const WaitingLine::Pointer &request, const Status &late) {
             ++this->version.statistics->timedOut;
             std::shared_ptr<Version> held = this->version.shared_from_this();
             end(requestOf(request), late);
             this->residency.settle(this->version);
           }),
      outputRoom(kFirstRoom) {}

Status BatchScheduler::admit(Request &request) {
  request.priority = line.priorityOf(request.payload.priority);
  TENON_TRY(request.check());
  return line.admit(request.priority, version.model);
}

Status BatchScheduler::admitCounted(Request &request) {
  Status status = admit(request);
  version.statistics->rejected += status.id() == ErrorId::QueueFull;
  if (!status.isOk()) {
    countFailure(request, status);
  }
  return status;
}

void BatchScheduler::enqueue(const std::shared_ptr<Request> &request) {
  line.push(request, request->payload.timeoutMicroseconds);
  version.lastUse = request->arrival;
  // Later: the caller must have the request before it ends, also where its model cannot be loaded.
  boost::asio::post(context.executor, [this, held = request->version] {
    residency.wake(held);
    dispatch();
  });
}

void BatchScheduler::cancel(const std::shared_ptr<Request> &request) {
  if (request->cancel()) {
    ++version.statistics->cancelled;
    line.erase(request);
    residency.settle(version);
  }
}

void BatchScheduler::end(const std::shared_ptr<Request> &request, Result<InferResult> result) {
  if (!result.isOk() && !request->isCancelled()) { // that is counted already
    countFailure(*request, result.status());
  }
  request->end(std::move(result));
}

void BatchScheduler::fail(const Status &why) {
  for (const WaitingLine::Pointer &request : line.takeAll()) {
    // What is wrong with the version is no error of the request's.
    bool isOurs = wireStatusOf(why.id()).http >= 500;
    end(requestOf(request), Result<InferResult>(isOurs ? why : version.readiness()));
  }
}

void BatchScheduler::lost(Instance &instance, const Status &why) {
  Batch batch = std::move(batches.extract(&instance).mapped());
  for (const std::shared_ptr<Request> &request : batch.requests) {
    end(request, Result<InferResult>(why));
  }
}

size_t BatchScheduler::waiting() const { return line.size() + countOf(false); }

size_t BatchScheduler::running() const { return countOf(true); }

size_t BatchScheduler::countOf(bool areRunning) const {
  size_t sum = 0;
  for (const auto &[instance, batch] : batches) {
    sum += batch.isHandedOver() == areRunning ? batch.requests.size() : 0;
  }
  return sum;
}

void BatchScheduler::resume() {
  for (const WaitingLine::Pointer &request : line.all()) { // some came before the ports were known
    Status problem = requestOf(request)->check();
    if (!problem.isOk() && line.erase(request)) {
      end(requestOf(request), std::move(problem));
    }
  }
  dispatch();
}

void BatchScheduler::dispatch() {
  // The end of a request may have the version leave memory.
  for (size_t i = 0; version.takesRuns() && i < version.instances().size();) {
    Instance &instance = *version.instances()[i];
    if (batches.contains(&instance)) {
      ++i;
      continue;
    }
    Requests batch = chooseBatch();
    if (batch.empty()) {
      return;
    }
    run(instance, std::move(batch));
  }
}

BatchScheduler::Requests BatchScheduler::gather() const {
  uint64_t maxRows = isBatched(version) ? version.batch->maxRows : 1, rows = 0;
  Requests found;
  size_t lookedAt = 0;
  line.forEach([&](const WaitingLine::Pointer &waiting) {
    const Request &request = static_cast<const Request &>(*waiting);
    bool fits =
        found.empty() || (found[0]->canBatch && request.canBatch &&
                          request.shape == found[0]->shape && request.rows <= maxRows - rows);
    if (fits) {
      found.push_back(requestOf(waiting));
      rows += request.rows;
    }
    return found[0]->canBatch && rows < maxRows && ++lookedAt < kMaxLookedAt;
  });
  return found;
}

BatchScheduler::Requests BatchScheduler::chooseBatch() {
  Requests batch = gather();
  if (batch.empty() || !batch[0]->canBatch || !version.config.batching) {
    return batch;
  }
  const BatchingConfig &batching = *version.config.batching;
  uint64_t rows = 0;
  Clock::time_point oldest = batch[0]->arrival;
  for (const std::shared_ptr<Request> &request : batch) {
    rows += request->rows;
    oldest = std::min(oldest, request->arrival);
  }
  if (uint64_t preferred = preferredRows(batching, rows)) {
    while (rows > preferred && batch.size() > 1) {
      rows -= batch.back()->rows;
      batch.pop_back();
    }
    return batch;
  }
  Clock::time_point end = oldest + std::chrono::microseconds(batching.delayMicroseconds);
  if (rows < version.batch->maxRows && end > Clock::now()) {
    awaitBatch(end);
    return {};
  }
  return batch;
}

void BatchScheduler::awaitBatch(Clock::time_point time) {
  if (batchDeadline && batchDeadline->expiry() == time) {
    return;
  }
  batchDeadline.emplace(context.executor, time);
  batchDeadline->async_wait(
      [this, weak = version.weak_from_this()](boost::system::error_code error) {
        std::shared_ptr<Version> held = weak.lock();
        if (!error && held) {
          batchDeadline.reset();
          dispatch();
        }
      });
}

void BatchScheduler::run(Instance &instance, Requests requests) {
  for (const std::shared_ptr<Request> &request : requests) {
    line.erase(request);
    request->times.queue = nanosecondsSince(request->arrival);
  }
  fill(instance,
       batches.try_emplace(&instance, version, instance, std::move(requests)).first->second);
}

void BatchScheduler::fill(Instance &instance, Batch &batch) {
  Status status = batch.place(outputRoom);
  if (!status.isOk()) {
    Requests refused = std::move(batches.extract(&instance).mapped().requests);
    for (const std::shared_ptr<Request> &request : refused) {
      end(request, Result<InferResult>(status));
    }
  } else if (batch.inputBytes() <= kLittle || !context.offload) {
    batch.copy();
    filled(instance, batch);
  } else {
    context.offload(
        [&batch] { batch.copy(); },
        [this, held = version.shared_from_this(), &instance, &batch, key = instance.key] {
          if (version.takesRuns() && hasInstance(&instance, key)) {
            filled(instance, batch);
          } else {
            putBack(batches.extract(&instance).mapped().requests);
          }
          dispatch();
          residency.settle(version);
        });
  }
}

bool BatchScheduler::hasInstance(const Instance *instance, uint64_t key) const {
  return std::any_of(version.instances().begin(), version.instances().end(),
                     [&](const std::unique_ptr<Instance> &each) {
                       return each.get() == instance && each->key == key;
                     });
}

void BatchScheduler::filled(Instance &instance, Batch &batch) {
  if (batch.problem.isOk()) {
    batch.handOver();
    version.worker()->run(instance);
    return;
  }
  std::shared_ptr<Request> faulty = std::move(batch.faulty);
  std::erase(batch.requests, faulty);
  end(faulty, Result<InferResult>(std::move(batch.problem)));
  if (batch.requests.empty()) {
    batches.erase(&instance);
  } else {
    fill(instance, batch);
  }
}

void BatchScheduler::putBack(const Requests &requests) {
  for (size_t i = requests.size(); i-- > 0;) {
    if (!requests[i]->isCancelled()) {
      line.pushFront(requests[i]);
    }
  }
}

void BatchScheduler::answered(Instance &instance) {
  RunAnswer answered = readAnswer(instance.slot());
  version.setHeldBytes(instance, answered.heldBytes);
  Batch &running = batches.at(&instance);
  for (const std::shared_ptr<Request> &request : running.requests) {
    request->times.compute += answered.computeNanoseconds;
  }
  Status status = std::move(answered.failure);
  if (answered.outcome == RequestSlot::Outcome::NeedsRoom) {
    status = running.provideRoom(answered.roomNeeded);
    if (status.isOk()) {
      outputRoom = std::max(outputRoom, std::min(answered.roomNeeded, kMaxRemembered));
      version.worker()->run(instance);
      return;
    }
  }
  Batch batch = std::move(batches.extract(&instance).mapped());
  if (answered.outcome == RequestSlot::Outcome::Done) {
    Result<std::vector<TensorPlace>> outputs = batch.readOutputs();
    if (outputs.isOk()) {
      answer(batch, *outputs);
      dispatch();
      return;
    }
    status = outputs.takeStatus();
  }
  if (batch.requests.size() == 1) {
    end(batch.requests[0], std::move(status));
  }
  // The fault may be of one of them: each runs again, alone.
  if (batch.requests.size() > 1) {
    for (const std::shared_ptr<Request> &request : batch.requests) {
      request->canBatch = false;
    }
    putBack(batch.requests);
  }
  dispatch();
}

void BatchScheduler::answer(const Batch &batch, const std::vector<TensorPlace> &outputs) {
  version.statistics->inferences += batch.rows();
  ++version.statistics->executions;
  if (hasRows(version)) {
    BatchStatistics &counted = version.statistics->batches[batch.rows()];
    counted.copyIn.add(batch.copyInNanoseconds());
    counted.compute.add(batch.requests[0]->times.compute);
  }
  std::vector<InferResult> results = batch.cut(outputs);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::shared_ptr<Request> &request = batch.requests[i];
    if (context.observer &&
        request->isAwaited()) { // else the caller has gone, and what the request refers to
      context.observer->answered(*request, results[i]);
    }
    end(request, std::move(results[i]));
  }
}

void BatchScheduler::countFailure(const Request &request, const Status &status) {
  unsigned http = wireStatusOf(status.id()).http;
  VersionStatistics &statistics = *version.statistics;
  statistics.failure.add(nanosecondsSince(request.arrival));
  statistics.invalid += http >= 400 && http < 500 && status.id() != ErrorId::QueueFull;
  if (context.observer) {
    context.observer->failed(request);
  }
}

void BatchScheduler::countReply(InferResult &result, uint64_t copyOutNanoseconds) {
  VersionStatistics &statistics = *version.statistics;
  uint64_t total = nanosecondsSince(result.arrival);
  statistics.success.add(total);
  statistics.request.add(total);
  statistics.queue.add(result.times.queue);
  statistics.copyIn.add(result.times.copyIn);
  statistics.compute.add(result.times.compute);
  statistics.copyOut.add(copyOutNanoseconds);
  if (hasRows(version)) {
    statistics.batches[result.batchRows].copyOut += copyOutNanoseconds;
  }
  statistics.lastInference = static_cast<uint64_t>(wallClock());
  if (context.observer) {
    context.observer->replied(result, copyOutNanoseconds);
  }
}

} // namespace tenon::server
