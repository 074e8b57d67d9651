// A convolution's sizes, and how its output is cut into the grid's points: what all kernels of
// convolutions share.
#pragma once

#include "compiler/codegen/cpu/gemm/Contraction.h"

namespace tenon::codegen::cpu {

/// One spatial dim; those that a convolution has not are one position.
struct ConvDim {
  mlir::AffineExpr in, out;
  int64_t kernel = 1, stride = 1, dilation = 1, padBegin = 0, padEnd = 0;

  bool isPadded() const { return padBegin || padEnd; }
  /// Whether each output position is known to have a tap inside the input.
  bool isCovered() const;
  /// Input positions under `outputs` neighbouring output positions.
  int64_t reach(int64_t outputs) const {
    return (outputs - 1) * stride + (kernel - 1) * dilation + 1;
  }
};

struct Geometry {
  mlir::AffineExpr images;
  ConvDim depth, height, width;
  int64_t channels = 1, outChannels = 1, groups = 1;

  bool isPadded() const { return depth.isPadded() || height.isPadded() || width.isPadded(); }
  int64_t taps() const { return depth.kernel * height.kernel * width.kernel; }
  /// Each output pixel depends on one input pixel.
  bool isPointwise() const { return taps() == 1 && !isPadded(); }
  bool isStrided() const { return depth.stride != 1 || height.stride != 1 || width.stride != 1; }
  /// Pixels are better copied side by side (see kBadStride).
  bool copiesPixels() const { return isPointwise() && (isStrided() || channels % kBadStride == 0); }
  int64_t groupChannels() const { return channels / groups; }
  int64_t groupOutChannels() const { return outChannels / groups; }
  int64_t panelsPerGroup() const { return llvm::divideCeil(groupOutChannels(), kPanel); }
  /// The weights of a kernel line belong to pixels that lie side by side.
  bool joinsKernelLine() const { return groups == 1 && width.dilation == 1; }
};

/// Input channels are counted in words of so many elements.
Geometry geometryOf(tn::ConvOp conv, int64_t elements = 1);

/// The first tap inside the input of an output position, and the end of those: of a dim.
std::pair<mlir::Value, mlir::Value> tapsInside(const IndexMath &math, const KernelBuilder &kernel,
                                               const ConvDim &dim, mlir::Value position);

/// Output pixels by lines: a chunk of the grid is some lines of a plane, or a part of one.
class ConvTiles {
public:
  /// `tileRows` are the most pixels of a chunk; input channels are counted in words of `elements`.
  ConvTiles(KernelBuilder &kernel, tn::ConvOp conv, int64_t tileRows, int64_t elements = 1);

  /// The grid for `panels` panels of output channels; gives its number of points.
  mlir::AffineExpr chooseGrid(int64_t panels);

protected:
  /// What a chunk computes.
  struct Part {
    mlir::Value image, plane; ///< plane: of the output's depth
    mlir::Value firstLine, lines, firstPixel, pixels;
  };
  Part partOf(const IndexMath &math, const GridPoint &point) const;
  mlir::Value firstRow(const IndexMath &math, const GridPoint &point, const Part &part) const;
  std::pair<mlir::Value, mlir::Value> tapsInside(const IndexMath &math, const ConvDim &dim,
                                                 mlir::Value position) const {
    return cpu::tapsInside(math, kernel, dim, position);
  }
  /// The output positions, of `count` from `first` on, whose tap lies inside: the first of them,
  /// counted from `first`, and their number.
  std::pair<mlir::Value, mlir::Value> positionsInside(const IndexMath &math, const ConvDim &dim,
                                                      mlir::Value tap, mlir::Value first,
                                                      mlir::Value count) const;
  /// The number among all of the input pixel under the first tap; may lie outside.
  mlir::Value inputPixel(const IndexMath &math, const Part &part, mlir::Value line) const;
  mlir::Value size(const IndexMath &math, mlir::AffineExpr expression) const {
    return math.size(kernel, expression);
  }

  KernelBuilder &kernel;
  tn::ConvOp conv;
  Geometry g;
  mlir::MLIRContext *context;
  ContractionGrid grid;
  /// All pixels of all images are rows of one product: lines of one pixel.
  bool isFlat;
  mlir::AffineExpr planes, lines, segments; ///< segments: parts of a line
  int64_t linePixels;                       ///< most of a part
  int64_t mostLines;                        ///< of a chunk
};

} // namespace tenon::codegen::cpu
