// A place for a worker process: the process, which is started again when it ends, the versions that
// it has, the load that it was sent and the runs that go on in it. What that means for requests
// and for memory, the owner of the events decides. One thread.

#pragma once

#include "server/protocol/Log.h"
#include "server/scheduler/Version.h"
#include "server/worker_pool/Device.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon::server {

/// How a process ended, and what it was doing.
struct WorkerEnd {
  int how = 0;                      ///< as waitpid gives it
  std::shared_ptr<Version> loading; ///< null: none
  std::vector<std::pair<Version *, Instance *>> running;
};

class WorkerSlot {
public:
  struct Events {
    /// A process is there: loads may be sent.
    std::function<void(WorkerSlot &)> onStart;
    /// The answer to the load that was sent; the version has gone meanwhile where it is null.
    std::function<void(WorkerSlot &, std::shared_ptr<Version>, ControlMessage)> onLoad;
    /// The memory of a version that was removed is free.
    std::function<void()> onFreed;
    std::function<void(Version &, Instance &)> onAnswer;
    /// The slot may be given up in it.
    std::function<void(WorkerSlot &, const WorkerEnd &)> onEnd;
    Log log;
  };

  /// A shared slot takes any number of versions, another just one.
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

  /// Takes the version in, under its key; it is to be loaded.
  void add(const std::shared_ptr<Version> &version);
  /// Has the version of `key` taken out of memory, where it is there or on its way. What it takes
  /// is counted until the process says that it is free.
  void remove(uint64_t key);
  const std::map<uint64_t, std::shared_ptr<Version>> &versions() const { return byKey; }

  /// Loads go one after the other: the socket holds few messages, and few descriptors that are on
  /// their way.
  bool isLoading() const { return sentKey != 0; }
  /// The next that is to be loaded; null where there is none.
  std::shared_ptr<Version> nextLoad() const;
  /// Makes the version's instances and has it loaded; nothing was sent where an error is given.
  Status load(Version &version, unsigned threads);
  /// Has an instance run what is in its request slot.
  void run(Version &version, Instance &instance);

  /// Bytes that versions here take or are about to take, and those of them that will soon be free.
  uint64_t heldBytes() const;
  uint64_t freedSoon() const;

  bool waitsForRoom = false; ///< the next load has no memory

private:
  void handle(ControlMessage message);
  void collectAnswers();
  void ended(int how);
  void startAgainAt(Clock::time_point time);

  const WorkerProcess::Command command;
  const Events events;
  std::unique_ptr<WorkerProcess> process;
  boost::asio::steady_timer restart;
  std::map<uint64_t, std::shared_ptr<Version>> byKey;
  std::map<uint64_t, uint64_t> leaving; ///< bytes of versions that the process is freeing, by key
  std::vector<std::pair<Version *, Instance *>> running;
  uint64_t sentKey = 0; ///< of the load that the process has not answered; 0: none
  uint64_t startCount = 0, lossCount = 0;
  Clock::time_point lastStart;
  bool restarting = false, isEnded = false;
  bool hasLookedAtProcess = false; ///< whether it is confined
};

} // namespace tenon::server
