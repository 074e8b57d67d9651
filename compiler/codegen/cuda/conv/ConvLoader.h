// How patches of the input and the filter come into the stages of a product (gemm/TileLoader.h): a
// thread copies the same places of the depth, [tap][channel], of a few lines in every step. Relies
// on copies that are shorter than 4 bytes going through registers.
#pragma once

#include "compiler/codegen/cuda/conv/ConvMatch.h"
#include "compiler/codegen/cuda/gemm/TileLoader.h"

namespace tenon::codegen::cuda {

class ConvLoader : public TileLoader {
public:
  void place(KernelFrame &kernel, const BlockPlace &place) override;
  void copy(const ThreadBuilder &t, mlir::Value depth, mlir::Value to) const override;

protected:
  using Value = mlir::Value;
  /// A place of the depth.
  struct Place {
    Value depth, channel;
    llvm::SmallVector<Value, 3> taps;
  };

  /// `width` elements are one copy.
  ConvLoader(const ConvProblem &problem, const GemmTile &tile, const StridedTensor &tensor,
             int64_t lines, int64_t width);

  /// A kernel that goes from tile to tile places lines again.
  virtual void forgetLines() = 0;
  /// Takes one more of the thread's lines, which is this one of its tile; gives where it begins.
  virtual Value placeLine(const ThreadBuilder &t, const BlockPlace &at, Value line) = 0;
  /// Elements from the beginning of a line to a place of the depth.
  virtual Value distance(const ThreadBuilder &t, const Place &place) const = 0;
  /// Whether the thread's line `number` has an element there; null if always.
  virtual Value isInside(const ThreadBuilder &t, const Place &place, size_t number) const = 0;

  /// A number of elements of the tensor: of i32 where these are enough.
  Value count(mlir::AffineExpr expression) const;
  Value toCount(const ThreadBuilder &t, Value word) const;

  const ConvProblem &p;
  const StridedTensor &tensor;
  KernelFrame *kernel = nullptr;

private:
  Place placeOf(const ThreadBuilder &t, Value depth) const;

  int64_t tileDepth, width, lanes, linesPerStep;
  bool isOfWarpgroup; ///< lines are rows of tiles of warpgroups (base/Warpgroup.h)
  bool isSmall = true;
  Value pointer, line, column;
  llvm::SmallVector<Value> begins; ///< elements from the pointer, of each of the thread's lines
};

/// The patches under the output positions: rows of A.
class PatchLoader : public ConvLoader {
public:
  PatchLoader(const ConvProblem &problem, const GemmTile &tile)
      : ConvLoader(problem, tile, problem.x, tile.rows, problem.patchWidth) {}

private:
  void forgetLines() override { firsts.clear(); }
  Value placeLine(const ThreadBuilder &t, const BlockPlace &at, Value line) override;
  Value distance(const ThreadBuilder &t, const Place &place) const override;
  Value isInside(const ThreadBuilder &t, const Place &place, size_t number) const override;

  /// Of each line: the first position of its patch, by spatial dims.
  llvm::SmallVector<llvm::SmallVector<Value, 3>> firsts;
  llvm::SmallVector<Value, 3> sizes;
};

/// The filter: columns of B.
class FilterLoader : public ConvLoader {
public:
  FilterLoader(const ConvProblem &problem, const GemmTile &tile);

private:
  void forgetLines() override { groups.clear(); }
  Value placeLine(const ThreadBuilder &t, const BlockPlace &at, Value line) override;
  Value distance(const ThreadBuilder &t, const Place &place) const override;
  Value isInside(const ThreadBuilder &t, const Place &place, size_t number) const override;

  bool isRun = false;              ///< places of the depth lie one after the other
  llvm::SmallVector<Value> groups; ///< of each line, among those that are joined
};

} // namespace tenon::codegen::cuda
