// A version of a model while the server has it: its state, its queue, its instances in the worker,
// and what was counted.

#pragma once

#include "server/ipc/Descriptor.h"
#include "server/ipc/ModelInfo.h"
#include "server/ipc/RequestSlot.h"
#include "server/protocol/InferRequest.h"
#include "server/protocol/ModelConfig.h"
#include "server/scheduler/RequestQueue.h"
#include "server/scheduler/Statistics.h"
#include "server/worker_pool/Device.h"
#include "server/worker_pool/WorkerProcess.h"

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>

namespace tenon::server {

using Clock = std::chrono::steady_clock;

inline uint64_t nanosecondsSince(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

class WorkerSlot;
struct Version;
struct Request;
using Deadlines = std::multimap<Clock::time_point, std::weak_ptr<Request>>;

/// What a request gave: the outputs lie in a shared buffer, which this keeps.
struct InferResult {
  std::shared_ptr<Version> version;
  std::shared_ptr<SharedBuffer> buffer;
  std::vector<TensorPlace> outputs; ///< in the order of the model's ports
  uint64_t batchRows = 1;           ///< of the run that it is from
  StageTimes times;
  Clock::time_point arrival;
  TraceContext trace; ///< of the request
};

/// A request from its arrival to its answer.
struct Request {
  /// Refers to the body of the request, which the caller keeps until onEnd is called.
  InferRequest payload;
  std::shared_ptr<Version> version;
  std::function<void(Result<InferResult>)> onEnd; ///< called once
  std::vector<std::vector<std::byte>>
      owned; ///< what the request refers to, where no caller keeps it
  Clock::time_point arrival;
  std::vector<size_t> order; ///< of the model's inputs in the request's
  uint64_t rows = 1;
  uint64_t priority = 0;
  bool canBatch = false;
  bool isChecked = false; ///< against the ports, which are known once the version was loaded
  /// All dims of the inputs but the batch, as they are once padded: requests with equal ones fit in
  /// one batch.
  std::vector<int64_t> shape;
  int64_t length = 0;                       ///< of the dim that may be padded, in the request
  int64_t bucket = 0;                       ///< that it may be padded to; 0: it is not padded
  std::optional<RequestQueue::Place> place; ///< while it waits
  StageTimes times;
  std::optional<Deadlines::iterator> deadline; ///< while it waits and has one
  std::chrono::microseconds maxWait{0};
  bool isCancelled = false;
};

/// A session of the model in the worker, which does one run at a time.
struct Instance {
  std::unique_ptr<SharedMemory> memory; ///< its request slot
  Descriptor wake;
  std::vector<std::shared_ptr<Request>> requests; ///< that run, batched in this order
  std::shared_ptr<SharedBuffer> inputBuffer, outputBuffer;
  uint64_t outputOffset = 0, outputEnd = 0; ///< as the request slot has them
  uint64_t heldBytes = 0;                   ///< of the session, after its last run
  uint64_t copyIn = 0;                      ///< nanoseconds that filling the shared buffer took
  int64_t padded = 0;                       ///< length that the batch was padded to; 0: it was not
  uint64_t rows() const {
    uint64_t sum = 0;
    for (const std::shared_ptr<Request> &request : requests) {
      sum += request->rows;
    }
    return sum;
  }
  RequestSlot &slot() const { return *reinterpret_cast<RequestSlot *>(memory->data()); }
};

/// Cold: taken out of memory, or never loaded for lack of it; a request loads it.
enum class VersionState { Unloaded, Loading, Ready, Unloading, Failed, Cold };

struct Version : std::enable_shared_from_this<Version> {
  std::string model;
  std::string number;
  std::string path;
  std::string sha256; ///< that the engine's bytes must have; empty: any
  /// The engine's file as it was when a worker first loaded it, for the workers after that one.
  Descriptor file;
  struct stat fileInfo = {};
  ModelConfig config;
  /// Names the version to workers; another after each load, so that late messages are told apart.
  uint64_t key = 0;
  uint64_t order = 0;           ///< of the load that asked for it: the later one stays
  std::optional<Device> device; ///< where it runs, once that was decided
  WorkerSlot *worker = nullptr; ///< that has or loads it
  bool needsLoad = false;       ///< it was not sent to the worker
  VersionState state = VersionState::Unloaded;
  Status problem; ///< of a failed load
  ModelPorts ports;
  /// Of the first load; the next workers load the same file, and prove nothing again.
  std::optional<BatchInfo> batch;
  std::vector<std::unique_ptr<Instance>> instances;
  RequestQueue queue;
  uint64_t bytes = 0;       ///< of memory on its device, as far as it is known
  uint64_t sharedBytes = 0; ///< those of them that no session holds
  Clock::time_point lastUse;
  bool isOnDemand = false; ///< it was cold: takes requests while it is loaded
  bool isInitial = false;  ///< its first load, which takes no memory from others
  bool isLeaving = false;  ///< runs nothing more until it is cold
  /// Set while free instances wait for more requests to a batch.
  std::optional<boost::asio::steady_timer> batchDeadline;
  /// Called once when the load that goes on has ended.
  std::vector<std::function<void()>> onCompleted;
  uint64_t outputRoom = 0; ///< that outputs took before
  unsigned crashes = 0;    ///< of a worker that did nothing else
  bool isSuspect = false; ///< it ran or was loaded when its worker crashed: the next one is its own
  /// Of the model and the number: those that are loaded after one another share it.
  std::shared_ptr<VersionStatistics> statistics = std::make_shared<VersionStatistics>();

  /// Whether it takes requests.
  bool isServing() const {
    return state == VersionState::Ready || state == VersionState::Cold ||
           (state == VersionState::Loading && isOnDemand);
  }
  bool isKnown() const { return !ports.outputs.empty(); }
  bool isPadded() const { return batch && batch->padding == BatchInfo::State::Proven; }
  bool isBatched() const { return batch && batch->batching == BatchInfo::State::Proven; }
  /// Whether dim 0 is a batch, whose rows are counted.
  bool hasRows() const { return config.maxBatchSize > 0 || isBatched(); }
  bool isRunning() const {
    return std::any_of(
        instances.begin(), instances.end(),
        [](const std::unique_ptr<Instance> &each) { return !each->requests.empty(); });
  }
};

/// What a version that is not loaded will take, as far as it is known: else its file's size.
inline uint64_t neededBytes(const Version &version) {
  return version.bytes > 0 ? version.bytes : static_cast<uint64_t>(version.fileInfo.st_size);
}
/// Checks a loaded version against its configuration; TN0805, or TN0818 for types that the protocol
/// lacks.
Status checkConfig(const Version &version);
/// What the worker is to prove of a version with this configuration.
BatchPolicy batchPolicyOf(const ModelConfig &config);
/// Checks a request against the version's ports and fills what follows from them;
/// TN0807.
Status checkRequest(const Version &version, Request &request);

} // namespace tenon::server
