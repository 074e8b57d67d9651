// A convolution on the product kernel: its sizes, and the lowering that ContractionConv.cpp and
// ConvCopies.cpp define.
#pragma once

#include "compiler/codegen/cpu/Contraction.h"

namespace tenon::codegen::cpu {

/// One spatial dim; those that a convolution has not are one position.
struct ConvDim {
  mlir::AffineExpr in, out;
  int64_t kernel = 1, stride = 1, dilation = 1, padBegin = 0, padEnd = 0;

  bool isPadded() const { return padBegin || padEnd; }
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

Geometry geometryOf(tn::ConvOp conv);

class ConvLowering {
public:
  ConvLowering(KernelBuilder &kernel, mlir::func::FuncOp source, tn::ConvOp conv, int64_t tileRows);

  mlir::AffineExpr chooseGrid();
  mlir::LogicalResult lower();

private:
  /// What a chunk computes: some lines of output pixels of a plane, or a part of one line.
  struct Part {
    mlir::Value image, plane; ///< plane: of the output's depth
    mlir::Value firstLine, lines, firstPixel, pixels;
  };
  Part partOf(const IndexMath &math, const GridPoint &point) const;
  mlir::Value firstRow(const IndexMath &math, const GridPoint &point, const Part &part) const;
  /// The number of an input pixel among all.
  mlir::Value inputPixel(const IndexMath &math, const Part &part, mlir::Value line) const;
  void copyStrip(const IndexMath &math, const GridPoint &point);
  void copyBlock(const IndexMath &math, const Part &part, int64_t kernelPlane, int64_t block);
  void copyPixels(const IndexMath &math, const GridPoint &point);
  mlir::Value packPanel(const IndexMath &math, mlir::Value group, mlir::Value panel);
  mlir::LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  void buildProducts(const IndexMath &math, const Sums &sums, const Part &part, mlir::Value group,
                     mlir::Value panel);
  mlir::Value size(const IndexMath &math, mlir::AffineExpr expression) const {
    return math.size(kernel, expression);
  }

  KernelBuilder &kernel;
  tn::ConvOp conv;
  Epilogue epilogue;
  Geometry g;
  mlir::MLIRContext *context;
  ContractionGrid grid;
  /// All pixels of all images are rows of one product: lines of one pixel.
  bool isFlat;
  mlir::AffineExpr planes, lines, segments; ///< segments: parts of a line
  int64_t linePixels;                 ///< most of a part
  int64_t mostLines;                  ///< of a chunk
  std::optional<TileWriter> writer;
  mlir::Value input;
  mlir::Value weights;   ///< packed at compile time, or null
  mlir::Value panelCopy; ///< scratch for one panel of the weights, or null
  mlir::Value strip;     ///< scratch for padded input, or null
  mlir::Value pixels;    ///< scratch for copied pixels, or null
  /// Of the strip: pixels of a line, lines of a plane, lines from one line of the kernel to the
  /// next. Lines of the kernel further apart than the lines of a chunk reach have lines of their
  /// own.
  int64_t stripWidth, stripLines, stripPitch;
};

} // namespace tenon::codegen::cpu
