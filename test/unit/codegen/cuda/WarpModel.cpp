// The intrinsics by their definitions in the PTX manual, each lane's part from all lanes' operands.
#include "WarpModel.h"

#include "TensorModel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <ucontext.h>
#include <vector>

namespace tenon::codegen::cuda {
namespace {

constexpr size_t kStackBytes = 1 << 20;

struct Copy {
  void *to;
  const void *from;
  uint32_t size, read;
};

struct Fiber {
  ucontext_t context;
  bool done = false;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
  uint64_t clusterPhase = 0;
};

/// Where a number of threads wait for each other.
struct Meeting {
  unsigned arrived = 0;
  uint64_t generation = 0;
};

/// The threads that do an instruction together.
struct Team : Meeting {
  std::vector<Slot> slots;
  std::string name;

  explicit Team(unsigned size) : slots(size) {}
};

/// One of the blocks that run at the same time.
struct Block : Meeting {
  std::vector<Team> warps, warpgroups;
  uint32_t live = 0;
  char *shared = nullptr;
};

struct Cluster : Meeting {
  const LaunchShape &shape;
  uint32_t first;
  llvm::function_ref<void()> body;
  std::vector<Fiber> fibers;
  std::vector<Block> blocks;
  uint32_t current = 0, live = 0;
  uint64_t progress = 0;
  ucontext_t scheduler;
  std::string fault;

  Cluster(const LaunchShape &shape, uint32_t first, llvm::function_ref<void()> body)
      : shape(shape), first(first), body(body) {}
  Fiber &fiber() { return fibers[current]; }
  Block &block() { return blocks[current / shape.threads]; }
  uint32_t thread() const { return current % shape.threads; }
  void yield() { swapcontext(&fiber().context, &scheduler); }
};

Cluster *running = nullptr;

void fiberMain() {
  running->body();
  running->fiber().done = true;
  --running->live;
  --running->block().live;
  ++running->progress;
  running->yield();
}

void waitFor(Meeting &meeting) {
  for (uint64_t generation = meeting.generation; meeting.generation == generation;) {
    running->yield();
  }
}

void release(Meeting &meeting) {
  meeting.arrived = 0;
  ++meeting.generation;
  ++running->progress;
}

/// The last lane to come does the work of all.
void meetTeam(std::vector<Team> &teams, const std::string &name, void *result,
              const void *arguments, llvm::function_ref<void(Lanes)> work) {
  size_t size = teams.front().slots.size();
  Team &team = teams[running->thread() / size];
  if (team.arrived != 0 && team.name != name) {
    running->fault = "threads meet at " + team.name + " and " + name;
  }
  team.name = name;
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

/// The same place in the memory of another block of the cluster.
void mapAddress(void *result, const void *arguments) {
  struct Operands {
    char *address;
    uint32_t rank;
  };
  const Operands &operands = *static_cast<const Operands *>(arguments);
  char *there =
      running->blocks[operands.rank].shared + (operands.address - running->block().shared);
  memcpy(result, &there, sizeof(there));
}

void loadMatrices(Lanes lanes, bool transposed) {
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    uint16_t elements[8][8];
    for (unsigned row = 0; row < 8; ++row) {
      const void *from;
      memcpy(&from, lanes(matrix * 8 + row).arguments, sizeof(from));
      if (reinterpret_cast<uintptr_t>(from) % 16 != 0) {
        running->fault = "ldmatrix of an address that is not a multiple of 16";
        return;
      }
      memcpy(elements[row], from, 16);
    }
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      for (unsigned i = 0; i < 2; ++i) {
        unsigned row = lane / 4, column = lane % 4 * 2 + i;
        static_cast<uint16_t *>(lanes(lane).result)[matrix * 2 + i] =
            transposed ? elements[column][row] : elements[row][column];
      }
    }
  }
}

void shuffle(Lanes lanes, llvm::function_ref<unsigned(unsigned, unsigned)> source) {
  struct Operands {
    uint32_t mask, value, offset, clamp;
  };
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const Operands &own = *static_cast<const Operands *>(lanes(lane).arguments);
    unsigned from = source(lane, own.offset);
    from = from < kWarpSize ? from : lane;
    const Operands &other = *static_cast<const Operands *>(lanes(from).arguments);
    memcpy(lanes(lane).result, &other.value, 4);
  }
}

struct CopyOperands {
  void *to;
  const void *from;
  uint32_t read;
};

