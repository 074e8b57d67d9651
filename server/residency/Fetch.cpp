// Files of versions that are brought when they are needed. A cold version whose files do not come
// stays cold, and is tried again by the first request after a pause; for one that is to take the
// place of another, the repository asks again.

#include "server/residency/Residency.h"

#include <algorithm>
#include <utility>

namespace tenon::server {
namespace {

constexpr std::chrono::seconds kFirstPause{1}; // doubled with each further failure
constexpr unsigned kMaxDoublings = 6;

} // namespace

void Residency::leaveCold(const std::shared_ptr<Version> &version) {
  version->current = VersionState::Cold;
  events.onReady(version);
}

void Residency::fetch(const std::shared_ptr<Version> &version) {
  if (fetching.insert(version).second) {
    options.provide(version->remote, [this, version](Result<std::shared_ptr<Descriptor>> engine) {
      fetching.erase(version);
      fetched(version, std::move(engine));
    });
  }
}

void Residency::fetched(const std::shared_ptr<Version> &version,
                        Result<std::shared_ptr<Descriptor>> engine) {
  if (version->current != VersionState::Loading && version->current != VersionState::Unloading) {
    return; // it was unloaded meanwhile
  }
  if (engine.isOk()) {
    version->failure = Status::ok();
    version->failedFetches = 0;
    version->file.take(std::move(**engine));
    load(version, version->isInitial);
    return;
  }
  Status why = engine.takeStatus();
  if (why.id() == ErrorId::FileWriteFailed && releaseFile()) {
    fetch(version);
    return;
  }
  if (version->current != VersionState::Loading || !version->isOnDemand) {
    fail(version, why.prefix(version->title()));
    return;
  }
  version->failure = why.prefix(version->title());
  version->retryAt =
      Clock::now() + kFirstPause * (1U << std::min(version->failedFetches, kMaxDoublings));
  ++version->failedFetches;
  version->current = VersionState::Cold;
  version->isOnDemand = false;
  options.log(version->failure.toString(), LogLevel::Error);
  version->scheduler->fail(version->failure);
  notifyCompleted(*version);
}

bool Residency::releaseFile() {
  std::shared_ptr<Version> victim;
  for (const auto &[key, each] : byKey) {
    bool mayGo = !each->remote.empty() && each->current == VersionState::Ready &&
                 !each->isLeaving && !each->config.isPinned && each->scheduler->isIdle();
    if (mayGo && (!victim || each->lastUse < victim->lastUse)) {
      victim = each;
    }
  }
  if (victim) {
    evict(victim);
  }
  return victim != nullptr;
}

} // namespace tenon::server
