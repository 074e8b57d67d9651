// The table of targets: what each architecture can do and holds, and the rates of each part. Relies
// on vendors' papers for what they print and on an H200 for what programs reach of it.
#include "compiler/target/Target.h"

#include <algorithm>
#include <array>
#include <vector>

namespace tenon::target {
namespace {

constexpr uint32_t operator|(Feature a, Feature b) {
  return static_cast<uint32_t>(a) | static_cast<uint32_t>(b);
}
constexpr uint32_t operator|(uint32_t a, Feature b) { return a | static_cast<uint32_t>(b); }

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;

/// What CUDA's programming guide says of a compute capability (tables "feature support" and
/// "technical specifications"), and PTX's manual of its version.
struct ArchRow {
  std::string_view arch;
  std::string_view part; ///< whose rates stand for the architecture
  uint32_t features;
  int64_t threads, blocks;     ///< at once on a multiprocessor
  int64_t blockKiB, sharedKiB; ///< shared memory of a block, and of a multiprocessor
  /// Clusters of more than 8 blocks run on some parts only: they are for specific architectures.
  int64_t clusterBlocks;
  /// The oldest that knows the architecture and what is emitted for it, so that old drivers take
  /// it.
  int64_t ptx;
};

constexpr uint32_t kAmpere = Feature::MmaSync | Feature::AsyncCopy;
constexpr uint32_t kLater = kAmpere | Feature::Tma | Feature::DependentLaunch;
constexpr uint32_t kHopper = kLater | Feature::KeepsReads;

constexpr std::array<ArchRow, 8> kArchs = {{
    {"sm_80", "a100", kAmpere, 2048, 32, 163, 164, 1, 80},
    {"sm_86", "a40", kAmpere, 1536, 16, 99, 100, 1, 80},
    {"sm_89", "l40s", kAmpere, 1536, 24, 99, 100, 1, 81}, // conversions to 8-bit floats
    {"sm_90", "h200", kHopper, 2048, 32, 227, 228, 8, 81},
    {"sm_90a", "h200", kHopper | Feature::WarpgroupMma, 2048, 32, 227, 228, 16, 81},
    {"sm_100", "b200", kLater, 2048, 32, 227, 228, 8, 86},
    {"sm_100a", "b200", kLater, 2048, 32, 227, 228, 16, 86},
    {"sm_120", "rtx5090", kLater, 1536, 24, 99, 100, 8, 87},
}};
/// Of every one of them.
constexpr int64_t kRegisters = 65536;

/// What the vendor prints of a GPU: bytes and operations a second, FP16 and BF16 dense.
struct GpuRow {
  std::string_view part, name, arch;
  int64_t processors;
  double memory, fp32, half;
  int64_t l2Bytes;
};

// Sources: NVIDIA's datasheets "A100 80GB" (SXM), "A40", "L40S", "H100" (SXM) and "H200" (SXM; half
// of what they print with sparsity); of B200 "DGX B200" (an eighth; its driver says 148
// multiprocessors and 126 MiB); of RTX 5090 the paper on the RTX Blackwell architecture. The H200's
// driver says 60 MiB.
constexpr std::array<GpuRow, 7> kGpus = {{
    {"a100", "NVIDIA A100", "sm_80", 108, 2.039e12, 19.5e12, 312e12, 40 * kMiB},
    {"a40", "NVIDIA A40", "sm_86", 84, 0.696e12, 37.4e12, 149.7e12, 6 * kMiB},
    {"l40s", "NVIDIA L40S", "sm_89", 142, 0.864e12, 91.6e12, 362e12, 96 * kMiB},
    {"h100", "NVIDIA H100", "sm_90a", 132, 3.35e12, 67e12, 989.5e12, 50 * kMiB},
    {"h200", "NVIDIA H200", "sm_90a", 132, 4.8e12, 67e12, 989.5e12, 60 * kMiB},
    {"b200", "NVIDIA B200", "sm_100a", 148, 8e12, 75e12, 2250e12, 126 * kMiB},
    {"rtx5090", "NVIDIA GeForce RTX 5090", "sm_120", 170, 1.792e12, 104.8e12, 209.5e12, 96 * kMiB},
}};

// What programs reach of an H200, measured. Products of half floats with a bias and a clamp, of
// 6,272 to 1,605,632 rows and depths of 16 to 160: generated ones move 0.87 to 1.35 TB/s or do 110
// TFLOP/s, calls of a library 1.5 to 1.69 TB/s with a pass for the clamp behind them.
//
// Bytes on the way: copies whose multiprocessors ask for 4, 8, 12, 16 and 24 KiB at once run at
// 1.38, 2.3, 3.13, 3.4 and 3.85 TB/s, as if reading (half of them) needed 20 KiB; one block of 256
// threads is as good as eight where each thread asks for enough (4.00 TB/s with 152 registers).
constexpr GpuRow kMeasured = kGpus[4];
constexpr double kMemory = 4.3e12, kCache = 5.5e12, kFp32 = 60e12, kHalf = 700e12;
constexpr double kGenerated = 5e12, kGeneratedHalf = 110e12;
constexpr double kProduct = 1.6e12, kGeneratedProduct = 1.2e12, kLaunch = 1e-6;
constexpr int64_t kOnTheWay = 20 * kKiB;
/// Of one multiprocessor: tiles of products come from the L2 as if at this rate.
constexpr double kIntoCore = 64e9;

/// What the multiprocessors do by themselves goes with their number, the rest with what the vendor
/// prints; of both, every part reaches as much as the H200 does. Bytes on the way are a rate by a
/// latency that is taken to be the same, as is the rate into a multiprocessor.
Target gpuTarget(const ArchRow &arch, const GpuRow &gpu) {
  double memory = gpu.memory / kMeasured.memory;
  double processors = double(gpu.processors) / double(kMeasured.processors);
  Target target{.name = std::string(gpu.name),
                .part = std::string(gpu.part),
                .arch = engine::parseCudaArch(arch.arch),
                .features = arch.features,
                .cores = gpu.processors,
                .memoryBandwidth = kMemory * memory,
                .cacheBandwidth = std::max(kCache * processors, kMemory * memory),
                .cacheBytes = gpu.l2Bytes / gpu.processors,
                .coreBandwidth = kIntoCore,
                .peak = kFp32 * (gpu.fp32 / kMeasured.fp32),
                .halfPeak = kHalf * (gpu.half / kMeasured.half),
                .generatedPeak = kGenerated * processors,
                .generatedHalfPeak = kGeneratedHalf * processors,
                .productBandwidth = kProduct * memory,
                .generatedBandwidth = kGeneratedProduct * memory,
                .launchSeconds = kLaunch,
                .registers = kRegisters,
                .threads = arch.threads,
                .blocks = arch.blocks,
                .sharedBytes = arch.blockKiB * kKiB,
                .sharedOfProcessor = arch.sharedKiB * kKiB,
                .bytesOnTheWay = static_cast<int64_t>(kOnTheWay * memory / processors),
                .clusterBlocks = arch.clusterBlocks,
                .ptxVersion = arch.ptx};
  return target;
}

/// A CPU: bytes and operations a second of all its cores.
struct CpuRow {
  std::string_view part, name;
  engine::CpuLevel level;
  int64_t cores;
  double memory, cache, fp32;
  int64_t l2OfCore;
};

constexpr engine::CpuLevel kVnni = engine::CpuLevel::Avx512VnniBf16;

// Two cores of a server, measured. Of the named parts: memory by channels and speed as AMD and
// Intel print them for EPYC 9654 (12 of DDR5-4800) and Xeon Platinum 8592+ (8 of DDR5-5600); FP32
// and L2 by base clock (2.4 and 1.9 GHz) and what a core does in a cycle by AMD's optimization
// guide for Zen 4 (32 operations, 32 bytes) and Intel's manual (64 operations, 64 bytes).
constexpr CpuRow kServer = {"", "x86-64, 2 cores", kVnni, 2, 60e9, 200e9, 200e9, kMiB};
/// Not measured: with the rates of the server above.
constexpr CpuRow kOther = {"", "2 cores", engine::CpuLevel::Armv8A, 2, 60e9, 200e9, 200e9, kMiB};
constexpr std::array<CpuRow, 2> kCpus = {{
    {"zen4", "AMD EPYC 9654 (Zen 4)", kVnni, 96, 460.8e9, 7.37e12, 7.37e12, kMiB},
    {"emerald-rapids", "Intel Xeon Platinum 8592+ (Emerald Rapids)", kVnni, 64, 358.4e9, 7.78e12,
     7.78e12, 2 * kMiB},
}};

/// What a unit multiplies in the time of an operation of FP32.
struct UnitRates {
  engine::Architecture architecture;
  uint32_t feature;
  double bytes, bf16; ///< 0 where the unit has no such products
};

// Measured over whole layers: pairs of 16 bits (AVX2, one core of an EPYC) 126 GOP/s in
// convolutions of 3 x 3 that FP32 does at 80 to 90, 116 and 62 in products; VNNI 3.25 times FP32
// over ResNet-50 and BERT-base, AMX 5 times with all that is no product (Xeon, 2 cores). BF16 below
// its units is taken apart into two numbers of FP32. vdpbf16ps doubles the rate on Zen 4, and
// takes 1.8 times as long as FP32 on Intel's cores, which are those with FP16 (docs/adr/0024). Of
// Arm by the instructions of products of 64 x 256 x 256.
constexpr std::array kUnitRates = std::to_array<UnitRates>({
    {engine::Architecture::X86_64, engine::x86::kAvx2, 1.6, 0.8},
    {engine::Architecture::X86_64, engine::x86::kAvxVnni, 3.2, 0},
    {engine::Architecture::X86_64, engine::x86::kVnni, 3.2, 0},
    {engine::Architecture::X86_64, engine::x86::kBf16, 0, 1.8},
    {engine::Architecture::X86_64, engine::x86::kFp16, 0, 0.55},
    {engine::Architecture::X86_64, engine::x86::kAmxBf16, 0, 8},
    {engine::Architecture::X86_64, engine::x86::kAmxInt8, 12, 0},
    {engine::Architecture::AArch64, engine::arm::kNeon, 1, 0.8},
    {engine::Architecture::AArch64, engine::arm::kDotProd, 3.2, 0},
    {engine::Architecture::AArch64, engine::arm::kI8mm, 4.2, 0},
    {engine::Architecture::AArch64, engine::arm::kBf16, 0, 2.3},
});

Target cpuRowTarget(const CpuRow &cpu, engine::CpuLevel level) {
  Target target{.name = std::string(cpu.name),
                .part = std::string(cpu.part),
                .arch = {},
                .cores = cpu.cores,
                .memoryBandwidth = cpu.memory,
                .cacheBandwidth = cpu.cache,
                .cacheBytes = cpu.l2OfCore,
                .peak = cpu.fp32,
                .halfPeak = cpu.fp32,
                .generatedPeak = cpu.fp32,
                .generatedHalfPeak = cpu.fp32,
                .productBandwidth = cpu.memory,
                .generatedBandwidth = cpu.memory,
                .launchSeconds = 1e-6};
  return atLevel(std::move(target), level);
}

template <typename Rows, typename Key>
auto rowOf(const Rows &rows, Key key, std::string_view wanted) {
  return *std::find_if(rows.begin(), rows.end(), [&](auto &row) { return row.*key == wanted; });
}

constexpr bool hasRowOfEach() {
  return std::ranges::equal(kArchs, engine::kCudaArchs, {}, &ArchRow::arch,
                            &engine::CudaArch::name);
}
static_assert(hasRowOfEach(), "a row for each architecture of engine/CudaArch.h, in its order");

const std::vector<Target> &archTargets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> made;
    for (const ArchRow &arch : kArchs) {
      made.push_back(gpuTarget(arch, rowOf(kGpus, &GpuRow::part, arch.part)));
      made.back().part.clear();
    }
    return made;
  }();
  return targets;
}

} // namespace

