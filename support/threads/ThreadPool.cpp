// A pool is a place for tasks in the crew of the process.

#include "support/threads/ThreadPool.h"

#include <algorithm>

namespace tenon {

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(unsigned threads) {
  std::unique_ptr<ThreadPool> pool(new ThreadPool(std::max(threads, 1u)));
  TENON_TRY(pool->crew->add(pool->threadCount, pool->place));
  return pool;
}

ThreadPool::~ThreadPool() {
  if (place) {
    crew->remove(place);
  }
  WorkStealingPool::release();
}

void ThreadPool::enter() {
  if (entered++ == 0) {
    crew->enter();
  }
}

void ThreadPool::leave() {
  if (--entered == 0) {
    crew->leave();
  }
}

void ThreadPool::run(int64_t n, const void *closure, TaskPlace::Call call) {
  if (n <= 0) {
    return;
  }
  Caller caller(*this);
  if (n == 1 || threadCount == 1 || crew->allowed() == 0) {
    call(closure, 0, n, 0);
    return;
  }
  crew->run(*place, n, closure, call);
}

} // namespace tenon
