// Hands one piece of work at a time to all threads.

#include "runtime/core/RankTeam.h"

#include "support/text/Text.h"

#include <system_error>
#include <utility>

namespace tenon::runtime {

Result<std::unique_ptr<RankTeam>> RankTeam::create(uint32_t ranks) {
  std::unique_ptr<RankTeam> team(new RankTeam(ranks));
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    try {
      team->threads.emplace_back([it = team.get(), rank] { it->workFor(rank); });
    } catch (const std::system_error &) {
      return Status::error(ErrorId::RunOutOfMemory,
                           strCat("no thread can be started for rank ", rank, " of ", ranks),
                           "raise the limit of threads of the process");
    }
  }
  return team;
}

RankTeam::~RankTeam() {
  {
    std::lock_guard lock(mutex);
    work = nullptr;
    ++jobs;
  }
  wake.notify_all();
  for (std::thread &thread : threads) {
    thread.join();
  }
}

void RankTeam::workFor(uint32_t rank) {
  std::unique_lock lock(mutex);
  for (uint64_t seen = 0;;) {
    wake.wait(lock, [&] { return jobs != seen; });
    seen = jobs;
    if (!work) {
      return;
    }
    lock.unlock();
    doPart(rank);
    lock.lock();
    if (--running == 0) {
      done.notify_one();
    }
  }
}

void RankTeam::doPart(uint32_t rank) {
  results[rank] = (*work)(rank);
  if (!results[rank].isOk()) {
    group.fail(rank);
  }
}

Status RankTeam::forEach(const std::function<Status(uint32_t)> &given) {
  group.reset();
  {
    std::lock_guard lock(mutex);
    work = &given;
    running = static_cast<uint32_t>(threads.size());
    ++jobs;
  }
  wake.notify_all();
  doPart(0);
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return running == 0; });
  std::optional<uint32_t> failed = group.failed();
  if (!failed) {
    return Status::ok();
  }
  Status status = std::move(results[*failed]);
  return *failed == 0 ? std::move(status) : std::move(status.prefix(strCat("rank ", *failed)));
}

} // namespace tenon::runtime
