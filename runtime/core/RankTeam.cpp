// Hands one piece of work at a time to all threads.

#include "runtime/core/RankTeam.h"

#include "support/text/Text.h"

#include <iterator>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace tenon::runtime {

RankTeam::RankTeam(uint32_t ranks, uint32_t stages, RankWatch &rankWatch)
    : watch(rankWatch), process(getpid()), results(ranks) {
  for (uint32_t stage = 0; stage < stages; ++stage) {
    watch.add(groups.emplace_back(ranks / stages));
  }
  linkCount = ranks - ranks / stages;
  links = std::make_unique<RankLink[]>(linkCount);
}

Result<std::unique_ptr<RankTeam>> RankTeam::create(uint32_t ranks, uint32_t stages,
                                                   RankWatch &watch) {
  std::unique_ptr<RankTeam> team(new RankTeam(ranks, stages, watch));
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    try {
      team->threads.emplace_back([it = team.get(), rank] { it->workFor(rank); });
    } catch (const std::system_error &) {
      return Status::error(ErrorId::RunOutOfMemory, "no thread can be started for a rank",
                           "raise the limit of threads of the process");
    }
  }
  return team;
}

RankTeam::~RankTeam() {
  work = nullptr;
  jobs.fetch_add(1, std::memory_order_release);
  jobs.notify_all();
  for (std::thread &thread : threads) {
    process == getpid() ? thread.join() : thread.detach();
  }
  if (process == getpid()) { // a fork may have a copy of the lock that another thread held
    for (const RankGroup &group : groups) {
      watch.remove(group);
    }
  }
}

RankPlace RankTeam::place(uint32_t rank) {
  uint32_t each = ranksOfStage();
  return {.rank = rank,
          .position = rank % each,
          .stage = rank / each,
          .ofSession = static_cast<uint32_t>(results.size()),
          .group = &*std::next(groups.begin(), rank / each),
          .before = rank < each ? nullptr : &links[rank - each],
          .after = rank < linkCount ? &links[rank] : nullptr};
}

/// "rank 1", "stage 2, rank 0"; nothing for the first rank of one stage.
std::string RankTeam::nameOf(uint32_t rank) const {
  uint32_t each = ranksOfStage();
  return groups.size() > 1 ? strCat("stage ", rank / each, ", rank ", rank % each)
         : rank == 0       ? ""
                           : strCat("rank ", rank);
}

void RankTeam::begin(bool isRun) {
  for (RankGroup &group : groups) {
    group.begin(isRun);
  }
  for (uint32_t i = 0; i < linkCount; ++i) {
    links[i].reset();
  }
}

/// No rank waits for one that does not come.
void RankTeam::endAll(uint32_t rank) {
  RankPlace own = place(rank);
  own.group->fail(own.position);
  for (RankGroup &group : groups) {
    group.end();
  }
  for (uint32_t i = 0; i < linkCount; ++i) {
    links[i].fail();
  }
}

void RankTeam::workFor(uint32_t rank) {
  for (uint32_t seen = 0;; ++seen) {
    jobs.wait(seen, std::memory_order_acquire);
    if (!work) {
      return;
    }
    doPart(rank);
    if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      running.notify_one();
    }
  }
}

void RankTeam::doPart(uint32_t rank) {
  results[rank] = (*work)(rank);
  if (!results[rank].isOk()) {
    endAll(rank);
  }
  RankPlace own = place(rank);
  own.group->leave(own.position);
}

Status RankTeam::forEach(const std::function<Status(uint32_t)> &given, bool isRun) {
  if (process != getpid()) {
    return Status::error(
        ErrorId::BadArgument,
        "the session's ranks are threads of the process that this one was forked of",
        "make the session in the process that runs it");
  }
  begin(isRun);
  work = &given;
  running.store(static_cast<uint32_t>(threads.size()), std::memory_order_relaxed);
  jobs.fetch_add(1, std::memory_order_release);
  jobs.notify_all();
  doPart(0);
  while (uint32_t left = running.load(std::memory_order_acquire)) {
    running.wait(left, std::memory_order_acquire);
  }
  for (RankGroup &group : groups) {
    group.endRun();
  }
  uint32_t first = 0;
  for (const RankGroup &group : groups) {
    if (std::optional<uint32_t> failed = group.failed()) {
      uint32_t rank = first + *failed;
      Status status = std::move(results[rank]);
      std::string name = nameOf(rank);
      return name.empty() ? std::move(status) : std::move(status.prefix(name));
    }
    first += group.ranks();
  }
  return Status::ok();
}

} // namespace tenon::runtime
