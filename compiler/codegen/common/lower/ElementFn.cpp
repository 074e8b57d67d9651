// Ops whose element at given indices follows from single elements of their operands: elementwise
// ops and movement. Each entry says where the element comes from; nothing is materialized.
#include "compiler/codegen/common/lower/ElementFn.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

AffineExpr zeroIndex(Body &body) { return getAffineConstantExpr(0, body.builder.getContext()); }

/// The indices into an operand that broadcasts to a result of `result` dims. A dim that may turn
/// out to be 1 is the result's or 1, by a constraint.
SmallVector<AffineExpr> broadcastIndices(Body &body, Value operand, ArrayRef<AffineExpr> result,
                                         ArrayRef<AffineExpr> indices) {
  Dims dims = getDims(operand.getType());
  size_t offset = result.size() - dims.size();
  SmallVector<AffineExpr> mapped;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    AffineExpr index = indices[offset + i];
    bool maybeOne = !constantDim(dim) && !sameDim(dim, result[offset + i]);
    mapped.push_back(constantDim(dim) == 1 ? zeroIndex(body) : maybeOne ? index % dim : index);
  }
  return mapped;
}

Value elementOfElementwise(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  Dims dims = getDims(op->getResult(0).getType());
  SmallVector<Value> args;
  for (Value operand : op->getOperands()) {
    args.push_back(body.at(operand, broadcastIndices(body, operand, dims, indices)));
    if (!args.back()) {
      return {};
    }
  }
  return emitScalarBody(body.builder, body.lowering.location, op, args);
}

Value elementOfConstant(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  DenseElementsAttr value = dyn_cast<DenseElementsAttr>(cast<ConstantOp>(op).getValue());
  if (!value) {
    op->emitOpError("holds its elements in a form that codegen does not read");
    return {};
  }
  Type storage = storageType(value.getElementType());
  OpBuilder &builder = body.builder;
  Location location = body.lowering.location;
  if (value.isSplat()) {
    return arith::ConstantOp::create(builder, location,
                                     storedElement(value.getSplatValue<Attribute>(), storage));
  }
  Value tensor = body.lowering.tensorOf(op->getResult(0));
  if (!tensor) {
    SmallVector<Attribute> elements;
    for (Attribute element : value.getValues<Attribute>()) {
      elements.push_back(storedElement(element, storage));
    }
    RankedTensorType type = RankedTensorType::get(value.getType().getShape(), storage);
    tensor = arith::ConstantOp::create(body.lowering.builder, location,
                                       DenseElementsAttr::get(type, elements));
    body.lowering.bind(op->getResult(0), tensor);
  }
  return body.load(tensor, indices);
}

/// A chain of selects over the elements; sizes have few.
Value elementOfSizes(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  SizesOp sizes = cast<SizesOp>(op);
  Type storage = storageType(getElementTypeOrSelf(sizes.getY()));
  OpBuilder &builder = body.builder;
  Location location = body.lowering.location;
  ArrayRef<AffineExpr> values = sizes.getValues().getResults();
  Value result;
  Value position = indices.empty() ? Value() : body.index(indices[0]);
  for (auto [i, expression] : llvm::enumerate(values)) {
    Value element = arith::IndexCastOp::create(builder, location, storage, body.index(expression));
    if (!result) {
      result = element;
      continue;
    }
    Value here = arith::ConstantIndexOp::create(builder, location, i);
    Value isHere =
        arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, position, here);
    result = arith::SelectOp::create(builder, location, isHere, element, result);
  }
  return result;
}

/// The runtime has read the count: it is the result's first dim.
Value elementOfTakeFirst(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  return body.at(cast<TakeFirstOp>(op).getX(), indices);
}

Value elementOfTranspose(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  TransposeOp transpose = cast<TransposeOp>(op);
  SmallVector<AffineExpr> mapped(indices.size());
  for (auto [i, source] : llvm::enumerate(transpose.getPermutation())) {
    mapped[source] = indices[i];
  }
  return body.at(transpose.getX(), mapped);
}