void startCopy(const void *arguments, bool isPartial) {
  const CopyOperands &operands = *static_cast<const CopyOperands *>(arguments);
  if ((reinterpret_cast<uintptr_t>(operands.to) | reinterpret_cast<uintptr_t>(operands.from)) %
      16) {
    running->fault = "cp.async of an address that is not a multiple of 16";
  }
  running->fiber().open.push_back({operands.to, operands.from, 16, isPartial ? operands.read : 16});
}

void finishCopies(uint32_t pending) {
  Fiber &fiber = running->fiber();
  while (fiber.groups.size() > pending) {
    for (const Copy &copy : fiber.groups.front()) {
      memset(copy.to, 0, copy.size);
      memcpy(copy.to, copy.from, copy.read);
    }
    fiber.groups.pop_front();
  }
}

template <typename T> const T *as(const void *arguments) {
  return static_cast<const T *>(arguments);
}
void give(void *result, uint32_t value) { memcpy(result, &value, 4); }
void giveF(void *result, float value) { memcpy(result, &value, 4); }

/// Instructions of a single thread.
using Single = void (*)(void *result, const void *arguments);
const std::map<std::string, Single> &singles() {
  static const std::map<std::string, Single> table = {
      {"llvm.nvvm.read.ptx.sreg.tid.x", [](void *r, const void *) { give(r, running->thread()); }},
      {"llvm.nvvm.read.ptx.sreg.laneid",
       [](void *r, const void *) { give(r, running->thread() % kWarpSize); }},
      {"llvm.nvvm.read.ptx.sreg.ntid.x",
       [](void *r, const void *) { give(r, running->shape.threads); }},
      {"llvm.nvvm.read.ptx.sreg.ctaid.x",
       [](void *r, const void *) {
         give(r, running->first + running->current / running->shape.threads);
       }},
      {"llvm.nvvm.read.ptx.sreg.nctaid.x",
       [](void *r, const void *) { give(r, running->shape.blocks); }},
      {"llvm.nvvm.griddepcontrol.wait", [](void *, const void *) {}},
      {"llvm.nvvm.griddepcontrol.launch.dependents", [](void *, const void *) {}},
      {"llvm.nvvm.ex2.approx.ftz.f32",
       [](void *r, const void *a) {
         float value = std::exp2(*as<float>(a));
         giveF(r, value < 1.1754943508e-38f ? 0 : value);
       }},
      {"llvm.nvvm.rcp.approx.ftz.f", [](void *r, const void *a) { giveF(r, 1 / *as<float>(a)); }},
      {"llvm.nvvm.rsqrt.approx.f",
       [](void *r, const void *a) { giveF(r, 1 / std::sqrt(*as<float>(a))); }},
      {"llvm.nvvm.lg2.approx.f",
       [](void *r, const void *a) { giveF(r, std::log2(*as<float>(a))); }},
      {"llvm.nvvm.ff2f16x2.rn",
       [](void *r, const void *a) {
         give(r, toHalf(as<float>(a)[1], false) | uint32_t(toHalf(as<float>(a)[0], false)) << 16);
       }},
      {"llvm.nvvm.ff2bf16x2.rn",
       [](void *r, const void *a) {
         give(r, toHalf(as<float>(a)[1], true) | uint32_t(toHalf(as<float>(a)[0], true)) << 16);
       }},
      {"llvm.nvvm.cp.async.cg.shared.global.16",
       [](void *, const void *a) { startCopy(a, false); }},
      {"llvm.nvvm.cp.async.cg.shared.global.16.s",
       [](void *, const void *a) { startCopy(a, true); }},
      {"llvm.nvvm.cp.async.commit.group",
       [](void *, const void *) {
         Fiber &fiber = running->fiber();
         fiber.groups.push_back(std::move(fiber.open));
         fiber.open.clear();
       }},
      {"llvm.nvvm.cp.async.wait.group",
       [](void *, const void *a) { finishCopies(*as<uint32_t>(a)); }},
      {"llvm.nvvm.barrier.cta.sync.aligned.all", [](void *, const void *) { meetBlock(); }},
      {"llvm.nvvm.read.ptx.sreg.cluster.ctaid.x",
       [](void *r, const void *) { give(r, running->current / running->shape.threads); }},
      {"llvm.nvvm.mapa.shared.cluster", mapAddress},
      {"llvm.nvvm.barrier.cluster.arrive.aligned", [](void *, const void *) { arriveAtCluster(); }},
      {"llvm.nvvm.barrier.cluster.wait.aligned", [](void *, const void *) { waitForCluster(); }},
      {"fence.proxy.async.shared::cta;", [](void *, const void *) {}},
      {"mov.b64 $0, $1;", [](void *r, const void *a) { memcpy(r, a, 8); }},
      {"ld.global.L1::no_allocate.v4.b32 {$0, $1, $2, $3}, [$4];",
       [](void *r, const void *a) { memcpy(r, *as<const void *>(a), 16); }},
      {"mov.b32 $0, $1;", [](void *r, const void *a) { memcpy(r, a, 4); }},
  };
  return table;
}

