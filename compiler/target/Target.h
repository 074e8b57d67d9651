// What code is compiled for: a CPU level or a GPU architecture, and the part whose limits and rates
// decide. One table (Parts.cpp) has them all; a target is passed on by reference, and nothing is
// guessed back from its numbers.
#pragma once

#include "engine/CudaArch.h"
#include "engine/Level.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenon::target {

/// What a GPU can do, where code or a decision depends on it.
enum class Feature : uint32_t {
  MmaSync = 1 << 4,         ///< mma.sync of F16, BF16 and TF32: a warp multiplies matrices
  AsyncCopy = 1 << 5,       ///< cp.async
  Tma = 1 << 6,             ///< cp.async.bulk.tensor: the tensor memory accelerator copies tiles
  DependentLaunch = 1 << 7, ///< griddepcontrol (PDL): a kernel starts before the one ahead ends
  WarpgroupMma = 1 << 8,    ///< wgmma: four warps together multiply matrices
  KeepsReads = 1 << 9,      ///< long rows are faster if the L2 keeps what is read (measured)
};

/// Of every GPU here: bytes of shared memory that it keeps for itself for each block.
inline constexpr int64_t kKeptOfBlock = 1024;

/// Rates are what programs reach, of all cores together; a core of a GPU is a multiprocessor.
struct Target {
  std::string name; ///< for people: "NVIDIA H200"
  std::string part; ///< as in `--target cuda:h200`; empty of a plain architecture or level
  /// Of a GPU; without, the target is a CPU.
  std::optional<engine::CudaArch> arch;
  engine::CpuLevel level = engine::CpuLevel::X86_64_V3; ///< of a CPU
  /// Of Feature (a GPU), and of engine/Level.h for the level's architecture (a CPU).
  uint32_t features = 0, cpuFeatures = 0;
  int64_t cores = 1;
  /// Bytes a second from memory and from the second-level caches.
  double memoryBandwidth = 0, cacheBandwidth = 0;
  /// Bytes of second-level cache a core.
  int64_t cacheBytes = 0;
  /// Bytes a second from that cache into one multiprocessor.
  double coreBandwidth = 0;
  /// Operations a second: of FP32, and of a library's products of F16 or BF16 with FP32 sums.
  double peak = 0, halfPeak = 0;
  /// Operations a second of products in generated code without tensor cores, and by mma.sync.
  double generatedPeak = 0, generatedHalfPeak = 0;
  /// Of a CPU: operations of products of 8-bit integers and of BF16 in the time of one of FP32.
  double byteRate = 1, bf16Rate = 1;
  /// Bytes a second that a library's product moves, and one in generated code.
  double productBandwidth = 0, generatedBandwidth = 0;
  /// Seconds from one kernel to the next.
  double launchSeconds = 0;
  /// Of one multiprocessor: registers of 32 bits, threads and blocks at once, bytes of shared
  /// memory for one block and for all, and bytes that it must have asked for at any time to read
  /// memory at its rate.
  int64_t registers = 0, threads = 0, blocks = 0;
  int64_t sharedBytes = 0, sharedOfProcessor = 0;
  int64_t bytesOnTheWay = 0;
  /// Blocks of the largest cluster; 1 where there are none.
  int64_t clusterBlocks = 1;
  /// The PTX version that its code needs, times ten: 81.
  int64_t ptxVersion = 0;

  bool isGpu() const { return arch.has_value(); }
  bool has(Feature feature) const { return (features & static_cast<uint32_t>(feature)) != 0; }
  /// Whether blocks of a cluster read each other's shared memory (the feature with a size).
  bool hasClusters() const { return clusterBlocks > 1; }
  /// Most shared memory of a block of which so many are to run on a multiprocessor at once.
  int64_t sharedOfBlock(int64_t blocksAtOnce) const {
    return std::min(sharedBytes, sharedOfProcessor / blocksAtOnce - kKeptOfBlock);
  }
  /// "cuda" or "cpu".
  std::string_view device() const { return isGpu() ? "cuda" : "cpu"; }
  /// As engines store it: "sm_90a", "avx512".
  std::string_view variant() const { return isGpu() ? arch->name : engine::nameOf(level); }
};

/// The row of a CPU level: an x86-64 server of which two cores are used.
const Target &cpuTarget(engine::CpuLevel level = engine::CpuLevel::X86_64_V3);
/// The same part by code of another level: its features, and its rates of narrow products.
Target atLevel(Target cpu, engine::CpuLevel level);
/// The row of an architecture: the part of it that docs/reference/targets.md says. Every
/// architecture of engine/CudaArch.h has one.
const Target &targetOf(const engine::CudaArch &arch);
const Target &targetOf(std::string_view arch);

/// The named parts, CPUs first; each has the specific architecture where there is one.
std::span<const Target> parts();
/// None for an unknown name.
const Target *findPart(std::string_view device, std::string_view part);
/// The part of a GPU by the name that its driver gives it: "NVIDIA H100 80GB HBM3".
const Target *partOfGpu(std::string_view name);
/// Of a GPU that is no named part: the newest architecture that it runs ("sm_90a" for 90).
const Target *targetOfCapability(int capability);

/// A number of a target that a profile may set.
struct Field {
  std::string_view key; ///< in a profile, with its unit
  std::string_view what;
  bool isOfGpu = false; ///< and of no CPU
  /// One of both is set.
  double Target::*rate = nullptr;
  int64_t Target::*size = nullptr;
  /// Of a limit of the architecture, which a profile may only lower: what kernels rely on.
  int64_t least = 0;

  bool isLimit() const { return least > 0; }
};
std::span<const Field> fields();

/// Every field in a fixed form, for hashing.
std::string describe(const Target &target);

} // namespace tenon::target
