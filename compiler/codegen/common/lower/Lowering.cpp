// The mechanism of the lowering: tensors of values, and bodies that grow operands as elements are
// asked for. What each op does stands in the tables of ElementFn.cpp and Compute*.cpp.
#include "compiler/codegen/common/lower/Lowering.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;

namespace tenon::codegen {

Lowering::Lowering(OpBuilder &builder, Location location, ValueRange symbols)
    : builder(builder), location(location), symbols(symbols) {}

OpFoldResult Lowering::size(AffineExpr expression) {
  SmallVector<OpFoldResult> operands(symbols.begin(), symbols.end());
  AffineMap map = AffineMap::get(0, symbols.size(), expression);
  return affine::makeComposedFoldedAffineApply(builder, location, map, operands);
}

Value Lowering::empty(ArrayRef<AffineExpr> dims, Type storage) {
  SmallVector<OpFoldResult> sizes;
  for (AffineExpr dim : dims) {
    sizes.push_back(size(dim));
  }
  return tensor::EmptyOp::create(builder, location, sizes, storage);
}

Value Lowering::filled(ArrayRef<AffineExpr> dims, TypedAttr value) {
  Value scalar = arith::ConstantOp::create(builder, location, value);
  Value init = empty(dims, value.getType());
  return linalg::FillOp::create(builder, location, scalar, init).getResult(0);
}

Value Lowering::materialize(Value value) {
  if (Value tensor = tensorOf(value)) {
    return tensor;
  }
  Operation *op = value.getDefiningOp();
  if (ComputeFn compute = findCompute(op)) {
    return succeeded(compute(*this, op)) ? tensorOf(value) : Value();
  }
  if (!findElementFn(op)) {
    emitError(location) << "no code can be made for "
                        << (op ? op->getName().getStringRef() : StringRef("an unbound argument"));
    return {};
  }
  tn::Dims dims = tn::getDims(value.getType());
  Body body(*this, dims);
  Value element = body.at(value, body.loops());
  if (!element) {
    return {};
  }
  Value init = empty(dims, storageType(getElementTypeOrSelf(value)));
  AffineMap identity = builder.getMultiDimIdentityMap(dims.size());
  Value tensor = body.finish(element, init, identity).getResult(0);
  bind(value, tensor);
  return tensor;
}

Body::Body(Lowering &lowering, ArrayRef<AffineExpr> space, ArrayRef<Type> accumulators)
    : lowering(lowering), builder(lowering.builder.getContext()), space(space),
      loopCount(space.size()), block(std::make_unique<Block>()) {
  for (Type type : accumulators) {
    block->addArgument(type, lowering.location);
  }
  builder.setInsertionPointToEnd(block.get());
}

AffineExpr Body::loop(unsigned i) const {
  return getAffineDimExpr(i, lowering.builder.getContext());
}

SmallVector<AffineExpr> Body::loops() const {
  SmallVector<AffineExpr> result;
  for (unsigned i = 0; i < loopCount; ++i) {
    result.push_back(loop(i));
  }
  return result;
}

AffineExpr Body::asIndex(Value index) {
  indexValues.push_back(index);
  return loop(loopCount + indexValues.size() - 1);
}

Value Body::index(AffineExpr expression) {
  SmallVector<OpFoldResult> operands;
  for (unsigned i = 0; i < loopCount; ++i) {
    operands.push_back(linalg::IndexOp::create(builder, lowering.location, i).getResult());
  }
  operands.append(indexValues.begin(), indexValues.end());
  operands.append(lowering.symbols.begin(), lowering.symbols.end());
  AffineMap map =
      AffineMap::get(loopCount + indexValues.size(), lowering.symbols.size(), expression);
  OpFoldResult folded =
      affine::makeComposedFoldedAffineApply(builder, lowering.location, map, operands);
  return getValueOrCreateConstantIndexOp(builder, lowering.location, folded);
}

/// Whole loops at most once each, or the only index of a dim: what linalg reads as an operand
/// instead of by an explicit load. A part of a dim is no operand, as linalg learns a loop's size
/// from it.
bool Body::isOperandMap(ArrayRef<AffineExpr> indices, ArrayRef<AffineExpr> dims) const {
  llvm::SmallDenseSet<unsigned> seen;
  for (auto [i, index] : llvm::enumerate(indices)) {
    if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(index)) {
      if (constant.getValue() != 0 || (!dims.empty() && tn::constantDim(dims[i]) != 1)) {
        return false;
      }
      continue;
    }
    AffineDimExpr dim = dyn_cast<AffineDimExpr>(index);
    if (!dim || dim.getPosition() >= loopCount || !seen.insert(dim.getPosition()).second ||
        (!dims.empty() && dims[i] != space[dim.getPosition()])) {
      return false;
    }
  }
  return true;
}

