// Depthwise convolutions with channels last: what they read, and how outputs are shared out. Relies
// on a filter that lies as [taps..., channels], as the data does.
#pragma once

#include "compiler/codegen/common/region/KernelFamily.h"
#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/graph/Tn.h"

namespace tenon::codegen::cuda {

/// Taps of a window of bytes whose sums stay below 2^22 (gemm/IntegerSums.h).
inline constexpr int64_t kMaxByteTaps = 128;

struct DepthwiseDim {
  mlir::AffineExpr in, out;
  int64_t taps = 1, stride = 1, dilation = 1, before = 0;
  /// Whether a window may lie beyond the input.
  bool isPadded = false;
};

struct DepthwiseProblem {
  unsigned input = 0, filter = 0; ///< buffers
  bool isLaidOut = false; ///< the filter, as [taps..., channels]; else as [channels, 1, taps...]
  llvm::SmallVector<DepthwiseDim, 3> dims;
  mlir::AffineExpr images;
  int64_t channels = 1;   ///< of the result
  int64_t multiplier = 1; ///< of the result for one of the input
  mlir::Type element;     ///< of the filter, as it is stored; of the input too but for its sign
  /// Bytes, which are multiplied as f32 and whose sums are i32; those of the input are signed.
  bool areBytes = false, isSigned = false;

  int64_t taps() const;
};

MatchResult<DepthwiseProblem> matchDepthwise(RegionBuilder &region);

/// A thread has `width` neighbouring outputs along the last spatial dim, of so many channels.
struct DepthwiseTile {
  int64_t lanes = 1, width = 1;
};
template <typename Visitor> void visitParameters(Visitor &visit, DepthwiseTile &tile) {
  visit("tile", tile.lanes, tile.width);
}

/// Adds the kernel, and one before it that lays out the filter where it does not lie so. False
/// after a diagnostic.
bool emitDepthwise(RegionBuilder &region, const DepthwiseProblem &problem,
                   const DepthwiseTile &tile);

} // namespace tenon::codegen::cuda
