// The threads of a session's ranks: the caller is rank 0, the others have a thread each. Private to
// runtime/core.

#pragma once

#include "runtime/plan/RankGroup.h"
#include "support/Result.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tenon::runtime {

class RankTeam {
public:
  static Result<std::unique_ptr<RankTeam>> create(uint32_t ranks);
  ~RankTeam();

  uint32_t ranks() const { return group.ranks(); }
  RankPlace place(uint32_t rank) { return {rank, &group}; }
  /// Calls `work` once for each rank, on that rank's thread, and returns when all are through: with
  /// the error of the lowest rank that gave one of its own, named unless that is 0.
  Status forEach(const std::function<Status(uint32_t rank)> &work);

private:
  explicit RankTeam(uint32_t ranks) : group(ranks), results(ranks) {}
  void workFor(uint32_t rank);
  void doPart(uint32_t rank);

  RankGroup group;
  std::vector<Status> results; ///< by rank, of the work at hand
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable wake, done;
  const std::function<Status(uint32_t)> *work = nullptr; ///< null to end
  uint64_t jobs = 0;
  uint32_t running = 0;
};

} // namespace tenon::runtime
