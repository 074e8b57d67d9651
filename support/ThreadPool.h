// A persistent pool that shares a range out over threads with little overhead: the caller takes
// part, workers spin for a bounded time after work and sleep on a futex after that.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tenon {

class ThreadPool {
public:
  /// Starts threads - 1 workers (threads >= 1); the caller of parallelFor is the last thread.
  static Result<std::unique_ptr<ThreadPool>> create(unsigned threads);
  ~ThreadPool();

  unsigned threads() const { return threadCount; }

  /// Calls fn(begin, end, thread) for parts of [0, n), none of them empty, and returns when all are
  /// done. A thread begins at its own place in the range, which depends on n alone, and takes
  /// smaller and smaller parts; who is through takes from the others. fn must not throw nor call
  /// the pool. One caller at a time.
  template <typename Fn> void parallelFor(int64_t n, const Fn &fn) {
    static_assert(std::is_invocable_v<Fn, int64_t, int64_t, unsigned>);
    run(n, {&fn, [](const void *closure, int64_t begin, int64_t end, unsigned thread) {
              (*static_cast<const Fn *>(closure))(begin, end, thread);
            }});
  }

private:
  struct Task {
    const void *closure;
    void (*call)(const void *closure, int64_t begin, int64_t end, unsigned thread);
  };
  struct Shared;
  struct Worker;

  ThreadPool(unsigned threads, std::unique_ptr<Shared> sharedState);
  void run(int64_t n, Task task);

  unsigned threadCount;
  std::unique_ptr<Shared> shared;
};

/// CPUs that this process may run on.
unsigned usableCpus();

} // namespace tenon
