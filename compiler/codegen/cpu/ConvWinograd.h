// Convolutions of 3 x 3 by Winograd's minimal filtering: the lowering that ConvWinograd.cpp and
// WinogradTiles.cpp define.
#pragma once

#include "compiler/codegen/cpu/ConvTiles.h"
#include "compiler/codegen/cpu/Levels.h"

namespace tenon::codegen::cpu {

/// Tiles of m x m output pixels, by lines of tiles. A dilated dim is as many images as its
/// dilation, side by side: tile t begins at the output position t % dilation + t / dilation *
/// dilation * m.
class WinogradTiles {
public:
  WinogradTiles(tn::ConvOp conv, int64_t m, int64_t mostTiles);

  Geometry g;
  int64_t m;
  /// Chunks are of one plane, so that taps of the depth that lie outside are skipped; else of any
  /// tiles, and what lies outside is zero.
  bool skipsPlanes;
  mlir::AffineExpr rows, columns; ///< of tiles, of a plane
  mlir::AffineExpr planes, lines; ///< of the grid: lines of tiles of a plane of it
  mlir::AffineExpr segments;      ///< parts of a line
  int64_t lineTiles, mostLines;   ///< most of a chunk

  int64_t side() const { return m + 2; }
  /// Fewest lines of a chunk of its own.
  int64_t leastLines() const;
  int64_t mostTiles() const { return lineTiles * mostLines; }
  /// Input channels of all taps of the depth.
  int64_t depthChannels() const { return g.depth.kernel * g.channels; }
  /// Tiles of all planes.
  mlir::AffineExpr count() const { return g.images * g.depth.out * rows * columns; }
};

} // namespace tenon::codegen::cpu
