// A worker process as the front sees it: its start and its end, the messages to it, and the shared
// buffers that both map. One thread, that of the executor.

#pragma once

#include "server/ipc/Control.h"
#include "server/ipc/SharedMemory.h"
#include "server/protocol/MemoryBudget.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tenon::server {

struct SharedBuffer {
  uint32_t number = 0;
  std::unique_ptr<SharedMemory> memory;
  MemoryCharge charge; ///< while somebody has it
};

/// Shared buffers of one worker by size, used again when nobody holds them any more.
class SharedBufferPool : public std::enable_shared_from_this<SharedBufferPool> {
public:
  /// Messages about shared buffers go over `socket`; `budget` may be null.
  SharedBufferPool(int socket, MemoryBudget *budget) : socket(socket), budget(budget) {}
  /// A shared buffer of `bytes` or more, whose contents are undefined. It comes back when the last
  /// pointer to it goes. TN0812 where the budget has no room.
  Result<std::shared_ptr<SharedBuffer>> take(uint64_t bytes);
  /// From now on shared buffers that come back are freed: the worker is gone.
  void close() { socket = -1; }

private:
  void giveBack(std::unique_ptr<SharedBuffer> buffer);

  int socket;
  MemoryBudget *budget;
  uint32_t lastNumber = 0;
  uint64_t idleBytes = 0;
  std::map<uint64_t, std::vector<std::unique_ptr<SharedBuffer>>> idle; ///< by size
};

class WorkerProcess {
public:
  /// What is started, and which GPUs it sees: its CUDA_VISIBLE_DEVICES; empty: none.
  struct Command {
    std::vector<std::string> arguments;
    std::string visibleGpus;
    MemoryBudget *budget = nullptr; ///< that shared buffers are charged to
  };
  struct Events {
    std::function<void(ControlMessage)> onMessage;
    std::function<void()> onAnswers; ///< instances have answered in their request slots
    /// The process is gone; `how` is as waitpid gives it. The object may be destroyed in it.
    std::function<void(int how)> onEnd;
  };

  /// Starts `command`, which ends up in runWorker.
  static Result<std::unique_ptr<WorkerProcess>> start(boost::asio::any_io_executor executor,
                                                      const Command &command, Events events);
  /// Kills the process if it still is.
  ~WorkerProcess();

  /// A worker that cannot take a message is killed, and onEnd is called.
  void send(const ControlMessage &message);
  /// Ends the process; onEnd is called when it has gone, which with much memory takes a while.
  void end();
  SharedBufferPool &buffers() { return *pool; }
  int id() const { return process; }
  /// Whether the process has given up what a worker gives up (server/worker/Sandbox.h); known once
  /// it has answered.
  bool isConfined() const;

private:
  WorkerProcess(boost::asio::any_io_executor executor, Events events)
      : events(std::move(events)), socket(executor), done(executor), exited(executor) {}
  void awaitMessage();
  void awaitAnswers();
  void awaitEnd();
  /// Of the messages that the process left behind, the one that says why it ended.
  void takeLastWords();

  Events events;
  int process = -1; ///< -1 once it was waited for
  boost::asio::posix::stream_descriptor socket, done, exited;
  std::shared_ptr<SharedBufferPool> pool;
  /// Handlers of waits that outlive the object see it empty.
  std::shared_ptr<bool> isAlive = std::make_shared<bool>(true);
};

} // namespace tenon::server
