// Running sums along an axis by many threads: what a scan reads and writes, and how it is shared
// out.
#pragma once

#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/scan/Tuning.h"

#include <optional>

namespace tenon::codegen::cuda {

/// y[o, i, c] = the sum of x[o, j, c] over j up to i, over dims [outer, length, inner].
struct ScanWork {
  mlir::AffineExpr outer, length, inner;
  mlir::Type element; ///< as stored
  mlir::Type sum;     ///< in which sums are taken: of 32 or 64 bits
  bool isExclusive = false, isReverse = false;
  uint32_t input = 0, output = 0; ///< buffers of the region
};

/// A block is a table of threads: `width` neighbouring columns (of strips of `lanes`) by `height`
/// along the axis. An axis that lies innermost has one column of single elements.
struct ScanLayout {
  int64_t lanes = 1;
  int64_t width = 1, height = 1;
  int64_t rows = 1;   ///< short rows that a block takes
  int64_t pieces = 1; ///< of an axis, for a block each: sums of pieces, then the scan
  int64_t threads() const { return width * height * rows; }
};
template <typename Visitor> void visitParameters(Visitor &visit, ScanLayout &layout) {
  visit("tile", layout.lanes, layout.width, layout.height);
  visit("rows", layout.rows);
  visit("pieces", layout.pieces);
}

/// The type in which elements of a storage type are summed.
mlir::Type sumType(mlir::Type storage);
/// A stored element as such a sum, and a sum as it is stored.
mlir::Value toSum(const ThreadBuilder &t, mlir::Type sum, mlir::Value stored);
mlir::Value fromSum(const ThreadBuilder &t, mlir::Type storage, mlir::Value sum);
mlir::Value addSums(const ThreadBuilder &t, mlir::Value a, mlir::Value b);
mlir::Value zeroSum(const ThreadBuilder &t, mlir::Type sum);

/// The region's only operation as a scan; none if it is another.
std::optional<ScanWork> scanOf(RegionBuilder &region);
ScanLayout scanLayout(RegionBuilder &region, const ScanWork &work);

/// Add the steps of a scan along the innermost axis, and along another.
void emitRowScan(RegionBuilder &region, const ScanWork &work, const ScanLayout &layout);
void emitColumnScan(RegionBuilder &region, const ScanWork &work, const ScanLayout &layout);
inline void emitScan(RegionBuilder &region, const ScanWork &work, const ScanLayout &layout) {
  bool isInnermost = tn::constantDim(work.inner) == 1;
  isInnermost ? emitRowScan(region, work, layout) : emitColumnScan(region, work, layout);
}

} // namespace tenon::codegen::cuda
