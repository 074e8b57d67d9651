// The threads of a cluster's blocks as fibers, and where they wait for each other. Private to the
// emulator; one cluster runs at a time.
#pragma once

#include "test/unit/codegen/emulator/BarrierModel.h"
#include "test/unit/codegen/emulator/TensorModel.h"
#include "test/unit/codegen/emulator/WarpModel.h"
#include "test/unit/codegen/emulator/WarpgroupModel.h"

#include <csetjmp>
#include <deque>
#include <ucontext.h>
#include <vector>

namespace tenon::codegen::cuda {

struct Copy {
  void *to;
  const void *from;
  uint32_t size, read;
};

/// Where a number of threads wait for each other.
struct Meeting {
  unsigned arrived = 0;
  uint64_t generation = 0;
};

struct Fiber {
  ucontext_t start;
  jmp_buf place; ///< where it goes on
  bool isStarted = false, done = false;
  const Meeting *meeting = nullptr; ///< at which it waits for the end of `generation`
  uint64_t generation = 0;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
  uint64_t clusterPhase = 0;
  const char *waitsAt = nullptr; ///< a barrier that counts arrivals
};

/// The threads that do an instruction together.
struct Team : Meeting {
  std::vector<Slot> slots;
  const std::string *name = nullptr; ///< of the instruction

  explicit Team(unsigned size) : slots(size) {}
};

/// One of the blocks that run at the same time.
struct Block : Meeting {
  std::vector<Team> warps, warpgroups;
  std::vector<WarpgroupModel> products; ///< by warpgroup
  uint32_t live = 0;
  char *shared = nullptr;
};

struct Cluster : Meeting {
  const LaunchShape &shape;
  uint32_t first;
  llvm::function_ref<void()> body;
  std::vector<Fiber> fibers;
  std::vector<Block> blocks;
  std::vector<Meeting> ranks;
  uint32_t current = 0, live = 0;
  uint64_t progress = 0;
  jmp_buf scheduler;
  std::string fault;
  BarrierModel barriers;

  Cluster(const LaunchShape &shape, uint32_t first, llvm::function_ref<void()> body)
      : shape(shape), first(first), body(body), barriers(shape.reversed) {}
  Fiber &fiber() { return fibers[current]; }
  Block &block() { return blocks[current / shape.threads]; }
  uint32_t thread() const { return current % shape.threads; }
  /// Of its GPU, and that.
  uint32_t blockNumber() const { return first + current / shape.threads % shape.blocks; }
  uint32_t rank() const { return current / shape.threads / shape.blocks; }
  /// From the current fiber to the scheduler, and back.
  void yield();
  void resume();
};

/// The one that runs; null between runs.
extern Cluster *running;

/// The last lane of the warp or warpgroup to come does the work of all. The name is that of an
/// instruction.
void meetTeam(std::vector<Team> &teams, const std::string &name, void *result,
              const void *arguments, llvm::function_ref<void(Lanes)> work);
void meetBlock();
/// At a barrier that counts arrivals, for the end of the phase of this parity.
void waitForPhase(const char *barrier, uint32_t parity);
void arriveAtCluster();
void waitForCluster();

} // namespace tenon::codegen::cuda
