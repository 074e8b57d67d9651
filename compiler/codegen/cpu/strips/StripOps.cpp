// What StripBody does with the ops that are not simply their vector form: loads, indices,
// conditions and divisions. Relies on the classification of StripLanes.h.
#include "compiler/codegen/cpu/strips/StripBody.h"

#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::codegen::cpu {

Value StripBody::constantVector(int64_t value) {
  VectorType type = VectorType::get(width, builder.getIndexType());
  return arith::ConstantOp::create(builder, location,
                                   DenseElementsAttr::get(type, builder.getIndexAttr(value)));
}

Value StripBody::lastLane(const LaneValue &value) {
  if (!value.lanes.isLinear()) {
    return value.value;
  }
  Value step = arith::ConstantIndexOp::create(builder, location, value.lanes.step);
  Value last = arith::ConstantIndexOp::create(builder, location, width - 1);
  if (active) {
    Value one = arith::ConstantIndexOp::create(builder, location, 1);
    last = arith::SubIOp::create(builder, location, active, one);
  }
  Value growth = arith::MulIOp::create(builder, location, last, step);
  return arith::AddIOp::create(builder, location, value.value, growth);
}

Value StripBody::isInterior() {
  values.clear();
  interior = true;
  for (OpOperand &operand : op->getOpOperands()) {
    bool isUniform = !op.isDpsInit(&operand) && accessOf(op, operand, strip) == Access::Uniform;
    values[op.getMatchingBlockArgument(&operand)] =
        isUniform ? loadOperand(operand) : LaneValue{Value(), Lanes::varying()};
  }
  Value all = arith::ConstantOp::create(builder, location, builder.getBoolAttr(true));
  auto holds = [&](Value condition) {
    all = arith::AndIOp::create(builder, location, all, condition);
  };
  for (Operation &operation : op.getBody()->without_terminator()) {
    SmallVector<LaneValue> operands = operandsOf(operation);
    SmallVector<Lanes> lanes;
    for (const LaneValue &operand : operands) {
      lanes.push_back(operand.lanes);
    }
    if (boundsIndex(operation, lanes)) {
      using P = arith::CmpIPredicate;
      arith::CmpIOp compare = dyn_cast<arith::CmpIOp>(operation);
      P predicate = isa<arith::MinSIOp>(operation) == lanes[0].isLinear() ? P::sle : P::sge;
      predicate = compare ? compare.getPredicate() : predicate;
      holds(arith::CmpIOp::create(builder, location, predicate, operands[0].value,
                                  operands[1].value));
      holds(arith::CmpIOp::create(builder, location, predicate, lastLane(operands[0]),
                                  lastLane(operands[1])));
    } else if (takesFirst(operation, lanes)) {
      holds(operands[0].value);
    }
    LaneValue result{Value(), Lanes::varying()};
    if (!lanesOf(operation, lanes, place())->isVarying()) {
      result = isa<tn::RequireOp>(operation) ? operands[0] : emitOp(operation);
    }
    values[operation.getResult(0)] = result;
  }
  interior = false;
  return all;
}

/// Whether a condition holds in every lane that counts.
Value StripBody::holdsInAll(Value condition) {
  if (active) {
    VectorType type = cast<VectorType>(condition.getType());
    Value yes = arith::ConstantOp::create(builder, location, DenseElementsAttr::get(type, true));
    condition = arith::SelectOp::create(builder, location, mask(), condition, yes);
  }
  return vector::ReductionOp::create(builder, location, vector::CombiningKind::AND, condition);
}

Value StripBody::loadBackwards(Value memref, ArrayRef<LaneValue> indices) {
  SmallVector<Value> places;
  for (const LaneValue &index : indices) {
    places.push_back(index.value);
  }
  Value last = arith::ConstantIndexOp::create(builder, location, width - 1);
  places.back() = arith::SubIOp::create(builder, location, places.back(), last);
  Value vector = vector::LoadOp::create(
      builder, location,
      VectorType::get(width, cast<MemRefType>(memref.getType()).getElementType()), memref, places);
  SmallVector<int64_t> reversed;
  for (int64_t lane = width; lane-- > 0;) {
    reversed.push_back(lane);
  }
  return vector::ShuffleOp::create(builder, location, vector, vector, reversed);
}

