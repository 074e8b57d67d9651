// The table of collectives. Relies on two H200 of one host for what was measured, and on vendors'
// papers for the links of the others.
#include "compiler/target/Collectives.h"

#include <algorithm>
#include <array>

namespace tenon::target {
namespace {

struct Row {
  double bytes, seconds;
};

// All-reduce of bf16 between two H200 over NVLink, in CUDA graphs and without multicast, by the
// kernels of codegen/cuda/collective; the last one by NCCL
// (docs/measurements/2026-11-28-collectives.md).
constexpr std::array<Row, 13> kTwoH200 = {{{1024, 1.9e-6},
                                           {4096, 2.1e-6},
                                           {16384, 2.1e-6},
                                           {65536, 2.4e-6},
                                           {131072, 2.7e-6},
                                           {262144, 3.5e-6},
                                           {524288, 4.9e-6},
                                           {1048576, 9.0e-6},
                                           {4194304, 18.4e-6},
                                           {16777216, 54.2e-6},
                                           {67108864, 218e-6},
                                           {268435456, 866e-6},
                                           {1073741824, 3240e-6}}};
/// What a residual and an RMSNorm take longer in the same kernel, for messages up to 8 KiB and up
/// to 64 KiB.
constexpr double kNormedShort = 0.6e-6, kNormed = 1.4e-6;
constexpr int64_t kNormedShortBytes = 8192;
constexpr double kShortBytes = 16384;

/// Bytes a second of a part's links in one direction, as vendors print them: NVLink 3 to 5, or PCI
/// Express of 16 lanes.
struct Link {
  std::string_view part;
  double bytes;
};
constexpr std::array<Link, 7> kLinks = {{{"a100", 300e9},
                                         {"a40", 32e9},
                                         {"l40s", 32e9},
                                         {"h100", 450e9},
                                         {"h200", 450e9},
                                         {"b200", 900e9},
                                         {"rtx5090", 64e9}}};
constexpr double kMeasuredLink = 450e9;
/// Crews of threads over one memory: each reads what the other wrote, at a share of its rate.
constexpr double kCrewsMeet = 2e-6, kCrewsShare = 0.25;

} // namespace

Collectives::Collectives(const Target &target) {
  if (!target.isGpu()) {
    link = kMeasuredLink / (kCrewsShare * target.memoryBandwidth);
    first = kCrewsMeet;
    return;
  }
  first = kTwoH200.front().seconds;
  const Link *own = std::ranges::find(kLinks, target.part, &Link::part);
  link = kMeasuredLink / (own == kLinks.end() ? kMeasuredLink : own->bytes);
  measured = target.part == "h200";
}

/// Between two ranks of the part.
double Collectives::ofTwo(double bytes) const {
  const Row *next = std::ranges::lower_bound(kTwoH200, bytes, {}, &Row::bytes);
  next = std::clamp(next, kTwoH200.begin() + 1, kTwoH200.end() - 1);
  const Row &before = *(next - 1);
  double slope = (next->seconds - before.seconds) / (next->bytes - before.bytes);
  double table = std::max(before.seconds + slope * (bytes - before.bytes), kTwoH200[0].seconds);
  return first + (table - kTwoH200[0].seconds) * link;
}

double Collectives::normedSeconds(int64_t bytes, int64_t ranks) const {
  return seconds(Collective::AllReduce, bytes, ranks) +
         (bytes <= kNormedShortBytes ? kNormedShort : kNormed);
}

double Collectives::seconds(Collective kind, int64_t bytes, int64_t ranks) const {
  if (ranks < 2) {
    return 0;
  }
  double base = ofTwo(kShortBytes), table = ofTwo(static_cast<double>(bytes));
  double least = shortest > 0 ? shortest : std::min(table, base);
  double more = std::max(table - base, 0.0);
  // A rank sends 2 (n - 1) / n of what is added, and half of that of what is gathered.
  double sent = 2.0 * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return least + more * sent * (kind == Collective::AllGather ? 0.5 : 1);
}

double memoryBytesOf(const Target &target) {
  struct Memory {
    std::string_view part;
    double bytes;
  };
  constexpr std::array<Memory, 7> kMemory = {{{"a100", 80e9},
                                              {"a40", 48e9},
                                              {"l40s", 48e9},
                                              {"h100", 80e9},
                                              {"h200", 141e9},
                                              {"b200", 180e9},
                                              {"rtx5090", 32e9}}};
  const Memory *own = std::ranges::find(kMemory, target.part, &Memory::part);
  return own == kMemory.end() ? 0 : own->bytes;
}

} // namespace tenon::target