Value elementOfBroadcast(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  Value x = op->getOperand(0);
  return body.at(x, broadcastIndices(body, x, getDims(op->getResult(0).getType()), indices));
}

Value elementOfReshape(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  Dims to = getDims(op->getResult(0).getType());
  Dims from = getDims(op->getOperand(0).getType());
  AffineExpr linear = zeroIndex(body);
  for (auto [dim, index] : llvm::zip(to, indices)) {
    linear = linear * dim + index;
  }
  SmallVector<AffineExpr> mapped(from.size());
  AffineExpr rest = linear;
  for (size_t i = from.size(); i-- > 0;) {
    mapped[i] = i == 0 ? rest : rest % from[i];
    rest = rest.floorDiv(from[i]);
  }
  return body.at(op->getOperand(0), mapped);
}

Value elementOfSlice(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  SliceOp slice = cast<SliceOp>(op);
  SmallVector<AffineExpr> mapped;
  for (auto [i, index] : llvm::enumerate(indices)) {
    mapped.push_back(index * slice.getSteps()[i] + slice.getStarts().getResult(i));
  }
  return body.at(slice.getX(), mapped);
}

Value indexConstant(Body &body, int64_t value) {
  return arith::ConstantIndexOp::create(body.builder, body.lowering.location, value);
}

/// `index` held inside [0, size), as the access to memory needs it where the value is not used; 0
/// if nothing is inside.
AffineExpr clampIndex(Body &body, Value index, AffineExpr size) {
  Location location = body.lowering.location;
  Value last = body.index(size - 1);
  Value high = arith::MinSIOp::create(body.builder, location, index, last);
  return body.asIndex(arith::MaxSIOp::create(body.builder, location, high, indexConstant(body, 0)));
}

Value indexCompare(Body &body, arith::CmpIPredicate predicate, Value a, Value b) {
  return arith::CmpIOp::create(body.builder, body.lowering.location, predicate, a, b);
}

/// The source position of a padded one: reflected at the borders, or wrapped round. `reachesOnce`:
/// no border is met a second time.
Value foldPadIndex(Body &body, PadMode mode, Value index, AffineExpr size, bool reachesOnce) {
  Location location = body.lowering.location;
  OpBuilder &b = body.builder;
  if (mode == PadMode::wrap) {
    // Nothing to wrap round must not trap.
    Value n = arith::MaxSIOp::create(b, location, body.index(size), indexConstant(body, 1));
    Value remainder = arith::RemSIOp::create(b, location, index, n);
    Value shifted = arith::AddIOp::create(b, location, remainder, n);
    return arith::RemSIOp::create(b, location, shifted, n);
  }
  if (!reachesOnce) {
    // To and fro between both ends; a dim of one repeats.
    Value one = indexConstant(body, 1);
    Value period = arith::MaxSIOp::create(b, location, body.index((size - 1) * 2), one);
    Value remainder = arith::RemSIOp::create(b, location, index, period);
    Value shifted = arith::AddIOp::create(b, location, remainder, period);
    Value there = arith::RemSIOp::create(b, location, shifted, period);
    Value back = arith::SubIOp::create(b, location, period, there);
    return arith::MinSIOp::create(b, location, there, back);
  }
  // |i| from the left, then 2(n-1) - i beyond the right.
  Value negative = arith::SubIOp::create(b, location, indexConstant(body, 0), index);
  Value left = arith::MaxSIOp::create(b, location, index, negative);
  Value right = arith::SubIOp::create(b, location, body.index((size - 1) * 2), left);
  return arith::MinSIOp::create(b, location, left, right);
}

