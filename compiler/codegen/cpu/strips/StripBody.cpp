// Emits one vector of iterations of a linalg.generic. The classification of values into lanes
// decides both whether a loop can be the strip and which operations are emitted, so it stands here
// once.
#include "compiler/codegen/cpu/strips/StripBody.h"

#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// The lanes of all values of the body; none if one has no vector form.
struct Classified {
  llvm::DenseMap<Value, Lanes> lanes;
  int64_t gathers = 0;
};

std::optional<Classified> classify(linalg::GenericOp op, const StripPlace &place) {
  bool reduces = op.getIteratorTypesArray()[place.loop] == utils::IteratorType::reduction;
  Classified result;
  for (OpOperand &operand : op->getOpOperands()) {
    Access access = accessOf(op, operand, place.loop);
    bool isResult = op.isDpsInit(&operand);
    if (access == Access::None || (isResult && access == Access::Strided)) {
      return std::nullopt;
    }
    bool varies = access != Access::Uniform || (isResult && reduces);
    result.lanes[op.getMatchingBlockArgument(&operand)] = varies ? Lanes::varying() : Lanes{};
  }
  for (Operation &operation : op.getBody()->without_terminator()) {
    SmallVector<Lanes> operands;
    for (Value operand : operation.getOperands()) {
      operands.push_back(result.lanes.lookup(operand));
    }
    std::optional<Lanes> lanes = lanesOf(operation, operands, place);
    if (!lanes || operation.getNumResults() != 1) {
      return std::nullopt;
    }
    memref::LoadOp load = dyn_cast<memref::LoadOp>(operation);
    ArrayRef<Lanes> indices = ArrayRef(operands).drop_front(load ? 1 : 0);
    if (load && lanes->isVarying() && !readsNeighbours(load, indices) &&
        !readsEverySecond(load, indices)) {
      ++result.gathers;
    }
    result.lanes[operation.getResult(0)] = *lanes;
  }
  return result;
}

} // namespace

bool StripBody::gainsInterior(linalg::GenericOp op, unsigned loop) {
  std::optional<Classified> anywhere = classify(op, {loop, true, /*isInterior=*/false});
  std::optional<Classified> inside = classify(op, {loop, true, /*isInterior=*/true});
  return anywhere && inside && inside->gathers < anywhere->gathers;
}

std::optional<int64_t> StripBody::score(linalg::GenericOp op, unsigned loop) {
  bool reduces = op.getIteratorTypesArray()[loop] == utils::IteratorType::reduction;
  std::optional<Classified> inside = classify(op, {loop, true, /*isInterior=*/true});
  if (!inside || !classify(op, {loop, true, /*isInterior=*/false})) {
    return std::nullopt;
  }
  int64_t score = 1 - 2 * inside->gathers;
  for (OpOperand &operand : op->getOpOperands()) {
    Access access = accessOf(op, operand, loop);
    if (access == Access::Contiguous) {
      score += op.isDpsInit(&operand) ? 4 : 2;
    } else if (access == Access::Strided) {
      score -= 3;
    }
  }
  // A sum along the strip pays only where something is read along it.
  return reduces && score < 3 ? std::nullopt : std::optional(score);
}

StripBody::StripBody(linalg::GenericOp op, OpBuilder &builder, ArrayRef<Value> ivs, unsigned strip,
                     int64_t width, Value active)
    : op(op), builder(builder), location(op.getLoc()), ivs(ivs), strip(strip), width(width),
      active(active) {}

Value StripBody::broadcast(Value scalar) {
  return vector::BroadcastOp::create(builder, location, VectorType::get(width, scalar.getType()),
                                     scalar);
}

Value StripBody::asVector(const LaneValue &value) {
  if (value.lanes.isVarying()) {
    return value.value;
  }
  Value base = broadcast(value.value);
  if (value.lanes.isUniform()) {
    return base;
  }
  Value steps = vector::StepOp::create(builder, location, cast<VectorType>(base.getType()));
  if (value.lanes.step != 1) {
    steps = arith::MulIOp::create(builder, location, steps, constantVector(value.lanes.step));
  }
  return arith::AddIOp::create(builder, location, base, steps);
}

Value StripBody::mask() {
  if (!activeMask) {
    VectorType type = VectorType::get(width, builder.getI1Type());
    if (active) {
      activeMask = vector::CreateMaskOp::create(builder, location, type, active);
    } else {
      activeMask = arith::ConstantOp::create(builder, location, DenseElementsAttr::get(type, true));
    }
  }
  return activeMask;
}

SmallVector<Value> StripBody::operandIndices(OpOperand &operand) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  SmallVector<Value> indices;
  for (AffineExpr expression : map.getResults()) {
    if (AffineDimExpr loop = dyn_cast<AffineDimExpr>(expression)) {
      indices.push_back(ivs[loop.getPosition()]);
      continue;
    }
    if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(expression)) {
      indices.push_back(arith::ConstantIndexOp::create(builder, location, constant.getValue()));
      continue;
    }
    AffineMap single = AffineMap::get(map.getNumDims(), 0, expression);
    indices.push_back(affine::AffineApplyOp::create(builder, location, single, ivs));
  }
  return indices;
}

