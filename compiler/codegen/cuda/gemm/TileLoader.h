// How the tiles of one operand of a product come from memory into a stage of shared memory. The
// kernel knows of an operand only this: a matrix with strides (StridedLoader), or the patches and
// the filter of a convolution (conv/ConvLoader.h).
#pragma once

#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "compiler/codegen/cuda/gemm/GemmMatch.h"
#include "compiler/codegen/cuda/gemm/TiledGemmTile.h"

namespace tenon::codegen::cuda {

/// Of a block: its thread, the number of its product in the batch, the first row and column of its
/// tile; and the product's sizes. All i32.
struct BlockPlace {
  mlir::Value thread, batch, row, column;
  mlir::Value rowCount, columnCount, depthCount;
};

class TileLoader {
public:
  virtual ~TileLoader() = default;

  /// Emits what is the same for all steps of the depth.
  virtual void place(KernelFrame &kernel, const BlockPlace &place) = 0;
  /// Starts the copies of the tile from `depth` on to `to`; what is outside the matrix becomes
  /// zeros, but for rows and columns whose results no one stores.
  virtual void copy(const ThreadBuilder &t, mlir::Value depth, mlir::Value to) const = 0;

  int64_t elements() const { return lines * pitch; }

  /// Of a tile: its lines and the elements from one to the next.
  int64_t lines = 0, pitch = 0;
  /// Whether lines stand in the order of inOrderOfLanes.
  bool isInOrderOfLanes = false;
  /// Whether a line is a row of A or a column of B, and not a place of the depth.
  bool depthIsInner = true;
  /// The region's input that it reads.
  unsigned buffer = 0;
};

/// Columns that a warp's lanes share out as strips of neighbours, and those of a strip.
inline constexpr int64_t kStripColumns = 32, kLaneStrip = 8;
/// The column of B that stands at a line of its tile, where lane 4 g + q is to have the sums of 8
/// neighbours: mma gives it columns 2 q and 2 q + 1 of each 8 lines, so that line 8 c + 2 q + i of
/// 32 has column 8 q + 2 c + i.
mlir::Value inOrderOfLanes(const ThreadBuilder &t, mlir::Value line);

/// Starts the copy of `width` neighbours from global to shared memory where `isRead` (null:
/// always), else of zeros, if the thread has a place for them (`isTaken`; null: it has). Single
/// 16-bit elements go through a register.
void copyNeighbours(const ThreadBuilder &t, mlir::Type element, int64_t width, mlir::Value from,
                    mlir::Value to, mlir::Value isRead, mlir::Value isTaken);

/// Elements of an operand of a product, side by side and on a border of all their bytes, that one
/// copy takes: 8, 4, 2 or 1.
int64_t copyWidth(const GemmProblem &problem, bool isA);

/// 16-bit floats of a matrix with any strides.
class StridedLoader : public TileLoader {
public:
  /// `freeDim` is 0 for A, whose rows are the result's, and 1 for B.
  StridedLoader(const GemmProblem &problem, const GemmTile &tile, unsigned freeDim);

  void place(KernelFrame &kernel, const BlockPlace &place) override;
  void copy(const ThreadBuilder &t, mlir::Value depth, mlir::Value to) const override;
  /// A step's tile as [depth][rows or columns] of f32, by single elements of any float type.
  void fill(const ThreadBuilder &t, mlir::Value step, mlir::Value to) const;

private:
  mlir::Value free() const { return isA ? at.row : at.column; }
  mlir::Value freeCount() const { return isA ? at.rowCount : at.columnCount; }

  const GemmProblem &p;
  const GemmOperand &operand;
  GemmTile tile;
  bool isA;
  mlir::AffineExpr outerCount, innerCount, outerStride, innerStride;
  int64_t innerSize; ///< of a tile
  int64_t width;     ///< of a copy
  KernelFrame *kernel = nullptr;
  BlockPlace at;
  mlir::Value pointer; ///< of the batch's matrix
};

} // namespace tenon::codegen::cuda
