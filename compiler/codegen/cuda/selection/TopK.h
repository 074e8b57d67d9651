// The k first of each row in order: what a top-k reads and writes, and the kernels that it is made
// of.
#pragma once

#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/selection/Keys.h"
#include "compiler/codegen/cuda/selection/Team.h"
#include "compiler/codegen/cuda/selection/Tuning.h"

#include <optional>
#include <vector>

namespace tenon::codegen::cuda {

/// Along the middle of dims [outer, length, inner]; a row is one of the outer * inner.
struct TopKWork {
  mlir::AffineExpr outer, length, inner, wanted;
  KeyOrder order;
  uint32_t input = 0, values = 0, indices = 0; ///< buffers of the region
  mlir::AffineExpr rows() const { return outer * inner; }
  /// Most that `length` and `wanted` can be.
  int64_t longest = 0, most = 0;
};
/// The region's only operation as a top-k; none if it is another, or its rows have more elements
/// than numbers of 32 bits tell apart.
std::optional<TopKWork> topKOf(RegionBuilder &region);

/// One kernel of a selection: from each piece of a row the first `most`, by a block or a warp that
/// holds it.
struct SelectLayout {
  int64_t threads = 32; ///< for a piece
  int64_t items = 1;    ///< elements that a thread holds
  int64_t rows = 1;     ///< pieces that a block takes, a warp each
  int64_t piece() const { return threads * items; }
};

/// What a kernel has selected: of each row so many pieces, `wanted` of each, in two buffers.
struct Candidates {
  mlir::AffineExpr pieces;
  uint32_t keys = 0, indices = 0;
};

/// Adds the kernel that selects from each piece of a row, of the elements if there is no source.
/// Without a sink it is the last, whose pieces are whole rows: it sorts what it has selected, and
/// writes the results.
void emitSelect(RegionBuilder &region, const TopKWork &work, const SelectLayout &layout,
                const std::optional<Candidates> &source, const std::optional<Candidates> &sink);
/// Whether the elements of rows come by vectors; and the places of a row's pieces that are lost to
/// vectors that it shares with its neighbours.
bool readsVectors(const TopKWork &work, const SelectLayout &layout);
int64_t reachOver(const TopKWork &work, const SelectLayout &layout);
/// Shared memory that the last kernel of a selection needs.
int64_t sortedBytes(const TopKWork &work, const SelectLayout &layout);
/// Rows of at most a warp's lanes, sorted in registers.
void emitSortedLanes(RegionBuilder &region, const TopKWork &work);

/// Writes the element of a row with this index (i32) as number `place` (i32) of its results.
class TopKResults {
public:
  TopKResults(const ThreadBuilder &t, KernelFrame &frame, const TopKWork &work, mlir::Value row,
              unsigned input, unsigned values);
  void store(const ThreadBuilder &t, mlir::Value place, mlir::Value index) const;

private:
  const TopKWork &work;
  mlir::Value x, values, indices, inner;
};

/// Where the elements of a row begin in a buffer with `length` of them along the axis: the first
/// is number outer * length * inner + column.
mlir::Value rowStart(const ThreadBuilder &t, mlir::Value row, mlir::Value length,
                     mlir::Value inner);

} // namespace tenon::codegen::cuda
