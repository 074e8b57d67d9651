// The intrinsics by their definitions in the PTX manual, each lane's part from all lanes' operands.
#include "test/unit/codegen/emulator/WarpModel.h"

#include "compiler/reference/LowBits.h"
#include "test/unit/codegen/emulator/ClusterRun.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

namespace tenon::codegen::cuda {
namespace {
/// The operands of the assembly on barriers that count.
struct BarrierOperands {
  const char *barrier;
  uint32_t value; ///< arrivals, bytes or parity
};

/// Four words, each with a number beside it, that another GPU may write: the second two lie 512
/// bytes behind the first.
struct LineOperands {
  uint32_t *place;
  uint32_t words[4];
  uint32_t number;
};

int wordOfLine(int i) { return i / 2 * 128 + i % 2 * 2; }

void sendLine(const LineOperands &operands) {
  for (int i = 0; i < 4; ++i) {
    uint32_t *word = operands.place + wordOfLine(i);
    word[0] = operands.words[i];
    word[1] = operands.number;
  }
  ++running->progress;
}

struct LookOperands {
  const uint32_t *place;
  uint32_t number;
};

/// Others go on after each look, which is one of a bounded number.
void lookForLine(uint32_t *result, const LookOperands &operands) {
  result[4] = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t *word = operands.place + wordOfLine(i);
    result[i] = word[0];
    result[4] |= word[1] ^ operands.number;
  }
  ++running->progress;
  running->yield();
}

struct FlagOperands {
  uint32_t *place;
  uint32_t value;
};

/// The place of an own address in another block of the cluster.
char *placeIn(uint32_t rank, const char *own) {
  return running->blocks[rank].shared + (own - running->block().shared);
}

/// Of a word of the type that the cluster's blocks exchange.
template <typename Word> struct StoreOperands {
  char *to;
  Word word;
  const char *barrier;
};

template <typename Word> void storeAsync(const void *arguments) {
  const StoreOperands<Word> &operands = *static_cast<const StoreOperands<Word> *>(arguments);
  running->barriers.store(&operands.word, sizeof(Word), operands.to, operands.barrier);
}

struct BoxOperands {
  char *to;
  const EmulatedTensorMap *map;
  int32_t column, row;
  const char *barrier;
};

void copyBox(const BoxOperands &operands) {
  EmulatedTensorMap map;
  memcpy(&map, operands.map, sizeof(map));
  running->barriers.copyBox(map, operands.column, operands.row, operands.to, operands.barrier);
}

/// The same place in the memory of another block of the cluster.
void mapAddress(void *result, const void *arguments) {
  struct Operands {
    char *address;
    uint32_t rank;
  };
  const Operands &operands = *static_cast<const Operands *>(arguments);
  char *there = placeIn(operands.rank, operands.address);
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

void storeMatrices(Lanes lanes) {
  struct Operands {
    char *to;
    uint16_t elements[4][2];
  };
  auto of = [&](unsigned lane) -> const Operands & {
    return *static_cast<const Operands *>(lanes(lane).arguments);
  };
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if (reinterpret_cast<uintptr_t>(of(lane).to) % 16 != 0) {
      running->fault = "stmatrix to an address that is not a multiple of 16";
      return;
    }
  }
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      memcpy(of(matrix * 8 + lane / 4).to + lane % 4 * 4, of(lane).elements[matrix], 4);
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

/// Each lane gets what `work` makes of all lanes' values and of its own number.
void fromAll(Lanes lanes, size_t place,
             llvm::function_ref<uint32_t(llvm::ArrayRef<uint32_t>, unsigned)> work) {
  uint32_t values[kWarpSize];
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    values[lane] = static_cast<const uint32_t *>(lanes(lane).arguments)[place];
  }
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    uint32_t value = work(values, lane);
    memcpy(lanes(lane).result, &value, 4);
  }
}

uint32_t lanesWhere(llvm::function_ref<bool(unsigned)> condition) {
  uint32_t bits = 0;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    bits |= uint32_t(condition(lane)) << lane;
  }
  return bits;
}

struct CopyOperands {
  void *to;
  const void *from;
  uint32_t read;
};

void startCopy(const void *arguments, bool isPartial, uint32_t size = 16) {
  const CopyOperands &operands = *static_cast<const CopyOperands *>(arguments);
  if ((reinterpret_cast<uintptr_t>(operands.to) | reinterpret_cast<uintptr_t>(operands.from)) %
      size) {
    running->fault = "cp.async of an address that is not a multiple of " + std::to_string(size);
  }
  running->fiber().open.push_back(
      {operands.to, operands.from, size, isPartial ? operands.read : size});
}

