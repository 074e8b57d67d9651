// Values that many operators are made with: constants, casts, reshapes, slices, sizes as elements.
#include "compiler/frontend/common/Emitter.h"
#include "compiler/graph/ElementType.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::frontend {

Value Emitter::compare(Value a, tn::Predicate predicate, Value b) {
  return make<tn::CompareOp>(a, b, predicate);
}

Value Emitter::select(Value condition, Value a, Value b) {
  return make<tn::SelectOp>(condition, a, b);
}

Value Emitter::fromStart(Value indices) {
  if (!indices || getElementTypeOrSelf(indices).isUnsignedInteger()) {
    return indices;
  }
  Type element = getElementTypeOrSelf(indices);
  llvm::APInt least = llvm::APInt::getSignedMinValue(element.getIntOrFloatBitWidth());
  Value none = integerConstant({least.getSExtValue()}, {}, element);
  return select(compare(indices, tn::Predicate::lt, scalar(0, element)), none, indices);
}

namespace {

/// The bits of `value` as an element of an integer type; a truth is what is not zero.
llvm::APInt integer(int64_t value, Type element) {
  unsigned width = element.getIntOrFloatBitWidth();
  return width == 1 ? llvm::APInt(1, value != 0)
                    : llvm::APInt(width, static_cast<uint64_t>(value), /*isSigned=*/false,
                                  /*implicitTrunc=*/true);
}

} // namespace

Value Emitter::scalar(double value, Type element) {
  if (hasFailed) {
    return Value();
  }
  RankedTensorType type = RankedTensorType::get({}, element);
  mlir::Attribute attribute;
  if (FloatType real = dyn_cast<FloatType>(element)) {
    attribute = FloatAttr::get(real, value);
  } else {
    bool isTruth = element.isInteger(1);
    attribute = IntegerAttr::get(
        element, integer(isTruth ? int64_t(value != 0) : static_cast<int64_t>(value), element));
  }
  return makeTyped<tn::ConstantOp>(type,
                                   cast<ElementsAttr>(DenseElementsAttr::get(type, attribute)));
}

Value Emitter::scalarLike(double value, Value x) {
  return x ? scalar(value, cast<RankedTensorType>(x.getType()).getElementType()) : Value();
}

Value Emitter::realConstant(ArrayRef<double> values, ArrayRef<int64_t> shape, Type element) {
  if (hasFailed) {
    return Value();
  }
  DType type = element.isF64() ? DType::F64 : DType::F32;
  return cast(owner.materializeReals(values, shape, type, label() + ".made", place), element);
}

Value Emitter::positions(AffineExpr count) {
  Type index = builder().getI64Type();
  return hasFailed ? Value()
                   : makeTyped<tn::IotaOp>(tn::makeTensor({count}, index), scalar(0, index),
                                           scalar(1, index));
}

Value Emitter::sizeValue(AffineExpr size, Type element) {
  if (std::optional<int64_t> known = tn::constantDim(size)) {
    return scalar(static_cast<double>(*known), element);
  }
  return cast(materialize(Sizes::scalar(size), builder().getI64Type()), element);
}

Value Emitter::integerConstant(ArrayRef<int64_t> values, ArrayRef<int64_t> shape, Type element) {
  if (hasFailed) {
    return Value();
  }
  RankedTensorType type = RankedTensorType::get(shape, element);
  SmallVector<llvm::APInt> elements;
  for (int64_t value : values) {
    elements.push_back(integer(value, element));
  }
  return makeTyped<tn::ConstantOp>(type,
                                   cast<ElementsAttr>(DenseElementsAttr::get(type, elements)));
}

namespace {

/// The type whose numbers become codes of `element` without being rounded twice.
Type encodedFrom(Builder &builder, Type element, Type from) {
  if (isa<FloatType>(from) || (isa<IntegerType>(element) && !from.isInteger(1))) {
    return from;
  }
  return from.getIntOrFloatBitWidth() > 16 ? Type(builder.getF64Type())
                                           : Type(builder.getF32Type());
}

} // namespace

