// A convolution on the product kernel: the lowering that ContractionConv.cpp and ConvCopies.cpp
// define. What it reads and copies are words of the product type, of 32 bits: an f32, or several
// input channels of a narrower type.
#pragma once

#include "compiler/codegen/cpu/gemm/ConvTiles.h"

namespace tenon::codegen::cpu {

class ConvLowering : public ConvTiles {
public:
  ConvLowering(KernelBuilder &kernel, mlir::func::FuncOp source, tn::ConvOp conv,
               engine::CpuLevel level, int64_t tileRows);

  int64_t panels() const { return g.groups * g.panelsPerGroup(); }
  mlir::LogicalResult lower();

private:
  /// What the products of a tile share.
  struct Reads {
    Part part;
    mlir::Value origin;     ///< the first word that they read, or would without padding
    mlir::Value lineStride; ///< words from one line of `source` to the next
    mlir::Value panel;      ///< pointer to the weights
    mlir::Value firstPlane; ///< the first plane of the kernel that lies inside the input
  };
  /// A tap of the kernel, or all taps of a line of it that are multiplied together.
  struct Tap {
    mlir::Value plane, line, column; ///< of the kernel
  };

  mlir::Value inputWords(const IndexMath &math);
  mlir::Type wordType() const;
  void copyStrip(const IndexMath &math, const GridPoint &point);
  void copyBlock(const IndexMath &math, const Part &part, int64_t kernelPlane, int64_t block);
  void clearColumns(const IndexMath &math, mlir::Value line, mlir::Value column, mlir::Value lines,
                    mlir::Value columns);
  void copyPixels(const IndexMath &math, const GridPoint &point);
  void copyPatches(const IndexMath &math, const GridPoint &point);
  void copyPatchLine(const IndexMath &math, const Part &part, const Tap &tap, mlir::Value line);
  mlir::Value packPanel(const IndexMath &math, mlir::Value group, mlir::Value panel);
  mlir::LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  void buildProducts(const IndexMath &math, const Sums &sums, const Part &part, mlir::Value group,
                     mlir::Value panel);
  mlir::Value usedColumns(const IndexMath &math, mlir::Value panel) const;
  void buildTap(const IndexMath &math, const Sums &sums, const Reads &reads, const Tap &tap);
  /// Words under a line of the kernel, and under all of it.
  int64_t lineWords() const { return g.width.kernel * g.channels; }
  int64_t patchWords() const { return g.depth.kernel * g.height.kernel * lineWords(); }
  int64_t pixelWords() const { return copiesPatches ? patchWords() : g.channels; }
  bool joinsOutputLines() const { return sumsPitch > linePixels; }
  mlir::Value sumsOf(const IndexMath &math, mlir::Value lines, mlir::Value pixels) const;
  mlir::Value isAdded(const IndexMath &math, const Reads &reads, const Tap &tap,
                      mlir::Value line) const;
  void clearSums(const IndexMath &math, const Sums &sums, mlir::Value rows);
  void loop(const IndexMath &math, mlir::Value from, mlir::Value to,
            llvm::function_ref<void(const IndexMath &, mlir::Value)> body) const;

  ProductType type;
  Epilogue epilogue;
  std::optional<TileWriter> writer;
  mlir::Value input;     ///< its last dim counts words: of a pixel, or of a line that is copied
  mlir::Value weights;   ///< packed at compile time, or null
  mlir::Value panelCopy; ///< scratch for one panel of the weights, or null
  mlir::Value strip;     ///< scratch for copied input, as `input`, or null
  mlir::Value pixels;    ///< scratch for copied pixels or patches, or null
  /// Of the strip: pixels of a line, lines of a plane, lines from one line of the kernel to the
  /// next. Lines of the kernel further apart than the lines of a chunk reach have lines of their
  /// own.
  int64_t stripWidth, stripLines, stripPitch;
  int64_t pixelStride; ///< words from one pixel to the next of what products read
  bool joinsLine;      ///< the taps of a kernel line are multiplied together
  bool copiesLines;    ///< to the strip
  /// All words under the kernel are copied side by side, pixel by pixel, for tiles or
  /// Arm's kernels to multiply in one product: where a kernel line fills few steps.
  bool copiesPatches = false;
  bool isArm; ///< words are multiplied by the kernels of ArmProduct.h
  /// Rows of the sums from one output line to the next. More than a line has: lines meet a kernel
  /// line in one product, together with what lies between them, as tiles want full.
  int64_t sumsPitch;
  /// Products are added to cleared sums; else all pixels have a first product, which writes.
  bool startsCleared;
};

} // namespace tenon::codegen::cpu