/// What a policy of the cache is, for those that read by it.
constexpr uint64_t kPolicy = 0x14f0;
void checkPolicy(uint64_t given) {
  if (given != kPolicy) {
    running->fault = "a policy of the cache that was not made";
  }
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

/// Registers that a warpgroup gives back or takes.
void checkRegisters(Lanes lanes) {
  for (unsigned lane = 0; lane < kWarpgroupSize; ++lane) {
    uint32_t count = *as<uint32_t>(lanes(lane).arguments);
    if (count % 8 != 0 || count < 24 || count > 256) {
      running->fault = "a warpgroup cannot have " + std::to_string(count) + " registers a thread";
    }
  }
}

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
       [](void *r, const void *) { give(r, running->blockNumber()); }},
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
      {"llvm.nvvm.ff.to.e4m3x2.rn",
       [](void *r, const void *a) {
         auto code = [&](int i) { return reference::lowBitCode(DType::F8E4M3FN, as<float>(a)[i]); };
         uint16_t pair = static_cast<uint16_t>(code(1) | code(0) << 8);
         memcpy(r, &pair, 2);
       }},
      {"llvm.nvvm.f16x2.to.e4m3x2.rn",
       [](void *r, const void *a) {
         auto code = [&](int i) {
           return reference::lowBitCode(DType::F8E4M3FN,
                                        double(fromHalf(as<uint16_t>(a)[i], false)));
         };
         uint16_t pair = static_cast<uint16_t>(code(0) | code(1) << 8);
         memcpy(r, &pair, 2);
       }},
      {"llvm.nvvm.cp.async.cg.shared.global.16",
       [](void *, const void *a) { startCopy(a, false); }},
      {"llvm.nvvm.cp.async.cg.shared.global.16.s",
       [](void *, const void *a) { startCopy(a, true); }},
      {"llvm.nvvm.cp.async.ca.shared.global.8",
       [](void *, const void *a) { startCopy(a, false, 8); }},
      {"llvm.nvvm.cp.async.ca.shared.global.8.s",
       [](void *, const void *a) { startCopy(a, true, 8); }},
      {"llvm.nvvm.cp.async.ca.shared.global.4",
       [](void *, const void *a) { startCopy(a, false, 4); }},
      {"llvm.nvvm.cp.async.ca.shared.global.4.s",
       [](void *, const void *a) { startCopy(a, true, 4); }},
      {"llvm.nvvm.cp.async.commit.group",
       [](void *, const void *) {
         Fiber &fiber = running->fiber();
         fiber.groups.push_back(std::move(fiber.open));
         fiber.open.clear();
       }},
      {"llvm.nvvm.cp.async.wait.group",
       [](void *, const void *a) { finishCopies(*as<uint32_t>(a)); }},
      {"llvm.nvvm.barrier.cta.sync.aligned.all", [](void *, const void *) { meetBlock(); }},
      {"mbarrier.init.shared::cta.b64 [$0], $1;",
       [](void *, const void *a) {
         const BarrierOperands &operands = *as<BarrierOperands>(a);
         running->barriers.init(operands.barrier, operands.value, running->current);
       }},
      {"llvm.nvvm.fence.mbarrier_init.release.cluster",
       [](void *, const void *) { running->barriers.publish(running->current); }},
      {"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;",
       [](void *, const void *a) {
         const BarrierOperands &operands = *as<BarrierOperands>(a);
         running->barriers.arrive(operands.barrier, operands.value);
       }},
      {"mbarrier.arrive.shared::cta.b64 _, [$0];",
       [](void *, const void *a) { running->barriers.arrive(*as<const char *>(a), 0); }},
      {"mbarrier.arrive.shared::cta.b64 _, [$0], 4;",
       [](void *, const void *a) {
         for (int i = 0; i < 4; ++i) {
           running->barriers.arrive(*as<const char *>(a), 0);
         }
       }},
      {"{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n"
       "@!done bra again;\n}",
       [](void *, const void *a) {
         const BarrierOperands &operands = *as<BarrierOperands>(a);
         waitForPhase(operands.barrier, operands.value);
       }},
      {"st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0], $1, [$2];",
       [](void *, const void *a) { storeAsync<uint32_t>(a); }},
      {"st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [$0], $1, [$2];",
       [](void *, const void *a) { storeAsync<uint64_t>(a); }},
      {"prefetch.tensormap [$0];", [](void *, const void *) {}},
      {"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], "
       "[$1, "
       "{$2, $3}], [$4];",
       [](void *, const void *a) { copyBox(*as<BoxOperands>(a)); }},
      {"llvm.nvvm.read.ptx.sreg.cluster.ctaid.x",
       [](void *r, const void *) { give(r, running->current / running->shape.threads); }},
      {"llvm.nvvm.mapa.shared.cluster", mapAddress},
      {"llvm.nvvm.barrier.cluster.arrive.aligned", [](void *, const void *) { arriveAtCluster(); }},
      {"llvm.nvvm.barrier.cluster.arrive.relaxed.aligned",
       [](void *, const void *) { arriveAtCluster(); }},
      {"llvm.nvvm.barrier.cluster.wait.aligned", [](void *, const void *) { waitForCluster(); }},
      {"fence.proxy.async.shared::cta;", [](void *, const void *) {}},
      {"mov.b64 $0, $1;", [](void *r, const void *a) { memcpy(r, a, 8); }},
      {"ld.global.L1::no_allocate.v4.b32 {$0, $1, $2, $3}, [$4];",
       [](void *r, const void *a) { memcpy(r, *as<const void *>(a), 16); }},
      {"createpolicy.fractional.L2::evict_last.b64 $0, 1.0;",
       [](void *r, const void *) { memcpy(r, &kPolicy, sizeof kPolicy); }},
      {"ld.global.L2::cache_hint.v4.b32 {$0, $1, $2, $3}, [$4], $5;",
       [](void *r, const void *a) {
         checkPolicy(as<uint64_t>(a)[1]);
         memcpy(r, *as<const void *>(a), 16);
       }},
      {"cp.async.cg.shared.global.L2::cache_hint [$0], [$1], 16, $2, $3;",
       [](void *, const void *a) {
         checkPolicy(as<uint64_t>(a)[3]);
         startCopy(a, true);
       }},
      {"{\n.reg .b32 same;\nmov.u32 same, %laneid;\n"
       "shfl.sync.idx.b32 same, $1, same, 31, -1;\nsub.s32 $0, same, $1;\n}",
       [](void *r, const void *) { give(r, 0u); }},
      {"mov.b32 $0, $1;", [](void *r, const void *a) { memcpy(r, a, 4); }},
      {"{\n.reg .b64 a, b, c, d;\nmov.b64 a, {$1, $5};\nmov.b64 b, {$2, $5};\n"
       "mov.b64 c, {$3, $5};\nmov.b64 d, {$4, $5};\n"
       "st.relaxed.sys.global.v2.b64 [$0], {a, b};\n"
       "st.relaxed.sys.global.v2.b64 [$0+512], {c, d};\n}",
       [](void *, const void *a) { sendLine(*as<LineOperands>(a)); }},
      {"{\n.reg .b64 a, b, c, d;\n.reg .b32 e, f, g, h;\n"
       "ld.relaxed.sys.global.v2.b64 {a, b}, [$5];\n"
       "ld.relaxed.sys.global.v2.b64 {c, d}, [$5+512];\n"
       "mov.b64 {$0, e}, a;\nmov.b64 {$1, f}, b;\nmov.b64 {$2, g}, c;\nmov.b64 {$3, h}, d;\n"
       "xor.b32 e, e, $6;\nxor.b32 f, f, $6;\nxor.b32 g, g, $6;\nxor.b32 h, h, $6;\n"
       "or.b32 e, e, f;\nor.b32 g, g, h;\nor.b32 $4, e, g;\n}",
       [](void *r, const void *a) {
         lookForLine(static_cast<uint32_t *>(r), *as<LookOperands>(a));
       }},
      {"st.release.sys.global.b32 [$0], $1;",
       [](void *, const void *a) {
         *as<FlagOperands>(a)->place = as<FlagOperands>(a)->value;
         ++running->progress;
       }},
      {"ld.acquire.sys.global.b32 $0, [$1];",
       [](void *r, const void *a) {
         give(r, **as<const uint32_t *>(a));
         ++running->progress;
         running->yield();
       }},
      {"ld.relaxed.gpu.global.v4.b32 {$0, $1, $2, $3}, [$4];",
       [](void *r, const void *a) {
         memcpy(r, *as<const void *>(a), 16);
         ++running->progress;
         running->yield();
       }},
      {"st.relaxed.gpu.global.b32 [$0], $1;",
       [](void *, const void *a) {
         *as<FlagOperands>(a)->place = as<FlagOperands>(a)->value;
         ++running->progress;
       }},
      {"fence.acq_rel.gpu;", [](void *, const void *) {}},
      {"lop3.b32 $0, $1, $2, $3, 0x6a;",
       [](void *r, const void *a) {
         const uint32_t *words = as<const uint32_t>(a);
         give(r, (words[0] & words[1]) ^ words[2]);
       }},
  };
  return table;
}

