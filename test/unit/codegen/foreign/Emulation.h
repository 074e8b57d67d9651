// Kernels of other architectures than this machine's, in a process under QEMU. Tests that run
// kernels by RegionCheck.h do so for the levels that TENON_EMULATED_LEVELS names.
#pragma once

#include "engine/Level.h"
#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::codegen::cpu {

/// Whether code of a level is run by an emulator here.
bool isEmulated(engine::CpuLevel level);
/// The levels to test in place of this machine's; empty for none. The process ends as skipped if an
/// emulator is missing.
const std::vector<engine::CpuLevel> &emulatedLevels();
/// Of one of these names; none, with the reason on standard output, if there is no such emulator.
std::optional<engine::CpuLevel> findEmulated(const std::string &name);

/// Lengths of registers that runs of the level take in turn.
size_t emulatedLengths(engine::CpuLevel level);

struct EmulatedBuffer {
  char *bytes; ///< with what the kernel finds there; afterwards what it left there, if it may write
  uint64_t count;
  bool isWritable;
  uint64_t rangeBytes; ///< that a kernel with bounds checks is told of
};

/// A kernel over its whole grid.
struct EmulatedRun {
  const std::string &code; ///< what linkCode gives
  const std::string &symbol;
  std::span<EmulatedBuffer> buffers;
  const std::vector<int64_t> &sizes;
  uint64_t scratchBytes;
  int64_t grid;
  int64_t pieces; ///< calls that the grid is divided into
};

/// The highest of what its calls return; an error if the process ended otherwise.
Result<int32_t> runEmulated(engine::CpuLevel level, const EmulatedRun &run);

} // namespace tenon::codegen::cpu
