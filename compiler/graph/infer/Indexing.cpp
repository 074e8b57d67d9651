// Shape rules of gather and scatter in their forms.
// Relies on infer/Infer.h; the values of the indices are checked when they are read, not here.
#include "compiler/graph/Constraints.h"
#include "compiler/graph/infer/Infer.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tenon::tn;
using namespace tenon::tn::infer;

namespace {

/// Indices of the elementwise forms: x's rank, no dim beside the axis larger than x's.
LogicalResult checkElementIndices(infer::Location location, Value x, Value indices, int64_t axis) {
  Dims data = dimsOf(x);
  Dims index = dimsOf(indices);
  if (failed(checkAxis(location, axis, data.size()))) {
    return failure();
  }
  if (index.size() != data.size()) {
    return emitOptionalError(location, "indices ", text(index), " have another rank than ",
                             text(data));
  }
  for (size_t i = 0; i < data.size(); ++i) {
    std::optional<int64_t> have = constantDim(index[i]);
    std::optional<int64_t> most = constantDim(data[i]);
    if (int64_t(i) == axis || !data[i] || !index[i]) {
      continue;
    }
    bool fits = have && most ? *have <= *most
                             : sameDim(index[i], data[i]) ||
                                   assumeIfHeard(ConstraintKind::at_least, data[i], index[i]);
    if (!fits) {
      return emitOptionalError(location, "indices ", text(index), " reach beyond dim ", i, " of ",
                               text(data));
    }
  }
  return success();
}

/// The length of the index tuples of the N-d forms: the last dim of `indices`.
FailureOr<int64_t> tupleLength(infer::Location location, Value x, Value indices,
                               int64_t batchDims) {
  Dims data = dimsOf(x);
  Dims index = dimsOf(indices);
  int64_t most = std::min<int64_t>(data.size(), int64_t(index.size()) - 1);
  if (index.empty() || batchDims < 0 || batchDims > most) {
    return emitOptionalError(location, batchDims, " batch dims do not fit indices ", text(index),
                             " and data ", text(data));
  }
  std::optional<int64_t> length = constantDim(index.back());
  if (!length || *length > int64_t(data.size()) - batchDims) {
    return emitOptionalError(location, "index tuples of length ", text(index.back()),
                             " do not fit data ", text(data));
  }
  for (int64_t i = 0; i < batchDims; ++i) {
    if (failed(checkSameDim(location, data[i], index[i], "batch dims of data and indices"))) {
      return failure();
    }
  }
  return *length;
}

} // namespace

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, infer::Location location, Adaptor adaptor,
                                         Types &types) {
  Dims data = dimsOf(adaptor.getX());
  Dims indices = dimsOf(adaptor.getIndices());
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(location, axis, data.size()))) {
    return failure();
  }
  Dims result(data.begin(), data.begin() + axis);
  llvm::append_range(result, indices);
  result.append(data.begin() + axis + 1, data.end());
  return append(location, result, elementOf(adaptor.getX()), types);
}

LogicalResult GatherElementsOp::inferReturnTypes(MLIRContext *, infer::Location location,
                                                 Adaptor adaptor, Types &types) {
  if (failed(
          checkElementIndices(location, adaptor.getX(), adaptor.getIndices(), adaptor.getAxis()))) {
    return failure();
  }
  return append(location, dimsOf(adaptor.getIndices()), elementOf(adaptor.getX()), types);
}

LogicalResult GatherNdOp::inferReturnTypes(MLIRContext *, infer::Location location, Adaptor adaptor,
                                           Types &types) {
  FailureOr<int64_t> length =
      tupleLength(location, adaptor.getX(), adaptor.getIndices(), adaptor.getBatchDims());
  if (failed(length)) {
    return failure();
  }
  Dims data = dimsOf(adaptor.getX());
  Dims result = dimsOf(adaptor.getIndices());
  result.pop_back();
  result.append(data.begin() + adaptor.getBatchDims() + *length, data.end());
  return append(location, result, elementOf(adaptor.getX()), types);
}

LogicalResult ScatterElementsOp::inferReturnTypes(MLIRContext *, infer::Location location,
                                                  Adaptor adaptor, Types &types) {
  if (failed(
          checkElementIndices(location, adaptor.getX(), adaptor.getIndices(), adaptor.getAxis())) ||
      failed(checkSameElement(location, adaptor.getX(), adaptor.getUpdates())) ||
      failed(checkDims(location, adaptor.getUpdates(), dimsOf(adaptor.getIndices()), "updates"))) {
    return failure();
  }
  types.push_back(adaptor.getX().getType());
  return success();
}

LogicalResult ScatterNdOp::inferReturnTypes(MLIRContext *, infer::Location location,
                                            Adaptor adaptor, Types &types) {
  FailureOr<int64_t> length = tupleLength(location, adaptor.getX(), adaptor.getIndices(), 0);
  if (failed(length)) {
    return failure();
  }
  Dims data = dimsOf(adaptor.getX());
  Dims updates = dimsOf(adaptor.getIndices());
  updates.pop_back();
  updates.append(data.begin() + *length, data.end());
  if (failed(checkSameElement(location, adaptor.getX(), adaptor.getUpdates())) ||
      failed(checkDims(location, adaptor.getUpdates(), updates, "updates"))) {
    return failure();
  }
  types.push_back(adaptor.getX().getType());
  return success();
}
