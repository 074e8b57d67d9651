// How a kernel of a GPU shares rows out among threads: codegen lays kernels of rows out by it, the
// cost model counts their registers by it. Relies on rows being stored one after the other.
#pragma once

#include "compiler/target/Target.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace tenon::dispatch {

/// Bytes of a strip of rows that are staged in shared memory.
inline constexpr int64_t kStagedBytes = 16;
/// Shared memory that a block takes besides them.
inline constexpr int64_t kReservedBytes = 4096;

/// What the sharing depends on.
struct RowInfo {
  const target::Target *gpu = nullptr;
  std::optional<int64_t> length; ///< elements of a row, if that is constant
  int64_t rows = 1;              ///< or a guess of it
  /// Bytes of an element of each tensor that is read or written at every place of the rows.
  llvm::SmallVector<int64_t> inputs, results;
  /// Tensors that are read at the same places for every row.
  int64_t parameters = 0;
};

/// The threads that work on a row: `perRow` of each block of a cluster of `blocks`. Where a warp
/// holds several rows `perRow` is a power of two; else it is a multiple of a warp, and a block has
/// one row.
struct RowThreads {
  int64_t perRow = 32;
  int64_t blocks = 1;
};

/// How a row is shared out: in strips of `lanes` neighbouring elements, strip i for thread i modulo
/// the threads of the row.
struct RowReductionConfig {
  int64_t lanes = 1;
  /// Strips of a row, and how many of them a thread takes at most.
  int64_t strips = 1, steps = 1;
  RowThreads threads;
  int64_t rowsPerBlock = 1;
  /// Of rows that wait in shared memory: how many at once for each thread (0: they do not), and the
  /// groups of rows that a block works on one after the other (0: every so many as run at once).
  int64_t stages = 0, groupsPerBlock = 1;
  /// Whether a block's groups, as many as stages, are reduced side by side where one round of its
  /// threads does all reductions.
  bool areTogether = false;
  /// Blocks (or clusters of blocks) that run at once, and blocks for which a multiprocessor must
  /// have room (0: as many as it has).
  int64_t concurrentGroups = 0, blocksPerSm = 0;
  /// Registers of a thread for what all rows read.
  int64_t parameterRegisters = 0;
  /// Shared memory that a block asks for so that not too many blocks run at once.
  int64_t sharedBytes = 0;
  /// Whether the second-level cache is asked to keep what is read rather than what is written.
  bool keepsReads = false;

  int64_t threadsOfRow() const { return threads.perRow * threads.blocks; }
  int64_t blockThreads() const { return threads.perRow * rowsPerBlock; }
  /// Shared memory of a block for rows of so many inputs that wait there.
  int64_t stagedBytes(int64_t inputs) const {
    return stages * inputs * steps * blockThreads() * kStagedBytes;
  }
};

template <typename Visitor> void visitParameters(Visitor &visit, RowReductionConfig &layout) {
  visit("lanes", layout.lanes);
  visit("strips", layout.strips);
  visit("steps", layout.steps);
  visit("threads_per_row", layout.threads.perRow);
  visit("cluster", layout.threads.blocks);
  visit("rows_per_block", layout.rowsPerBlock);
  visit("stages", layout.stages);
  visit("groups_per_block", layout.groupsPerBlock);
  visit("concurrent_groups", layout.concurrentGroups);
  visit("together", layout.areTogether);
  visit("blocks_per_sm", layout.blocksPerSm);
  visit("parameter_registers", layout.parameterRegisters);
  visit("shared_bytes", layout.sharedBytes);
  visit("keeps_reads", layout.keepsReads);
}

/// Elements of a strip of rows whose lengths are multiples of `multiple`.
int64_t lanesOf(const RowInfo &info, int64_t multiple);

/// The layout that holds the whole row in registers; nothing if the row's length varies or is too
/// large for that.
std::optional<RowReductionConfig> layoutInRegisters(const RowInfo &info);

/// Whether rows are so many that no cache holds them, on the architecture and in the layouts where
/// it was measured to be better that the cache keeps what is read of them.
bool keepsReads(const RowInfo &info, const RowReductionConfig &layout);

/// The layout of many rows that are worth copying to shared memory ahead of their use.
std::optional<RowReductionConfig> layoutStaged(const RowInfo &info);

} // namespace tenon::dispatch
