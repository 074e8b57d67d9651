// What is sent to others over HTTP, from a thread of its own: a bounded queue, tries again with
// pauses that grow, and counts. Nothing waits for it.

#pragma once

#include "support/web/WebClient.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tenon::server {

class DeliveryQueue {
public:
  struct Message {
    std::function<WebRequest()> make; ///< called by the thread
    uint64_t count = 1;               ///< of what it holds, as the counters count
  };

  /// At most `most` messages wait. `onFailure` is called, by the thread, for a message that was
  /// given up.
  DeliveryQueue(size_t most, std::function<void(const Status &)> onFailure);
  /// What waits is tried once more, for two seconds at most.
  ~DeliveryQueue();

  /// Dropped, and counted, where the queue is full.
  void post(Message message);
  uint64_t sent() const { return sentCount; }
  uint64_t failed() const { return failedCount; }
  uint64_t dropped() const { return droppedCount; }

private:
  void run();
  /// TN0150 where it was not taken.
  Status deliver(const WebRequest &request, bool &isFinal) const;
  void send(const Message &message, std::unique_lock<std::mutex> &lock);

  const size_t most;
  const std::function<void(const Status &)> onFailure;
  std::atomic<uint64_t> sentCount = 0, failedCount = 0, droppedCount = 0;
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Message> messages;
  bool isEnding = false;
  std::chrono::steady_clock::time_point end; ///< of all tries, once it is ending
  std::thread thread;
};

} // namespace tenon::server
