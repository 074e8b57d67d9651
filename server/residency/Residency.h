// What is in the memory of which device: loads go to workers one after the other, what is unloaded
// goes once it is idle, and where a budget bounds a device, what was not used for longest goes for
// others. One thread, that of the executor.

#pragma once

#include "server/protocol/Log.h"
#include "server/residency/Version.h"
#include "server/worker_pool/WorkerPool.h"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

struct ResidencyOptions {
  std::vector<std::string> workerCommand;
  /// Threads of a run; 0: the number of usable CPUs.
  unsigned threads = 0;
  /// Bytes that loaded models may take on the CPU, and on each GPU; 0: any.
  uint64_t memoryBudget = 0, gpuMemoryBudget = 0;
  /// Texts that a language model continues at once, and positions of each; 0: TextRoom has it.
  uint64_t users = 0, tokens = 0;
  std::vector<std::string> gpus; ///< as findGpus gives them
  /// Called with what the operator should know, in one line.
  Log log;
  MemoryBudget *requestMemory = nullptr; ///< that buffers are charged to; outlives it; null: any
  /// As ModelRepository has it, but that the executor's thread calls back.
  std::function<void(const std::vector<RemoteFile> &, ModelRepository::OnFile)> provide = {};
};

class Residency {
public:
  struct Events {
    /// The version is ready; it may be unloaded in it.
    std::function<void(const std::shared_ptr<Version> &)> onReady;
    std::function<void(const Version &)> onFailure; ///< its load failed
  };

  Residency(boost::asio::any_io_executor executor, ResidencyOptions options, Events events);

  Status start();
  /// Has the version loaded. An initial load takes no memory from others: for lack of it the
  /// version stays cold.
  void load(const std::shared_ptr<Version> &version, bool isInitial = false);
  /// The version waits for a request, which loads it.
  void leaveCold(const std::shared_ptr<Version> &version);
  /// The version cannot be loaded.
  void fail(const std::shared_ptr<Version> &version, const Status &why);
  /// Takes it out of memory once nothing of it waits or runs.
  void unload(const std::shared_ptr<Version> &version);
  /// Has a cold version loaded, for a request.
  void wake(const std::shared_ptr<Version> &version);
  /// Something of the version ended or left its queue: it may go now, and another have its memory.
  void settle(Version &version);
  /// Calls `then` when the version's load has ended, or now where there is none.
  void whenCompleted(Version &version, std::function<void()> then);
  /// Calls `then` when the ports of the version are known, or cannot be: a cold one is loaded for
  /// it.
  void whenKnown(const std::shared_ptr<Version> &version, std::function<void()> then);
  /// Versions of the model that are loaded.
  std::vector<std::shared_ptr<Version>> loading(const std::string &model) const;

  const WorkerPool &workers() const { return pool; }
  /// Models that were taken out of the memory of a device for others.
  uint64_t evictions(const Device &device) const;
  /// Bytes that models may take on a device, or on each GPU of a group; 0: any.
  uint64_t budget(const Device &device) const {
    return device.isCpu() ? options.memoryBudget : options.gpuMemoryBudget;
  }
  /// What requests hold, and may; null: it is not counted.
  const MemoryBudget *requestMemory() const { return options.requestMemory; }
  void log(std::string_view line, LogLevel level = LogLevel::Info) const {
    options.log(line, level);
  }

private:
  WorkerSlot::Events workerEvents();
  // Fetch.cpp
  /// Brings the files of a version, which is loaded then.
  void fetch(const std::shared_ptr<Version> &version);
  void fetched(const std::shared_ptr<Version> &version, Result<std::shared_ptr<Descriptor>> engine);
  /// Takes an idle model out of memory whose file leaves the disk then; false where there is none.
  bool releaseFile();

  /// Decides where the version runs, which then stays so; TN0702.
  Status place(Version &version);
  /// Takes the version out of its worker.
  void leaveWorker(Version &version);
  /// Sends a worker its next load, unless it has one to answer.
  void sendNextLoad(WorkerSlot &slot);
  void loadAnswered(WorkerSlot &slot, const ControlMessage &message);
  /// What the worker told, or why that cannot be used.
  Status takeInfo(Version &version, std::string_view text);
  void logPhases(const Version &version, const std::vector<LoadPhase> &phases) const;
  /// A load ended well.
  void complete(const std::shared_ptr<Version> &version);
  /// Calls those who wait for the end of the version's load.
  void notifyCompleted(Version &version);
  /// Unloads a version that is to go once it is idle.
  void finishUnload(Version &version);
  void workerEnded(WorkerSlot &slot, const WorkerEnd &ended);
  /// The versions in a worker, or on their way there.
  std::vector<std::shared_ptr<Version>> versionsOf(const WorkerSlot &slot) const;

  // Memory.cpp
  enum class Room { Free, Later, Never };
  /// Takes models that were not used for longest out of the memory of the version's device until it
  /// fits.
  Room makeRoom(const Version &version);
  /// What a version may have that is loaded next.
  TextRoom textRoom(const Version &version, const Device &device) const;
  /// Of a group, on the GPU that has most; `isLater`: without those that are free soon.
  uint64_t heldBytes(const Device &device, bool isLater = false) const;
  /// The one used least lately that may go; null where there is none. With `takesBusy` also one
  /// that has requests.
  std::shared_ptr<Version> chooseVictim(const Version &newcomer, bool takesBusy) const;
  void evict(const std::shared_ptr<Version> &version);
  /// There may be room now for a version that waits for it.
  void retryLoads();

  boost::asio::any_io_executor executor;
  const ResidencyOptions options;
  const Events events;
  WorkerPool pool;
  std::set<std::shared_ptr<Version>> fetching;        ///< those whose files come
  std::map<uint64_t, std::shared_ptr<Version>> byKey; ///< those in workers, or on their way there
  uint64_t lastKey = 0;
  std::map<Device, uint64_t> evicted;
};

} // namespace tenon::server
