// Schedules the requests of one version: they wait in a line, and run in batches where rows are
// proven to be independent. One thread, that of the executor.

#pragma once

#include "server/batching/Batch.h"
#include "server/batching/Observer.h"
#include "server/batching/Rows.h"
#include "server/residency/Residency.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon::server {

/// What the schedulers of all versions share.
struct BatchingContext {
  BatchingContext(boost::asio::any_io_executor executor, size_t maxQueued,
                  RequestObserver *observer)
      : executor(executor), maxQueued(maxQueued), observer(observer), deadlines(executor) {}

  boost::asio::any_io_executor executor;
  const size_t maxQueued;          ///< requests that wait for an instance of a version
  RequestObserver *const observer; ///< outlives them; null: none
  Deadlines deadlines;
  /// Runs the first elsewhere, then the second on this thread; empty: all is done on this thread.
  std::function<void(std::function<void()> work, std::function<void()> then)> offload;
};

class BatchScheduler : public Scheduler {
public:
  BatchScheduler(Version &version, BatchingContext &context, Residency &residency);
  /// That of a version; all have one.
  static BatchScheduler &of(const Version &version) {
    return static_cast<BatchScheduler &>(*version.scheduler);
  }

  /// Whether the request, which is of this version, fits the model and the line: TN0807, TN0812.
  Status admit(Request &request);
  /// The same; a request that does not is counted.
  Status admitCounted(Request &request);
  /// Queues an admitted request; nothing is called before this returns.
  void enqueue(const std::shared_ptr<Request> &request);
  /// The caller has gone: the request's place is free again, nothing is called any more.
  void cancel(const std::shared_ptr<Request> &request);
  /// A result could not be turned into a reply.
  void countFailure(const Request &request, const Status &status);
  /// A result was turned into a reply.
  void countReply(InferResult &result, uint64_t copyOutNanoseconds);

  BatchPolicy policy() const override { return batchPolicyOf(version.config); }
  Status check() const override { return checkConfig(version); }
  std::string describe() const override { return describeBatching(version); }
  void resume() override;
  void answered(Instance &instance) override;
  void lost(Instance &instance, const Status &why) override;
  bool workerEnded(const Status &) override { return false; }
  void fail(const Status &why) override;
  size_t waiting() const override;
  size_t running() const override;

protected:
  Version &version;
  BatchingContext &context;
  Residency &residency;

private:
  using Requests = std::vector<std::shared_ptr<Request>>;

  /// Requests in batches that run, or that are copied yet.
  size_t countOf(bool areRunning) const;

  /// Hands waiting requests to free instances, in batches where the version takes them.
  void dispatch();
  /// The first one and those that can run in one batch with it.
  Requests gather() const;
  /// What a free instance is to run now; none where nothing waits, or where it pays to wait for
  /// more.
  Requests chooseBatch();
  /// Waits for more requests to a batch until `time`.
  void awaitBatch(Clock::time_point time);
  /// Gives the batch to the instance; requests whose data do not fit are answered, and the others
  /// run.
  void run(Instance &instance, Requests requests);
  void fill(Instance &instance, Batch &batch);
  /// Whether the version still has the instance: its worker may have ended, and another have its
  /// place.
  bool hasInstance(const Instance *instance, uint64_t key) const;
  /// The batch lies in its buffer, or one of its requests does not fit.
  void filled(Instance &instance, Batch &batch);
  /// To the front of the line, in their order.
  void putBack(const Requests &requests);
  /// Answers the requests of a batch that ran well.
  void answer(const Batch &batch, const std::vector<TensorPlace> &outputs);
  void end(const std::shared_ptr<Request> &request, Result<InferResult> result);

  WaitingLine line;
  std::map<Instance *, Batch> batches; ///< that run
  /// Set while free instances wait for more requests to a batch.
  std::optional<boost::asio::steady_timer> batchDeadline;
  uint64_t outputRoom; ///< that outputs took before
};

} // namespace tenon::server