/// Every second element from the first index on, of two vectors that end with the last of them.
Value StripBody::loadEverySecond(Value memref, ArrayRef<LaneValue> indices) {
  VectorType type = VectorType::get(width, cast<MemRefType>(memref.getType()).getElementType());
  SmallVector<Value> places;
  for (const LaneValue &index : indices) {
    places.push_back(index.value);
  }
  Value first = vector::LoadOp::create(builder, location, type, memref, places);
  Value ahead = arith::ConstantIndexOp::create(builder, location, width - 1);
  places.back() = arith::AddIOp::create(builder, location, places.back(), ahead);
  Value second = vector::LoadOp::create(builder, location, type, memref, places);
  SmallVector<int64_t> chosen;
  for (int64_t lane = 0; lane < width; ++lane) {
    chosen.push_back(2 * lane < width ? 2 * lane : 2 * lane + 1);
  }
  return vector::ShuffleOp::create(builder, location, first, second, chosen);
}

Value StripBody::gather(Value memref, ArrayRef<LaneValue> indices) {
  MemRefType memrefType = cast<MemRefType>(memref.getType());
  memref::ExtractStridedMetadataOp metadata =
      memref::ExtractStridedMetadataOp::create(builder, location, memref);
  auto [strides, offset] = memrefType.getStridesAndOffset();
  VectorType positions = VectorType::get(width, builder.getIndexType());
  SmallVector<Value> base;
  Value offsets;
  for (auto [i, index] : llvm::enumerate(indices)) {
    base.push_back(index.lanes.isVarying() ? arith::ConstantIndexOp::create(builder, location, 0)
                                           : index.value);
    if (index.lanes.isUniform()) {
      continue;
    }
    Value steps = index.value;
    if (index.lanes.isLinear()) {
      steps = vector::StepOp::create(builder, location, positions);
      steps = arith::MulIOp::create(builder, location, steps, constantVector(index.lanes.step));
    }
    Value stride = ShapedType::isDynamic(strides[i]) ? broadcast(metadata.getStrides()[i])
                                                     : constantVector(strides[i]);
    Value part = arith::MulIOp::create(builder, location, steps, stride);
    offsets = offsets ? arith::AddIOp::create(builder, location, offsets, part) : part;
  }
  VectorType type = VectorType::get(width, memrefType.getElementType());
  Value zero = arith::ConstantOp::create(builder, location, builder.getZeroAttr(type));
  if (!hasUnitStride(memrefType)) {
    // The instruction counts in elements from its first, which is where the first index leads.
    Value start = metadata.getOffset();
    for (auto [stride, index] : llvm::zip(metadata.getStrides(), base)) {
      Value part = arith::MulIOp::create(builder, location, stride, index);
      start = arith::AddIOp::create(builder, location, start, part);
    }
    Value one = arith::ConstantIndexOp::create(builder, location, 1);
    StridedLayoutAttr layout =
        StridedLayoutAttr::get(builder.getContext(), ShapedType::kDynamic, {1});
    MemRefType line = MemRefType::get({ShapedType::kDynamic}, memrefType.getElementType(), layout);
    memref = memref::ReinterpretCastOp::create(builder, location, line, metadata.getBaseBuffer(),
                                               OpFoldResult(start), ArrayRef<OpFoldResult>{one},
                                               ArrayRef<OpFoldResult>{builder.getIndexAttr(1)});
    base = {arith::ConstantIndexOp::create(builder, location, 0)};
  }
  return vector::GatherOp::create(builder, location, type, memref, base, offsets, mask(), zero);
}

