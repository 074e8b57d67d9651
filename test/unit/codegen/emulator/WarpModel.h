// What one block of a GPU does, in terms of fibers: a thread of the GPU is a fiber, and
// instructions at which threads meet switch between them. Relies on ucontext and setjmp.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <string>

namespace tenon::codegen::cuda {

/// What a launch looks like to its threads.
struct LaunchShape {
  uint32_t blocks, threads;
  uint32_t cluster = 1; ///< blocks that share their memory
  bool reversed = false;
  uint64_t sharedBytes = 0; ///< of a block; what lies behind must not be written
  /// GPUs that run the launch at the same time, each `blocks` of it.
  uint32_t ranks = 1;
  /// How many turns the first GPU's threads get for one of the others'.
  uint32_t lag = 1;
};

/// More shared memory than any GPU gives a block.
inline constexpr uint64_t kSharedBytes = 256 * 1024;

/// Runs the blocks of one cluster: `body` once a thread. Returns what went wrong, or nothing.
std::string runCluster(const LaunchShape &shape, uint32_t firstBlock,
                       llvm::function_ref<void()> body);

/// The GPU that the current thread is on; and what keeps it until all threads of that GPU are
/// there.
uint32_t currentRank();
void meetRank();

/// The shared memory of the current thread's block.
void *currentShared();

/// The model of an intrinsic or of a piece of assembly; lives as long as the program.
struct InstructionModel;
const InstructionModel &modelOf(const std::string &name);

/// One call by the current thread; `arguments` and `result` are laid out as structs. Notes a fault
/// of the block if no model has the instruction's name.
void emulate(const InstructionModel &instruction, void *result, const void *arguments);

} // namespace tenon::codegen::cuda
