// Fork and join over two shared words: an epoch that starts a task and a count of unfinished
// workers. Both sides spin first, because a plan launches again within microseconds.

#include "support/ThreadPool.h"

#include "support/Text.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace tenon {
namespace {

constexpr std::chrono::microseconds kSpinTime(60);
constexpr int kPausesPerClockRead = 64;

void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futexWake(std::atomic<uint32_t> &word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

/// Waits until `word` differs from `old`: spins, then sleeps. `sleepers` counts those asleep, so a
/// writer that sees zero need not enter the kernel.
uint32_t waitForChange(std::atomic<uint32_t> &word, uint32_t old, std::atomic<uint32_t> &sleepers) {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      uint32_t now = word.load(std::memory_order_acquire);
      if (now != old) {
        return now;
      }
      pauseCpu();
    }
  } while (std::chrono::steady_clock::now() - start < kSpinTime);
  sleepers.fetch_add(1);
  uint32_t now = word.load();
  while (now == old) {
    futexWait(word, old);
    now = word.load();
  }
  sleepers.fetch_sub(1);
  return now;
}

} // namespace

struct ThreadPool::Worker {
  Shared *shared;
  unsigned thread;
  pthread_t handle;

  static void *main(void *worker);
};

struct ThreadPool::Shared {
  // What the caller writes and workers poll, apart from what workers write.
  alignas(64) std::atomic<uint32_t> epoch = 0;
  std::atomic<bool> stopping = false;
  int64_t total = 0;
  unsigned parts = 0;
  Task task = {};
  alignas(64) std::atomic<uint32_t> pending = 0;
  alignas(64) std::atomic<uint32_t> sleepingWorkers = 0;
  std::atomic<uint32_t> callerSleeps = 0;
  std::vector<Worker> workers;

  void runPart(unsigned thread) const {
    // 128 bits: n * thread overflows int64 for the grids of hostile plans.
    int64_t begin = static_cast<int64_t>(static_cast<__int128>(total) * thread / parts);
    int64_t end = static_cast<int64_t>(static_cast<__int128>(total) * (thread + 1) / parts);
    task.call(task.closure, begin, end, thread);
  }

  void work(unsigned thread) {
    uint32_t seen = 0;
    while (true) {
      seen = waitForChange(epoch, seen, sleepingWorkers);
      if (stopping.load(std::memory_order_relaxed)) {
        return;
      }
      if (thread < parts) {
        runPart(thread);
      }
      if (pending.fetch_sub(1) == 1 && callerSleeps.load() != 0) {
        futexWake(pending, 1);
      }
    }
  }

  void announce() {
    epoch.fetch_add(1);
    if (sleepingWorkers.load() != 0) {
      futexWake(epoch, INT_MAX);
    }
  }

  void join() {
    uint32_t left = pending.load(std::memory_order_acquire);
    while (left != 0) {
      left = waitForChange(pending, left, callerSleeps);
    }
  }
};

void *ThreadPool::Worker::main(void *worker) {
  const Worker &self = *static_cast<Worker *>(worker);
  self.shared->work(self.thread);
  return nullptr;
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(unsigned threads) {
  std::unique_ptr<ThreadPool> pool(
      new ThreadPool(std::max(threads, 1u), std::make_unique<Shared>()));
  std::vector<Worker> &workers = pool->shared->workers;
  workers.reserve(threads); // workers keep pointers to their entries
  for (unsigned thread = 1; thread < threads; ++thread) {
    workers.push_back({pool->shared.get(), thread, {}});
    int error = pthread_create(&workers.back().handle, nullptr, Worker::main, &workers.back());
    if (error != 0) {
      workers.pop_back();
      return Status::error(ErrorId::ThreadStartFailed,
                           strCat("cannot start worker thread ", thread, " of ", threads, ": ",
                                  std::strerror(error)),
                           "ask for fewer threads");
    }
  }
  return pool;
}

ThreadPool::ThreadPool(unsigned threads, std::unique_ptr<Shared> sharedState)
    : threadCount(threads), shared(std::move(sharedState)) {}

ThreadPool::~ThreadPool() {
  shared->stopping.store(true);
  shared->announce();
  for (const Worker &worker : shared->workers) {
    pthread_join(worker.handle, nullptr);
  }
}

void ThreadPool::run(int64_t n, Task task) {
  if (n <= 0) {
    return;
  }
  unsigned parts = static_cast<unsigned>(std::min<int64_t>(n, threadCount));
  if (parts == 1) {
    task.call(task.closure, 0, n, 0);
    return;
  }
  shared->total = n;
  shared->parts = parts;
  shared->task = task;
  shared->pending.store(threadCount - 1, std::memory_order_relaxed);
  shared->announce();
  shared->runPart(0);
  shared->join();
}

unsigned usableCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return 1;
  }
  return static_cast<unsigned>(std::max(CPU_COUNT(&set), 1));
}

} // namespace tenon
