// Emits one vector of iterations of a linalg.generic. The classification of values into lanes
// decides both whether a loop can be the strip and which operations are emitted, so it stands here
// once.
#include "compiler/codegen/cpu/StripBody.h"

#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

enum class Access { Uniform, Contiguous, Strided, None };

bool hasUnitStride(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset;
  return type.getRank() > 0 && succeeded(type.getStridesAndOffset(strides, offset)) &&
         strides.back() == 1;
}

/// The dim of the operand that moves with the loop, if just one does and by one element a step.
std::optional<unsigned> movingDim(AffineMap map, unsigned loop) {
  std::optional<unsigned> moving;
  for (auto [i, expression] : llvm::enumerate(map.getResults())) {
    if (!expression.isFunctionOfDim(loop)) {
      continue;
    }
    if (moving || !isa<AffineDimExpr>(expression)) {
      return std::nullopt;
    }
    moving = i;
  }
  return moving;
}

Access accessOf(linalg::GenericOp op, OpOperand &operand, unsigned loop) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  if (!map.isFunctionOfDim(loop)) {
    return Access::Uniform;
  }
  std::optional<unsigned> moving = movingDim(map, loop);
  if (!moving) {
    return Access::None;
  }
  MemRefType type = cast<MemRefType>(operand.get().getType());
  bool isLast = *moving + 1 == map.getNumResults();
  return isLast && hasUnitStride(type) ? Access::Contiguous : Access::Strided;
}

/// How affine.apply's result varies when the operands that are Linear grow by one.
std::optional<Lanes> lanesOfApply(affine::AffineApplyOp apply, ArrayRef<Lanes> operands) {
  AffineMap map = apply.getAffineMap();
  AffineExpr expression = map.getResult(0);
  SmallVector<AffineExpr> dims, symbols;
  for (auto [i, lanes] : llvm::enumerate(operands)) {
    bool isDim = i < map.getNumDims();
    AffineExpr operand = isDim ? getAffineDimExpr(i, map.getContext())
                               : getAffineSymbolExpr(i - map.getNumDims(), map.getContext());
    if (lanes == Lanes::Varying) {
      return std::nullopt;
    }
    (isDim ? dims : symbols).push_back(lanes == Lanes::Linear ? operand + 1 : operand);
  }
  AffineExpr growth =
      simplifyAffineExpr(expression.replaceDimsAndSymbols(dims, symbols) - expression,
                         map.getNumDims(), map.getNumSymbols());
  AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(growth);
  if (!constant || constant.getValue() < 0 || constant.getValue() > 1) {
    return std::nullopt;
  }
  return constant.getValue() == 0 ? Lanes::Uniform : Lanes::Linear;
}

/// How the result of a body op varies; none if it has no vector form.
std::optional<Lanes> lanesOf(Operation &op, ArrayRef<Lanes> operands, unsigned loop,
                             bool isVector) {
  if (linalg::IndexOp index = dyn_cast<linalg::IndexOp>(op)) {
    return isVector && index.getDim() == loop ? Lanes::Linear : Lanes::Uniform;
  }
  if (llvm::all_of(operands, [](Lanes lanes) { return lanes == Lanes::Uniform; })) {
    return Lanes::Uniform;
  }
  if (affine::AffineApplyOp apply = dyn_cast<affine::AffineApplyOp>(op)) {
    return lanesOfApply(apply, operands);
  }
  if (memref::LoadOp load = dyn_cast<memref::LoadOp>(op)) {
    bool contiguous =
        operands.back() == Lanes::Linear && hasUnitStride(load.getMemRefType()) &&
        llvm::all_of(operands.drop_back(), [](Lanes lanes) { return lanes == Lanes::Uniform; });
    return contiguous ? std::optional(Lanes::Varying) : std::nullopt;
  }
  // A condition is looked at once for all lanes; of one that differs, idle lanes would count too.
  if (isa<tn::RequireOp>(op)) {
    return operands[1] == Lanes::Uniform ? std::optional(operands[0]) : std::nullopt;
  }
  // Integer division has no vector instruction, and lanes that do not count might divide by zero.
  bool divides = isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
                     arith::FloorDivSIOp, arith::CeilDivSIOp>(op);
  if (divides || !OpTrait::hasElementwiseMappableTraits(&op)) {
    return std::nullopt;
  }
  return Lanes::Varying;
}

} // namespace