/// Neighbours where the innermost index is within bounds, and one element in all other lanes.
std::optional<StripBody::LaneValue> StripBody::loadWithin(memref::LoadOp load,
                                                          ArrayRef<LaneValue> operands) {
  const LaneValue &last = operands.back();
  bool isHeld = operands.size() > 1 && last.within && hasUnitStride(load.getMemRefType()) &&
                llvm::all_of(operands.drop_front().drop_back(),
                             [](const LaneValue &index) { return index.lanes.isUniform(); });
  if (!isHeld) {
    return std::nullopt;
  }
  SmallVector<Value> places;
  for (const LaneValue &index : operands.drop_front()) {
    places.push_back(index.value);
  }
  VectorType type = VectorType::get(width, load.getMemRefType().getElementType());
  places.back() = last.other;
  Value single = broadcast(memref::LoadOp::create(builder, location, operands[0].value, places));
  places.back() = last.base;
  Value lanes = last.within;
  if (active) {
    lanes = arith::AndIOp::create(builder, location, lanes, mask());
  }
  return LaneValue{vector::MaskedLoadOp::create(builder, location, type, operands[0].value, places,
                                                lanes, single),
                   Lanes::varying()};
}

StripBody::LaneValue StripBody::loadAt(memref::LoadOp load, ArrayRef<LaneValue> operands) {
  Value memref = operands[0].value;
  ArrayRef<LaneValue> indices = operands.drop_front();
  SmallVector<Lanes> lanes;
  SmallVector<Value> places;
  for (const LaneValue &index : indices) {
    lanes.push_back(index.lanes);
    places.push_back(index.value);
  }
  if (readsNeighbours(load, lanes) && lanes.back().step == 1) {
    return loadMemref(memref, places, /*contiguous=*/true);
  }
  if (std::optional<LaneValue> held = loadWithin(load, operands)) {
    return *held;
  }
  // What lies around lanes that do not count may lie outside.
  if (!active && readsNeighbours(load, lanes)) {
    return {loadBackwards(memref, indices), Lanes::varying()};
  }
  if (!active && readsEverySecond(load, lanes)) {
    return {loadEverySecond(memref, indices), Lanes::varying()};
  }
  return {gather(memref, indices), Lanes::varying()};
}

/// An affine expression over vectors of indices.
Value StripBody::applyVector(AffineExpr expression, ArrayRef<Value> dims, ArrayRef<Value> symbols) {
  if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(expression)) {
    return constantVector(constant.getValue());
  }
  if (AffineDimExpr dim = dyn_cast<AffineDimExpr>(expression)) {
    return dims[dim.getPosition()];
  }
  if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(expression)) {
    return symbols[symbol.getPosition()];
  }
  AffineBinaryOpExpr binary = cast<AffineBinaryOpExpr>(expression);
  Value a = applyVector(binary.getLHS(), dims, symbols);
  Value b = applyVector(binary.getRHS(), dims, symbols);
  if (binary.getKind() == AffineExprKind::Add) {
    return arith::AddIOp::create(builder, location, a, b);
  }
  if (binary.getKind() == AffineExprKind::Mul) {
    return arith::MulIOp::create(builder, location, a, b);
  }
  int64_t divisor = cast<AffineConstantExpr>(binary.getRHS()).getValue();
  Value quotient;
  if (llvm::isPowerOf2_64(divisor)) {
    quotient = arith::ShRSIOp::create(builder, location, a, constantVector(llvm::Log2_64(divisor)));
  } else {
    // Towards minus infinity, as the remainder is never negative.
    Value isNegative =
        arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt, a, constantVector(0));
    Value lower = arith::SubIOp::create(builder, location, a, constantVector(divisor - 1));
    Value start = arith::SelectOp::create(builder, location, isNegative, lower, a);
    quotient = arith::DivSIOp::create(builder, location, start, b);
  }
  if (binary.getKind() == AffineExprKind::FloorDiv) {
    return quotient;
  }
  Value whole = arith::MulIOp::create(builder, location, quotient, b);
  return arith::SubIOp::create(builder, location, a, whole);
}

