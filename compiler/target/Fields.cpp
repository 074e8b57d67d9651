// The numbers of a target as a list, for profiles, hashes and pages.
#include "compiler/target/Target.h"

#include "support/text/Text.h"

#include <array>

namespace tenon::target {

/// Bytes of shared memory that every family can do with.
static constexpr int64_t kMinShared = 72 * 1024;

std::span<const Field> fields() {
  static constexpr std::array<Field, 19> all = {{
      {"cores", "cores; on a GPU its multiprocessors", false, nullptr, &Target::cores},
      {"memory_bytes_per_s", "bytes a second from memory", false, &Target::memoryBandwidth},
      {"cache_bytes_per_s", "bytes a second from the L2", false, &Target::cacheBandwidth},
      {"cache_bytes_per_core", "bytes of L2 a core", false, nullptr, &Target::cacheBytes},
      {"core_bytes_per_s", "bytes a second from the L2 into one multiprocessor (GPUs)", true,
       &Target::coreBandwidth},
      {"fp32_flops", "operations a second of FP32", false, &Target::peak},
      {"half_flops", "of a library's matmuls in F16 and BF16", false, &Target::halfPeak},
      {"generated_fp32_flops", "of generated matmuls in FP32", false, &Target::generatedPeak},
      {"generated_half_flops", "of generated matmuls in F16 and BF16", false,
       &Target::generatedHalfPeak},
      {"product_bytes_per_s", "bytes a second that a library's matmul moves", false,
       &Target::productBandwidth},
      {"generated_bytes_per_s", "bytes a second that a generated matmul moves", false,
       &Target::generatedBandwidth},
      {"launch_s", "seconds from one kernel to the next", false, &Target::launchSeconds},
      {"bytes_in_flight", "bytes that a multiprocessor asks for to read at its rate", true, nullptr,
       &Target::bytesOnTheWay},
      {"registers", "32-bit registers of a multiprocessor", true, nullptr, &Target::registers,
       32768},
      {"threads", "threads that a multiprocessor holds", true, nullptr, &Target::threads, 1024},
      {"blocks", "blocks that a multiprocessor holds", true, nullptr, &Target::blocks, 1},
      {"shared_bytes_per_block", "most shared memory of a block", true, nullptr,
       &Target::sharedBytes, kMinShared},
      {"shared_bytes", "shared memory of a multiprocessor", true, nullptr,
       &Target::sharedOfProcessor, kMinShared + kKeptOfBlock},
      {"cluster_blocks", "blocks of the largest cluster", true, nullptr, &Target::clusterBlocks, 1},
  }};
  return all;
}

std::string describe(const Target &target) {
  std::string text =
      strCat(target.name, ' ', target.variant(), ' ', target.features, ' ', target.ptxVersion);
  for (const Field &field : fields()) {
    // Nanoseconds and units a second are whole numbers.
    bool isTime = field.rate == &Target::launchSeconds;
    text += strCat(' ', field.size ? target.*field.size
                                   : static_cast<int64_t>(target.*field.rate * (isTime ? 1e9 : 1)));
  }
  return text;
}

} // namespace tenon::target
