// A convolution on the product kernel: the lowering that ContractionConv.cpp and ConvCopies.cpp
// define.
#pragma once

#include "compiler/codegen/cpu/ConvTiles.h"

namespace tenon::codegen::cpu {

class ConvLowering : public ConvTiles {
public:
  ConvLowering(KernelBuilder &kernel, mlir::func::FuncOp source, tn::ConvOp conv, int64_t tileRows);

  int64_t panels() const { return g.groups * g.panelsPerGroup(); }
  mlir::LogicalResult lower();

private:
  void copyStrip(const IndexMath &math, const GridPoint &point);
  void copyBlock(const IndexMath &math, const Part &part, int64_t kernelPlane, int64_t block);
  void copyPixels(const IndexMath &math, const GridPoint &point);
  mlir::Value packPanel(const IndexMath &math, mlir::Value group, mlir::Value panel);
  mlir::LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  void buildProducts(const IndexMath &math, const Sums &sums, const Part &part, mlir::Value group,
                     mlir::Value panel);

  Epilogue epilogue;
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
