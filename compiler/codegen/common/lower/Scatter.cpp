// Scatters: a copy of the data, then one update after the other in a loop nest, since several may
// meet at one place. Relies on indices being held inside the data.
#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/common/lower/ElementFn.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
Value combineUpdate(OpBuilder &b, Location location, ScatterKind kind, Type element, Value old,
                    Value update) {
  if (kind == ScatterKind::none) {
    return update;
  }
  Value a = widen(b, location, old), x = widen(b, location, update);
  Value result;
  switch (kind) {
  case ScatterKind::add:
    result = combineSum(b, location, a, x);
    break;
  case ScatterKind::mul:
    result = combineProduct(b, location, a, x);
    break;
  default:
    result = combineExtreme(b, location, element, kind == ScatterKind::max, a, x);
  }
  return narrow(b, location, result, old.getType());
}

namespace {

/// One scatter: where the update at a position goes is told by `place`.
class Scatter {
public:
  Scatter(Lowering &lowering, Value x, Value indices, Value updates, ScatterKind kind)
      : lowering(lowering), data(x), kind(kind), positions(indices),
        indices(lowering.materialize(indices)), updates(lowering.materialize(updates)) {
    for (AffineExpr dim : getDims(x.getType())) {
      sizes.push_back(indexValue(dim));
    }
    for (AffineExpr dim : getDims(updates.getType())) {
      bounds.push_back(indexValue(dim));
    }
  }

  /// The index read from the index tensor, into dim `dim` of the data.
  Value chosen(OpBuilder &b, ArrayRef<Value> position, size_t dim) {
    Value element = tensor::ExtractOp::create(b, lowering.location, indices, position);
    return indexInDim(b, lowering.location, positions, element, getDims(data.getType())[dim],
                      sizes[dim]);
  }

  using PlaceFn = llvm::function_ref<SmallVector<Value>(OpBuilder &, ValueRange)>;
  LogicalResult bind(Value y, PlaceFn place) {
    Type element = getElementTypeOrSelf(data);
    Value copy =
        indices && updates
            ? compute(lowering, getDims(y.getType()), storageType(element),
                      [&](Body &body, ArrayRef<AffineExpr> at) { return body.at(data, at); })
            : Value();
    if (!copy) {
      return failure();
    }
    if (isEmpty(data)) {
      lowering.bind(y, copy);
      return success();
    }
    Location location = lowering.location;
    Value zero = arith::ConstantIndexOp::create(lowering.builder, location, 0);
    Value one = arith::ConstantIndexOp::create(lowering.builder, location, 1);
    SmallVector<Value> starts(bounds.size(), zero), steps(bounds.size(), one);
    scf::LoopNest nest = scf::buildLoopNest(
        lowering.builder, location, starts, bounds, steps, copy,
        [&](OpBuilder &b, Location, ValueRange at, ValueRange carried) -> scf::ValueVector {
          SmallVector<Value> target = place(b, at);
          Value update = tensor::ExtractOp::create(b, location, updates, at);
          Value old = tensor::ExtractOp::create(b, location, carried[0], target);
          Value combined = combineUpdate(b, location, kind, element, old, update);
          return {tensor::InsertOp::create(b, location, combined, carried[0], target)};
        });
    lowering.bind(y, nest.results[0]);
    return success();
  }

private:
  Value indexValue(AffineExpr size) {
    return getValueOrCreateConstantIndexOp(lowering.builder, lowering.location,
                                           lowering.size(size));
  }

  Lowering &lowering;
  Value data;
  ScatterKind kind;
  Value positions;        ///< the index tensor as the model has it
  Value indices, updates; ///< as tensors of the code
  SmallVector<Value> sizes, bounds;
};

} // namespace

LogicalResult computeScatterElements(Lowering &lowering, Operation *op) {
  ScatterElementsOp scatter = cast<ScatterElementsOp>(op);
  Scatter nest(lowering, scatter.getX(), scatter.getIndices(), scatter.getUpdates(),
               scatter.getKind());
  return nest.bind(scatter.getY(), [&](OpBuilder &b, ValueRange at) {
    SmallVector<Value> target(at);
    target[scatter.getAxis()] = nest.chosen(b, target, scatter.getAxis());
    return target;
  });
}

LogicalResult computeScatterNd(Lowering &lowering, Operation *op) {
  ScatterNdOp scatter = cast<ScatterNdOp>(op);
  Dims indexDims = getDims(scatter.getIndices().getType());
  size_t tuples = indexDims.size() - 1;
  std::optional<int64_t> length = constantDim(indexDims.back());
  if (!length) {
    return op->emitError("the length of the index tuples is not constant");
  }
  Scatter nest(lowering, scatter.getX(), scatter.getIndices(), scatter.getUpdates(),
               scatter.getKind());
  return nest.bind(scatter.getY(), [&](OpBuilder &b, ValueRange at) {
    SmallVector<Value> target;
    for (int64_t i = 0; i < *length; ++i) {
      SmallVector<Value> position(at.take_front(tuples));
      position.push_back(arith::ConstantIndexOp::create(b, lowering.location, i));
      target.push_back(nest.chosen(b, position, i));
    }
    llvm::append_range(target, at.drop_front(tuples));
    return target;
  });
}

} // namespace tenon::codegen
