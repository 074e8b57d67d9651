// Where the elements of a value lie in one of the region's buffers, once the movement ops between
// are read as strides. Every family whose kernel reads its operands by strides uses it.
#pragma once

#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"

#include <optional>

namespace tenon::codegen::cuda {

/// A tensor inside one of the region's buffers: element i is at offset + sum of i_d * strides_d.
struct StridedTensor {
  uint32_t buffer = 0; ///< as in RegionStep::buffers
  mlir::Type element;
  mlir::AffineExpr offset;
  tn::Dims strides;
};

/// The strides of dims that lie one after the other.
tn::Dims rowMajor(llvm::ArrayRef<mlir::AffineExpr> dims, mlir::MLIRContext *context);

/// Where a value lies in an input of its region: through transposes, slices, broadcasts and
/// reshapes of what is contiguous. None if it is computed.
std::optional<StridedTensor> stridedInput(mlir::Value value);

} // namespace tenon::codegen::cuda
