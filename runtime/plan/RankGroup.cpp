// A barrier of two phases and a link of one place, whose waits end when a rank fails.

#include "runtime/plan/RankGroup.h"

#include <algorithm>

namespace tenon::runtime {
namespace {

constexpr uint32_t kFailed = uint32_t(1) << 31;

} // namespace

RankGroup::RankGroup(uint32_t ranks)
    : given{std::vector<const void *>(ranks), std::vector<const void *>(ranks)}, meetings(ranks),
      isLeft(ranks), missing(ranks), firstFailed(ranks) {}

std::optional<std::span<const void *const>> RankGroup::meet(uint32_t rank, const void *handedOver) {
  uint32_t meeting = meetings[rank].fetch_add(1, std::memory_order_relaxed);
  std::vector<const void *> &all = given[meeting % 2];
  all[rank] = handedOver;
  if (missing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    missing.store(ranks(), std::memory_order_relaxed);
    over.fetch_add(1, std::memory_order_release);
    over.notify_all();
  }
  uint32_t now = over.load(std::memory_order_acquire);
  while (now <= meeting) {
    over.wait(now, std::memory_order_acquire);
    now = over.load(std::memory_order_acquire);
  }
  // A meeting to which all came is one, also where one of them has failed since.
  isLeft[rank] = (now & ~kFailed) <= meeting;
  return isLeft[rank] ? std::nullopt : std::optional(std::span<const void *const>(all));
}

void RankGroup::fail(uint32_t rank) {
  if (!isLeft[rank]) {
    uint32_t first = firstFailed.load();
    while (rank < first && !firstFailed.compare_exchange_weak(first, rank)) {
    }
  }
  end();
}

void RankGroup::end() {
  over.fetch_or(kFailed, std::memory_order_release);
  over.notify_all();
}

std::optional<uint32_t> RankGroup::failed() const {
  uint32_t first = firstFailed.load();
  return first == ranks() ? std::nullopt : std::optional(first);
}

std::optional<RankGroup::Awaited> RankGroup::awaited() const {
  if (!isRunning.load(std::memory_order_relaxed)) {
    return std::nullopt;
  }
  uint32_t last = 0, least = kThrough, most = 0;
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    uint32_t own = meetings[rank].load(std::memory_order_relaxed);
    last = own < least ? rank : last;
    least = std::min(least, own);
    most = std::max(most, own);
  }
  bool isBehind = least < most;
  return isBehind ? std::optional(Awaited{last, uint64_t(runs.load()) << 32 | least})
                  : std::nullopt;
}

void RankGroup::begin(bool isRun) {
  for (std::atomic<uint32_t> &own : meetings) {
    own.store(0, std::memory_order_relaxed);
  }
  runs.fetch_add(1, std::memory_order_relaxed);
  isRunning.store(isRun, std::memory_order_relaxed);
  isLeft.assign(isLeft.size(), 0);
  missing.store(ranks());
  over.store(0);
  firstFailed.store(ranks());
}

/// Whether it ended by the other side's turn.
bool RankLink::waitWhile(uint32_t parity) {
  uint32_t now = turns.load(std::memory_order_acquire);
  while (now % 2 == parity && (now & kFailed) == 0) {
    turns.wait(now, std::memory_order_acquire);
    now = turns.load(std::memory_order_acquire);
  }
  return now % 2 != parity;
}

bool RankLink::give(const void *value) {
  given = value;
  turns.fetch_add(1, std::memory_order_release);
  turns.notify_all();
  return waitWhile(1);
}

const void *RankLink::take() { return waitWhile(0) ? given : nullptr; }

void RankLink::taken() {
  turns.fetch_add(1, std::memory_order_release);
  turns.notify_all();
}

void RankLink::fail() {
  turns.fetch_or(kFailed, std::memory_order_release);
  turns.notify_all();
}

void RankLink::reset() { turns.store(0); }

} // namespace tenon::runtime
