// Sees from outside when a rank of a run does not come to where the others wait: it hangs, or its
// thread has ended. Nothing can end such a run but the end of its process.

#pragma once

#include "runtime/plan/RankGroup.h"

#include <forward_list>
#include <mutex>
#include <optional>

namespace tenon::runtime {

/// Of the sessions of an engine. Any thread.
class RankWatch {
public:
  /// `group` outlives its place here.
  void add(const RankGroup &group);
  void remove(const RankGroup &group);

  struct Stall {
    uint32_t rank = 0, ranks = 0;
    unsigned looks = 0; ///< in a row that found the others waiting for this one, at one place
  };
  /// One more look; the rank that is waited for longest.
  std::optional<Stall> look();

private:
  struct Seen {
    const RankGroup *group;
    std::optional<RankGroup::Awaited> last = std::nullopt;
    unsigned looks = 0;
  };
  std::mutex lock;
  std::forward_list<Seen> groups;
};

} // namespace tenon::runtime
