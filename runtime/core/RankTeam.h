// The threads of a session's ranks: the caller is rank 0, the others have a thread each. Private to
// runtime/core.

#pragma once

#include "runtime/core/RankWatch.h"
#include "runtime/plan/RankGroup.h"
#include "support/Result.h"

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <thread>
#include <vector>

namespace tenon::runtime {

class RankTeam {
public:
  /// `ranks` is a multiple of `stages`. `watch`, which outlives the team, sees its runs.
  static Result<std::unique_ptr<RankTeam>> create(uint32_t ranks, uint32_t stages,
                                                  RankWatch &watch);
  ~RankTeam();

  RankPlace place(uint32_t rank);
  /// Calls `work` once for each rank, on that rank's thread, and returns when all are through: with
  /// the error of the lowest rank that gave one of its own, named unless that is 0. TN0105 in a
  /// fork of the process that made the team. `isRun`: a watch that waits for a rank may take it for
  /// lost.
  Status forEach(const std::function<Status(uint32_t rank)> &work, bool isRun = false);

private:
  RankTeam(uint32_t ranks, uint32_t stages, RankWatch &watch);
  void workFor(uint32_t rank);
  void doPart(uint32_t rank);
  void begin(bool isRun);
  void endAll(uint32_t rank);
  uint32_t ranksOfStage() const { return groups.front().ranks(); }
  std::string nameOf(uint32_t rank) const;

  std::list<RankGroup> groups;       ///< by stage
  std::unique_ptr<RankLink[]> links; ///< by rank that sends
  uint32_t linkCount;
  RankWatch &watch;
  int process;                 ///< whose threads they are: a fork has none of them
  std::vector<Status> results; ///< by rank, of the work at hand
  std::vector<std::thread> threads;
  const std::function<Status(uint32_t)> *work = nullptr; ///< null to end
  /// No mutex: one that threads wait at could not be destroyed in a fork.
  std::atomic<uint32_t> jobs = 0;
  std::atomic<uint32_t> running = 0;
};

} // namespace tenon::runtime