std::optional<int64_t> StripBody::score(linalg::GenericOp op, unsigned loop) {
  bool reduces = op.getIteratorTypesArray()[loop] == utils::IteratorType::reduction;
  int64_t score = 1;
  llvm::DenseMap<Value, Lanes> lanes;
  for (OpOperand &operand : op->getOpOperands()) {
    Access access = accessOf(op, operand, loop);
    bool isResult = op.isDpsInit(&operand);
    if (access == Access::None || (isResult && access == Access::Strided)) {
      return std::nullopt;
    }
    if (access == Access::Contiguous) {
      score += isResult ? 4 : 2;
    } else if (access == Access::Strided) {
      score -= 3;
    }
    bool varies = access != Access::Uniform || (isResult && reduces);
    lanes[op.getMatchingBlockArgument(&operand)] = varies ? Lanes::Varying : Lanes::Uniform;
  }
  for (Operation &operation : op.getBody()->without_terminator()) {
    SmallVector<Lanes> operands;
    for (Value operand : operation.getOperands()) {
      operands.push_back(lanes.lookup(operand));
    }
    std::optional<Lanes> result = lanesOf(operation, operands, loop, true);
    if (!result || operation.getNumResults() != 1) {
      return std::nullopt;
    }
    lanes[operation.getResult(0)] = *result;
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
  if (value.lanes == Lanes::Varying) {
    return value.value;
  }
  Value base = broadcast(value.value);
  if (value.lanes == Lanes::Uniform) {
    return base;
  }
  Value steps = vector::StepOp::create(builder, location, cast<VectorType>(base.getType()));
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
    return {memref::LoadOp::create(builder, location, memref, indices), Lanes::Uniform};
  }
  VectorType type = VectorType::get(width, element);
  if (!active) {
    return {vector::LoadOp::create(builder, location, type, memref, indices), Lanes::Varying};
  }
  Value zero = arith::ConstantOp::create(builder, location, builder.getZeroAttr(type));
  return {vector::MaskedLoadOp::create(builder, location, type, memref, indices, mask(), zero),
          Lanes::Varying};
}

/// Elements a stride apart, by vector.gather from the first.
Value StripBody::gather(OpOperand &operand, ValueRange indices) {
  Value memref = operand.get();
  MemRefType memrefType = cast<MemRefType>(memref.getType());
  unsigned dim = *movingDim(op.getMatchingIndexingMap(&operand), strip);
  memref::ExtractStridedMetadataOp metadata =
      memref::ExtractStridedMetadataOp::create(builder, location, memref);
  Value stride = metadata.getStrides()[dim];
  VectorType positions = VectorType::get(width, builder.getIndexType());
  Value steps = vector::StepOp::create(builder, location, positions);
  Value offsets = arith::MulIOp::create(builder, location, steps, broadcast(stride));
  VectorType type = VectorType::get(width, memrefType.getElementType());
  Value zero = arith::ConstantOp::create(builder, location, builder.getZeroAttr(type));
  return vector::GatherOp::create(builder, location, type, memref, indices, offsets, mask(), zero);
}

StripBody::LaneValue StripBody::loadOperand(OpOperand &operand) {
  if (!isa<MemRefType>(operand.get().getType())) {
    return {operand.get(), Lanes::Uniform};
  }
  Access access = isVector() ? accessOf(op, operand, strip) : Access::Uniform;
  SmallVector<Value> indices = operandIndices(operand);
  if (access == Access::Strided) {
    return {gather(operand, indices), Lanes::Varying};
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

StripBody::LaneValue StripBody::emitOp(Operation &operation) {
  if (linalg::IndexOp index = dyn_cast<linalg::IndexOp>(operation)) {
    bool isLane = isVector() && index.getDim() == strip;
    return {ivs[index.getDim()], isLane ? Lanes::Linear : Lanes::Uniform};
  }
  SmallVector<LaneValue> operands;
  SmallVector<Lanes> lanes;
  for (Value operand : operation.getOperands()) {
    auto found = values.find(operand);
    operands.push_back(found == values.end() ? LaneValue{operand, Lanes::Uniform} : found->second);
    lanes.push_back(operands.back().lanes);
  }
  Lanes result = *lanesOf(operation, lanes, strip, isVector());
  if (memref::LoadOp load = dyn_cast<memref::LoadOp>(operation); load && result == Lanes::Varying) {
    SmallVector<Value> indices;
    for (LaneValue &operand : MutableArrayRef<LaneValue>(operands).drop_front()) {
      indices.push_back(operand.value);
    }
    return loadMemref(operands[0].value, indices, true);
  }
  OperationState state(location, operation.getName());
  state.addAttributes(operation.getAttrs());
  Type type = operation.getResult(0).getType();
  for (auto [i, operand] : llvm::enumerate(operands)) {
    // A condition that all lanes share is for whole vectors.
    bool isCondition =
        operand.lanes == Lanes::Uniform &&
        ((isa<arith::SelectOp>(operation) && i == 0) || (isa<tn::RequireOp>(operation) && i == 1));
    bool needsVector = result == Lanes::Varying && !isCondition;
    state.addOperands(needsVector ? asVector(operand) : operand.value);
  }
  state.addTypes(result == Lanes::Varying ? VectorType::get(width, type) : type);
  if (arith::ConstantOp constant = dyn_cast<arith::ConstantOp>(operation)) {
    return {arith::ConstantOp::create(builder, location, constant.getValue()), Lanes::Uniform};
  }
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
    values[argument] = {accumulator, isWide ? Lanes::Varying : Lanes::Uniform};
  }
  for (Operation &operation : op.getBody()->without_terminator()) {
    values[operation.getResult(0)] = emitOp(operation);
  }
  SmallVector<Value> results;
  for (auto [i, yielded] : llvm::enumerate(op.getBody()->getTerminator()->getOperands())) {
    auto found = values.find(yielded);
    LaneValue value = found == values.end() ? LaneValue{yielded, Lanes::Uniform} : found->second;
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