StripBody::LaneValue StripBody::loadMemref(Value memref, ValueRange indices, bool contiguous) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  if (!isVector() || !contiguous) {
    return {memref::LoadOp::create(builder, location, memref, indices), Lanes{}};
  }
  VectorType type = VectorType::get(width, element);
  if (!active) {
    return {vector::LoadOp::create(builder, location, type, memref, indices), Lanes::varying()};
  }
  Value zero = arith::ConstantOp::create(builder, location, builder.getZeroAttr(type));
  return {vector::MaskedLoadOp::create(builder, location, type, memref, indices, mask(), zero),
          Lanes::varying()};
}

StripBody::LaneValue StripBody::loadOperand(OpOperand &operand) {
  if (!isa<MemRefType>(operand.get().getType())) {
    return {operand.get(), Lanes{}};
  }
  if (Value vector = given.lookup(&operand)) {
    return {vector, Lanes::varying()};
  }
  Access access = isVector() ? accessOf(op, operand, strip) : Access::Uniform;
  SmallVector<Value> indices = operandIndices(operand);
  if (access == Access::Strided) {
    SmallVector<LaneValue> places;
    for (Value index : indices) {
      places.push_back({index, Lanes{}});
    }
    places[*movingDim(op.getMatchingIndexingMap(&operand), strip)].lanes = Lanes::linear(1);
    return {gather(operand.get(), places), Lanes::varying()};
  }
  return loadMemref(operand.get(), indices, access == Access::Contiguous);
}

SmallVector<Value> StripBody::loadResults() {
  SmallVector<Value> results;
  for (OpOperand &init : op.getDpsInitsMutable()) {
    results.push_back(loadOperand(init).value);
  }
  return results;
}

SmallVector<StripBody::LaneValue> StripBody::operandsOf(Operation &operation) {
  SmallVector<LaneValue> operands;
  for (Value operand : operation.getOperands()) {
    auto found = values.find(operand);
    operands.push_back(found == values.end() ? LaneValue{operand, Lanes{}} : found->second);
  }
  return operands;
}

StripBody::LaneValue StripBody::emitOp(Operation &operation) {
  if (linalg::IndexOp index = dyn_cast<linalg::IndexOp>(operation)) {
    bool isLane = isVector() && index.getDim() == strip;
    return {ivs[index.getDim()], Lanes::linear(isLane ? 1 : 0)};
  }
  SmallVector<LaneValue> operands = operandsOf(operation);
  SmallVector<Lanes> lanes;
  for (const LaneValue &operand : operands) {
    lanes.push_back(operand.lanes);
  }
  Lanes result = *lanesOf(operation, lanes, place());
  if (std::optional<LaneValue> special = emitSpecial(operation, operands, result)) {
    return *special;
  }
  OperationState state(location, operation.getName());
  state.addAttributes(operation.getAttrs());
  Type type = operation.getResult(0).getType();
  for (auto [i, operand] : llvm::enumerate(operands)) {
    // A condition that all lanes share is for whole vectors.
    bool isCondition = operand.lanes.isUniform() && isa<arith::SelectOp>(operation) && i == 0;
    bool needsVector = result.isVarying() && !isCondition;
    state.addOperands(needsVector ? asVector(operand) : operand.value);
  }
  state.addTypes(result.isVarying() ? VectorType::get(width, type) : type);
  return {builder.create(state)->getResult(0), result};
}

SmallVector<Value> StripBody::emit(ValueRange accumulators) {
  bool reduces = isVector() && op.getIteratorTypesArray()[strip] == utils::IteratorType::reduction;
  values.clear();
  for (OpOperand *input : op.getDpsInputOperands()) {
    values[op.getMatchingBlockArgument(input)] = loadOperand(*input);
  }
  for (auto [argument, accumulator] : llvm::zip(op.getRegionOutputArgs(), accumulators)) {
    bool isWide = isa<VectorType>(accumulator.getType());
    values[argument] = {accumulator, isWide ? Lanes::varying() : Lanes{}};
  }
  for (Operation &operation : op.getBody()->without_terminator()) {
    values[operation.getResult(0)] = emitOp(operation);
  }
  SmallVector<Value> results;
  for (auto [i, yielded] : llvm::enumerate(op.getBody()->getTerminator()->getOperands())) {
    auto found = values.find(yielded);
    LaneValue value = found == values.end() ? LaneValue{yielded, Lanes{}} : found->second;
    Value result = isVector() ? asVector(value) : value.value;
    if (reduces && active) {
      result = arith::SelectOp::create(builder, location, mask(), result, accumulators[i]);
    }
    results.push_back(result);
  }
  return results;
}

void StripBody::storeResults(ValueRange results) {
  for (auto [init, value] : llvm::zip(op.getDpsInitsMutable(), results)) {
    SmallVector<Value> indices = operandIndices(init);
    if (!isa<VectorType>(value.getType())) {
      memref::StoreOp::create(builder, location, value, init.get(), indices);
    } else if (active) {
      vector::MaskedStoreOp::create(builder, location, init.get(), indices, mask(), value);
    } else {
      vector::StoreOp::create(builder, location, value, init.get(), indices);
    }
  }
}

} // namespace tenon::codegen::cpu
