// Hands one piece of work at a time to all threads.

#include "runtime/core/RankTeam.h"

#include "support/text/Text.h"

#include <system_error>
#include <unistd.h>
#include <utility>

namespace tenon::runtime {

RankTeam::RankTeam(uint32_t ranks, RankWatch &rankWatch)
    : group(ranks), watch(rankWatch), process(getpid()), results(ranks) {
  watch.add(group);
}

Result<std::unique_ptr<RankTeam>> RankTeam::create(uint32_t ranks, RankWatch &watch) {
  std::unique_ptr<RankTeam> team(new RankTeam(ranks, watch));
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
    watch.remove(group);
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
    group.fail(rank);
  }
  group.leave(rank);
}

Status RankTeam::forEach(const std::function<Status(uint32_t)> &given, bool isRun) {
  if (process != getpid()) {
    return Status::error(
        ErrorId::BadArgument,
        "the session's ranks are threads of the process that this one was forked of",
        "make the session in the process that runs it");
  }
  group.begin(isRun);
  work = &given;
  running.store(static_cast<uint32_t>(threads.size()), std::memory_order_relaxed);
  jobs.fetch_add(1, std::memory_order_release);
  jobs.notify_all();
  doPart(0);
  while (uint32_t left = running.load(std::memory_order_acquire)) {
    running.wait(left, std::memory_order_acquire);
  }
  group.end();
  std::optional<uint32_t> failed = group.failed();
  if (!failed) {
    return Status::ok();
  }
  Status status = std::move(results[*failed]);
  return *failed == 0 ? std::move(status) : std::move(status.prefix(strCat("rank ", *failed)));
}

} // namespace tenon::runtime