/// Instructions of a whole warp.
using Together = void (*)(Lanes lanes);
const std::map<std::string, Together> &togethers() {
  static const std::map<std::string, Together> table = {
      {"llvm.nvvm.mma.m16n8k16.row.col.f32.f32", [](Lanes l) { multiplyMatrices(l, false); }},
      {"llvm.nvvm.mma.m16n8k32.row.col.u8.s8", multiplyBytes<uint8_t>},
      {"llvm.nvvm.mma.m16n8k32.row.col.s8", multiplyBytes<int8_t>},
      {"llvm.nvvm.mma.m16n8k16.row.col.bf16", [](Lanes l) { multiplyMatrices(l, true); }},
      {"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3", [](Lanes l) { loadMatrices(l, false); }},
      {"llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.b16.p3", storeMatrices},
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
      {"llvm.nvvm.shfl.sync.up.f32",
       [](Lanes l) { shuffle(l, [](unsigned lane, unsigned o) { return lane - o; }); }},
      {"llvm.nvvm.shfl.sync.up.i32",
       [](Lanes l) { shuffle(l, [](unsigned lane, unsigned o) { return lane - o; }); }},
      {"llvm.nvvm.vote.ballot.sync",
       [](Lanes l) {
         fromAll(l, 1, [](llvm::ArrayRef<uint32_t> values, unsigned) {
           return lanesWhere([&](unsigned lane) { return (values[lane] & 1) != 0; });
         });
       }},
      {"llvm.nvvm.match.any.sync.i32",
       [](Lanes l) {
         fromAll(l, 1, [](llvm::ArrayRef<uint32_t> values, unsigned own) {
           return lanesWhere([&](unsigned lane) { return values[lane] == values[own]; });
         });
       }},
      {"llvm.nvvm.redux.sync.add",
       [](Lanes l) {
         fromAll(l, 0, [](llvm::ArrayRef<uint32_t> values, unsigned) {
           return std::accumulate(values.begin(), values.end(), 0u);
         });
       }},
      {"llvm.nvvm.shfl.sync.down.f32",
       [](Lanes l) { shuffle(l, [](unsigned lane, unsigned o) { return lane + o; }); }},
  };
  return table;
}

} // namespace

