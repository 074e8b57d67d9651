// Fork and join over two shared words: an epoch that starts a task and a count of the workers in
// it. Both sides spin first, because a plan launches again within microseconds. Each thread has a
// share of the range, and takes from others' when it is through with that, so that nobody waits for
// one that the system has not woken yet or has given its core to somebody else.

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

/// What is left of a thread's part of the range: two words of 32 bits in one, [begin, end) in
/// units. Its thread takes from the front, others from the back.
class alignas(64) Share {
public:
  void set(uint32_t begin, uint32_t end) {
    range.store(pack(begin, end), std::memory_order_relaxed);
  }

  /// Half of what is left, but at least `least`; false if nothing is.
  bool takeFront(uint32_t least, uint32_t &begin, uint32_t &end) {
    return take(least, [&](uint32_t first, uint32_t last, uint32_t count) {
      begin = first;
      end = first + count;
      return pack(end, last);
    });
  }
  bool takeBack(uint32_t least, uint32_t &begin, uint32_t &end) {
    return take(least, [&](uint32_t first, uint32_t last, uint32_t count) {
      begin = last - count;
      end = last;
      return pack(first, begin);
    });
  }

private:
  static uint64_t pack(uint32_t begin, uint32_t end) {
    return static_cast<uint64_t>(begin) << 32 | end;
  }

  template <typename Fn> bool take(uint32_t least, const Fn &rest) {
    uint64_t old = range.load(std::memory_order_relaxed);
    while (true) {
      uint32_t first = static_cast<uint32_t>(old >> 32), last = static_cast<uint32_t>(old);
      if (first >= last) {
        return false;
      }
      uint32_t count = std::min(last - first, std::max((last - first) / 2, least));
      if (range.compare_exchange_weak(old, rest(first, last, count), std::memory_order_relaxed)) {
        return true;
      }
    }
  }

  std::atomic<uint64_t> range = 0;
};

/// Pieces that a thread cuts its share into at most, but for the halving: a late thread costs the
/// others no more than one of them.
constexpr uint32_t kPieces = 8;
/// Of Shared::state: the task may be joined. The other bits count the workers in it.
constexpr uint32_t kOpen = 1u << 31;

} // namespace

struct ThreadPool::Worker {
  Shared *shared;
  unsigned thread;
  pthread_t handle;

  static void *main(void *worker);
};

struct ThreadPool::Shared {
  explicit Shared(unsigned threads) : shares(threads) {}

  // What the caller writes and workers poll, apart from what workers write.
  alignas(64) std::atomic<uint32_t> epoch = 0;
  std::atomic<bool> stopping = false;
  int64_t total = 0;
  int64_t unit = 1;
  uint32_t least = 1;
  Task task = {};
  alignas(64) std::atomic<uint32_t> state = 0;
  alignas(64) std::atomic<uint32_t> sleepingWorkers = 0;
  std::atomic<uint32_t> callerSleeps = 0;
  std::vector<Share> shares;
  std::vector<Worker> workers;

  void prepare(int64_t n, Task next) {
    total = n;
    task = next;
    unit = (n >> 31) + 1;
    uint64_t units = static_cast<uint64_t>(n / unit) + (n % unit != 0);
    least = static_cast<uint32_t>(std::max<uint64_t>(1, units / (shares.size() * kPieces)));
    for (size_t i = 0; i < shares.size(); ++i) {
      shares[i].set(static_cast<uint32_t>(units * i / shares.size()),
                    static_cast<uint32_t>(units * (i + 1) / shares.size()));
    }
  }

  void call(uint32_t begin, uint32_t end, unsigned thread) const {
    int64_t last = end > total / unit ? total : end * unit;
    task.call(task.closure, begin * unit, last, thread);
  }

  /// The thread's own share, then what is left of others'.
  void takePart(unsigned thread) {
    uint32_t begin, end;
    while (shares[thread].takeFront(least, begin, end)) {
      call(begin, end, thread);
    }
    for (size_t i = 1; i < shares.size(); ++i) {
      Share &other = shares[(thread + i) % shares.size()];
      while (other.takeBack(least, begin, end)) {
        call(begin, end, thread);
      }
    }
  }

  void work(unsigned thread) {
    uint32_t seen = 0;
    while (true) {
      seen = waitForChange(epoch, seen, sleepingWorkers);
      if (stopping.load(std::memory_order_relaxed)) {
        return;
      }
      if (!join()) {
        continue; // woken too late: the others did it all
      }
      takePart(thread);
      if (state.fetch_sub(1) == kOpen + 1 && callerSleeps.load() != 0) {
        futexWake(state, 1);
      }
    }
  }

  bool join() {
    uint32_t now = state.load();
    while ((now & kOpen) != 0) {
      if (state.compare_exchange_weak(now, now + 1)) {
        return true;
      }
    }
    return false;
  }

  void announce() {
    epoch.fetch_add(1);
    if (sleepingWorkers.load() != 0) {
      futexWake(epoch, INT_MAX);
    }
  }

  /// Waits for the workers in the task, and lets no other in.
  void close() {
    uint32_t expected = kOpen;
    while (!state.compare_exchange_strong(expected, 0)) {
      waitForChange(state, expected, callerSleeps);
      expected = kOpen;
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
      new ThreadPool(std::max(threads, 1u), std::make_unique<Shared>(std::max(threads, 1u))));
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
  if (n == 1 || threadCount == 1) {
    task.call(task.closure, 0, n, 0);
    return;
  }
  shared->prepare(n, task);
  shared->state.store(kOpen, std::memory_order_release);
  shared->announce();
  shared->takePart(0);
  shared->close();
}

unsigned usableCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return 1;
  }
  return static_cast<unsigned>(std::max(CPU_COUNT(&set), 1));
}

} // namespace tenon
