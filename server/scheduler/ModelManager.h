// The models of a server: places them in worker processes, loads and unloads them there, queues
// requests, and hands them to instances and back. One thread, that of the executor: it never waits
// and never runs code of an engine.

#pragma once

#include "server/protocol/Log.h"
#include "server/repository/ModelRepository.h"
#include "server/scheduler/Observer.h"
#include "server/scheduler/Traffic.h"
#include "server/scheduler/Version.h"
#include "server/scheduler/WorkerSlot.h"
#include "support/random/Random.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace tenon::server {

struct ModelManagerOptions {
  std::vector<std::string> workerCommand;
  /// Threads of a run; 0: the number of usable CPUs.
  unsigned threads = 0;
  /// Requests that wait for an instance of a version.
  size_t maxQueued = 256;
  /// Bytes that loaded models may take on the CPU, and on each GPU; 0: any.
  uint64_t memoryBudget = 0, gpuMemoryBudget = 0;
  std::vector<std::string> gpus; ///< as findGpus gives them
  /// Called with what the operator should know, in one line.
  Log log;
  /// Called for each load that failed; may be empty.
  std::function<void(const std::string &model, const Status &problem)> onProblem;
  RequestObserver *observer = nullptr; ///< outlives the models; null: none
};

struct Model {
  std::string name;
  Status problem; ///< of the last load, and of the repository or the configuration
  TrafficState traffic;
  std::map<int64_t, std::shared_ptr<Version>> versions;
};

class ModelManager {
public:
  ModelManager(boost::asio::any_io_executor executor, std::unique_ptr<ModelRepository> repository,
               ModelManagerOptions options);
  ~ModelManager();

  /// Starts the worker and the loads of all models of the repository; loads what the repository
  /// reports to have changed from then on.
  Status start();

  /// Loads a model as its repository now has it; `onEnd` is called when all its versions are
  /// loaded, or with why one is not. What is loaded serves until the new is ready.
  void load(const std::string &name, std::function<void(Status)> onEnd);
  /// Takes no more requests for the model, and forgets it when those that it has are answered.
  void unload(const std::string &name, std::function<void(Status)> onEnd);

  /// Splits the requests of a model that name no version; TN0810, TN0852.
  Status setTraffic(const std::string &name, Traffic traffic);
  /// Back to the traffic before the last change, or else to the version before the one that
  /// answers; nothing is loaded for it. TN1012.
  Status rollback(const std::string &name);

  /// Queues a request. Null, and nothing is called, where the error is given.
  Result<std::shared_ptr<Request>> submit(const std::string &model, const std::string &version,
                                          InferRequest payload,
                                          std::function<void(Result<InferResult>)> onEnd);
  /// The caller has gone: its place in the queue is free again, onEnd is not called any more.
  void cancel(const std::shared_ptr<Request> &request);
  /// A result could not be turned into a reply.
  void countFailure(const Request &request, const Status &status);
  /// A result was turned into a reply.
  void countReply(InferResult &result, uint64_t copyOutNanoseconds);

  /// New requests are refused from now on (TN0817), and the server is not ready.
  void drain() { draining = true; }

  /// At the end: nothing changes any more. It waits for a look at the repository that is under way.
  void stop() { repository.reset(); }

