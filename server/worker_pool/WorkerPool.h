// The worker processes of a server: one for the CPU, one for each GPU or group of GPUs that
// a model uses, and those of models that have one of their own.

#pragma once

#include "server/worker_pool/WorkerSlot.h"

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <string>
#include <vector>

namespace tenon::server {

class WorkerPool {
public:
  /// `gpus` as findGpus gives them. `requestMemory`, which outlives it, is what shared buffers are
  /// charged to; null: nothing.
  WorkerPool(boost::asio::any_io_executor executor, std::vector<std::string> command,
             std::vector<std::string> gpus, MemoryBudget *requestMemory, WorkerSlot::Events events);

  /// Starts the worker of the CPU.
  bool start() { return slots[0]->start(); }
  /// A worker on `device`: `present` where it fits, or else one that is there or new. `owner` is
  /// what has it to itself; empty: it is shared.
  WorkerSlot &choose(const Device &device, const std::string &owner, WorkerSlot *present);
  /// Ends a worker that has nothing, unless it is that of the CPU.
  void releaseIfEmpty(WorkerSlot &slot);
  /// Forgets a worker that has ended.
  void discard(const WorkerSlot &slot);

  const std::vector<std::unique_ptr<WorkerSlot>> &all() const { return slots; }
  /// The CPU, and the GPUs that the server sees.
  std::vector<Device> devices() const;
  size_t gpuCount() const { return gpus.size(); }

private:
  WorkerSlot &makeSlot(const Device &device, std::string name, bool isShared);

  boost::asio::any_io_executor executor;
  const std::vector<std::string> command, gpus;
  MemoryBudget *const requestMemory;
  const WorkerSlot::Events events;
  std::vector<std::unique_ptr<WorkerSlot>> slots; ///< the first is that of the CPU
};

} // namespace tenon::server