struct InstructionModel {
  std::string name;
  Single single = nullptr;
  Together together = nullptr;
};

const InstructionModel &modelOf(const std::string &name) {
  static std::map<std::string, InstructionModel> known;
  auto [place, isNew] = known.try_emplace(name);
  InstructionModel &instruction = place->second;
  if (isNew) {
    auto single = singles().find(name);
    auto together = togethers().find(name);
    instruction = {name, single == singles().end() ? nullptr : single->second,
                   together == togethers().end() ? nullptr : together->second};
  }
  return instruction;
}

void emulate(const InstructionModel &instruction, void *result, const void *arguments) {
  const std::string &name = instruction.name;
  if (instruction.single) {
    instruction.single(result, arguments);
    if (!running->barriers.fault.empty()) {
      running->fault = running->barriers.fault;
    }
    return;
  }
  if (instruction.together) {
    meetTeam(running->block().warps, name, result, arguments, instruction.together);
    return;
  }
  Block &block = running->block();
  if (name.find("|") != std::string::npos) {
    meetTeam(block.warpgroups, name, result, arguments, [&](Lanes lanes) {
      WarpgroupModel &model = block.products[running->thread() / kWarpgroupSize];
      std::string fault = model.run(name, block.shared, lanes);
      running->fault = fault.empty() ? running->fault : fault;
    });
    return;
  }
  if (name.starts_with("llvm.nvvm.setmaxnreg.")) {
    meetTeam(block.warpgroups, name, result, arguments, checkRegisters);
    return;
  }
  running->fault = "unknown instruction " + name;
}

void *currentShared() { return running->block().shared; }

} // namespace tenon::codegen::cuda
