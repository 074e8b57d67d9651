// Which models are in memory, where a budget bounds them: those that were used last, and those that
// are pinned.

#include "server/scheduler/ModelManager.h"

#include <boost/asio/post.hpp>

#include <algorithm>

namespace tenon::server {

uint64_t ModelManager::freeBytes(const Device &device) const {
  uint64_t budget = memoryBudget(device), held = 0;
  for (const std::unique_ptr<WorkerSlot> &slot : slots) {
    held += slot->device == device ? slot->heldBytes() : 0;
  }
  return budget == 0 ? 0 : budget - std::min(held, budget - 1);
}

ModelManager::Room ModelManager::makeRoom(const Version &version) {
  uint64_t budget = memoryBudget(*version.device);
  if (budget == 0) {
    return Room::Free;
  }
  // What a model takes on a GPU is not known before its first load: its file also has what is for
  // CPUs.
  bool isGuess = !version.batch && !version.device->isCpu();
  uint64_t needed = isGuess ? std::min(neededBytes(version), budget) : neededBytes(version);
  if (needed > budget) {
    return Room::Never;
  }
  auto sumOf = [&](uint64_t (WorkerSlot::*bytes)() const) {
    uint64_t sum = 0;
    for (const std::unique_ptr<WorkerSlot> &slot : slots) {
      sum += slot->device == version.device ? ((*slot).*bytes)() : 0;
    }
    return sum;
  };
  uint64_t held = sumOf(&WorkerSlot::heldBytes);
  if (held + needed <= budget) {
    return Room::Free;
  }
  if (version.isInitial) {
    return Room::Later;
  }
  // What goes is free once its worker says so; this tells when.
  auto fitsLater = [&] {
    return sumOf(&WorkerSlot::heldBytes) - sumOf(&WorkerSlot::freedSoon) + needed <= budget;
  };
  for (bool takesBusy : {false, true}) {
    while (!fitsLater()) {
      std::shared_ptr<Version> victim = chooseVictim(version, takesBusy);
      if (!victim) {
        break;
      }
      if (takesBusy) {
        victim->isLeaving = true; // it does no more, and goes once what it runs has ended, or now
        boost::asio::post(executor, [this] { retryLoads(); });
      } else {
        evict(victim);
      }
    }
  }
  bool changes =
      sumOf(&WorkerSlot::freedSoon) > 0 ||
      std::any_of(slots.begin(), slots.end(), [&](const std::unique_ptr<WorkerSlot> &slot) {
        return slot->device == version.device && slot->isLoading();
      });
  return changes ? Room::Later : Room::Never;
}

std::shared_ptr<Version> ModelManager::chooseVictim(const Version &newcomer, bool takesBusy) const {
  std::shared_ptr<Version> victim;
  for (const std::unique_ptr<WorkerSlot> &slot : slots) {
    for (const auto &[key, each] : slot->versions()) {
      bool isIdle = each->queue.empty() && !each->isRunning();
      bool isReplaced = each->model == newcomer.model &&
                        each->number == newcomer.number; // it serves until the newcomer is ready
      bool mayGo = slot->device == newcomer.device && each->state == VersionState::Ready &&
                   !each->isLeaving && !each->config.isPinned && !isReplaced &&
                   (takesBusy || isIdle);
      if (mayGo && (!victim || each->lastUse < victim->lastUse)) {
        victim = each;
      }
    }
  }
  return victim;
}

void ModelManager::evict(const std::shared_ptr<Version> &version) {
  ++evicted[*version->device];
  version->state = VersionState::Cold;
  version->isLeaving = false;
  version->instances.clear();
  leaveWorker(*version);
  if (!version->queue.empty()) {
    reload(version);
  }
}

void ModelManager::reload(const std::shared_ptr<Version> &version) {
  if (version->state == VersionState::Cold) {
    version->isOnDemand = true;
    version->isSuspect = false;
    loadAgain(version);
  }
}

void ModelManager::retryLoads() {
  std::vector<WorkerSlot *> waiting;
  for (const std::unique_ptr<WorkerSlot> &slot : slots) {
    if (slot->waitsForRoom) {
      waiting.push_back(slot.get());
    }
  }
  if (waiting.empty()) {
    return; // and so none must leave
  }
  std::vector<std::shared_ptr<Version>> leaving;
  for (const std::unique_ptr<WorkerSlot> &slot : slots) {
    for (const auto &[key, version] : slot->versions()) {
      if (version->isLeaving && version->state == VersionState::Ready && !version->isRunning()) {
        leaving.push_back(version);
      }
    }
  }
  for (const std::shared_ptr<Version> &version : leaving) {
    if (version->state == VersionState::Ready) { // what another's end told may have changed it
      evict(version);
    }
  }
  for (WorkerSlot *slot : waiting) {
    slot->waitsForRoom = false;
    sendNextLoad(*slot);
  }
}

void ModelManager::checkQueued(Version &version) {
  for (const std::shared_ptr<Request> &request : version.queue.all()) {
    Status problem = request->isChecked ? Status::ok() : checkRequest(version, *request);
    request->isChecked = true;
    if (!problem.isOk() && version.queue.erase(request)) {
      end(request, std::move(problem));
    }
  }
}

void ModelManager::whenKnown(const std::shared_ptr<Version> &version, std::function<void()> then) {
  if (version->isKnown() || !(version->state == VersionState::Cold ||
                              (version->state == VersionState::Loading && version->isOnDemand))) {
    then();
    return;
  }
  version->onCompleted.push_back(std::move(then));
  version->lastUse = Clock::now();
  reload(version);
}

} // namespace tenon::server
