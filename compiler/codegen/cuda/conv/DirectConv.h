// Direct convolutions on tensor cores: what a block holds in shared memory and how its warps share
// out the sums. Relies on ConvMatch.h for the operands.
#pragma once

#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "compiler/codegen/cuda/conv/ConvMatch.h"

namespace tenon::codegen::cuda {

/// A block's part: `rows` x `columns` output positions of an image, and `width` output channels,
/// which are some whole units (ConvProblem::joined groups) or a part of one. A warp has the sums of
/// `warpTiles` times 16 positions by `warpWidth` channels at a time.
struct DirectTile {
  int64_t rows = 8, columns = 16, width = 8;
  int64_t warpTiles = 1, warpWidth = 8, warps = 4;

  int64_t positions() const { return rows * columns; }
  /// Pieces of positions, and of channels, that a warp has at a time.
  int64_t pieces() const { return (positions() + 16 * warpTiles - 1) / (16 * warpTiles); }
  int64_t chunks() const { return width / warpWidth; }
  int64_t threads() const { return warps * kWarp; }
};
template <typename Visitor> void visitParameters(Visitor &visit, DirectTile &tile) {
  visit("tile", tile.rows, tile.columns, tile.width);
  visit("warp", tile.warpTiles, tile.warpWidth);
  visit("warps", tile.warps);
}

/// Where operands lie in shared memory, by octets: 8 elements of 16 bits.
struct DirectLayout {
  DirectLayout(const ConvProblem &problem, const DirectTile &tile);

  int64_t folded;                   ///< neighbouring pixels of 4 channels that are an octet, or 1
  int64_t tapColumns, columnStride; ///< by octets
  int64_t unitColumns, unitOctets;  ///< of a unit: output channels, octets of input channels
  int64_t units;                    ///< whose channels a block reads
  int64_t slabs;                    ///< parts of the output channels
  int64_t inRows, inColumns;        ///< of the input under a block's positions, by octets
  int64_t phaseColumns, linePixels; ///< columns lie by their remainder of the stride
  int64_t pixelPitch;               ///< octets from a pixel to the next: odd
  int64_t segments, usedOctets;     ///< of the depth, and octets of a segment
  int64_t segmentOctets;            ///< with those that fill up whole products
  int64_t filterPitch;              ///< octets of a column's filter: odd
  int64_t inputOctets, filterOctets;

  /// Steps of 16 of a segment.
  int64_t steps() const { return (usedOctets + 1) / 2; }
  /// An octet of zeros, the filter, and two tiles of the input.
  int64_t bytes() const { return 16 * (1 + filterOctets + 2 * inputOctets); }
  /// Octets from a position's first pixel to what it multiplies at a place of a segment.
  int64_t distance(const ConvProblem &problem, int64_t octet) const;
};

/// The tiles that a problem can be computed with.
std::vector<DirectTile> directTiles(RegionBuilder &region, const ConvProblem &problem);
/// Convolutions over two dims of 16-bit floats or bytes whose groups fill octets.
MatchResult<ConvProblem> matchDirect(RegionBuilder &region);
/// One kernel, of so many blocks for each slab. False after a diagnostic.
bool emitDirect(RegionBuilder &region, const ConvProblem &problem, const DirectTile &tile);
/// Blocks that go through the tiles of a slab.
int64_t directBlocks(RegionBuilder &region, const ConvProblem &problem, const DirectTile &tile);

} // namespace tenon::codegen::cuda