Value Emitter::cast(Value x, Type element, bool saturate, StringRef round) {
  Type from = x ? getElementTypeOrSelf(x) : element;
  if (from == element) {
    return x;
  }
  auto convert = [&](Type to) {
    x = x && getElementTypeOrSelf(x) != to
            ? makeTyped<tn::CastOp>(tn::withElement(x.getType(), to), x)
            : x;
  };
  if (tn::isLowBit(from)) {
    bool isUnsigned = from.isUnsignedInteger();
    from = isa<FloatType>(from) ? Type(builder().getF32Type())
           : isUnsigned         ? builder().getIntegerType(8, /*isSigned=*/false)
                                : builder().getI8Type();
    x = makeTyped<tn::DecodeOp>(tn::withElement(x.getType(), from), x);
  }
  if (!tn::isLowBit(element)) {
    convert(element);
    return x;
  }
  convert(encodedFrom(builder(), element, from));
  return x ? makeTyped<tn::EncodeOp>(tn::withElement(x.getType(), element), x, saturate, round) : x;
}

Value Emitter::widened(Value x) {
  FloatType element = x ? dyn_cast<FloatType>(getElementTypeOrSelf(x)) : FloatType();
  return element && element.getWidth() < 32 ? cast(x, builder().getF32Type()) : x;
}

Value Emitter::reshape(Value x, ArrayRef<AffineExpr> dims) {
  if (!x || hasFailed) {
    return Value();
  }
  RankedTensorType from = llvm::cast<RankedTensorType>(x.getType());
  RankedTensorType to = tn::makeTensor(dims, from.getElementType());
  return from == to ? x : makeTyped<tn::ReshapeOp>(to, x);
}

Value Emitter::transpose(Value x, ArrayRef<int64_t> permutation) {
  bool identity = true;
  for (auto [i, p] : llvm::enumerate(permutation)) {
    identity &= static_cast<int64_t>(i) == p;
  }
  return identity ? x : make<tn::TransposeOp>(x, permutation);
}

Value Emitter::broadcast(Value x, ArrayRef<AffineExpr> dims) {
  if (!x || hasFailed) {
    return Value();
  }
  RankedTensorType from = llvm::cast<RankedTensorType>(x.getType());
  RankedTensorType to = tn::makeTensor(dims, from.getElementType());
  return from == to ? x : makeTyped<tn::BroadcastOp>(to, x);
}

Value Emitter::reduce(tn::ReduceKind kind, Value x, ArrayRef<int64_t> axes, bool keepdims) {
  return make<tn::ReduceOp>(x, kind, axes, keepdims);
}

Value Emitter::concat(ArrayRef<Value> parts, int64_t axis) {
  if (parts.size() == 1) {
    return parts[0];
  }
  return make<tn::ConcatOp>(ValueRange(parts), axis);
}

tn::TopKOp Emitter::topK(Value x, int64_t axis, AffineExpr count, bool largest, bool sorted) {
  if (!x || hasFailed) {
    return {};
  }
  tn::Dims dims = tn::getDims(x.getType());
  dims[axis] = count;
  OperationState state(place, tn::TopKOp::getOperationName());
  tn::TopKOp::build(builder(), state, tn::makeTensor(dims, getElementTypeOrSelf(x)),
                    tn::makeTensor(dims, builder().getI64Type()), x, axis, largest, sorted);
  return dyn_cast_or_null<tn::TopKOp>(finish(state));
}

Value Emitter::sliceAxis(Value x, int64_t axis, AffineExpr start, AffineExpr size) {
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
                                tn::symbolMap(starts, &owner.context), steps);
}

Value Emitter::alongAxis(Value x, int64_t axis, int64_t rank) {
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

Value Emitter::materialize(const Sizes &sizes, Type element) {
  return hasFailed ? Value() : owner.materializeSizes(sizes, element, place);
}

} // namespace tenon::frontend
