// Fork and join over shared words: an epoch that tells of a task, and in each task a count of the
// workers in it. Both sides spin first, because a plan launches again within microseconds. Each
// thread has a share of the range, and takes from others' when it is through with that, so that
// nobody waits for one that the system has not woken yet or has given its core to somebody else.

#include "support/threads/WorkStealingPool.h"

#include "support/text/Text.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tenon {
namespace {

constexpr std::chrono::microseconds kSpinTime(60);
constexpr int kPausesPerClockRead = 64;
/// Pieces that a thread cuts its share into at most, but for the halving: a late thread costs the
/// others no more than one of them.
constexpr uint32_t kPieces = 8;
/// Of TaskPlace::state.
constexpr uint32_t kOpen = 1u << 31;

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

/// Sleeps until `word` differs from `old`. `sleepers` counts those asleep, so a writer that sees
/// zero need not enter the kernel.
void sleepForChange(std::atomic<uint32_t> &word, uint32_t old, std::atomic<uint32_t> &sleepers) {
  sleepers.fetch_add(1);
  while (word.load() == old) {
    futexWait(word, old);
  }
  sleepers.fetch_sub(1);
}

/// The same, but spins first.
void waitForChange(std::atomic<uint32_t> &word, uint32_t old, std::atomic<uint32_t> &sleepers) {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (word.load(std::memory_order_acquire) != old) {
        return;
      }
      pauseCpu();
    }
  } while (std::chrono::steady_clock::now() - start < kSpinTime);
  sleepForChange(word, old, sleepers);
}

} // namespace