Value elementOfPad(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  PadOp pad = cast<PadOp>(op);
  Location location = body.lowering.location;
  Dims dims = getDims(pad.getX().getType());
  SmallVector<AffineExpr> mapped;
  Value inside;
  for (auto [i, index] : llvm::enumerate(indices)) {
    AffineExpr shifted = index - pad.getBegins()[i];
    if (pad.getBegins()[i] <= 0 && pad.getEnds()[i] <= 0) {
      mapped.push_back(shifted);
      continue;
    }
    Value position = body.index(shifted);
    if (pad.getMode() == PadMode::reflect || pad.getMode() == PadMode::wrap) {
      int64_t most = std::max(pad.getBegins()[i], pad.getEnds()[i]);
      bool reachesOnce = most < constantDim(dims[i]).value_or(0);
      position = foldPadIndex(body, pad.getMode(), position, dims[i], reachesOnce);
    } else if (pad.getMode() == PadMode::constant) {
      Value low = indexCompare(body, arith::CmpIPredicate::sge, position, indexConstant(body, 0));
      Value high = indexCompare(body, arith::CmpIPredicate::slt, position, body.index(dims[i]));
      Value both = arith::AndIOp::create(body.builder, location, low, high);
      inside = inside ? Value(arith::AndIOp::create(body.builder, location, inside, both)) : both;
    }
    mapped.push_back(clampIndex(body, position, dims[i]));
  }
  Value element = isEmpty(pad.getX()) ? zeroElement(body, pad.getX()) : body.at(pad.getX(), mapped);
  if (!inside || !element) {
    return element;
  }
  Value outside;
  if (pad.getValue()) {
    Dims valueDims = getDims(pad.getValue().getType());
    outside = body.at(pad.getValue(), SmallVector<AffineExpr>(valueDims.size(), zeroIndex(body)));
  } else {
    outside = arith::ConstantOp::create(body.builder, location,
                                        body.builder.getZeroAttr(element.getType()));
  }
  return arith::SelectOp::create(body.builder, location, inside, element, outside);
}

/// All operands are read at a position inside them and the right one is selected.
Value elementOfConcat(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  ConcatOp concat = cast<ConcatOp>(op);
  size_t axis = concat.getAxis();
  Value position = body.index(indices[axis]);
  AffineExpr start = zeroIndex(body);
  Value result;
  for (Value x : concat.getXs()) {
    if (isEmpty(x)) {
      continue;
    }
    AffineExpr size = getDims(x.getType())[axis];
    SmallVector<AffineExpr> mapped(indices);
    mapped[axis] = clampIndex(body, body.index(indices[axis] - start), size);
    Value element = body.at(x, mapped);
    if (!element) {
      return {};
    }
    if (!result) {
      result = element;
    } else {
      Value here = indexCompare(body, arith::CmpIPredicate::sge, position, body.index(start));
      result = arith::SelectOp::create(body.builder, body.lowering.location, here, element, result);
    }
    start = start + size;
  }
  return result ? result : zeroElement(body, concat.getY());
}

Value elementOfIota(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  IotaOp iota = cast<IotaOp>(op);
  Location location = body.lowering.location;
  OpBuilder &b = body.builder;
  Value start = body.at(iota.getStart(), {});
  Value step = body.at(iota.getStep(), {});
  Type storage = start.getType();
  Value position = body.index(indices[0]);
  if (isa<FloatType>(storage)) {
    Value wide = arith::IndexCastOp::create(b, location, b.getI64Type(), position);
    Value number = arith::SIToFPOp::create(b, location, storage, wide);
    Value offset = arith::MulFOp::create(b, location, number, step);
    return arith::AddFOp::create(b, location, start, offset);
  }
  Value number = arith::IndexCastOp::create(b, location, storage, position);
  Value offset = arith::MulIOp::create(b, location, number, step);
  return arith::AddIOp::create(b, location, start, offset);
}

Value elementOfTrilu(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  TriluOp trilu = cast<TriluOp>(op);
  Value element = body.at(trilu.getX(), indices);
  if (!element) {
    return {};
  }
  AffineExpr distance = indices[indices.size() - 1] - indices[indices.size() - 2];
  Value offset = body.index(distance - trilu.getDiagonal());
  Value kept =
      indexCompare(body, trilu.getUpper() ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle,
                   offset, indexConstant(body, 0));
  Value zero = arith::ConstantOp::create(body.builder, body.lowering.location,
                                         body.builder.getZeroAttr(element.getType()));
  return arith::SelectOp::create(body.builder, body.lowering.location, kept, element, zero);
}

