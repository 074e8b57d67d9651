// Which models are in memory, where a budget bounds them: those that were used last, and those that are pinned.

#include "server/scheduler/Models.h"

#include <algorithm>

namespace tenon::server {
namespace {

/// What a version that is not loaded will take, as far as it is known: its file at least.
uint64_t neededBytes(const Version &version) { return std::max(version.bytes, static_cast<uint64_t>(version.facts.st_size)); }

} // namespace

Models::Room Models::makeRoom(const Version &version) {
  if (options.memoryBudget == 0) {
    return Room::Free;
  }
  uint64_t needed = neededBytes(version);
  if (needed > options.memoryBudget) {
    return Room::Never;
  }
  auto held = [&] {
    uint64_t sum = 0;
    for (const auto &[key, each] : byKey) {
      sum += each->needsLoad || each.get() == &version ? 0 : each->bytes;
    }
    return sum;
  };
  while (held() + needed > options.memoryBudget) {
    std::shared_ptr<Version> victim = version.isInitial ? nullptr : chooseVictim(version, false);
    if (!victim) {
      break;
    }
    evict(victim);
  }
  if (held() + needed <= options.memoryBudget) {
    return Room::Free;
  }
  if (version.isInitial) {
    return Room::Later;
  }
  // None is idle: one of those that are busy does no more, and goes once what it runs has ended.
  bool isOneLeaving = std::any_of(byKey.begin(), byKey.end(), [](const auto &each) { return each.second->isLeaving || each.second->state == VersionState::Unloading; });
  std::shared_ptr<Version> busy = isOneLeaving ? nullptr : chooseVictim(version, true);
  if (busy) {
    busy->isLeaving = true;
    return Room::Later;
  }
  return isOneLeaving ? Room::Later : Room::Never;
}

std::shared_ptr<Version> Models::chooseVictim(const Version &newcomer, bool takesBusy) const {
  std::shared_ptr<Version> victim;
  for (const auto &[key, each] : byKey) {
    bool isIdle = each->queue.empty() && !each->isRunning();
    bool isReplaced = each->model == newcomer.model && each->number == newcomer.number; // it serves until the newcomer is ready
    bool mayGo = each->state == VersionState::Ready && !each->config.isPinned && !isReplaced && (takesBusy || isIdle);
    if (mayGo && (!victim || each->lastUse < victim->lastUse)) {
      victim = each;
    }
  }
  return victim;
}

void Models::evict(const std::shared_ptr<Version> &version) {
  ++evicted;
  version->state = VersionState::Cold;
  version->isLeaving = false;
  version->instances.clear();
  byKey.erase(version->key);
  // The worker does one thing after the other: the memory is free before the next load begins.
  if (worker) {
    worker->send({ControlMessage::Kind::Unload, version->key, 0, "", {}});
  }
  if (!version->queue.empty()) {
    wake(version);
  }
}

void Models::wake(const std::shared_ptr<Version> &version) {
  if (version->state == VersionState::Cold) {
    version->isOnDemand = true;
    loadAgain(version);
  }
}

void Models::retryLoads() {
  if (!worker) {
    return; // the next one loads all
  }
  std::vector<std::shared_ptr<Version>> leaving;
  for (auto &[key, version] : byKey) {
    if (version->isLeaving && version->state == VersionState::Ready && !version->isRunning()) {
      leaving.push_back(version);
    }
  }
  for (std::shared_ptr<Version> &version : leaving) {
    evict(version);
  }
  if (waitsForRoom) {
    waitsForRoom = false;
    sendNextLoad();
  }
}

void Models::checkQueued(Version &version) {
  for (const std::shared_ptr<Job> &job : version.queue.all()) {
    Status problem = job->isChecked ? Status::ok() : checkRequest(version, *job);
    job->isChecked = true;
    if (!problem.isOk() && version.queue.erase(job)) {
      end(job, std::move(problem));
    }
  }
}

void Models::whenKnown(const std::shared_ptr<Version> &version, std::function<void()> then) {
  if (version->isKnown() || !(version->state == VersionState::Cold || (version->state == VersionState::Loading && version->isOnDemand))) {
    then();
    return;
  }
  version->onSettled.push_back(std::move(then));
  version->lastUse = Clock::now();
  wake(version);
}

} // namespace tenon::server
