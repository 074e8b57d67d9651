// A pool that shares a range out over threads with little overhead: the caller takes part, and the
// workers are those of the process (WorkStealingPool.h), which all pools share. They spin for a
// bounded time after work and sleep on a futex after that.

#pragma once

#include "support/Result.h"
#include "support/threads/WorkStealingPool.h"

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tenon {

class ThreadPool {
public:
  /// For tasks of up to `threads` threads (>= 1), of which the caller of parallelFor is one.
  static Result<std::unique_ptr<ThreadPool>> create(unsigned threads);
  ~ThreadPool();

  unsigned threads() const { return threadCount; }

  /// While one stands the caller counts as a running thread of the process, for which a worker
  /// stands down where threads are short. Without one that holds for each task alone.
  class Caller {
  public:
    explicit Caller(ThreadPool &pool) : pool(pool) { pool.enter(); }
    ~Caller() { pool.leave(); }
    Caller(const Caller &) = delete;
    Caller &operator=(const Caller &) = delete;

  private:
    ThreadPool &pool;
  };

  /// Calls fn(begin, end, thread) for parts of [0, n), none of them empty, and returns when all are
  /// done. A thread begins at its own place in the range, which depends on n alone, and takes
  /// smaller and smaller parts; who is through takes from the others. The caller does it alone
  /// where other callers keep all CPUs busy. fn must not throw nor call the pool. One caller at a
  /// time.
  template <typename Fn> void parallelFor(int64_t n, const Fn &fn) {
    static_assert(std::is_invocable_v<Fn, int64_t, int64_t, unsigned>);
    run(n, &fn, [](const void *closure, int64_t begin, int64_t end, unsigned thread) {
      (*static_cast<const Fn *>(closure))(begin, end, thread);
    });
  }

private:
  explicit ThreadPool(unsigned threads) : threadCount(threads), crew(WorkStealingPool::acquire()) {}
  void run(int64_t n, const void *closure, TaskPlace::Call call);
  void enter();
  void leave();

  unsigned threadCount;
  unsigned entered = 0; ///< the caller and its task in this pool
  WorkStealingPool *crew;
  TaskPlace *place = nullptr;
};

} // namespace tenon