Target atLevel(Target cpu, engine::CpuLevel level) {
  const engine::CpuLevelRow &row = engine::rowOf(level);
  cpu.level = level;
  cpu.cpuFeatures = row.features;
  cpu.byteRate = cpu.bf16Rate = 1;
  for (const UnitRates &unit : kUnitRates) {
    if (unit.architecture == row.architecture && (row.features & unit.feature) != 0) {
      cpu.byteRate = unit.bytes > 0 ? unit.bytes : cpu.byteRate;
      cpu.bf16Rate = unit.bf16 > 0 ? unit.bf16 : cpu.bf16Rate;
    }
  }
  return cpu;
}

const Target &cpuTarget(engine::CpuLevel level) {
  static const std::vector<Target> targets = [] {
    std::vector<Target> made;
    for (const engine::CpuLevelRow &row : engine::kCpuLevels) {
      bool isX86 = row.architecture == engine::Architecture::X86_64;
      made.push_back(cpuRowTarget(isX86 ? kServer : kOther, row.level));
    }
    return made;
  }();
  return targets[static_cast<size_t>(level)];
}

const Target &targetOf(std::string_view arch) {
  return *std::ranges::find(archTargets(), arch, &Target::variant);
}
const Target &targetOf(const engine::CudaArch &arch) { return targetOf(arch.name); }

