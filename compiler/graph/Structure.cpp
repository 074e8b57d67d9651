// Verifiers and folds of the operations that hold constants and regions.
// Relies on Shape.h for the agreement of types.
#include "compiler/graph/infer/Infer.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tenon::tn;
using namespace tenon::tn::infer;

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

LogicalResult SizesOp::verify() {
  RankedTensorType type = typeOf(getY());
  AffineMap values = getValues();
  if (type.getRank() > 1 || !type.getElementType().isSignlessInteger() ||
      type.getElementType().isInteger(1)) {
    return emitOpError("gives a scalar or a list of signed integers, not ") << type;
  }
  if (values.getNumDims() != 0 || values.getNumResults() != type.getNumElements()) {
    return emitOpError("needs one expression over symbols for each of ")
           << type.getNumElements() << " elements";
  }
  return success();
}

RankedTensorType tenon::tn::packedType(RankedTensorType weight, const Packing &packing) {
  return RankedTensorType::get(packedShape(weight.getShape(), packing), weight.getElementType());
}

static LogicalResult verifyPacking(Operation *op, RankedTensorType weight, Type packed,
                                   const Packing &packing) {
  if (!weight.hasStaticShape()) {
    return op->emitOpError("packs no array whose sizes vary: ") << weight;
  }
  std::string problem = refusePacking(weight.getShape(), packing);
  if (!problem.empty()) {
    return op->emitOpError(problem) << " for " << weight;
  }
  RankedTensorType expected = packedType(weight, packing);
  if (packed != expected) {
    return op->emitOpError("packs ") << weight << " to " << expected << ", not " << packed;
  }
  return success();
}

/// Whether nothing moves.
static bool isIdentity(const Packing &packing) {
  return packing.innerTiles.empty() && llvm::is_sorted(packing.outerDimsPerm);
}

void PackOp::build(OpBuilder &builder, OperationState &state, Value weight,
                   const Packing &packing) {
  build(builder, state, packedType(typeOf(weight), packing), weight, packing.outerDimsPerm,
        packing.innerDimsPos, packing.innerTiles);
}

LogicalResult PackOp::verify() {
  return verifyPacking(*this, typeOf(getWeight()), getY().getType(), packing());
}

/// Packing what is unpacked is not folded: what lies beyond the array need not be zero there.
OpFoldResult PackOp::fold(FoldAdaptor) {
  return isIdentity(packing()) ? Value(getWeight()) : Value();
}

void UnpackOp::build(OpBuilder &builder, OperationState &state, Type weight, Value packed,
                     const Packing &packing) {
  build(builder, state, weight, packed, packing.outerDimsPerm, packing.innerDimsPos,
        packing.innerTiles);
}

LogicalResult UnpackOp::verify() {
  return verifyPacking(*this, typeOf(getWeight()), getPacked().getType(), packing());
}

OpFoldResult UnpackOp::fold(FoldAdaptor) {
  PackOp pack = getPacked().getDefiningOp<PackOp>();
  if (pack && pack.packing() == packing() && pack.getWeight().getType() == getType()) {
    return pack.getWeight();
  }
  return isIdentity(packing()) ? Value(getPacked()) : Value();
}

LogicalResult RegionOp::verify() {
  Block &block = getBody().front();
  if (!typesAgree(block.getArgumentTypes(), getInputs().getTypes())) {
    return emitOpError("has body arguments that do not agree with its operands");
  }
  YieldOp yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield) {
    return emitOpError("does not end in tn.yield");
  }
  if (!typesAgree(yield.getValues().getTypes(), getOutputs().getTypes())) {
    return emitOpError("yields types that do not agree with its results");
  }
  return success();
}
