// Which worker processes there are, which has what, and whom the end of one is blamed on.
//
// There is one for the CPU and one for each GPU that a model uses; a version has one of its own
// where its configuration says so, or where it ran or was loaded when its worker crashed. Then the
// others notice nothing of the next crash, which is its own without doubt.

#include "server/scheduler/ModelManager.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

#include <sys/wait.h>

namespace tenon::server {
namespace {

constexpr unsigned kMaxCrashes = 2;

/// Whether a process ended by a fault of its own, not by somebody who killed it.
bool isCrash(int how) {
  if (WIFSIGNALED(how)) {
    int signal = WTERMSIG(how);
    return signal != SIGKILL && signal != SIGTERM && signal != SIGINT && signal != SIGHUP;
  }
  return WIFEXITED(how) && WEXITSTATUS(how) != 0;
}

std::string describeEnd(int how) {
  return WIFSIGNALED(how) ? fmt::format("was ended by signal {}", WTERMSIG(how))
                          : fmt::format("exited with {}", WEXITSTATUS(how));
}

} // namespace

WorkerSlot &ModelManager::makeSlot(const Device &device, std::string name, bool isShared) {
  WorkerSlot::Events events;
  events.onStart = [this](WorkerSlot &slot) { sendNextLoad(slot); };
  events.onLoad = [this](WorkerSlot &slot, std::shared_ptr<Version> version,
                         ControlMessage message) {
    if (version) {
      loadAnswered(slot, version, message);
    }
    sendNextLoad(slot);
    retryLoads();
  };
  events.onFreed = [this] { retryLoads(); };
  events.onAnswer = [this](Version &version, Instance &instance) {
    runAnswered(version, instance);
  };
  events.onEnd = [this](WorkerSlot &slot, const WorkerEnd &end) { workerEnded(slot, end); };
  events.log = options.log;
  WorkerProcess::Command command = {options.workerCommand,
                                    device.isCpu() ? "" : options.gpus[*device.gpu]};
  return *slots.emplace_back(std::make_unique<WorkerSlot>(
      executor, std::move(name), device, isShared, std::move(command), std::move(events)));
}

WorkerSlot &ModelManager::chooseSlot(const Version &version) {
  bool isAlone = version.config.hasOwnWorker || version.isSuspect || version.crashes > 0;
  auto fits = [&](const WorkerSlot &slot) {
    return slot.device == version.device && slot.isShared == !isAlone && !slot.isStopped();
  };
  if (version.worker && fits(*version.worker)) {
    return *version.worker;
  }
  for (const std::unique_ptr<WorkerSlot> &slot : slots) {
    if (!isAlone && fits(*slot)) {
      return *slot;
    }
  }
  // Names are told in metrics: no two workers have one, also where one of them is about to go.
  std::string first =
      isAlone ? fmt::format("{}/{}/{}", version.device->name(), version.model, version.number)
              : version.device->name();
  std::string name = first;
  auto isTaken = [&](const std::unique_ptr<WorkerSlot> &slot) { return slot->name == name; };
  for (unsigned i = 2; std::any_of(slots.begin(), slots.end(), isTaken); ++i) {
    name = fmt::format("{}#{}", first, i);
  }
  return makeSlot(*version.device, std::move(name), !isAlone);
}

void ModelManager::leaveWorker(Version &version) {
  if (WorkerSlot *slot = std::exchange(version.worker, nullptr)) {
    std::shared_ptr<Version> held =
        version.shared_from_this(); // the worker may have the last pointer
    slot->remove(version.key);
    releaseIfEmpty(*slot);
  }
}

void ModelManager::releaseIfEmpty(WorkerSlot &slot) {
  bool isNeeded = !slot.versions().empty() || &slot == slots[0].get();
  if (isNeeded || slot.isStopped()) {
    return;
  }
  slot.stop();
  if (slot.hasProcess()) {
    return; // it goes with the process
  }
  discard(slot);
}

void ModelManager::discard(const WorkerSlot &slot) {
  auto place =
      std::find_if(slots.begin(), slots.end(),
                   [&](const std::unique_ptr<WorkerSlot> &each) { return each.get() == &slot; });
  // Later: this may be called from what the slot tells.
  boost::asio::post(executor, [given = std::shared_ptr<WorkerSlot>(std::move(*place))] {});
  slots.erase(place);
}

void ModelManager::workerEnded(WorkerSlot &slot, const WorkerEnd &ended) {
  if (slot.isStopped()) {
    discard(slot);
    retryLoads();
    return;
  }
  options.log(fmt::format("the worker process {} {}; it is started again", slot.name,
                          describeEnd(ended.how)),
              LogLevel::Error);
  std::set<std::shared_ptr<Version>> suspects;
  std::vector<std::shared_ptr<Request>> lost;
  for (const auto &[version, instance] : ended.running) {
    std::vector<std::shared_ptr<Request>> requests = std::exchange(instance->requests, {});
    lost.insert(lost.end(), requests.begin(), requests.end());
    suspects.insert(version->shared_from_this());
  }
  for (std::shared_ptr<Request> &request : lost) {
    end(request, Status::error(ErrorId::WorkerLost,
                               fmt::format("the worker process {} while it ran the request",
                                           describeEnd(ended.how)),
                               "the server's log tells more; the worker is started again"));
  }
  if (ended.loading) {
    suspects.insert(ended.loading);
  }
  for (const std::shared_ptr<Version> &version : suspects) {
    version->isSuspect = version->isSuspect || isCrash(ended.how);
    version->crashes += isCrash(ended.how) && suspects.size() == 1;
  }
  std::map<uint64_t, std::shared_ptr<Version>> present = slot.versions();
  for (auto &[key, version] : present) {
    version->instances.clear();
    if (version->crashes >= kMaxCrashes) {
      leaveWorker(*version);
      completeLoad(
          version,
          Status::error(
              ErrorId::ModelQuarantined,
              fmt::format(
                  "model '{}' version {} ended its worker process {} times and is not loaded again",
                  version->model, version->number, version->crashes),
              "load it again once the engine was replaced"));
    } else if (version->state == VersionState::Unloading && version->queue.empty()) {
      finishUnload(*version); // what it ran is answered
    } else if (!version->needsLoad) {
      version->isOnDemand = version->isOnDemand && version->state == VersionState::Loading;
      loadAgain(version);
    }
  }
  retryLoads();
}

} // namespace tenon::server
