// Names of workers are told in metrics: no two have one, also where one of them is about to go.

#include "server/worker_pool/WorkerPool.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {

WorkerPool::WorkerPool(boost::asio::any_io_executor executor, std::vector<std::string> command,
                       std::vector<std::string> gpus, MemoryBudget *requestMemory,
                       WorkerSlot::Events events)
    : executor(executor), command(std::move(command)), gpus(std::move(gpus)),
      requestMemory(requestMemory), events(std::move(events)) {
  makeSlot(Device(), Device().name(), true);
}

WorkerSlot &WorkerPool::makeSlot(const Device &device, std::string name, bool isShared) {
  std::string visible;
  for (uint64_t gpu : device.gpus) {
    visible += (visible.empty() ? "" : ",") + gpus[gpu];
  }
  WorkerProcess::Command process = {command, visible, requestMemory};
  return *slots.emplace_back(std::make_unique<WorkerSlot>(executor, std::move(name), device,
                                                          isShared, std::move(process), events));
}

WorkerSlot &WorkerPool::choose(const Device &device, const std::string &owner,
                               WorkerSlot *present) {
  auto fits = [&](const WorkerSlot &slot) {
    return slot.device == device && slot.isShared == owner.empty() && !slot.isStopped();
  };
  if (present && fits(*present)) {
    return *present;
  }
  for (const std::unique_ptr<WorkerSlot> &slot : slots) {
    if (owner.empty() && fits(*slot)) {
      return *slot;
    }
  }
  std::string first = owner.empty() ? device.name() : fmt::format("{}/{}", device.name(), owner);
  std::string name = first;
  auto isTaken = [&](const std::unique_ptr<WorkerSlot> &slot) { return slot->name == name; };
  for (unsigned i = 2; std::any_of(slots.begin(), slots.end(), isTaken); ++i) {
    name = fmt::format("{}#{}", first, i);
  }
  return makeSlot(device, std::move(name), owner.empty());
}

void WorkerPool::releaseIfEmpty(WorkerSlot &slot) {
  if (!slot.isEmpty() || &slot == slots[0].get() || slot.isStopped()) {
    return;
  }
  slot.stop();
  if (!slot.hasProcess()) { // else it goes with the process
    discard(slot);
  }
}

void WorkerPool::discard(const WorkerSlot &slot) {
  auto place =
      std::find_if(slots.begin(), slots.end(),
                   [&](const std::unique_ptr<WorkerSlot> &each) { return each.get() == &slot; });
  // Later: this may be called from what the slot tells.
  boost::asio::post(executor, [given = std::shared_ptr<WorkerSlot>(std::move(*place))] {});
  slots.erase(place);
}

std::vector<Device> WorkerPool::devices() const {
  std::vector<Device> devices = {Device()};
  for (uint64_t gpu = 0; gpu < gpus.size(); ++gpu) {
    devices.push_back(Device{{gpu}});
  }
  return devices;
}

} // namespace tenon::server
