// The pool: every index once, no part empty, many rounds, waking from sleep, late threads.

#include "support/threads/ThreadPool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

namespace tenon {
namespace {

std::unique_ptr<ThreadPool> makePool(unsigned threads) {
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(threads);
  EXPECT_TRUE(pool.isOk()) << pool.status().toString();
  return std::move(*pool);
}

TEST(ThreadPool, CoversTheRangeOnce) {
  for (unsigned threads : {1u, 2u, 3u, 8u}) {
    std::unique_ptr<ThreadPool> pool = makePool(threads);
    EXPECT_EQ(threads, pool->threads());
    for (int64_t n : {0, 1, 2, 7, 8, 9, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
      std::atomic<int> parts = 0;
      pool->parallelFor(n, [&](int64_t begin, int64_t end, unsigned thread) {
        EXPECT_LT(begin, end);
        EXPECT_LT(thread, threads);
        EXPECT_LE(end - begin, n / std::min<int64_t>(n, threads) + 1); // a thread's share
        ++parts;
        for (int64_t i = begin; i < end; ++i) {
          ++hits[static_cast<size_t>(i)];
        }
      });
      EXPECT_GE(parts, std::min<int64_t>(n, threads));
      for (const std::atomic<int> &hit : hits) {
        EXPECT_EQ(1, hit);
      }
    }
  }
}

TEST(ThreadPool, HandlesHugeRanges) {
  std::unique_ptr<ThreadPool> pool = makePool(3);
  std::atomic<int64_t> sum = 0;
  pool->parallelFor(INT64_MAX, [&](int64_t begin, int64_t end, unsigned) { sum += end - begin; });
  EXPECT_EQ(INT64_MAX, sum);
}

TEST(ThreadPool, RunsManyRounds) {
  std::unique_ptr<ThreadPool> pool = makePool(4);
  std::vector<int64_t> perThread(4 * 8);
  for (int round = 0; round < 5000; ++round) {
    pool->parallelFor(4, [&](int64_t begin, int64_t end, unsigned thread) {
      perThread[thread * 8] += end - begin;
    });
  }
  EXPECT_EQ(20000, perThread[0] + perThread[8] + perThread[16] + perThread[24]);
}

TEST(ThreadPool, WakesFromSleep) {
  std::unique_ptr<ThreadPool> pool = makePool(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> parts = 0;
    pool->parallelFor(2, [&](int64_t, int64_t, unsigned thread) {
      // The caller waits long enough to sleep in turn.
      std::this_thread::sleep_for(std::chrono::milliseconds(thread));
      ++parts;
    });
    EXPECT_EQ(2, parts);
  }
}

TEST(ThreadPool, NobodyWaitsForALateThread) {
  std::unique_ptr<ThreadPool> pool = makePool(2);
  std::atomic<int64_t> before = 0;
  std::atomic<bool> isHeld = true;
  pool->parallelFor(64, [&](int64_t begin, int64_t end, unsigned thread) {
    // The worker sits on its first part until the caller has done all else.
    while (thread == 1 && isHeld) {
      std::this_thread::yield();
    }
    before += end - begin;
    if (thread == 0 && before >= 48) {
      isHeld = false;
    }
  });
  EXPECT_EQ(64, before);
}

/// Threads inside of tasks, and the most at one time.
class Running {
public:
  void begin() {
    int now = ++count, seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
  }
  void end() { --count; }
  int largest() const { return most; }

private:
  std::atomic<int> count = 0, most = 0;
};

TEST(ThreadPool, PoolsOfAProcessShareItsCpus) {
  // As many callers as would ask for several times the threads.
  const unsigned threads = std::max(usableCpus(), 3u);
  constexpr int kCallers = 3;
  Running running;
  std::vector<std::thread> callers;
  // Two latches, not one count that rises and falls: a caller that the system does not run for a
  // while must still see that all had begun.
  std::latch begun(kCallers), done(kCallers);
  std::atomic<int64_t> sum = 0;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      std::unique_ptr<ThreadPool> pool = makePool(threads);
      ThreadPool::Caller caller(*pool);
      begun.arrive_and_wait();
      for (int round = 0; round < 300; ++round) {
        std::vector<char> isInside(threads);
        pool->parallelFor(64, [&](int64_t begin, int64_t end, unsigned thread) {
          running.begin();
          EXPECT_EQ(0, isInside[thread]); // a thread's number, and so its scratch, is its own
          isInside[thread] = 1;
          std::this_thread::sleep_for(std::chrono::microseconds(5));
          sum += end - begin;
          isInside[thread] = 0;
          running.end();
        });
      }
      done.arrive_and_wait(); // all stay callers to the end
    });
  }
  for (std::thread &caller : callers) {
    caller.join();
  }
  EXPECT_EQ(kCallers * 300 * 64, sum);
  EXPECT_LE(running.largest(), static_cast<int>(threads));
}

TEST(ThreadPool, WorkersComeBackWhenACallerLeaves) {
  std::unique_ptr<ThreadPool> first = makePool(2), second = makePool(2);
  auto threadsOf = [](ThreadPool &pool) {
    std::atomic<unsigned> seen = 0;
    pool.parallelFor(2, [&](int64_t, int64_t, unsigned thread) {
      seen |= 1u << thread;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
    return seen.load();
  };
  if (usableCpus() == 2) {
    ThreadPool::Caller caller(*second);
    EXPECT_EQ(1u, threadsOf(*first)); // the second CPU is the other caller's
  }
  unsigned seen = 0;
  for (int round = 0; round < 500 && seen != 3; ++round) {
    seen = threadsOf(*first);
  }
  EXPECT_EQ(3u, seen);
}

TEST(ThreadPool, EndsWithoutWork) {
  for (int round = 0; round < 50; ++round) {
    makePool(3);
  }
  EXPECT_GE(usableCpus(), 1u);
}

} // namespace
} // namespace tenon
