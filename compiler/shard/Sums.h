// Sums that have the same bits on 1, 2 and 4 ranks: a product whose matrix may be cut by rows adds
// up each quarter of its depth by itself, on one rank too, and then the quarters in FP32 in one
// tree. Relies on kernels that add a quarter alike, whatever a rank has of the columns.
#pragma once

#include "compiler/shard/Search.h"

namespace tenon::shard {

inline constexpr int64_t kSumParts = 4;

/// Whether that many ranks have equal sums.
inline bool keepsSumsOf(int64_t ranks) { return kSumParts % ranks == 0; }

/// Products that can be added up so.
llvm::DenseSet<mlir::Operation *> summable(const Graph &graph);
/// Adds those that the plan cuts by rows.
void addRowCuts(const Graph &graph, const Plan &plan, llvm::DenseSet<mlir::Operation *> &sums);
/// Nothing is cut, and `sums` are added up in parts.
Plan planOfOne(const Graph &graph, llvm::DenseSet<mlir::Operation *> sums);

/// Part `part` of `parts` equal ones of a value, along a dim.
mlir::Value partOf(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
                   int64_t dim, int64_t part, int64_t parts);
/// The same of a constant, taken of the weights behind it, so that a product reads them as if there
/// were no others.
mlir::Value partOfConstant(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
                           int64_t dim, int64_t part, int64_t parts);
/// Pairs of neighbours, then pairs of these, in FP32.
mlir::Value sumOf(mlir::OpBuilder &builder, mlir::Location location,
                  llvm::ArrayRef<mlir::Value> parts);
mlir::Value castTo(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
                   mlir::Type element);

} // namespace tenon::shard