std::span<const Target> parts() {
  static const std::vector<Target> all = [] {
    std::vector<Target> made;
    for (const CpuRow &cpu : kCpus) {
      made.push_back(cpuRowTarget(cpu, cpu.level));
    }
    for (const GpuRow &gpu : kGpus) {
      made.push_back(gpuTarget(rowOf(kArchs, &ArchRow::arch, gpu.arch), gpu));
    }
    return made;
  }();
  return all;
}

const Target *findPart(std::string_view device, std::string_view part) {
  for (const Target &target : parts()) {
    if (target.part == part && target.device() == device) {
      return &target;
    }
  }
  return nullptr;
}

const Target *partOfGpu(std::string_view name) {
  for (const Target &target : parts()) {
    // "NVIDIA H100 80GB HBM3", but no "NVIDIA A400" for an A40.
    bool starts = target.isGpu() && name.starts_with(target.name);
    if (starts && name.substr(target.name.size()).find_first_of(" -") == 0) {
      return &target;
    }
    if (starts && name == target.name) {
      return &target;
    }
  }
  return nullptr;
}

const Target *targetOfCapability(int capability) {
  const Target *best = nullptr;
  for (const Target &target : archTargets()) {
    const engine::CudaArch &arch = *target.arch;
    if (arch.isSpecific ? arch.number == capability : arch.number <= capability) {
      best = &target;
    }
  }
  return best;
}

} // namespace tenon::target
