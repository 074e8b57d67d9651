// A receiver that is away for some seconds loses nothing; one that refuses what it is sent is not
// asked again.

#include "server/monitoring/DeliveryQueue.h"

#include <fmt/format.h>

namespace tenon::server {
namespace {

constexpr int kTries = 6;
constexpr std::chrono::milliseconds kFirstPause{250}; // then 0.5, 1, 2 and 4 s
constexpr std::chrono::seconds kLast{2};

} // namespace

DeliveryQueue::DeliveryQueue(size_t most, std::function<void(const Status &)> onFailure)
    : most(most), onFailure(std::move(onFailure)), thread([this] { run(); }) {}

DeliveryQueue::~DeliveryQueue() {
  {
    std::lock_guard lock(mutex);
    isEnding = true;
    end = std::chrono::steady_clock::now() + kLast;
  }
  wake.notify_one();
  thread.join();
}

void DeliveryQueue::post(Message message) {
  {
    std::lock_guard lock(mutex);
    if (messages.size() >= most) {
      droppedCount += message.count;
      return;
    }
    messages.push_back(std::move(message));
  }
  wake.notify_one();
}

void DeliveryQueue::run() {
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [this] { return isEnding || !messages.empty(); });
    if (messages.empty() || (isEnding && std::chrono::steady_clock::now() > end)) {
      return;
    }
    Message message = std::move(messages.front());
    messages.pop_front();
    send(message, lock);
  }
}

void DeliveryQueue::send(const Message &message, std::unique_lock<std::mutex> &lock) {
  lock.unlock();
  WebRequest request = message.make();
  lock.lock();
  std::chrono::milliseconds pause = kFirstPause;
  for (int tries = 1;; ++tries) {
    if (isEnding) {
      request.patience = std::chrono::seconds(1);
    }
    lock.unlock();
    bool isFinal = false;
    Status status = deliver(request, isFinal);
    lock.lock();
    if (status.isOk()) {
      sentCount += message.count;
      return;
    }
    if (isFinal || tries == kTries || isEnding) {
      failedCount += message.count;
      lock.unlock();
      onFailure(status);
      lock.lock();
      return;
    }
    wake.wait_for(lock, pause, [this] { return isEnding; });
    pause *= 2;
  }
}

Status DeliveryQueue::deliver(const WebRequest &request, bool &isFinal) const {
  Result<WebReply> reply = fetch(request);
  if (!reply.isOk()) {
    isFinal = reply.status().id() == ErrorId::LibraryMissing;
    return reply.takeStatus();
  }
  if (reply->status >= 200 && reply->status < 300) {
    return Status::ok();
  }
  isFinal = reply->status < 500 && reply->status != 429 && reply->status != 408;
  return Status::error(ErrorId::WebFailed,
                       fmt::format("{} answers with status {}", request.url, reply->status),
                       "check that the URL accepts what is sent");
}

} // namespace tenon::server
