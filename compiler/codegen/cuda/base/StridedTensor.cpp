// Follows a value through operations that only move elements. Relies on dims being expressions over
// the region's symbols.
#include "compiler/codegen/cuda/base/StridedTensor.h"

#include "compiler/codegen/cuda/base/OnePanel.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// A reshape of what lies in row-major order is row-major too.
std::optional<StridedTensor> throughReshape(tn::ReshapeOp reshape) {
  std::optional<StridedTensor> from = stridedInput(reshape.getX());
  tn::Dims dims = tn::getDims(reshape.getX().getType());
  MLIRContext *context = reshape.getContext();
  if (!from || !tn::sameDims(from->strides, rowMajor(dims, context))) {
    return std::nullopt;
  }
  from->strides = rowMajor(tn::getDims(reshape.getY().getType()), context);
  return from;
}

std::optional<StridedTensor> throughBroadcast(tn::BroadcastOp broadcast) {
  std::optional<StridedTensor> from = stridedInput(broadcast.getX());
  if (!from) {
    return std::nullopt;
  }
  tn::Dims dims = tn::getDims(broadcast.getX().getType());
  size_t rank = tn::getDims(broadcast.getY().getType()).size();
  tn::Dims strides(rank, getAffineConstantExpr(0, broadcast.getContext()));
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (tn::constantDim(dim) == 1) {
      continue;
    }
    if (!tn::sameDim(dim, tn::getDims(broadcast.getY().getType())[rank - dims.size() + i])) {
      return std::nullopt; // it may turn out to be 1
    }
    strides[rank - dims.size() + i] = from->strides[i];
  }
  from->strides = strides;
  return from;
}

StridedTensor throughTranspose(StridedTensor tensor, ArrayRef<int64_t> permutation) {
  tn::Dims strides;
  for (int64_t from : permutation) {
    strides.push_back(tensor.strides[from]);
  }
  tensor.strides = strides;
  return tensor;
}

std::optional<StridedTensor> throughUnpack(tn::UnpackOp unpack) {
  std::optional<StridedTensor> from = stridedInput(unpack.getPacked());
  if (!from || !isOnePanel(unpack)) {
    return std::nullopt;
  }
  tn::Dims strides(2);
  strides[unpack.getOuterDimsPerm()[0]] = from->strides[0];
  strides[unpack.getOuterDimsPerm()[1]] = from->strides[1];
  from->strides = strides;
  return from;
}

StridedTensor throughSlice(StridedTensor tensor, tn::SliceOp slice) {
  for (auto [i, start] : llvm::enumerate(slice.getStarts().getResults())) {
    tensor.offset = tensor.offset + start * tensor.strides[i];
    tensor.strides[i] = tensor.strides[i] * slice.getSteps()[i];
  }
  return tensor;
}

} // namespace

tn::Dims rowMajor(ArrayRef<AffineExpr> dims, MLIRContext *context) {
  tn::Dims strides(dims.size());
  AffineExpr stride = getAffineConstantExpr(1, context);
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride = stride * dims[i];
  }
  return strides;
}

std::optional<StridedTensor> stridedInput(Value value) {
  if (BlockArgument argument = dyn_cast<BlockArgument>(value)) {
    MLIRContext *context = value.getContext();
    return StridedTensor{argument.getArgNumber(), getElementTypeOrSelf(value.getType()),
                         getAffineConstantExpr(0, context),
                         rowMajor(tn::getDims(value.getType()), context)};
  }
  Operation *op = value.getDefiningOp();
  if (tn::ReshapeOp reshape = dyn_cast<tn::ReshapeOp>(op)) {
    return throughReshape(reshape);
  }
  if (tn::BroadcastOp broadcast = dyn_cast<tn::BroadcastOp>(op)) {
    return throughBroadcast(broadcast);
  }
  if (tn::UnpackOp unpack = dyn_cast<tn::UnpackOp>(op)) {
    return throughUnpack(unpack);
  }
  if (!isa<tn::TransposeOp, tn::SliceOp>(op)) {
    return std::nullopt;
  }
  std::optional<StridedTensor> from = stridedInput(op->getOperand(0));
  if (!from) {
    return std::nullopt;
  }
  tn::TransposeOp transpose = dyn_cast<tn::TransposeOp>(op);
  return transpose ? throughTranspose(*from, transpose.getPermutation())
                   : throughSlice(*from, cast<tn::SliceOp>(op));
}

} // namespace tenon::codegen::cuda
