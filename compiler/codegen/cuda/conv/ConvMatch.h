// What one convolution region asks for: a product whose rows are output positions, whose columns
// are output channels and whose depth goes over the filter's taps and channels, and where the
// elements of the input and of the filter lie. Relies on StridedTensor.h for the strides.
#pragma once

#include "compiler/codegen/cuda/gemm/GemmMatch.h"

namespace tenon::codegen::cuda {

/// A spatial dim: output position o reads o * stride - padBegin + tap * dilation of `in`.
struct ConvDim {
  mlir::AffineExpr in;
  int64_t taps, stride, dilation, padBegin;
  /// Whether a position may lie outside.
  bool isPadded;
};

struct ConvProblem {
  /// Of `joined` groups; the batch has the others.
  GemmProblem product;
  llvm::SmallVector<ConvDim, 3> dims;
  StridedTensor x;      ///< [N, spatial..., C]
  StridedTensor filter; ///< [O, C / groups, taps...]
  /// Of one group. Bytes are counted in pairs, as elements of 16 bits.
  int64_t groupChannels = 0, groupColumns = 0;
  /// Groups that share a tile, as the blocks of a diagonal of the filter's matrix: a few channels
  /// alone fill no tile.
  int64_t joined = 1;
  /// Elements that lie together and on borders of as many, up to 16 bytes: of patches, and of the
  /// filter.
  int64_t patchWidth = 1, filterWidth = 1;
  /// Where a computed filter lies that a kernel before lays out as `filter` says, over [O, taps...,
  /// C / groups], and those sizes; else without sizes.
  StridedTensor computed;
  llvm::SmallVector<int64_t> filterSizes;

  int64_t channels() const { return joined * groupChannels; }
  /// Places of the depth: [tap][channel].
  int64_t depth() const { return *tn::constantDim(product.depth); }
  mlir::Type element() const { return x.element; }
};

/// How many of the groups, of so many input and output channels each, share a tile, with so many
/// elements in 16 bytes; 0 if there is no such number.
using JoinGroups = int64_t (*)(int64_t groups, int64_t channels, int64_t columns, int64_t most);
/// As many groups as fill a narrow tile, and some more if that makes longer copies.
int64_t joinedGroups(int64_t groups, int64_t channels, int64_t columns, int64_t most);

/// The problem of the region's only convolution, of 16-bit floats or pairs of bytes, or of f32.
MatchResult<ConvProblem> matchConv(RegionBuilder &region, bool isHalf,
                                   JoinGroups join = joinedGroups);

} // namespace tenon::codegen::cuda
