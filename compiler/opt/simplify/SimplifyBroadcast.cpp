// Broadcasts move behind elementwise operations or vanish, as patterns of `simplify`.
// Relies on elementwise operations broadcasting their operands by themselves.
#include "compiler/opt/Match.h"
#include "compiler/opt/Patterns.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// The dims that an elementwise operation gives for these operands; empty optional if that is not
/// known.
std::optional<tn::Dims> resultDims(ValueRange operands) {
  tn::Dims dims;
  for (Value operand : operands) {
    FailureOr<tn::Dims> wider = tn::broadcastDims(dims, tn::getDims(operand.getType()));
    if (failed(wider)) {
      return std::nullopt;
    }
    dims = *wider;
  }
  return dims;
}

struct ElementwisePattern : RewritePattern {
  ElementwisePattern(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}
};

/// op(broadcast(x), y) -> op(x, y) where y has the result's shape anyway
struct DropBroadcast : ElementwisePattern {
  using ElementwisePattern::ElementwisePattern;
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!op->hasTrait<tn::TnElementwise>() || op->getNumOperands() < 2) {
      return failure();
    }
    tn::Dims wanted = tn::getDims(op->getResult(0).getType());
    for (OpOperand &operand : op->getOpOperands()) {
      tn::BroadcastOp broadcast = operand.get().getDefiningOp<tn::BroadcastOp>();
      if (!broadcast) {
        continue;
      }
      SmallVector<Value> operands(op->getOperands());
      operands[operand.getOperandNumber()] = broadcast.getX();
      std::optional<tn::Dims> dims = resultDims(operands);
      if (!dims || !tn::sameDims(*dims, wanted)) {
        continue;
      }
      rewriter.modifyOpInPlace(op, [&] { operand.set(broadcast.getX()); });
      return success();
    }
    return failure();
  }
};

/// op(broadcast(x), scalars) -> broadcast(op(x, scalars)): the operation runs on fewer elements.
struct BroadcastAfter : ElementwisePattern {
  using ElementwisePattern::ElementwisePattern;
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!op->hasTrait<tn::TnElementwise>()) {
      return failure();
    }
    SmallVector<Value> operands;
    bool found = false;
    for (Value operand : op->getOperands()) {
      tn::BroadcastOp broadcast = operand.getDefiningOp<tn::BroadcastOp>();
      bool isScalar = Constants::isConstant(operand) && tensorType(operand).getNumElements() == 1;
      if (!isScalar && (!broadcast || found)) {
        return failure();
      }
      found |= broadcast != nullptr;
      operands.push_back(broadcast ? broadcast.getX() : operand);
    }
    std::optional<tn::Dims> dims = found ? resultDims(operands) : std::nullopt;
    if (!dims) {
      return failure();
    }
    Type type = op->getResult(0).getType();
    Type narrow = tn::makeTensor(*dims, getElementTypeOrSelf(type));
    if (narrow == type) {
      return failure();
    }
    Operation *small = rebuild(rewriter, op, operands, narrow);
    rewriter.replaceOpWithNewOp<tn::BroadcastOp>(op, type, small->getResult(0));
    return success();
  }
};

} // namespace

void addBroadcastPatterns(RewritePatternSet &patterns, tn::WeightStore &) {
  patterns.add<DropBroadcast, BroadcastAfter>(patterns.getContext());
}

} // namespace tenon::opt
