// Which models are in memory, where a budget bounds them: those that were used last, and those that
// are pinned.

#include "server/residency/Residency.h"

#include "support/memory/MachineMemory.h"

#include <boost/asio/post.hpp>

#include <algorithm>

namespace tenon::server {

Residency::Room Residency::makeRoom(const Version &version) {
  const Device &device = *version.place;
  uint64_t most = budget(device);
  if (most == 0) {
    return Room::Free;
  }
  // What a model takes on a GPU is not known before its first load: its file also has what is for
  // CPUs.
  bool isGuess = !version.batch && !device.isCpu();
  uint64_t needed = isGuess ? std::min(version.neededBytes(), most) : version.neededBytes();
  if (needed > most) {
    return Room::Never;
  }
  if (heldBytes(device) + needed <= most) {
    return Room::Free;
  }
  if (version.isInitial) {
    return Room::Later;
  }
  // What goes is free once its worker says so; this tells when.
  auto fitsLater = [&] { return heldBytes(device, /*isLater=*/true) + needed <= most; };
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
  bool changes = heldBytes(device, /*isLater=*/true) < heldBytes(device) ||
                 std::any_of(
                     pool.all().begin(), pool.all().end(),
                     [&](const std::unique_ptr<WorkerSlot> &slot) {
                       return slot->device.shares(device) && slot->isLoading();
                     });
  return changes ? Room::Later : Room::Never;
}

TextRoom Residency::textRoom(const Version &version, const Device &device) const {
  const ModelConfig &config = version.config;
  uint64_t most = budget(device);
  TextRoom room = {.users = config.users > 0 ? config.users : options.users,
                   .tokens = config.tokens > 0 ? config.tokens : options.tokens};
  if (most > 0) {
    room.memory = most - std::min(heldBytes(device), most - 1);
  } else if (device.isCpu()) {
    room.memory = freeMemory();
  }
  return room;
}

uint64_t Residency::heldBytes(const Device &device, bool isLater) const {
  if (device.gpus.size() > 1) {
    uint64_t most = 0;
    for (uint64_t gpu : device.gpus) {
      most = std::max(most, heldBytes(Device{{gpu}}, isLater));
    }
    return most;
  }
  uint64_t sum = 0;
  for (const auto &[key, version] : byKey) {
    bool goes = version->isLeaving || version->current == VersionState::Unloading;
    bool isThere = version->slot->device.shares(device) && version->slot->wasSent(key);
    sum += isThere && !(goes && isLater) ? version->taken : 0;
  }
  for (const std::unique_ptr<WorkerSlot> &slot : pool.all()) {
    sum += slot->device.shares(device) && !isLater ? slot->leavingBytes() : 0;
  }
  return sum;
}

std::shared_ptr<Version> Residency::chooseVictim(const Version &newcomer, bool takesBusy) const {
  std::shared_ptr<Version> victim;
  for (const auto &[key, each] : byKey) {
    bool isReplaced = each->model == newcomer.model &&
                      each->number == newcomer.number; // it serves until the newcomer is ready
    bool mayGo = each->slot->device.shares(*newcomer.place) &&
                 each->current == VersionState::Ready && !each->isLeaving &&
                 !each->config.isPinned && !isReplaced && (takesBusy || each->scheduler->isIdle());
    if (mayGo && (!victim || each->lastUse < victim->lastUse)) {
      victim = each;
    }
  }
  return victim;
}

void Residency::evict(const std::shared_ptr<Version> &version) {
  ++evicted[*version->place];
  version->current = VersionState::Cold;
  version->isLeaving = false;
  version->places = {};
  leaveWorker(*version);
  if (!version->remote.empty()) {
    version->file.close(); // it may leave the disk now
  }
  if (version->scheduler->waiting() > 0) {
    wake(version);
  }
}

void Residency::retryLoads() {
  std::vector<WorkerSlot *> waiting;
  for (const std::unique_ptr<WorkerSlot> &slot : pool.all()) {
    if (slot->waitsForRoom) {
      waiting.push_back(slot.get());
    }
  }
  if (waiting.empty()) {
    return; // and so none must leave
  }
  std::vector<std::shared_ptr<Version>> leaving;
  for (const auto &[key, version] : byKey) {
    if (version->isLeaving && version->current == VersionState::Ready &&
        version->scheduler->running() == 0) {
      leaving.push_back(version);
    }
  }
  for (const std::shared_ptr<Version> &version : leaving) {
    if (version->current == VersionState::Ready) { // what another's end told may have changed it
      evict(version);
    }
  }
  for (WorkerSlot *slot : waiting) {
    slot->waitsForRoom = false;
    sendNextLoad(*slot);
  }
}

uint64_t Residency::evictions(const Device &device) const {
  uint64_t sum = 0;
  for (const auto &[from, count] : evicted) {
    sum += from.shares(device) ? count : 0;
  }
  return sum;
}

} // namespace tenon::server
