// Ends a worker whose ranks do not come together any more: such a run never ends, and its threads
// cannot be taken back. The front answers what ran with the reason, and starts a worker anew.

#pragma once

#include "runtime/core/RankWatch.h"
#include "support/Status.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace tenon::server {

/// Tells the front why, and for which version; the front hears of the end right behind it.
[[noreturn]] void endWorker(uint64_t key, const Status &why);

class GroupWatch {
public:
  /// `ranks`, which outlives it, are those of version `key`.
  GroupWatch(runtime::RankWatch &ranks, uint64_t key);
  ~GroupWatch();

private:
  void work(runtime::RankWatch &ranks, uint64_t key);

  std::mutex lock;
  std::condition_variable changed;
  bool isEnding = false;
  std::thread thread;
};

} // namespace tenon::server
