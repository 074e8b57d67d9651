// Convolutions of few channels a group: the lowering that ConvGrouped.cpp and GroupedSums.cpp
// define. Bytes are multiplied as f32 on x86, in which their sums are exact, and elsewhere as 16
// bits into sums of 32; bf16 is widened to f32.
#pragma once

#include "compiler/codegen/cpu/gemm/ConvTiles.h"

#include <map>

namespace tenon::codegen::cpu {

class GroupedConv : public ConvTiles {
public:
  GroupedConv(KernelBuilder &kernel, mlir::func::FuncOp source, tn::ConvOp conv,
              engine::CpuLevel level, int64_t tileRows);

  mlir::LogicalResult lower();

private:
  using Vectors = mlir::SmallVector<mlir::Value>;
  /// A vector of output channels.
  struct Channels {
    mlir::Value inputs;  ///< the first input channel that it reads
    mlir::Value weights; ///< pointer to its weights
    mlir::Value mask;    ///< of its input channels, or null
  };
  /// Neighbouring output pixels; all of index type.
  struct Pixels {
    mlir::Value image, plane, line, first;
  };
  /// Some taps of a kernel line.
  struct Taps {
    mlir::Value row;     ///< number of the input's first pixel in the line, among all
    mlir::Value column;  ///< of the first pixel under the first tap; may lie outside
    mlir::Value weights; ///< pointer
    int64_t count;
  };

  int64_t inputLanes() const { return lanes / g.groupOutChannels() * g.groupChannels(); }
  mlir::LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  void buildLine(const IndexMath &math, const Part &part, mlir::Value line,
                 const Channels &channels, mlir::Value sums, mlir::Value stride);
  void buildBlock(const IndexMath &math, const Pixels &pixels, int64_t count,
                  const Channels &channels, mlir::Value sums, mlir::Value stride);
  Vectors addTaps(const IndexMath &math, const Taps &taps, const Channels &channels, Vectors sums);
  Vectors addColumns(const IndexMath &math, const Taps &taps, const Channels &channels,
                     bool isInside, Vectors sums);
  Vectors addChannel(const IndexMath &math, const Taps &taps,
                     const std::map<int64_t, mlir::Value> &columns, const Channels &channels,
                     mlir::Value channel, int64_t lane, Vectors sums);

  mlir::LogicalResult lowerComputed(const IndexMath &math);
  bool copiesAllPanels(int64_t elements) const;
  void packPanel(const IndexMath &math, mlir::Value panel);
  Channels channelsOf(const IndexMath &math, mlir::Value firstChannel) const;
  void widenWeights(const IndexMath &math, mlir::Value first, mlir::Value vectors);
  mlir::Value load(const IndexMath &math, mlir::Type type, mlir::Value address) const;
  mlir::Value loadWeight(const IndexMath &math, mlir::Value address) const;
  mlir::Value weightAt(const IndexMath &math, mlir::Value base, mlir::Value elements) const;
  mlir::Value multiplyAdd(const IndexMath &math, mlir::Value x, mlir::Value weight,
                          mlir::Value added) const;
  bool isWidened() const { return element != sum; }
  mlir::Type storedAs(mlir::Type type) const;
  mlir::Value widened(const IndexMath &math, mlir::Type type, mlir::Value x, bool isSigned) const;
  mlir::Value loadInput(const IndexMath &math, mlir::Type type, mlir::Value address,
                        mlir::Value mask) const;
  mlir::Value stored(const IndexMath &math, mlir::Value base, mlir::Value elements) const;
  Vectors loop(const IndexMath &math, mlir::Value from, mlir::Value to, Vectors state,
               llvm::function_ref<Vectors(const IndexMath &, mlir::Value, Vectors)> body) const;

  Epilogue epilogue;
  std::optional<TileWriter> writer;
  int64_t lanes;
  bool spansGroups; ///< a vector holds whole groups, else a part of one
  bool isMasked;
  mlir::Type element; ///< of what is read: f32, or bf16 or bytes, which are widened
  int64_t blockPixels;
  mlir::Type sum;          ///< f32 or i32
  mlir::Type factor;       ///< of weights as they are multiplied: f32, or i16 for sums of i32
  mlir::VectorType vector; ///< of sums
  mlir::Value input;
  mlir::Value weights;   ///< packed at compile time, or null
  mlir::Value wide;      ///< scratch for a panel of these as `factor`, of others
  mlir::Value panelCopy; ///< scratch for the weights of a panel or of all, or null
  bool copiesAll = false;
  int64_t tapStride, channelStride; ///< of a vector's weights, in elements
  mlir::Value zeros;                ///< what a pixel outside the input reads
};

} // namespace tenon::codegen::cpu
