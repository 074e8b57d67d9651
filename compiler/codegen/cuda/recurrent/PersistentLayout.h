// How a persistent recurrence shares a layer out: blocks of a group have parts of the hidden units
// with all of their gates, warps tiles of 16 columns of the weights by parts of the depth.
#pragma once

#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/graph/TnRare.h"

#include <optional>
#include <vector>

namespace tenon::codegen::cuda {

/// A configuration of the family.
struct PersistentLayout {
  int64_t blocks = 1; ///< of a group
  int64_t parts = 1;  ///< of the depth
  int64_t rows = 8;   ///< of the batch that a group takes
  /// Whether the group is the whole grid, whose blocks exchange states through the L2: a word that
  /// no state has stands where none was written yet. Else blocks write into each other's shared
  /// memory.
  int64_t grid = 0;
  /// States in the L2 that take turns, and in shared memory.
  int64_t slots() const { return grid ? 4 : 2; }
};
template <typename Visitor> void visitParameters(Visitor &visit, PersistentLayout &layout) {
  visit("blocks", layout.blocks);
  visit("parts", layout.parts);
  visit("rows", layout.rows);
  visit("grid", layout.grid);
}

/// What follows from a layout.
struct PersistentShape {
  PersistentShape(tn::RecurrenceOp op, const PersistentLayout &layout);

  static constexpr int64_t kWarps = 8, kThreads = kWarps * 32, kTile = 16;

  int64_t sharedBytes() const;
  bool fits(const target::Target &gpu) const;
  /// Several blocks with each other's shared memory.
  bool isCluster() const { return !layout.grid && layout.blocks > 1; }
  /// Rows of the batch from one state in the group's shared memory to the next, in elements.
  int64_t stateStride() const;
  int64_t sumStride() const { return columns + 4; }
  int64_t sumBytes() const { return isDirect ? 0 : layout.parts * chunk * sumStride() * 4; }
  int64_t chunks() const { return layout.rows / chunk; }
  /// Elements of a chunk's new states for each thread.
  int64_t elements() const {
    return isDirect ? tiles / tilesOfUnits() * chunk / 4
                    : (chunk * units + kThreads - 1) / kThreads;
  }
  /// Of 8 units with all of their gates, where isDirect.
  int64_t tilesOfUnits() const { return (gates + 1) / 2; }

  PersistentLayout layout;
  mlir::Type element;
  int64_t bytes; ///< of an element
  int64_t hidden, gates, units;
  int64_t tiles;     ///< of 16 columns, of a warp
  int64_t columns;   ///< of a block, with what pads them to whole tiles
  int64_t partDepth; ///< elements of the state that a warp multiplies
  int64_t depth;     ///< of the state, with zeros behind its end
  int64_t chunk;     ///< rows that are multiplied together
  bool isHalf;       ///< by tensor cores
  /// A warp has whole depths and all gates of its units, whose sums stay in its registers.
  bool isDirect;
  /// Of a thread's weights (a half is half a word) those in its registers, those in shared memory,
  /// and those that each step reads through the L2: FP32 only.
  int64_t held, kept, streamed;
};

/// Those that the target has room for, with the predicted seconds of a step.
struct PersistentCandidate {
  PersistentLayout layout;
  double stepSeconds;
};
std::vector<PersistentCandidate> persistentLayouts(RegionBuilder &region, tn::RecurrenceOp op);
double persistentStepSeconds(const target::Target &gpu, const PersistentShape &shape);

} // namespace tenon::codegen::cuda
