// The ops that stand in the bodies of linalg ops, for several lanes at once. What does not differ
// between lanes is emitted once.
#include "compiler/codegen/cuda/base/ElementEmitter.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tenon::codegen::cuda {

Value ElementEmitter::valueOf(Value value, const Lane &lane) {
  if (Value found = lane.values.lookup(value)) {
    return found;
  }
  auto index = lane.indices.find(value);
  return index == lane.indices.end() ? scalar(value) : math.value(index->second);
}

Index ElementEmitter::indexOf(Value value, const Lane &lane) {
  auto index = lane.indices.find(value);
  if (index != lane.indices.end()) {
    return index->second;
  }
  if (Value found = lane.values.lookup(value)) {
    return {found, 0, 1, false};
  }
  if (AffineExpr expression = kernel.region.expressionOf(value)) {
    return kernel.size(expression);
  }
  return {scalar(value), 0, 1, false};
}

Value ElementEmitter::scalar(Value outer) {
  const void *id = outer.getAsOpaquePointer();
  if (const Value *found = scalars.find(id)) {
    return *found;
  }
  Value made;
  if (AffineExpr expression =
          outer.getType().isIndex() ? kernel.region.expressionOf(outer) : AffineExpr()) {
    made = math.value(kernel.size(expression));
  } else {
    Operation *op = outer.getDefiningOp();
    if (!op || op->getNumRegions() > 0 || isa<linalg::LinalgOp>(op)) {
      return fail(outer, op ? op->getName().getStringRef() : StringRef("a scalar argument"));
    }
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      mapping.map(operand, scalar(operand));
    }
    made = kernel.builder.clone(*op, mapping)->getResult(cast<OpResult>(outer).getResultNumber());
  }
  scalars.insert(id, made);
  return made;
}

namespace {

using Lane = ElementEmitter::Lane;

void emitExtract(ElementEmitter &emitter, tensor::ExtractOp extract, MutableArrayRef<Lane> lanes) {
  SmallVector<Indices> places;
  for (const Lane &lane : lanes) {
    places.push_back(llvm::map_to_vector<6>(
        extract.getIndices(), [&](Value index) { return emitter.indexOf(index, lane); }));
  }
  SmallVector<Value> values = emitter.elements(extract.getTensor(), places);
  for (auto [lane, value] : llvm::zip(lanes, values)) {
    lane.values[extract] = value;
  }
}

void emitApply(ElementEmitter &emitter, affine::AffineApplyOp apply, MutableArrayRef<Lane> lanes) {
  AffineMap map = apply.getAffineMap();
  for (Lane &lane : lanes) {
    Indices operands = llvm::map_to_vector<6>(
        apply.getMapOperands(), [&](Value operand) { return emitter.indexOf(operand, lane); });
    ArrayRef<Index> all(operands);
    lane.indices[apply] = emitter.math.evaluate(map.getResult(0), all.take_front(map.getNumDims()),
                                                all.drop_front(map.getNumDims()));
  }
}

/// One copy for all lanes that have the same operands.
void emitCopies(ElementEmitter &emitter, Operation &op, MutableArrayRef<Lane> lanes) {
  std::map<std::vector<const void *>, Operation *> copies;
  for (Lane &lane : lanes) {
    IRMapping mapping;
    std::vector<const void *> key;
    for (Value operand : op.getOperands()) {
      Value value = emitter.valueOf(operand, lane);
      mapping.map(operand, value);
      key.push_back(value.getAsOpaquePointer());
    }
    Operation *&copy = copies[key];
    if (!copy) {
      copy = emitter.kernel.builder.clone(op, mapping);
    }
    for (auto [result, copied] : llvm::zip(op.getResults(), copy->getResults())) {
      lane.values[result] = copied;
    }
  }
}

} // namespace

void ElementEmitter::emit(Operation &op, MutableArrayRef<Lane> lanes) {
  if (linalg::IndexOp index = dyn_cast<linalg::IndexOp>(op)) {
    for (Lane &lane : lanes) {
      lane.indices[index] = lane.loops[index.getDim()];
    }
    return;
  }
  if (affine::AffineApplyOp apply = dyn_cast<affine::AffineApplyOp>(op)) {
    return emitApply(*this, apply, lanes);
  }
  if (tensor::ExtractOp extract = dyn_cast<tensor::ExtractOp>(op)) {
    return emitExtract(*this, extract, lanes);
  }
  if (tensor::DimOp dim = dyn_cast<tensor::DimOp>(op)) {
    for (Lane &lane : lanes) {
      lane.indices[dim] = kernel.size(kernel.region.expressionOf(dim));
    }
    return;
  }
  std::optional<int64_t> constant = op.getNumResults() == 1 && op.getResult(0).getType().isIndex()
                                        ? getConstantIntValue(op.getResult(0))
                                        : std::nullopt;
  if (constant) {
    for (Lane &lane : lanes) {
      lane.indices[op.getResult(0)] = Index::constant(*constant);
    }
    return;
  }
  if (op.getNumRegions() > 0) {
    for (Value result : op.getResults()) {
      for (Lane &lane : lanes) {
        lane.values[result] = fail(result, op.getName().getStringRef());
      }
    }
    return;
  }
  emitCopies(*this, op, lanes);
}

} // namespace tenon::codegen::cuda