/// There is no vector instruction that divides integers. A quotient of floats with more bits than
/// both operands, cut off, is theirs: it is further from the next integer than it is rounded by.
Value StripBody::divideAsFloats(Operation &operation, Value a, Value b) {
  VectorType type = cast<VectorType>(a.getType());
  bool isNarrow = type.getElementType().getIntOrFloatBitWidth() <= 16;
  VectorType real = type.clone(isNarrow ? Type(builder.getF32Type()) : Type(builder.getF64Type()));
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp>(operation);
  auto toFloat = [&](Value x) {
    return isSigned ? Value(arith::SIToFPOp::create(builder, location, real, x))
                    : Value(arith::UIToFPOp::create(builder, location, real, x));
  };
  Value exact = arith::DivFOp::create(builder, location, toFloat(a), toFloat(b));
  Value quotient = isSigned ? Value(arith::FPToSIOp::create(builder, location, type, exact))
                            : Value(arith::FPToUIOp::create(builder, location, type, exact));
  if (isa<arith::DivSIOp, arith::DivUIOp>(operation)) {
    return quotient;
  }
  Value whole = arith::MulIOp::create(builder, location, quotient, b);
  return arith::SubIOp::create(builder, location, a, whole);
}

/// No float holds a quotient of 64 bits: the machine divides lane by lane. Those that do not count
/// might trap.
Value StripBody::divideLanes(Operation &operation, Value a, Value b) {
  if (active) {
    Value one = arith::ConstantOp::create(
        builder, location,
        DenseElementsAttr::get(cast<VectorType>(b.getType()), builder.getI64IntegerAttr(1)));
    b = arith::SelectOp::create(builder, location, mask(), b, one);
  }
  OperationState state(location, operation.getName());
  state.addOperands({a, b});
  state.addTypes(a.getType());
  return builder.create(state)->getResult(0);
}

std::optional<StripBody::LaneValue>
StripBody::emitSpecial(Operation &operation, ArrayRef<LaneValue> operands, Lanes result) {
  if (arith::ConstantOp constant = dyn_cast<arith::ConstantOp>(operation)) {
    return LaneValue{arith::ConstantOp::create(builder, location, constant.getValue()), Lanes{}};
  }
  if (tn::RequireOp required = dyn_cast<tn::RequireOp>(operation)) {
    Value condition = operands[1].value;
    if (operands[1].lanes.isVarying()) {
      condition = holdsInAll(condition);
    }
    OperationState state(location, operation.getName());
    state.addAttributes(operation.getAttrs());
    state.addOperands({operands[0].value, condition});
    state.addTypes(operands[0].value.getType());
    return LaneValue{builder.create(state)->getResult(0), operands[0].lanes};
  }
  SmallVector<Lanes> lanes;
  for (const LaneValue &operand : operands) {
    lanes.push_back(operand.lanes);
  }
  if (interior && takesFirst(operation, lanes)) {
    return operands[1];
  }
  if (interior && isa<arith::MinSIOp, arith::MaxSIOp>(operation) && boundsIndex(operation, lanes)) {
    return operands[lanes[0].isLinear() ? 0 : 1];
  }
  if (!result.isVarying()) {
    return std::nullopt;
  }
  if (memref::LoadOp load = dyn_cast<memref::LoadOp>(operation)) {
    return loadAt(load, operands);
  }
  if (affine::AffineApplyOp apply = dyn_cast<affine::AffineApplyOp>(operation)) {
    SmallVector<Value> dims, symbols;
    for (auto [i, operand] : llvm::enumerate(operands)) {
      (i < apply.getAffineMap().getNumDims() ? dims : symbols).push_back(asVector(operand));
    }
    return LaneValue{applyVector(apply.getAffineMap().getResult(0), dims, symbols), result};
  }
  bool holdsBack = isa<arith::SelectOp>(operation) && lanes[0].isVarying() && lanes[1].isLinear() &&
                   lanes[1].step == 1 && lanes[2].isUniform();
  if (holdsBack) {
    Value index = arith::SelectOp::create(builder, location, operands[0].value,
                                          asVector(operands[1]), asVector(operands[2]));
    return LaneValue{index, result, operands[0].value, operands[1].value, operands[2].value};
  }
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(operation)) {
    Value a = asVector(operands[0]), b = asVector(operands[1]);
    bool isWide = operation.getResult(0).getType().getIntOrFloatBitWidth() > 32;
    return LaneValue{isWide ? divideLanes(operation, a, b) : divideAsFloats(operation, a, b),
                     result};
  }
  return std::nullopt;
}

} // namespace tenon::codegen::cpu
