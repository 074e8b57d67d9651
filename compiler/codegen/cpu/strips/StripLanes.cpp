// The classification of values into lanes. Relies on bodies being elementwise ops, indices and
// loads.
#include "compiler/codegen/cpu/strips/StripLanes.h"

#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

using namespace mlir;

namespace tenon::codegen::cpu {

bool hasUnitStride(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset;
  return type.getRank() > 0 && succeeded(type.getStridesAndOffset(strides, offset)) &&
         strides.back() == 1;
}

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

namespace {

/// Whether vectors can compute an expression: divisors are constants, as lanes that do not count
/// might divide by zero.
bool hasVectorForm(AffineExpr expression) {
  bool has = true;
  expression.walk([&](AffineExpr part) {
    bool divides = part.getKind() == AffineExprKind::Mod ||
                   part.getKind() == AffineExprKind::FloorDiv ||
                   part.getKind() == AffineExprKind::CeilDiv;
    if (divides) {
      AffineConstantExpr divisor =
          dyn_cast<AffineConstantExpr>(cast<AffineBinaryOpExpr>(part).getRHS());
      has &= divisor && divisor.getValue() > 0 && part.getKind() != AffineExprKind::CeilDiv;
    }
  });
  return has;
}

/// How affine.apply's result varies when the operands that are Linear grow by their steps.
std::optional<Lanes> lanesOfApply(affine::AffineApplyOp apply, ArrayRef<Lanes> operands) {
  AffineMap map = apply.getAffineMap();
  AffineExpr expression = map.getResult(0);
  SmallVector<AffineExpr> dims, symbols;
  bool isAnyVarying = false;
  for (auto [i, lanes] : llvm::enumerate(operands)) {
    bool isDim = i < map.getNumDims();
    AffineExpr operand = isDim ? getAffineDimExpr(i, map.getContext())
                               : getAffineSymbolExpr(i - map.getNumDims(), map.getContext());
    isAnyVarying |= lanes.isVarying();
    (isDim ? dims : symbols).push_back(lanes.isLinear() ? operand + lanes.step : operand);
  }
  if (!isAnyVarying) {
    AffineExpr growth =
        simplifyAffineExpr(expression.replaceDimsAndSymbols(dims, symbols) - expression,
                           map.getNumDims(), map.getNumSymbols());
    if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(growth)) {
      return Lanes::linear(constant.getValue());
    }
  }
  return hasVectorForm(expression) ? std::optional(Lanes::varying()) : std::nullopt;
}

/// Sums of indices keep their steps.
std::optional<Lanes> lanesOfSum(Operation &op, ArrayRef<Lanes> operands) {
  bool isSum = isa<arith::AddIOp, arith::SubIOp>(op) && op.getResult(0).getType().isIndex();
  if (!isSum || operands[0].isVarying() || operands[1].isVarying()) {
    return std::nullopt;
  }
  int64_t other = isa<arith::SubIOp>(op) ? -operands[1].step : operands[1].step;
  return Lanes::linear(operands[0].step + other);
}

/// Whether a division of integers is one of elements, which bodies keep from trapping.
bool dividesElements(Operation &op) {
  return isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(op) &&
         op.getResult(0).getType().isInteger();
}

} // namespace

/// Whether a comparison that holds for two indices holds for all between them.
static bool holdsBetween(arith::CmpIOp compare, bool isLeftLinear) {
  using P = arith::CmpIPredicate;
  switch (compare.getPredicate()) {
  case P::eq:
  case P::ne:
    return false;
  case P::ult:
  case P::ule:
    return isLeftLinear;
  case P::ugt:
  case P::uge:
    return !isLeftLinear;
  default:
    return true;
  }
}

bool boundsIndex(Operation &op, ArrayRef<Lanes> operands) {
  bool bounds = isa<arith::MinSIOp, arith::MaxSIOp, arith::CmpIOp>(op) &&
                op.getOperand(0).getType().isIndex() &&
                ((operands[0].isLinear() && operands[1].isUniform()) ||
                 (operands[0].isUniform() && operands[1].isLinear()));
  arith::CmpIOp compare = dyn_cast<arith::CmpIOp>(op);
  return bounds && (!compare || holdsBetween(compare, operands[0].isLinear()));
}

bool takesFirst(Operation &op, ArrayRef<Lanes> operands) {
  arith::SelectOp select = dyn_cast<arith::SelectOp>(op);
  arith::CmpIOp compare = select ? select.getCondition().getDefiningOp<arith::CmpIOp>() : nullptr;
  return compare && compare.getLhs().getType().isIndex() && operands[0].isUniform() &&
         operands[1].isLinear();
}

/// Whether only the index of the innermost dim moves, and by whole elements.
static std::optional<int64_t> innermostStep(memref::LoadOp load, ArrayRef<Lanes> indices) {
  bool isOne = !indices.empty() && indices.back().isLinear() &&
               hasUnitStride(load.getMemRefType()) &&
               llvm::all_of(indices.drop_back(), [](Lanes lanes) { return lanes.isUniform(); });
  return isOne ? std::optional(indices.back().step) : std::nullopt;
}

bool readsNeighbours(memref::LoadOp load, ArrayRef<Lanes> indices) {
  std::optional<int64_t> step = innermostStep(load, indices);
  return step && std::abs(*step) == 1;
}

bool readsEverySecond(memref::LoadOp load, ArrayRef<Lanes> indices) {
  return innermostStep(load, indices) == 2;
}

std::optional<Lanes> lanesOf(Operation &op, ArrayRef<Lanes> operands, const StripPlace &place) {
  if (linalg::IndexOp index = dyn_cast<linalg::IndexOp>(op)) {
    return Lanes::linear(place.isVector && index.getDim() == place.loop ? 1 : 0);
  }
  if (llvm::all_of(operands, [](Lanes lanes) { return lanes.isUniform(); })) {
    return Lanes{};
  }
  if (affine::AffineApplyOp apply = dyn_cast<affine::AffineApplyOp>(op)) {
    return lanesOfApply(apply, operands);
  }
  if (std::optional<Lanes> sum = lanesOfSum(op, operands)) {
    return sum;
  }
  if (isa<memref::LoadOp>(op)) {
    return operands[0].isUniform() ? std::optional(Lanes::varying()) : std::nullopt;
  }
  if (isa<tn::RequireOp>(op)) {
    return operands[0];
  }
  if (place.isInterior && boundsIndex(op, operands)) {
    return isa<arith::CmpIOp>(op) ? Lanes{} : operands[operands[0].isLinear() ? 0 : 1];
  }
  if (place.isInterior && takesFirst(op, operands)) {
    return operands[1];
  }
  bool divides = isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
                     arith::FloorDivSIOp, arith::CeilDivSIOp>(op);
  if ((divides && !dividesElements(op)) || !OpTrait::hasElementwiseMappableTraits(&op)) {
    return std::nullopt;
  }
  return Lanes::varying();
}

} // namespace tenon::codegen::cpu
