// How a recurrent layer is shared out: blocks of a cluster have parts of the hidden units, threads
// of a block columns of the weights and parts of the depth.
#pragma once

#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "compiler/codegen/cuda/recurrent/Tuning.h"
#include "compiler/graph/TnRare.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace tenon::codegen::cuda {

struct RecurrenceLayout {
  int64_t blocks = 1; ///< of a cluster
  int64_t threads = tuning::kReadThreads;
};
template <typename Visitor> void visitParameters(Visitor &visit, RecurrenceLayout &layout) {
  visit("blocks", layout.blocks);
  visit("threads", layout.threads);
}

/// Gates whose sums a block takes together. A thread has one column of its weights (of each round
/// of `width` columns) and one part of the depth.
struct Phase {
  Phase(int64_t hidden, int64_t firstGate, int64_t gates, const RecurrenceLayout &layout)
      : firstGate(firstGate), units(llvm::divideCeil(hidden, layout.blocks)),
        columns(gates * units), width(std::min(columns, layout.threads)) {
    int64_t most = std::max<int64_t>(hidden / kVector, 1);
    parts = llvm::bit_floor(uint64_t(std::clamp<int64_t>(layout.threads / width, 1, most)));
    depth = llvm::alignTo(llvm::divideCeil(hidden, parts), kVector);
  }
  /// Elements of the state that are read from shared memory together.
  static constexpr int64_t kVector = 4;

  bool isOneRound() const { return width == columns; }
  /// Sums of the parts, and behind them the input's.
  int64_t sums() const { return (parts + 1) * columns; }

  int64_t firstGate, units, columns, width;
  int64_t parts, depth;       ///< of the depth, and elements of one
  mlir::Value shared;         ///< the sums, [parts + 1, columns]
  ThreadBuilder::Values held; ///< the thread's weights; empty if each step reads them
};

mlir::SmallVector<Phase> phasesOf(tn::RecurrenceOp op, const RecurrenceLayout &layout);
/// In which sums are taken.
mlir::Type sumTypeOf(tn::RecurrenceOp op);
/// Whether all weights of a block stay in its registers.
bool isHeld(tn::RecurrenceOp op, const RecurrenceLayout &layout);
/// Elements of the state in shared memory: zeros stand behind it up to whole parts.
int64_t paddedOf(mlir::ArrayRef<Phase> phases);
/// Of two states, what resets leave, the cells and the sums of all phases.
int64_t sharedBytesOf(tn::RecurrenceOp op, const RecurrenceLayout &layout);
/// Clusters of so many blocks that run at the same time: they do not fill the groups of
/// multiprocessors that they are bound to.
int64_t clustersAtOnce(const target::Target &gpu, int64_t blocks);
RecurrenceLayout layoutOf(RegionBuilder &region, tn::RecurrenceOp op);

} // namespace tenon::codegen::cuda
