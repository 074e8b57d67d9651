// The worker threads of a process, shared by its thread pools, and the tasks that they look for.
// Relies on each pool having one caller at a time.

#pragma once

#include "support/Status.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <pthread.h>
#include <vector>

namespace tenon {

/// What is left of a thread's part of the range: two words of 32 bits in one, [begin, end) in
/// units. Its thread takes from the front, others from the back.
class alignas(64) TaskShare {
public:
  void set(uint32_t begin, uint32_t end) {
    range.store(pack(begin, end), std::memory_order_relaxed);
  }
  /// Half of what is left, but at least `least`; false if nothing is.
  bool takeFront(uint32_t least, uint32_t &begin, uint32_t &end);
  bool takeBack(uint32_t least, uint32_t &begin, uint32_t &end);

private:
  static uint64_t pack(uint32_t begin, uint32_t end) {
    return static_cast<uint64_t>(begin) << 32 | end;
  }
  template <typename Fn> bool take(uint32_t least, const Fn &rest);

  std::atomic<uint64_t> range = 0;
};

/// The place of a pool's tasks, one after the other. It stays in memory as long as the crew, since
/// workers may look at it at any time.
class TaskPlace {
public:
  using Call = void (*)(const void *closure, int64_t begin, int64_t end, unsigned thread);

  /// Only while no task is open.
  void prepare(int64_t n, const void *closure, Call call, unsigned workersOfCrew);
  void open();
  /// Takes part as `thread`, and lets nobody in once nothing is left to take.
  void takePart(unsigned thread);
  /// Waits for the workers in the task.
  void close();
  /// A worker's way in, all of the task and out; false if it has no place there.
  bool work(unsigned worker);
  /// Of a caller that is gone.
  void abandon() { state.store(0); }

  // Of the crew, under its lock.
  bool isInUse = false;
  unsigned firstWorker = 0; ///< workers from this one on are its threads 1, 2, ...
  void resize(unsigned threads) { shares = std::vector<TaskShare>(threads); }
  unsigned threads() const { return static_cast<unsigned>(shares.size()); }

private:
  /// The worker's thread number in the open task; 0 if it has none.
  unsigned threadOf(unsigned worker) const;
  void callPart(uint32_t begin, uint32_t end, unsigned thread) const;

  int64_t total = 0;
  int64_t unit = 1;
  uint32_t least = 1;
  unsigned crewSize = 0; ///< as the task was opened
  const void *closure = nullptr;
  Call call = nullptr;
  std::vector<TaskShare> shares;
  /// A bit that says whether the task may be joined; the others count the workers in it.
  alignas(64) std::atomic<uint32_t> state = 0;
  std::atomic<uint32_t> callerSleeps = 0;
};

/// All workers of the process. Callers of pools that run at the same time count as running threads,
/// for each of which a worker stands down: together they are no more than the CPUs, or than the
/// largest pool asked for.
class WorkStealingPool {
public:
  /// The crew of this process, made if nobody holds it; each holder releases it once.
  static WorkStealingPool *acquire();
  static void release();
  // Around a fork of the process.
  static void beforeFork();
  static void afterForkInParent();
  static void afterForkInChild();

  /// Room for the tasks of a pool with so many threads, its caller included.
  Status add(unsigned threads, TaskPlace *&place);
  void remove(TaskPlace *place);

  void enter() { callers.fetch_add(1); }
  void leave();
  /// Workers that may run now; those with higher numbers stand down.
  unsigned allowed() const;
  /// Runs the task of `place` with whoever comes.
  void run(TaskPlace &place, int64_t n, const void *closure, TaskPlace::Call call);

private:
  struct Worker {
    WorkStealingPool *crew;
    unsigned number; ///< from 1
    Worker *next;
    pthread_t handle;

    static void *main(void *worker);
  };
  ~WorkStealingPool();
  struct Link {
    TaskPlace place;
    Link *next = nullptr;
  };

  Status grow(unsigned count);
  void forgetWorkers();
  unsigned plan();
  void serve(unsigned worker);
  void standDown(uint32_t running);
  bool workSomewhere(unsigned worker);

  // What callers write and workers poll.
  alignas(64) std::atomic<uint32_t> epoch = 0;
  std::atomic<TaskPlace *> latest = nullptr; ///< task opened last
  alignas(64) std::atomic<uint32_t> callers = 0;
  std::atomic<uint32_t> limit = 1; ///< of running threads
  std::atomic<uint32_t> size = 0;  ///< workers started
  std::atomic<Link *> places = nullptr;
  std::atomic<bool> stopping = false;
  alignas(64) std::atomic<uint32_t> sleeping = 0; ///< workers that wait for `epoch`
  std::atomic<uint32_t> standing = 0;             ///< workers that wait for `callers`
  std::mutex mutex;                               ///< of changes to `places` and of `workers`
  Worker *workers = nullptr;
};

/// CPUs that this process may run on.
unsigned usableCpus();

} // namespace tenon