/// Instructions of a whole warp.
using Together = void (*)(Lanes lanes);
const std::map<std::string, Together> &togethers() {
  static const std::map<std::string, Together> table = {
      {"llvm.nvvm.mma.m16n8k16.row.col.f32.f32", [](Lanes l) { multiplyMatrices(l, false); }},
      {"llvm.nvvm.mma.m16n8k16.row.col.bf16", [](Lanes l) { multiplyMatrices(l, true); }},
      {"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3", [](Lanes l) { loadMatrices(l, false); }},
      {"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3",
       [](Lanes l) { loadMatrices(l, true); }},
      {"llvm.nvvm.bar.warp.sync", [](Lanes) {}},
      {"llvm.nvvm.shfl.sync.bfly.f32",
       [](Lanes l) { shuffle(l, [](unsigned lane, unsigned o) { return lane ^ o; }); }},
      {"llvm.nvvm.shfl.sync.bfly.i32",
       [](Lanes l) { shuffle(l, [](unsigned lane, unsigned o) { return lane ^ o; }); }},
      {"llvm.nvvm.shfl.sync.idx.f32",
       [](Lanes l) { shuffle(l, [](unsigned, unsigned o) { return o; }); }},
      {"llvm.nvvm.shfl.sync.idx.i32",
       [](Lanes l) { shuffle(l, [](unsigned, unsigned o) { return o; }); }},
      {"llvm.nvvm.shfl.sync.down.f32",
       [](Lanes l) { shuffle(l, [](unsigned lane, unsigned o) { return lane + o; }); }},
  };
  return table;
}

} // namespace

void emulateIntrinsic(const std::string &name, void *result, const void *arguments) {
  if (auto single = singles().find(name); single != singles().end()) {
    single->second(result, arguments);
    return;
  }
  if (auto together = togethers().find(name); together != togethers().end()) {
    meetTeam(running->block().warps, name, result, arguments, together->second);
    return;
  }
  if (name.find("wgmma.mma_async") != std::string::npos) {
    meetTeam(running->block().warpgroups, name, result, arguments, [&](Lanes lanes) {
      std::string fault = multiplyInWarpgroup(name, running->block().shared, lanes);
      running->fault = fault.empty() ? running->fault : fault;
    });
    return;
  }
  running->fault = "unknown instruction " + name;
}

void *currentShared() { return running->block().shared; }

std::string runCluster(const LaunchShape &shape, uint32_t first, llvm::function_ref<void()> body) {
  static std::vector<std::unique_ptr<char[]>> stacks, memories;
  Cluster cluster(shape, first, body);
  cluster.live = shape.threads * shape.cluster;
  cluster.fibers.resize(cluster.live);
  cluster.blocks.resize(shape.cluster);
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
    block.live = shape.threads;
    uintptr_t memory = reinterpret_cast<uintptr_t>(memories[i].get());
    // Descriptors of tiles hold the low bits of an address: those of its place in the memory.
    block.shared =
        reinterpret_cast<char *>((memory + kSharedBytes - 1) / kSharedBytes * kSharedBytes);
    memset(block.shared, 0xff, kSharedBytes);
  }
  for (uint32_t i = 0; i < cluster.live; ++i) {
    Fiber &fiber = cluster.fibers[i];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks[i].get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    makecontext(&fiber.context, fiberMain, 0);
  }
  uint32_t count = cluster.live;
  while (cluster.live > 0 && cluster.fault.empty()) {
    uint64_t before = cluster.progress;
    for (uint32_t i = 0; i < count && cluster.fault.empty(); ++i) {
      cluster.current = shape.reversed ? count - 1 - i : i;
      if (!cluster.fiber().done) {
        swapcontext(&cluster.scheduler, &cluster.fiber().context);
      }
    }
    if (cluster.progress == before && cluster.fault.empty()) {
      cluster.fault = "threads wait for threads that do not come";
    }
  }
  for (const Block &block : cluster.blocks) {
    auto isTouched = [](char byte) { return byte != char(0xff); };
    if (std::any_of(block.shared + shape.sharedBytes, block.shared + kSharedBytes, isTouched) &&
        cluster.fault.empty()) {
      cluster.fault = "a block writes shared memory behind what it asked for";
    }
  }
  running = nullptr;
  return cluster.fault;
}

} // namespace tenon::codegen::cuda
