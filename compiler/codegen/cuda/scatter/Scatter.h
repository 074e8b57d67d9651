// What a scatter reads and writes, and where its updates go.
#pragma once

#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/scatter/Tuning.h"

#include <optional>

namespace tenon::codegen::cuda {

/// Updates are slices of the data's innermost dims: of one element for scatter_elements.
struct ScatterWork {
  mlir::Value positions; ///< the index tensor, of the model
  tn::ScatterKind kind = tn::ScatterKind::none;
  mlir::Type tn, element, index; ///< as the model has it and as stored; of the indices, as stored
  tn::Dims data, updates;        ///< dims
  std::optional<int64_t> axis;   ///< of scatter_elements
  int64_t tuple = 1;             ///< indices that say where an update goes
  mlir::AffineExpr count, slice; ///< updates, and elements of one
  mlir::AffineExpr places;       ///< slices of the data
  uint32_t input = 0, indices = 0, from = 0, output = 0; ///< buffers of the region

  /// Elements that a thread moves at once.
  int64_t lanes() const;
};
/// The region's only operation as a scatter; none if it is another.
std::optional<ScatterWork> scatterOf(RegionBuilder &region);

/// The number of the slice of the data that an update (i64) goes to (i64), from the indices in
/// buffer number `indices` of the kernel. An index outside fails the kernel.
mlir::Value placeOf(const ThreadBuilder &t, KernelFrame &frame, const ScatterWork &work,
                    unsigned indices, mlir::Value update);

/// A kernel with a thread for each of `count`, whose number (i64) `body` gets; buffers as
/// KernelFrame has them.
using ThreadBody =
    llvm::function_ref<void(const ThreadBuilder &, KernelFrame &, mlir::Value number)>;
void emitForEach(RegionBuilder &region, llvm::ArrayRef<uint32_t> buffers, uint32_t reads,
                 mlir::AffineExpr count, ThreadBody body);

/// A step that copies a buffer as it lies; left out where the other one lies over it.
void emitDataCopy(RegionBuilder &region, uint32_t input, uint32_t output, mlir::AffineExpr bytes);

/// Adds the steps of a scatter.
void emitScatter(RegionBuilder &region, const ScatterWork &work);

} // namespace tenon::codegen::cuda
