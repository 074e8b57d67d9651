// Counts looks and not time: a process that was stopped for a while has not hung.

#include "runtime/core/RankWatch.h"

namespace tenon::runtime {

void RankWatch::add(const RankGroup &group) {
  std::lock_guard guard(lock);
  groups.push_front({&group});
}

void RankWatch::remove(const RankGroup &group) {
  std::lock_guard guard(lock);
  groups.remove_if([&](const Seen &each) { return each.group == &group; });
}

std::optional<RankWatch::Stall> RankWatch::look() {
  std::lock_guard guard(lock);
  std::optional<Stall> longest;
  for (Seen &each : groups) {
    std::optional<RankGroup::Awaited> now = each.group->awaited();
    bool isSame = now && now == each.last;
    each.looks = isSame ? each.looks + 1 : 0;
    each.last = now;
    if (isSame && (!longest || each.looks > longest->looks)) {
      longest = Stall{now->rank, each.group->ranks(), each.looks};
    }
  }
  return longest;
}

} // namespace tenon::runtime
