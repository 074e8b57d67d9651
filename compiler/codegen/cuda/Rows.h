// Kernels for rows: softmax, norms and reductions over trailing dims with the elementwise work
// around them, each row read once and written once.
#pragma once

#include "compiler/codegen/cuda/RowsThreads.h"
#include "compiler/codegen/cuda/RowsWork.h"

#include <optional>

namespace tenon::codegen::cuda {

/// Bytes of a strip of rows that are staged in shared memory.
inline constexpr int64_t kStagedBytes = 16;

/// How a row is shared out: in strips of `lanes` neighbouring elements, strip i for thread i modulo
/// the threads of the row.
struct RowsLayout {
  int64_t lanes = 1;
  /// Strips of a row, and how many of them a thread takes at most.
  int64_t strips = 1, steps = 1;
  RowThreads threads;
  int64_t rowsPerBlock = 1;
  /// Of rows that wait in shared memory: how many at once for each thread (0: they do not), and the
  /// groups of rows that a block works on one after the other (0: every so many as run at once).
  int64_t slots = 0, groupsPerBlock = 1;
  /// Blocks (or clusters of blocks) that run at once, and blocks for which a multiprocessor must
  /// have room (0: as many as it has).
  int64_t groupsAtOnce = 0, blocksOfProcessor = 0;

  int64_t threadsOfRow() const { return threads.perRow * threads.blocks; }
  unsigned blockThreads() const { return threads.perRow * rowsPerBlock; }
  /// Registers of a thread for what all rows read.
  int64_t parameterRegisters = 0;
  /// Shared memory of a block for rows that wait there, and what it asks for so that not too many
  /// blocks run at once.
  int64_t stagedBytes(const RowsWork &work) const;
  int64_t sharedBytes = 0;
};

/// Elements of a strip of rows whose lengths are multiples of `multiple`.
int64_t lanesOf(const RowsWork &work, int64_t multiple);

/// The layout that holds the whole row in registers; nothing if the row's length varies or is too
/// large for that.
std::optional<RowsLayout> layoutInRegisters(RegionBuilder &region, const RowsWork &work);

/// The layout of many rows that are worth copying to shared memory ahead of their use.
std::optional<RowsLayout> layoutStaged(RegionBuilder &region, const RowsWork &work);

/// Emit the kernel of `work`; `hasFailed` is set after a diagnostic.
void emitRowsInRegisters(RegionBuilder &region, const RowsWork &work, const RowsLayout &layout,
                         bool &hasFailed);

/// The same for rows that are copied to shared memory ahead of their use.
void emitRowsStaged(RegionBuilder &region, const RowsWork &work, const RowsLayout &layout,
                    bool &hasFailed);

/// The same for rows of any length.
void emitRowsInLoops(RegionBuilder &region, const RowsWork &work, bool &hasFailed);

} // namespace tenon::codegen::cuda
