// Looks four times a second. Ranks do the same work: on a busy machine they are apart by less than
// a part of a step, not by seconds.

#include "server/worker/GroupWatch.h"

#include "server/ipc/Control.h"
#include "support/text/Text.h"

#include <chrono>
#include <unistd.h>

namespace tenon::server {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{250};
constexpr unsigned kMostLooks = 16;
/// Of a worker that ends by itself.
constexpr int kEndedForGroup = 3;

} // namespace

void endWorker(uint64_t key, const Status &why) {
  ControlMessage message = {ControlMessage::Kind::Ending,
                            key,
                            static_cast<uint64_t>(why.id()),
                            encodeError(why.message(), why.hint()),
                            {}};
  static_cast<void>(sendControl(kWorkerSocket, message));
  _exit(kEndedForGroup);
}

GroupWatch::GroupWatch(runtime::RankWatch &ranks, uint64_t key)
    : thread([this, &ranks, key] { work(ranks, key); }) {}

GroupWatch::~GroupWatch() {
  {
    std::lock_guard guard(lock);
    isEnding = true;
  }
  changed.notify_one();
  thread.join();
}

void GroupWatch::work(runtime::RankWatch &ranks, uint64_t key) {
  std::unique_lock guard(lock);
  while (!changed.wait_for(guard, kBetweenLooks, [this] { return isEnding; })) {
    std::optional<runtime::RankWatch::Stall> stall = ranks.look();
    if (stall && stall->looks >= kMostLooks) {
      auto seconds = std::chrono::duration_cast<std::chrono::seconds>(kMostLooks * kBetweenLooks);
      endWorker(key, Status::error(ErrorId::DeviceFailed,
                                   strCat("rank ", stall->rank, " of ", stall->ranks,
                                          " did not come to where the other ranks have waited for ",
                                          seconds.count(), " s"),
                                   "the ranks are started again with their worker"));
    }
  }
}

} // namespace tenon::server