template <typename Fn> bool TaskShare::take(uint32_t least, const Fn &rest) {
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

bool TaskShare::takeFront(uint32_t least, uint32_t &begin, uint32_t &end) {
  return take(least, [&](uint32_t first, uint32_t last, uint32_t count) {
    begin = first;
    end = first + count;
    return pack(end, last);
  });
}

bool TaskShare::takeBack(uint32_t least, uint32_t &begin, uint32_t &end) {
  return take(least, [&](uint32_t first, uint32_t last, uint32_t count) {
    begin = last - count;
    end = last;
    return pack(first, begin);
  });
}

void TaskPlace::prepare(int64_t n, const void *nextClosure, Call nextCall, unsigned workersOfCrew) {
  total = n;
  closure = nextClosure;
  call = nextCall;
  crewSize = workersOfCrew;
  unit = (n >> 31) + 1;
  uint64_t units = static_cast<uint64_t>(n / unit) + (n % unit != 0);
  least = static_cast<uint32_t>(std::max<uint64_t>(1, units / (shares.size() * kPieces)));
  for (size_t i = 0; i < shares.size(); ++i) {
    shares[i].set(static_cast<uint32_t>(units * i / shares.size()),
                  static_cast<uint32_t>(units * (i + 1) / shares.size()));
  }
}

void TaskPlace::open() { state.store(kOpen); }

void TaskPlace::callPart(uint32_t begin, uint32_t end, unsigned thread) const {
  int64_t last = end > total / unit ? total : end * unit;
  call(closure, begin * unit, last, thread);
}

/// The thread's own share, then what is left of others'.
void TaskPlace::takePart(unsigned thread) {
  uint32_t begin, end;
  while (shares[thread].takeFront(least, begin, end)) {
    callPart(begin, end, thread);
  }
  for (size_t i = 1; i < shares.size(); ++i) {
    TaskShare &other = shares[(thread + i) % shares.size()];
    while (other.takeBack(least, begin, end)) {
      callPart(begin, end, thread);
    }
  }
  state.fetch_and(~kOpen);
}

void TaskPlace::close() {
  for (uint32_t now = state.load(); now != 0; now = state.load()) {
    waitForChange(state, now, callerSleeps);
  }
}

unsigned TaskPlace::threadOf(unsigned worker) const {
  if (worker > crewSize) {
    return 0; // it was not there when the task was opened
  }
  unsigned thread = 1 + (worker - 1 + crewSize - firstWorker % crewSize) % crewSize;
  return thread < shares.size() ? thread : 0;
}

bool TaskPlace::work(unsigned worker) {
  uint32_t now = state.load();
  do {
    if ((now & kOpen) == 0) {
      return false;
    }
  } while (!state.compare_exchange_weak(now, now + 1));
  // Inside, so that the task stays as it is.
  unsigned thread = threadOf(worker);
  if (thread != 0) {
    takePart(thread);
  }
  if (state.fetch_sub(1) == 1 && callerSleeps.load() != 0) {
    futexWake(state, 1);
  }
  return thread != 0;
}

namespace {

/// The one thing that sessions of a process have in common is its CPUs.
struct Held {
  std::mutex mutex;
  WorkStealingPool *crew = nullptr;
  unsigned holders = 0;
};

Held &held() {
  static Held instance;
  return instance;
}

} // namespace

WorkStealingPool *WorkStealingPool::acquire() {
  [[maybe_unused]] static int handlers =
      pthread_atfork(beforeFork, afterForkInParent, afterForkInChild);
  std::lock_guard<std::mutex> lock(held().mutex);
  if (held().holders++ == 0) {
    held().crew = new WorkStealingPool();
  }
  return held().crew;
}

void WorkStealingPool::release() {
  std::lock_guard<std::mutex> lock(held().mutex);
  if (--held().holders == 0) {
    delete held().crew;
    held().crew = nullptr;
  }
}

void WorkStealingPool::beforeFork() {
  held().mutex.lock();
  if (held().crew) {
    held().crew->mutex.lock();
  }
}

void WorkStealingPool::afterForkInParent() {
  if (held().crew) {
    held().crew->mutex.unlock();
  }
  held().mutex.unlock();
}

void WorkStealingPool::afterForkInChild() {
  if (held().crew) {
    held().crew->forgetWorkers();
  }
  afterForkInParent();
}

/// A fork copies its caller's thread alone. Pools from before it then have no workers, and their
/// callers do all; the next pool made starts workers again.
void WorkStealingPool::forgetWorkers() {
  while (Worker *worker = workers) {
    workers = worker->next;
    delete worker;
  }
  for (Link *link = places.load(); link; link = link->next) {
    link->place.abandon();
  }
  for (std::atomic<uint32_t> *count : {&size, &callers, &sleeping, &standing}) {
    count->store(0);
  }
}

WorkStealingPool::~WorkStealingPool() {
  stopping.store(true);
  epoch.fetch_add(1);
  futexWake(epoch, INT_MAX);
  callers.fetch_add(1);
  futexWake(callers, INT_MAX);
  while (Worker *worker = workers) {
    pthread_join(worker->handle, nullptr);
    workers = worker->next;
    delete worker;
  }
  while (Link *link = places.load()) {
    places.store(link->next);
    delete link;
  }
}

void *WorkStealingPool::Worker::main(void *worker) {
  const Worker &self = *static_cast<Worker *>(worker);
  self.crew->serve(self.number);
  return nullptr;
}

/// Sets the limit of running threads for the pools there are; says how many workers they need.
unsigned WorkStealingPool::plan() {
  unsigned most = usableCpus(), wanted = 0;
  for (Link *link = places.load(); link; link = link->next) {
    if (link->place.isInUse) {
      most = std::max(most, link->place.threads());
      wanted += link->place.threads() - 1;
    }
  }
  limit.store(most);
  return std::min(wanted, most - 1);
}

Status WorkStealingPool::grow(unsigned count) {
  for (unsigned number = size.load() + 1; number <= count; ++number) {
    Worker *worker = new Worker{this, number, workers, {}};
    int error = pthread_create(&worker->handle, nullptr, Worker::main, worker);
    if (error != 0) {
      delete worker;
      return Status::error(
          ErrorId::ThreadStartFailed,
          strCat("cannot start worker thread ", number, " of ", count, ": ", std::strerror(error)),
          "ask for fewer threads");
    }
    workers = worker;
    size.store(number);
  }
  return Status::ok();
}

Status WorkStealingPool::add(unsigned threads, TaskPlace *&place) {
  std::lock_guard<std::mutex> lock(mutex);
  Link *chosen = nullptr;
  unsigned taken = 0;
  for (Link *link = places.load(); link; link = link->next) {
    if (link->place.isInUse) {
      taken += link->place.threads() - 1;
    } else {
      chosen = link;
    }
  }
  if (!chosen) {
    chosen = new Link();
    chosen->next = places.load();
    places.store(chosen);
  }
  chosen->place.isInUse = true;
  chosen->place.firstWorker = taken;
  chosen->place.resize(threads);
  unsigned needed = plan();
  futexWake(callers, INT_MAX); // there may be room for more of those that stand down
  Status status = grow(needed);
  if (status.isOk()) {
    place = &chosen->place;
  } else {
    chosen->place.isInUse = false;
    plan();
  }
  return status;
}

void WorkStealingPool::remove(TaskPlace *place) {
  std::lock_guard<std::mutex> lock(mutex);
  place->isInUse = false;
  plan();
}

void WorkStealingPool::leave() {
  callers.fetch_sub(1);
  if (standing.load() != 0) {
    futexWake(callers, INT_MAX);
  }
}

unsigned WorkStealingPool::allowed() const {
  uint32_t most = limit.load(), running = std::max(callers.load(), 1u);
  return std::min(most > running ? most - running : 0, size.load());
}

void WorkStealingPool::run(TaskPlace &place, int64_t n, const void *closure, TaskPlace::Call call) {
  place.prepare(n, closure, call, size.load());
  place.open();
  latest.store(&place);
  epoch.fetch_add(1);
  if (sleeping.load() != 0) {
    futexWake(epoch, INT_MAX);
  }
  place.takePart(0);
  place.close();
}

/// The task opened last, or any other.
bool WorkStealingPool::workSomewhere(unsigned worker) {
  TaskPlace *first = latest.load();
  if (first && first->work(worker)) {
    return true;
  }
  for (Link *link = places.load(); link; link = link->next) {
    if (link->place.work(worker)) {
      return true;
    }
  }
  return false;
}

/// Sleeps until there may be fewer callers, or for a while less.
void WorkStealingPool::standDown(uint32_t running) {
  standing.fetch_add(1);
  if (callers.load() == running) {
    futexWait(callers, running);
  }
  standing.fetch_sub(1);
}

void WorkStealingPool::serve(unsigned worker) {
  while (true) {
    uint32_t seen = epoch.load(), running = callers.load();
    if (stopping.load()) {
      return;
    }
    if (worker + std::max(running, 1u) > limit.load()) {
      standDown(running);
    } else if (!workSomewhere(worker)) {
      waitForChange(epoch, seen, sleeping);
    }
  }
}

unsigned usableCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return 1;
  }
  return static_cast<unsigned>(std::max(CPU_COUNT(&set), 1));
}

} // namespace tenon
