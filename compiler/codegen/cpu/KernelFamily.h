// The kernel families of CPUs (docs/adr/0015). Each fills a kernel's body with loops, linalg on
// memrefs, vectors and product calls, and says what the grid is.
#pragma once

#include "compiler/codegen/cpu/base/KernelBuilder.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/KernelChoice.h"
#include "compiler/target/Target.h"

#include <array>

namespace tenon::codegen::cpu {

/// Fills `kernel` for the `tn` function `source`; `most` is the value of the family's parameter.
/// Gives the number of grid points as an expression over the region's symbols. Errors are reported
/// as diagnostics.
using LowerFn = mlir::FailureOr<mlir::AffineExpr> (*)(KernelBuilder &kernel,
                                                      mlir::func::FuncOp source,
                                                      engine::CpuLevel level, int64_t most);

/// A row of Families.cpp.
struct KernelFamily {
  llvm::StringLiteral name;
  /// What it is in the field's words, for people.
  llvm::StringLiteral what;
  /// The strategies whose regions it is asked about.
  std::array<llvm::StringRef, 6> strategies;
  /// The beginnings of the operations without which it never computes a region; none for any.
  std::array<llvm::StringRef, 2> needs = {};
  /// Why it does not compute such a region; empty if it does.
  llvm::StringRef (*refuse)(mlir::func::FuncOp source);
  /// What a grid point gets at most: many grid points suit many threads, large ones caches and
  /// loops. The values that it can be compiled with, its own choice first.
  llvm::StringLiteral parameter;
  std::array<int64_t, 4> values;
  /// Whether the others give other code for this region.
  bool (*isTunable)(mlir::func::FuncOp source);
  /// How the region's constant weight must be laid out for it; none if it lies so already. Null if
  /// the family reads all inputs as they lie.
  std::optional<dispatch::WeightLayout> (*weightLayout)(mlir::func::FuncOp source) = nullptr;
  /// Predicted seconds beyond those of the region's own operations and bytes, perhaps negative;
  /// null where there are none.
  double (*extraSeconds)(mlir::func::FuncOp source, const dispatch::CostModel &costs,
                         const target::Target &target) = nullptr;
  /// Whether it is given the region with other dims (RegionShapes.h).
  bool takesReshaped = false;
  /// Of the time predicted for the best row before it, what it must be predicted to take to be
  /// chosen instead.
  double switchMargin = dispatch::kSwitchMargin;
  LowerFn lower;
};

/// Null if there is none of that name.
const KernelFamily *findFamily(llvm::StringRef name);
/// How the family wants the region's weight to be laid out; none if it lies as wanted.
std::optional<dispatch::WeightLayout> weightLayoutOf(const KernelFamily &family,
                                                     mlir::func::FuncOp source);

mlir::FailureOr<mlir::AffineExpr> lowerTiled(KernelBuilder &kernel, mlir::func::FuncOp source,
                                             engine::CpuLevel level, int64_t chunk);
mlir::FailureOr<mlir::AffineExpr> lowerContraction(KernelBuilder &kernel, mlir::func::FuncOp source,
                                                   engine::CpuLevel level, int64_t tileRows);
mlir::FailureOr<mlir::AffineExpr> lowerAttention(KernelBuilder &kernel, mlir::func::FuncOp source,
                                                 engine::CpuLevel level, int64_t queries);
mlir::FailureOr<mlir::AffineExpr> lowerGrouped(KernelBuilder &kernel, mlir::func::FuncOp source,
                                               engine::CpuLevel level, int64_t tileRows);
/// Why lowerGrouped does not do the region's convolution; empty if it does.
llvm::StringRef refuseGrouped(mlir::func::FuncOp source);
/// The weight of a convolution by groups, the weights of each vector of output channels together.
std::optional<dispatch::WeightLayout> groupedWeight(mlir::func::FuncOp source);
/// Convolutions of 3 x 3 by Winograd's filtering in tiles of m x m outputs.
mlir::FailureOr<mlir::AffineExpr> lowerWinograd(KernelBuilder &kernel, mlir::func::FuncOp source,
                                                engine::CpuLevel level, int64_t m,
                                                int64_t mostTiles);
/// Why lowerWinograd does not do the region's convolution; empty if it does.
llvm::StringRef refuseWinograd(mlir::func::FuncOp source, int64_t m);
std::optional<dispatch::WeightLayout> winogradWeight(mlir::func::FuncOp source, int64_t m);
/// Predicted seconds less than a direct convolution, perhaps negative.
double winogradSavings(mlir::func::FuncOp source, int64_t m, const dispatch::CostModel &costs);
mlir::FailureOr<mlir::AffineExpr> lowerScan(KernelBuilder &kernel, mlir::func::FuncOp source,
                                            engine::CpuLevel level, int64_t columns);
/// Whether the region is one running sum.
bool isScan(mlir::func::FuncOp source);
mlir::FailureOr<mlir::AffineExpr> lowerRecurrence(KernelBuilder &kernel, mlir::func::FuncOp source,
                                                  engine::CpuLevel level, int64_t rows);
/// The recurrent weights in panels of columns, so that a step reads them as they lie.
std::optional<dispatch::WeightLayout> recurrentWeight(mlir::func::FuncOp source);
mlir::FailureOr<mlir::AffineExpr> lowerTopK(KernelBuilder &kernel, mlir::func::FuncOp source,
                                            engine::CpuLevel level, int64_t vectors);
mlir::FailureOr<mlir::AffineExpr> lowerVectorTopK(KernelBuilder &kernel, mlir::func::FuncOp source,
                                                  engine::CpuLevel level, int64_t rows);
/// Whether the region is one tn.top_k of a few elements with keys of 32 bits.
bool isVectorTopK(mlir::func::FuncOp source);
mlir::FailureOr<mlir::AffineExpr> lowerSort(KernelBuilder &kernel, mlir::func::FuncOp source,
                                            engine::CpuLevel level, int64_t rows);
/// Whether the region is one tn.top_k of much of its rows, with keys of 32 bits.
bool isSort(mlir::func::FuncOp source);
mlir::FailureOr<mlir::AffineExpr> lowerConcat(KernelBuilder &kernel, mlir::func::FuncOp source,
                                              engine::CpuLevel level, int64_t rows);
/// Whether the region is one tn.concat of buffers.
bool isConcat(mlir::func::FuncOp source);
mlir::FailureOr<mlir::AffineExpr> lowerColumnSoftmax(KernelBuilder &kernel,
                                                     mlir::func::FuncOp source,
                                                     engine::CpuLevel level, int64_t columns);
/// Whether the region is one softmax along a dim that is not the last.
bool isColumnSoftmax(mlir::func::FuncOp source);
mlir::FailureOr<mlir::AffineExpr> lowerResize(KernelBuilder &kernel, mlir::func::FuncOp source,
                                              engine::CpuLevel level, int64_t rows);
/// Whether the region is one linear or cubic resize of at most the last two dims.
bool isRowResize(mlir::func::FuncOp source);
mlir::FailureOr<mlir::AffineExpr> lowerScatter(KernelBuilder &kernel, mlir::func::FuncOp source,
                                               engine::CpuLevel level, int64_t rows);
/// Whether the region is one scatter whose result can be owned in parts.
bool isOwnedScatter(mlir::func::FuncOp source);
mlir::FailureOr<mlir::AffineExpr> lowerPatchConv(KernelBuilder &kernel, mlir::func::FuncOp source,
                                                 engine::CpuLevel level, int64_t tileRows);
/// Whether the region is one convolution of 16-bit floats or 32-bit integers with packed weights.
bool isPatchConv(mlir::func::FuncOp source);
/// Whether the region is one tn.top_k.
bool isTopK(mlir::func::FuncOp source);
bool isFlashAttention(mlir::func::FuncOp source);
/// Whether lowerTiled cuts the innermost dim into chunks.
bool isChunked(mlir::func::FuncOp source);
/// Whether lowerContraction does the region's product.
bool isPackedProduct(mlir::func::FuncOp source);
/// The weights of a product or convolution in panels of the micro-kernel's columns.
std::optional<dispatch::WeightLayout> panelsOfWeight(mlir::func::FuncOp source);

} // namespace tenon::codegen::cpu
