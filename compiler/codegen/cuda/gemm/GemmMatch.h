// What one product region asks for: the sizes of its matmul and where the operands' elements lie in
// the region's buffers. Relies on StridedTensor.h for strides through movement ops.
#pragma once

#include "compiler/codegen/common/region/KernelFamily.h"
#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/base/StridedTensor.h"
#include "compiler/dispatch/WeightLayout.h"

namespace tenon::codegen::cuda {

/// A matrix for each place in the batch.
struct GemmOperand {
  StridedTensor
      at; ///< strides over the batch dims of the result (0 where it broadcasts), rows, columns

  mlir::AffineExpr rowStride() const { return at.strides[at.strides.size() - 2]; }
  mlir::AffineExpr columnStride() const { return at.strides.back(); }
};

/// Y[batch, rows, columns] = A[batch, rows, depth] B[batch, depth, columns].
struct GemmProblem {
  /// Of the result: those that are not rows. Leading dims of A that B has not are rows.
  tn::Dims batch;
  /// The dims of the result that together are the rows.
  tn::Dims rowDims;
  /// The batch is of groups, whose columns lie side by side in the result's rows.
  bool isGrouped = false;
  mlir::AffineExpr rows, columns, depth;
  GemmOperand a, b;
  /// Of bytes, of which two along the depth are one element of i16: whether those of A are signed.
  bool isSigned = false;
  /// Of the sums before anything else is done with them: 8-bit floats stand for multiples.
  double factor = 1;
};

/// The same places of a tensor of bytes as elements of 16 bits, two neighbours along dim `along`
/// each. None where they do not lie so.
std::optional<StridedTensor> pairedBytes(StridedTensor tensor, size_t along);
/// Whether what stands behind a product or a convolution has its dims, element by element.
bool isElementwiseBehind(mlir::Operation *root);
/// The problem of the region's only matmul.
MatchResult<GemmProblem> matchGemm(mlir::func::FuncOp region);

/// Of the region's linalg form: the sum over the depth, before it is rounded to its type, and what
/// the region gives.
struct GemmTensors {
  mlir::Value sum, result;
};
/// None if there is no such form or no sum.
std::optional<GemmTensors> productTensors(RegionBuilder &region);

/// Whether weights lie as [depth / panel, columns, panel].
bool isPackedInPanels(tn::UnpackOp unpack, bool transposeB, int64_t panel);
/// That layout of the weights of the region's only product; none if they may not be laid out.
std::optional<dispatch::WeightLayout> layoutInDepthPanels(RegionBuilder &region, int64_t panel);

} // namespace tenon::codegen::cuda
