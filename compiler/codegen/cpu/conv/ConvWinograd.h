// Convolutions of 3 x 3 by Winograd's minimal filtering: the lowering that ConvWinograd.cpp,
// WinogradInputs.cpp and WinogradTiles.cpp define.
#pragma once

#include "compiler/codegen/cpu/gemm/ConvTiles.h"
#include "compiler/dispatch/Cost.h"
#include "engine/Level.h"

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

/// The kernel: the inputs of a chunk of tiles are transformed once, and each panel of output
/// channels is a product for each point, the transform of their sums, and the epilogue.
/// Why Winograd's filtering in tiles of m x m does not do the region's convolution (null for none);
/// empty if it does.
llvm::StringRef refuseWinograd(tn::ConvOp conv, int64_t m);
std::optional<dispatch::WeightLayout> winogradWeight(tn::ConvOp conv, int64_t m);
/// Predicted seconds less than a direct convolution, perhaps negative.
double winogradSavings(tn::ConvOp conv, int64_t m, const dispatch::CostModel &costs);

class WinogradConv {
public:
  WinogradConv(KernelBuilder &kernel, mlir::func::FuncOp source, tn::ConvOp conv,
               engine::CpuLevel level, const WinogradTiles &tiles);

  mlir::FailureOr<mlir::AffineExpr> lower();

private:
  /// Tiles of a chunk: lines of tiles, or a part of one. All of index type.
  struct Part {
    mlir::Value firstLine, lines, firstTile, tiles;
  };
  /// A tile, or the line of it.
  struct Place {
    mlir::Value image, plane; ///< plane: of the output's depth
    mlir::Value line, column; ///< first output position
  };

  /// The pixels under a tile, at their first channel, and where they are transformed to.
  struct Square {
    mlir::Value from;                    ///< pointer
    mlir::Value lineStride, pixelStride; ///< in elements
    mlir::Value to;                      ///< element of `inputs`
  };

  Part partOf(const IndexMath &math, const GridPoint &point) const;
  Place lineOf(const IndexMath &math, const GridPoint &point, mlir::Value line) const;
  mlir::Value startOf(const IndexMath &math, const ConvDim &dim, mlir::Value tile) const;
  void transformChunk(const IndexMath &math, const GridPoint &point);
  void transformTile(const IndexMath &math, const Place &place, mlir::Value kernelPlane,
                     mlir::Value number);
  void transformSquare(const IndexMath &math, const Square &square, mlir::Value channel);
  void fillPatch(const IndexMath &math, mlir::Value plane, mlir::Value line, mlir::Value column);
  void multiply(const IndexMath &math, const GridPoint &point, mlir::Value rows);
  void transformPanel(const IndexMath &math, const Part &part);
  mlir::LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  mlir::LogicalResult writeLine(const IndexMath &math, const GridPoint &point, mlir::Value from,
                                mlir::Value row, mlir::Value count);

  mlir::Value size(const IndexMath &math, mlir::AffineExpr expression) const {
    return math.size(kernel, expression);
  }
  mlir::Value load(const IndexMath &math, mlir::Value address) const;
  void store(const IndexMath &math, mlir::Value value, mlir::Value address) const;
  void loopChannels(const IndexMath &math,
                    llvm::function_ref<void(const IndexMath &, mlir::Value)> body) const;

  KernelBuilder &kernel;
  tn::ConvOp conv;
  WinogradTiles t;
  const Geometry &g;
  int64_t side;
  int64_t rowStride; ///< of transformed inputs, in elements
  int64_t lineWidth; ///< of outputs, in pixels
  int64_t lanes;
  mlir::VectorType vector;
  Epilogue epilogue;
  ContractionGrid grid;
  mlir::Value input, weights;
  mlir::Value image;   ///< pointer to the image that is read
  mlir::Value inputs;  ///< [side * side, tiles, rowStride]: transformed
  mlir::Value sums;    ///< [side * side, tiles, kPanel]
  mlir::Value outputs; ///< [lines of tiles, m, lineWidth, kPanel]
  mlir::Value patch; ///< [side, side, channels]: the inputs of a tile that reaches beyond the image
  mlir::Value zeros; ///< a pixel
};

} // namespace tenon::codegen::cpu
