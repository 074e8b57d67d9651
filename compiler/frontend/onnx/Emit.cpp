// The helpers of NodeContext that emit `tn` operations.
// Relies on MLIR's type inference and verification, so that a bad operand gives an error at its
// node.
#include "compiler/frontend/onnx/NodeContext.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace tenon::onnx {

Operation *NodeContext::finish(OperationState &state) {
  if (hasFailed || llvm::any_of(state.operands, [](Value operand) { return !operand; })) {
    return nullptr;
  }
  owner.lastDiagnostic.clear();
  bool infer = llvm::any_of(state.types, [](Type type) { return !type; });
  LogicalResult sound = success();
  if (infer) {
    InferTypeOpInterface::Concept *interface = state.name.getInterface<InferTypeOpInterface>();
    SmallVector<Type> types;
    sound = failure(!interface);
    if (interface) {
      sound = interface->inferReturnTypes(&owner.context, place, state.operands,
                                          state.attributes.getDictionary(&owner.context),
                                          state.getRawProperties(), state.regions, types);
    }
    state.types.assign(types.begin(), types.end());
  }
  Operation *op = nullptr;
  if (succeeded(sound)) {
    op = builder().create(state);
    sound = mlir::verify(op, /*verifyRecursively=*/false);
  }
  if (succeeded(sound)) {
    return op;
  }
  bool isStatic = llvm::all_of(state.operands, [](Value operand) {
    return cast<RankedTensorType>(operand.getType()).hasStaticShape();
  });
  StringRef why = StringRef(owner.lastDiagnostic);
  if (isStatic && !why.contains("must be")) {
    error(ErrorId::OnnxBadNode, "its inputs contradict the operator: " + why);
  } else {
    gap(why.empty() ? StringRef("the shapes of its inputs cannot be reconciled") : why,
        isStatic ? "use another element type" : "declare the input shapes with --shape");
  }
  if (op) {
    op->erase();
  }
  return nullptr;
}

Value NodeContext::add(Value a, Value b) { return make<tn::AddOp>(a, b); }
Value NodeContext::sub(Value a, Value b) { return make<tn::SubOp>(a, b); }
Value NodeContext::mul(Value a, Value b) { return make<tn::MulOp>(a, b); }
Value NodeContext::div(Value a, Value b) { return make<tn::DivOp>(a, b); }
Value NodeContext::max(Value a, Value b) { return make<tn::MaxOp>(a, b); }
Value NodeContext::min(Value a, Value b) { return make<tn::MinOp>(a, b); }

Value NodeContext::compare(Value a, tn::Predicate predicate, Value b) {
  return make<tn::CompareOp>(a, b, predicate);
}

Value NodeContext::select(Value condition, Value a, Value b) {
  return make<tn::SelectOp>(condition, a, b);
}

Value NodeContext::scalar(double value, Type element) {
  if (hasFailed) {
    return Value();
  }
  RankedTensorType type = RankedTensorType::get({}, element);
  mlir::Attribute attribute;
  if (FloatType real = dyn_cast<FloatType>(element)) {
    attribute = FloatAttr::get(real, value);
  } else {
    attribute =
        IntegerAttr::get(element, llvm::APInt(element.getIntOrFloatBitWidth(),
                                              static_cast<uint64_t>(static_cast<int64_t>(value)),
                                              /*isSigned=*/false, /*implicitTrunc=*/true));
  }
  return makeTyped<tn::ConstantOp>(type,
                                   cast<ElementsAttr>(DenseElementsAttr::get(type, attribute)));
}

Value NodeContext::scalarLike(double value, Value x) {
  return x ? scalar(value, cast<RankedTensorType>(x.getType()).getElementType()) : Value();
}

Value NodeContext::integerConstant(ArrayRef<int64_t> values, ArrayRef<int64_t> shape,
                                   Type element) {
  if (hasFailed) {
    return Value();
  }
  RankedTensorType type = RankedTensorType::get(shape, element);
  SmallVector<llvm::APInt> elements;
  for (int64_t value : values) {
    elements.push_back(llvm::APInt(element.getIntOrFloatBitWidth(), static_cast<uint64_t>(value),
                                   /*isSigned=*/false, /*implicitTrunc=*/true));
  }
  return makeTyped<tn::ConstantOp>(type,
                                   cast<ElementsAttr>(DenseElementsAttr::get(type, elements)));
}

Value NodeContext::cast(Value x, Type element) {
  if (!x || llvm::cast<RankedTensorType>(x.getType()).getElementType() == element) {
    return x;
  }
  return makeTyped<tn::CastOp>(tn::withElement(x.getType(), element), x);
}

Value NodeContext::reshape(Value x, ArrayRef<AffineExpr> dims) {
  if (!x || hasFailed) {
    return Value();
  }
  RankedTensorType from = llvm::cast<RankedTensorType>(x.getType());
  RankedTensorType to = tn::makeTensor(dims, from.getElementType());
  return from == to ? x : makeTyped<tn::ReshapeOp>(to, x);
}

Value NodeContext::transpose(Value x, ArrayRef<int64_t> permutation) {
  bool identity = true;
  for (auto [i, p] : llvm::enumerate(permutation)) {
    identity &= static_cast<int64_t>(i) == p;
  }
  return identity ? x : make<tn::TransposeOp>(x, permutation);
}

Value NodeContext::broadcast(Value x, ArrayRef<AffineExpr> dims) {
  if (!x || hasFailed) {
    return Value();
  }
  RankedTensorType from = llvm::cast<RankedTensorType>(x.getType());
  RankedTensorType to = tn::makeTensor(dims, from.getElementType());
  return from == to ? x : makeTyped<tn::BroadcastOp>(to, x);
}

Value NodeContext::reduce(tn::ReduceKind kind, Value x, ArrayRef<int64_t> axes, bool keepdims) {
  return make<tn::ReduceOp>(x, kind, axes, keepdims);
}

Value NodeContext::concat(ArrayRef<Value> parts, int64_t axis) {
  if (parts.size() == 1) {
    return parts[0];
  }
  return make<tn::ConcatOp>(ValueRange(parts), axis);
}

Value NodeContext::sliceAxis(Value x, int64_t axis, AffineExpr start, AffineExpr size) {
  if (!x || hasFailed) {
    return Value();
  }
  RankedTensorType type = llvm::cast<RankedTensorType>(x.getType());
  tn::Dims dims = tn::getDims(type);
  SmallVector<AffineExpr> starts(dims.size(), constantSize(0));
  SmallVector<int64_t> steps(dims.size(), 1);
  starts[axis] = start;
  dims[axis] = size;
  return makeTyped<tn::SliceOp>(tn::makeTensor(dims, type.getElementType()), x,
                                symbolMap(starts, &owner.context), steps);
}

Value NodeContext::alongAxis(Value x, int64_t axis, int64_t rank) {
  if (!x || hasFailed) {
    return Value();
  }
  tn::Dims own = tn::getDims(x.getType());
  if (own.empty()) {
    return x;
  }
  tn::Dims dims(rank, constantSize(1));
  dims[axis] = own[0];
  return reshape(x, dims);
}

Value NodeContext::materialize(const Sizes &sizes, Type element) {
  return hasFailed ? Value() : owner.materializeSizes(sizes, element, place);
}

} // namespace tenon::onnx