/// Where the element lies in each dim of what is packed.
Value elementOfUnpack(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  UnpackOp unpack = cast<UnpackOp>(op);
  ArrayRef<int64_t> shape = cast<RankedTensorType>(unpack.getWeight().getType()).getShape();
  SmallVector<AffineExpr> packed;
  for (const PackedDim &dim : packedDims(shape, unpack.packing())) {
    // A tile that holds the whole dim is left by no index.
    int64_t size = shape[dim.source];
    AffineExpr index = indices[dim.source];
    AffineExpr inside = size <= dim.extent ? index : index % dim.extent;
    bool isOnlyTile = dim.step > 1 && size <= dim.step;
    packed.push_back(isOnlyTile ? zeroIndex(body) : inside.floorDiv(dim.step));
  }
  return body.at(unpack.getPacked(), packed);
}

/// Per-channel form: (x - mean) / sqrt(var + epsilon) * scale + bias.
Value elementOfBatchNorm(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  BatchNormOp norm = cast<BatchNormOp>(op);
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  AffineExpr channel = norm.getChannelsLast() ? indices.back() : indices[1];
  Value x = body.at(norm.getX(), indices);
  Value scale = body.at(norm.getScale(), channel);
  Value bias = body.at(norm.getBias(), channel);
  Value mean = body.at(norm.getMean(), channel);
  Value variance = body.at(norm.getVar(), channel);
  if (!x || !scale || !bias || !mean || !variance) {
    return {};
  }
  Value epsilon = arith::ConstantOp::create(
      b, location, b.getFloatAttr(variance.getType(), norm.getEpsilon().convertToDouble()));
  Value deviation = math::SqrtOp::create(
      b, location, arith::AddFOp::create(b, location, variance, epsilon).getResult());
  Value factor = arith::DivFOp::create(b, location, scale, deviation);
  Value centered = arith::SubFOp::create(b, location, x, mean);
  Value scaled = arith::MulFOp::create(b, location, centered, factor);
  return arith::AddFOp::create(b, location, scaled, bias);
}

} // namespace

Value zeroElement(Body &body, Value value) {
  Type storage = storageType(getElementTypeOrSelf(value));
  return arith::ConstantOp::create(body.builder, body.lowering.location,
                                   body.builder.getZeroAttr(storage));
}

ElementFn findElementFn(Operation *op) {
  if (!op) {
    return nullptr;
  }
  if (hasScalarBody(op)) {
    return elementOfElementwise;
  }
  static const std::pair<StringRef, ElementFn> table[] = {
      {ConstantOp::getOperationName(), elementOfConstant},
      {SizesOp::getOperationName(), elementOfSizes},
      {TakeFirstOp::getOperationName(), elementOfTakeFirst},
      {TransposeOp::getOperationName(), elementOfTranspose},
      {BroadcastOp::getOperationName(), elementOfBroadcast},
      {ReshapeOp::getOperationName(), elementOfReshape},
      {SliceOp::getOperationName(), elementOfSlice},
      {PadOp::getOperationName(), elementOfPad},
      {ConcatOp::getOperationName(), elementOfConcat},
      {GatherOp::getOperationName(), elementOfGather},
      {GatherElementsOp::getOperationName(), elementOfGatherElements},
      {GatherNdOp::getOperationName(), elementOfGatherNd},
      {IotaOp::getOperationName(), elementOfIota},
      {TriluOp::getOperationName(), elementOfTrilu},
      {UnpackOp::getOperationName(), elementOfUnpack},
      {UnpackBitsOp::getOperationName(), elementOfUnpackBits},
      {DecodeRowsOp::getOperationName(), elementOfDecodeRows},
      {BatchNormOp::getOperationName(), elementOfBatchNorm},
      {QuantizeOp::getOperationName(), elementOfQuantize},
      {DequantizeOp::getOperationName(), elementOfDequantize},
  };
  StringRef name = op->getName().getStringRef();
  for (const auto &[entry, access] : table) {
    if (entry == name) {
      return access;
    }
  }
  return nullptr;
}

} // namespace tenon::codegen