Value Body::load(Value tensor, ArrayRef<AffineExpr> indices, ArrayRef<AffineExpr> dims) {
  if (!isOperandMap(indices, dims)) {
    SmallVector<Value> values;
    for (AffineExpr expression : indices) {
      values.push_back(index(expression));
    }
    return tensor::ExtractOp::create(builder, lowering.location, tensor, values);
  }
  AffineMap map = AffineMap::get(loopCount, 0, indices, builder.getContext());
  for (Input &input : inputs) {
    if (input.tensor == tensor && input.map == map) {
      return input.element;
    }
  }
  Value element = block->addArgument(getElementTypeOrSelf(tensor), lowering.location);
  inputs.push_back({tensor, map, element});
  return element;
}

Value Body::at(Value value, ArrayRef<AffineExpr> indices) {
  if (Value tensor = lowering.tensorOf(value)) {
    return load(tensor, indices, tn::getDims(value.getType()));
  }
  std::vector<const void *> key;
  for (AffineExpr index : indices) {
    key.push_back(index.getAsOpaquePointer());
  }
  std::pair<void *, std::vector<const void *>> memo(value.getAsOpaquePointer(), std::move(key));
  if (Value element = known[memo]) {
    return element;
  }
  Operation *op = value.getDefiningOp();
  Value element;
  if (ElementFn access = findElementFn(op)) {
    element = access(*this, op, indices);
  } else if (Value tensor = lowering.materialize(value)) {
    element = load(tensor, indices, tn::getDims(value.getType()));
  }
  known[memo] = element;
  return element;
}

/// linalg learns the size of a loop from an operand. For loops that none indexes alone, an operand
/// of their sizes is added whose elements nobody reads.
void Body::addShapeOperand(ArrayRef<AffineMap> maps) {
  llvm::SmallBitVector known(loopCount);
  auto note = [&](AffineMap map) {
    for (AffineExpr result : map.getResults()) {
      if (AffineDimExpr dim = dyn_cast<AffineDimExpr>(result)) {
        known.set(dim.getPosition());
      }
    }
  };
  llvm::for_each(maps, note);
  for (Input &input : inputs) {
    note(input.map);
  }
  if (known.all()) {
    return;
  }
  SmallVector<AffineExpr> sizes, indices;
  for (unsigned i = 0; i < loopCount; ++i) {
    if (!known[i]) {
      sizes.push_back(space[i]);
      indices.push_back(loop(i));
    }
  }
  load(lowering.empty(sizes, builder.getI8Type()), indices);
}

linalg::GenericOp Body::finish(ValueRange yields, ValueRange inits, ArrayRef<AffineMap> maps,
                               ArrayRef<unsigned> reductions) {
  addShapeOperand(maps);
  linalg::YieldOp::create(builder, lowering.location, yields);
  SmallVector<AffineMap> allMaps;
  SmallVector<Value> tensors;
  for (Input &input : inputs) {
    tensors.push_back(input.tensor);
    allMaps.push_back(input.map);
  }
  allMaps.append(maps.begin(), maps.end());
  SmallVector<utils::IteratorType> iterators(loopCount, utils::IteratorType::parallel);
  for (unsigned loop : reductions) {
    iterators[loop] = utils::IteratorType::reduction;
  }
  linalg::GenericOp generic = linalg::GenericOp::create(
      lowering.builder, lowering.location, inits.getTypes(), tensors, inits, allMaps, iterators);

  // linalg wants inputs before accumulators; the body was built the other way round.
  Block *body = lowering.builder.createBlock(&generic.getRegion());
  for (Input &input : inputs) {
    input.element.replaceAllUsesWith(body->addArgument(input.element.getType(), lowering.location));
  }
  unsigned accumulators = block->getNumArguments() - inputs.size();
  for (auto [i, init] : llvm::enumerate(inits)) {
    Value argument = body->addArgument(getElementTypeOrSelf(init), lowering.location);
    if (i < accumulators) {
      block->getArgument(i).replaceAllUsesWith(argument);
    }
  }
  body->getOperations().splice(body->end(), block->getOperations());
  lowering.builder.setInsertionPointAfter(generic);
  return generic;
}

} // namespace tenon::codegen
