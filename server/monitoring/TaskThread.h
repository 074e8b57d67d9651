// A thread that runs what it is given, one after the other: what costs more than a request may wait
// for.

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tenon::server {

class TaskThread {
public:
  TaskThread() : thread([this] { run(); }) {}
  /// Waits for the task that runs; those behind it are dropped.
  ~TaskThread() { stop(); }

  void post(std::function<void()> task) {
    {
      std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
    }
    wake.notify_one();
  }

  void stop() {
    {
      std::lock_guard lock(mutex);
      isEnding = true;
    }
    wake.notify_one();
    if (thread.joinable()) {
      thread.join();
    }
  }

private:
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [this] { return isEnding || !tasks.empty(); });
      if (isEnding) {
        return;
      }
      std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> tasks;
  bool isEnding = false;
  std::thread thread;
};

} // namespace tenon::server