  /// Whether every model that is to be served is.
  bool isReady() const;
  bool isDraining() const { return draining; }
  const std::map<std::string, Model> &all() const { return models; }
  /// TN0810; an empty version means the newest that is ready, or else the newest.
  Result<std::shared_ptr<Version>> find(const std::string &model, const std::string &version) const;
  /// ok, or why the version takes no requests: TN0811, TN0821.
  Status readiness(const Version &version) const;
  const std::vector<std::unique_ptr<WorkerSlot>> &workers() const { return slots; }
  /// The CPU, and the GPUs that the server sees.
  std::vector<Device> devices() const;
  /// Models that were taken out of the memory of a device for others.
  uint64_t evictions(const Device &device) const;
  /// Bytes that models may take on a device; 0: any.
  uint64_t memoryBudget(const Device &device) const {
    return device.isCpu() ? options.memoryBudget : options.gpuMemoryBudget;
  }
  /// Calls `then` when the ports of the version are known, or cannot be: a cold one is loaded for
  /// it.
  void whenKnown(const std::shared_ptr<Version> &version, std::function<void()> then);

private:
  WorkerSlot &makeSlot(const Device &device, std::string name, bool isShared);
  /// Where a version is to be loaded that has its device.
  WorkerSlot &chooseSlot(const Version &version);
  /// Takes the version out of its worker, which ends where it has no other and is not that of the
  /// CPU.
  void leaveWorker(Version &version);
  void releaseIfEmpty(WorkerSlot &slot);
  void discard(const WorkerSlot &slot);
  void workerEnded(WorkerSlot &slot, const WorkerEnd &ended);
  /// Decides where the version runs, which then stays so; TN0702.
  Status place(Version &version);
  /// Versions of `found` under way to the worker; each load completes once. Those for which no
  /// memory is left when the server starts stay cold, unless they are pinned.
  std::vector<std::shared_ptr<Version>> beginLoads(FoundModel found, bool isStart);
  /// Sends a worker its next load, unless it has one to answer.
  void sendNextLoad(WorkerSlot &slot);
  enum class Room { Free, Later, Never };
  /// Takes models that were not used for longest out of the memory of the version's device until it
  /// fits.
  Room makeRoom(const Version &version);
  /// The one used least lately that may go; null where there is none. With `takesBusy` also one
  /// that has requests.
  std::shared_ptr<Version> chooseVictim(const Version &newcomer, bool takesBusy) const;
  void evict(const std::shared_ptr<Version> &version);
  /// Has a cold version loaded.
  void reload(const std::shared_ptr<Version> &version);
  /// Something ended or left the queue: there may be room now for a version that waits for it.
  void retryLoads();
  /// Requests that came before the ports were known.
  void checkQueued(Version &version);
  void notifyProblem(const std::string &model, const Status &problem) const {
    if (options.onProblem) {
      options.onProblem(model, problem);
    }
  }
  /// A load ended: well, or with `problem`.
  void completeLoad(const std::shared_ptr<Version> &version, Status problem);
  /// Calls those who wait for the end of the version's load.
  void notifyCompleted(Version &version);
  void unloadVersion(const std::shared_ptr<Version> &version);
  /// Unloads a version that is to go once nothing of it is queued or runs.
  void finishUnload(Version &version);
  /// The same version under another key, for a worker that has not seen it.
  void loadAgain(const std::shared_ptr<Version> &version);
  void loadAnswered(WorkerSlot &slot, const std::shared_ptr<Version> &version,
                    const ControlMessage &message);
  void runAnswered(Version &version, Instance &instance);
  /// Hands waiting requests to free instances, in batches where the version takes them.
  void dispatch(Version &version);
  /// What a free instance is to run now; none where nothing waits, or where it pays to wait for
  /// more.
  std::vector<std::shared_ptr<Request>> chooseBatch(Version &version);
  /// Waits for more requests to a batch until the deadline.
  void armBatchDeadline(Version &version, Clock::time_point deadline);
  /// Gives the batch to the instance; requests whose data do not fit are answered, and the others
  /// run.
  void begin(Version &version, Instance &instance, std::vector<std::shared_ptr<Request>> batch);
  /// Copies the batch into a shared buffer. On an error `*faulty` is the request that it is of, or
  /// stays null.
  Status fill(Instance &instance, std::shared_ptr<Request> *faulty);
  Status provideRoom(Instance &instance, uint64_t bytes);
  void finish(Version &version, Instance &instance);
  /// The outputs of a batch's run; those of each request are rows of them.
  Result<std::vector<TensorPlace>> readOutputs(const Version &version, const Instance &instance);
  /// Answers the requests of a batch that ran well.
  void answer(Version &version, Instance &instance, const std::vector<TensorPlace> &outputs);
  void end(const std::shared_ptr<Request> &request, Result<InferResult> result);
  /// The version that a request with this id, which may be empty, is drawn for; null where there is
  /// no split, or none of its versions.
  std::shared_ptr<Version> chooseByTraffic(const std::string &name, const std::string &id);
  /// Has the model's shadow, if there is one, compute the request too.
  void beginShadow(const std::shared_ptr<Request> &request);
  void enqueue(const std::shared_ptr<Request> &request);
  /// Whether the queue has room for the request; TN0812.
  Status admit(const Version &version, const Request &request) const;
  /// Of a request that begins to wait, by its payload and the model's policy.
  void setDeadline(const std::shared_ptr<Request> &request);
  void armDeadline();
  void timeOut(const std::shared_ptr<Request> &request);
  /// The request does not wait any more.
  void dropDeadline(Request &request);

  boost::asio::any_io_executor executor;
  std::unique_ptr<ModelRepository> repository;
  ModelManagerOptions options;
  boost::asio::steady_timer deadline;
  std::map<std::string, Model> models;
  std::vector<std::unique_ptr<WorkerSlot>> slots; ///< the first is that of the CPU
  Deadlines deadlines;                            ///< of queued requests
  uint64_t lastKey = 0, lastOrder = 0;
  std::map<Device, uint64_t> evicted;
  bool draining = false;
  Random chance{std::random_device()()}; ///< draws versions for requests without an id
};

} // namespace tenon::server
