// A place for a worker process: the process, which is started again when it ends, the keys of what
// is loaded there, the load that it was sent and the runs that go on in it. What that means for
// requests and for memory, the owner of the events decides. One thread.

#pragma once

#include "server/protocol/Log.h"
#include "server/worker_pool/Device.h"
#include "server/worker_pool/Instance.h"
#include "server/worker_pool/WorkerProcess.h"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// How a process ended, and what it was doing.
struct WorkerEnd {
  int how = 0;          ///< as waitpid gives it
  uint64_t loading = 0; ///< the key of its load; 0: none
  std::vector<Instance *> running;
  uint64_t cause = 0; ///< the key of what the process said it ended for; 0: it said nothing
  Status why;         ///< as it said
};

class WorkerSlot {
public:
  struct Events {
    /// A process is there: loads may be sent.
    std::function<void(WorkerSlot &)> onStart;
    /// The answer to the load that was sent; its key may have been removed meanwhile.
    std::function<void(WorkerSlot &, const ControlMessage &)> onLoad;
    /// The memory of what was removed is free.
    std::function<void()> onFreed;
    std::function<void(Instance &)> onAnswer;
    /// The slot may be given up in it.
    std::function<void(WorkerSlot &, const WorkerEnd &)> onEnd;
    Log log;
  };

  /// A shared slot takes any number of models, another just one.
  WorkerSlot(boost::asio::any_io_executor executor, std::string name, Device device, bool isShared,
             WorkerProcess::Command command, Events events);

  const std::string name;
  const Device device;
  const bool isShared;

  /// Starts the process unless it runs; where that fails it is tried again later, and false is
  /// given.
  bool start();
  /// Ends the process for good; onEnd is called when it has gone. Without a process nothing is
  /// called any more.
  void stop();
  bool isStopped() const { return isEnded; }
  bool hasProcess() const { return process != nullptr; }
  /// Whether it takes loads and runs.
  bool isRunning() const { return process && process->id() > 0 && !isEnded; }
  /// Between the end of a process and the start of the next.
  bool isRestarting() const { return restarting; }
  /// Of the process; 0 where there is none.
  int processId() const { return isRunning() ? process->id() : 0; }
  uint64_t starts() const { return startCount; }
  /// Ends of processes that nobody asked for.
  uint64_t losses() const { return lossCount; }
  SharedBufferPool &buffers() { return process->buffers(); }

  /// Takes in what is to be loaded under a key.
  void add(uint64_t key) { keys[key] = false; }
  /// Has what was loaded under the key taken out of memory, where it is there or on its way; the
  /// `bytes` that it takes are counted until the process says that they are free.
  void remove(uint64_t key, uint64_t bytes);
  bool isEmpty() const { return keys.empty(); }
  bool wasSent(uint64_t key) const;

  /// Loads go one after the other: the socket holds few messages, and few descriptors that are on
  /// their way.
  bool isLoading() const { return sentKey != 0; }
  /// The next that is to be loaded; 0: none.
  uint64_t nextLoad() const;
  /// Has the engine in `file` loaded, which `load` describes, with instances that this makes, and
  /// with the engine in `draft` unless that is -1; nothing was sent where an error is given.
  Result<LoadedPlaces> load(uint64_t key, int file, int draft, const std::string &load,
                            uint64_t instances, unsigned threads);
  /// Has an instance run what is in its request slot.
  void run(Instance &instance);
  /// Ends the process, which broke the rules; another is started.
  void breakOff() { process->end(); }
  /// Bytes of what was removed and is not free yet.
  uint64_t leavingBytes() const;

  bool waitsForRoom = false; ///< the next load has no memory

private:
  void handle(const ControlMessage &message);
  void collectAnswers();
  void ended(int how);
  void startAgainAt(std::chrono::steady_clock::time_point time);

  const WorkerProcess::Command command;
  const Events events;
  std::unique_ptr<WorkerProcess> process;
  boost::asio::steady_timer restart;
  std::map<uint64_t, bool> keys;        ///< whether the load was sent
  std::map<uint64_t, uint64_t> leaving; ///< bytes that the process is freeing, by key
  std::vector<Instance *> running;
  uint64_t endKey = 0; ///< that the process ends for
  Status endReason;
  uint64_t sentKey = 0; ///< of the load that the process has not answered; 0: none
  uint64_t startCount = 0, lossCount = 0;
  std::chrono::steady_clock::time_point lastStart;
  bool restarting = false, isEnded = false;
  bool hasLookedAtProcess = false; ///< whether it is confined
};

} // namespace tenon::server
