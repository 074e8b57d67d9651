// Fibers are switched where they wait, in turn, until all have ended or none can go on. They start
// by ucontext and are switched by setjmp, which makes no system call.
#include "test/unit/codegen/emulator/ClusterRun.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace tenon::codegen::cuda {

Cluster *running = nullptr;

namespace {

constexpr size_t kStackBytes = 1 << 20;

void fiberMain() {
  running->body();
  running->fiber().done = true;
  --running->live;
  --running->block().live;
  ++running->progress;
  running->yield();
}

/// The scheduler leaves the fiber out until then.
void waitFor(Meeting &meeting) {
  Fiber &fiber = running->fiber();
  fiber.generation = meeting.generation;
  fiber.meeting = &meeting;
  running->yield();
  fiber.meeting = nullptr;
}

bool canGoOn(const Fiber &fiber) {
  return !fiber.done && !(fiber.meeting && fiber.meeting->generation == fiber.generation);
}

void release(Meeting &meeting) {
  meeting.arrived = 0;
  ++meeting.generation;
  ++running->progress;
}

/// What threads wait for, when nothing will happen any more.
std::string deadlockOf(const Cluster &cluster) {
  for (size_t i = 0; i < cluster.fibers.size(); ++i) {
    const char *barrier = cluster.fibers[i].done ? nullptr : cluster.fibers[i].waitsAt;
    if (barrier) {
      uint32_t thread = i % cluster.shape.threads, block = i / cluster.shape.threads;
      return "thread " + std::to_string(thread) +
             " waits in vain: " + cluster.barriers.describe(barrier) + " at byte " +
             std::to_string(barrier - cluster.blocks[block].shared) + " of its shared memory";
    }
  }
  return "threads wait for threads that do not come";
}

/// What is wrong after the threads have ended.
std::string endFault(const Cluster &cluster) {
  std::string fault = cluster.barriers.endFault();
  for (const Block &block : cluster.blocks) {
    auto isTouched = [](char byte) { return byte != char(0xff); };
    if (std::any_of(block.shared + cluster.shape.sharedBytes, block.shared + kSharedBytes,
                    isTouched)) {
      fault = "a block writes shared memory behind what it asked for";
    }
    for (const WarpgroupModel &model : block.products) {
      fault = model.endFault().empty() ? fault : model.endFault();
    }
  }
  return fault;
}

} // namespace

void Cluster::yield() {
  if (_setjmp(fiber().place) == 0) {
    _longjmp(scheduler, 1);
  }
}

void Cluster::resume() {
  if (_setjmp(scheduler) != 0) {
    return;
  }
  if (fiber().isStarted) {
    _longjmp(fiber().place, 1);
  }
  fiber().isStarted = true;
  setcontext(&fiber().start);
}

void meetTeam(std::vector<Team> &teams, const std::string &name, void *result,
              const void *arguments, llvm::function_ref<void(Lanes)> work) {
  size_t size = teams.front().slots.size();
  Team &team = teams[running->thread() / size];
  if (team.arrived != 0 && team.name != &name) {
    running->fault = "threads meet at " + *team.name + " and " + name;
  }
  team.name = &name;
  team.slots[running->thread() % size] = {result, arguments};
  if (++team.arrived < size) {
    waitFor(team);
    return;
  }
  work([&](unsigned lane) -> Slot & { return team.slots[lane]; });
  release(team);
}

void meetBlock() {
  Block &block = running->block();
  if (++block.arrived < block.live) {
    waitFor(block);
    return;
  }
  release(block);
}

uint32_t currentRank() { return running->rank(); }

void meetRank() {
  Meeting &rank = running->ranks[running->rank()];
  if (++rank.arrived < running->shape.threads * running->shape.blocks) {
    waitFor(rank);
    return;
  }
  release(rank);
}

void waitForPhase(const char *barrier, uint32_t parity) {
  Fiber &fiber = running->fiber();
  fiber.waitsAt = barrier;
  while (!running->barriers.hasEnded(barrier, parity)) {
    running->yield();
  }
  fiber.waitsAt = nullptr;
  ++running->progress;
}

void arriveAtCluster() {
  running->fiber().clusterPhase = running->generation;
  if (++running->arrived == running->live) {
    release(*running);
  }
}

void waitForCluster() {
  while (running->generation == running->fiber().clusterPhase) {
    running->yield();
  }
}

std::string runCluster(const LaunchShape &shape, uint32_t first, llvm::function_ref<void()> body) {
  static std::vector<std::unique_ptr<char[]>> stacks, memories;
  Cluster cluster(shape, first, body);
  cluster.live = shape.threads * shape.cluster;
  cluster.fibers.resize(cluster.live);
  cluster.blocks.resize(shape.cluster);
  cluster.ranks.resize(shape.ranks);
  running = &cluster;
  while (stacks.size() < cluster.live) {
    stacks.push_back(std::make_unique_for_overwrite<char[]>(kStackBytes));
  }
  while (memories.size() < shape.cluster) {
    memories.push_back(std::make_unique_for_overwrite<char[]>(2 * kSharedBytes));
  }
  for (uint32_t i = 0; i < shape.cluster; ++i) {
    Block &block = cluster.blocks[i];
    block.warps.assign((shape.threads + kWarpSize - 1) / kWarpSize, Team(kWarpSize));
    block.warpgroups.assign((shape.threads + kWarpgroupSize - 1) / kWarpgroupSize,
                            Team(kWarpgroupSize));
    block.products.resize(block.warpgroups.size());
    block.live = shape.threads;
    uintptr_t memory = reinterpret_cast<uintptr_t>(memories[i].get());
    // Descriptors of tiles hold the low bits of an address: those of its place in the memory.
    block.shared =
        reinterpret_cast<char *>((memory + kSharedBytes - 1) / kSharedBytes * kSharedBytes);
    memset(block.shared, 0xff, kSharedBytes);
  }
  for (uint32_t i = 0; i < cluster.live; ++i) {
    Fiber &fiber = cluster.fibers[i];
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = stacks[i].get();
    fiber.start.uc_stack.ss_size = kStackBytes;
    makecontext(&fiber.start, fiberMain, 0);
  }
  uint32_t count = cluster.live;
  while (cluster.live > 0 && cluster.fault.empty()) {
    uint64_t before = cluster.progress + cluster.barriers.events;
    for (uint32_t i = 0; i < count * shape.lag && cluster.fault.empty(); ++i) {
      cluster.current = shape.reversed ? count - 1 - i % count : i % count;
      bool hasTurn = i < count || cluster.rank() == 0;
      if (hasTurn && canGoOn(cluster.fiber())) {
        cluster.resume();
      }
    }
    if (cluster.progress + cluster.barriers.events == before && cluster.fault.empty()) {
      cluster.fault = deadlockOf(cluster);
    }
  }
  cluster.fault = cluster.fault.empty() ? endFault(cluster) : cluster.fault;
  running = nullptr;
  return cluster.fault;
}

} // namespace tenon::codegen::cuda
