// Activations between products of quantized numbers stay in 8 bits: what moves them or takes the
// largest of some stands on integers, before tn.dequantize and behind tn.quantize. Signed ones
// become unsigned together with all that reads them, as products want them so. All of it is exact.
#include "compiler/opt/precision/IntegerOperands.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// Whether each element of the result is one of the first operand's also by its order: what a
/// positive scale passes through.
bool isOrdered(Operation *op) {
  if (tn::ResizeOp resize = dyn_cast_or_null<tn::ResizeOp>(op)) {
    return resize.getMode() == tn::ResizeMode::nearest &&
           resize.getCoordinates() != "tf_crop_and_resize";
  }
  return isa_and_nonnull<tn::MaxPoolOp>(op);
}

bool isPositive(const Constants &constants, Value scale) {
  std::optional<double> value = constants.scalar(scale);
  return value && *value > 0;
}

/// movement(dequantize(x)) -> dequantize(movement(x)), and of the largest of a window: less is
/// moved, and products see numbers that are quantized.
struct HoistMovement : RewritePattern {
  HoistMovement(MLIRContext *context, tn::WeightStore &weights)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context), constants(weights) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    bool isTaken = isMoved(op) || isOrdered(op);
    tn::DequantizeOp producer = isTaken ? dequantizeOf(op->getOperand(0)) : tn::DequantizeOp();
    if (!producer || !isPerTensor(producer) ||
        (!isMoved(op) && !isPositive(constants, producer.getScale()))) {
      return failure();
    }
    SmallVector<Value> operands(op->getOperands());
    operands[0] = producer.getX();
    Type type = tn::withElement(op->getResult(0).getType(), getElementTypeOrSelf(producer.getX()));
    Value moved = rebuild(rewriter, op, operands, type)->getResult(0);
    rewriter.replaceOp(op, rebuild(rewriter, producer,
                                   {moved, producer.getScale(), producer.getZeroPoint()},
                                   op->getResult(0).getType()));
    return success();
  }

  Constants constants;
};

/// movement(cast(x)) -> cast(movement(x)), movement(x - z) -> movement(x) - z, of 8-bit numbers
/// less their zero point.
struct HoistCentered : RewritePattern {
  explicit HoistCentered(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    Value operand = isMoved(op) ? op->getOperand(0) : Value();
    std::optional<Quantized> x = operand && getElementTypeOrSelf(operand).isInteger(32)
                                     ? IntegerOperands::centered(operand)
                                     : std::nullopt;
    if (!x || (x->zero && tensorType(x->zero).getRank() != 0)) {
      return failure();
    }
    RankedTensorType type = tensorType(op->getResult(0));
    SmallVector<Value> operands(op->getOperands());
    operands[0] = x->numbers;
    Value moved =
        rebuild(rewriter, op, operands, tn::withElement(type, getElementTypeOrSelf(x->numbers)))
            ->getResult(0);
    Value wide = castTo(rewriter, op->getLoc(), moved, type.getElementType());
    rewriter.replaceOp(op, x->zero ? tn::SubOp::create(rewriter, op->getLoc(), type, wide, x->zero)
                                   : wide);
    return success();
  }
};

/// quantize(movement(x)) -> movement(quantize(x)), and of joined tensors and the largest of a
/// window, where nothing else reads these.
struct SinkMovement : Pattern<tn::QuantizeOp> {
  using Pattern::Pattern;

  LogicalResult matchAndRewrite(tn::QuantizeOp op, PatternRewriter &rewriter) const override {
    Operation *producer = op.getX().getDefiningOp();
    bool isTaken = isa_and_nonnull<tn::TransposeOp, tn::ReshapeOp, tn::ConcatOp>(producer) ||
                   (isOrdered(producer) && isPositive(constants, op.getScale()));
    if (!isTaken || !isPerTensor(op) || !producer->hasOneUse() ||
        !isByte(getElementTypeOrSelf(op.getY()))) {
      return failure();
    }
    SmallVector<Value> operands(producer->getOperands());
    for (Value &operand : operands) {
      Type type = tn::withElement(operand.getType(), getElementTypeOrSelf(op.getY()));
      operand =
          rebuild(rewriter, op, {operand, op.getScale(), op.getZeroPoint()}, type)->getResult(0);
    }
    rewriter.replaceOp(op, rebuild(rewriter, producer, operands, op.getY().getType()));
    return success();
  }
};

/// quantize(dequantize(x)) -> x of one scale and zero point: a number times its scale, divided by
/// it, is at most two roundings from itself.
struct CancelQuantization : Pattern<tn::QuantizeOp> {
  using Pattern::Pattern;

  LogicalResult matchAndRewrite(tn::QuantizeOp op, PatternRewriter &rewriter) const override {
    tn::DequantizeOp source = dequantizeOf(op.getX());
    if (!source || source.getX().getType() != op.getY().getType() || !isPerTensor(op) ||
        !isPerTensor(source) || !getElementTypeOrSelf(op.getX()).isF32() ||
        !isUsualScale(constants, op.getScale()) ||
        constants.bytes(op.getScale()) != constants.bytes(source.getScale()) ||
        constants.bytes(op.getZeroPoint()) != constants.bytes(source.getZeroPoint())) {
      return failure();
    }
    rewriter.replaceOp(op, source.getX());
    return success();
  }
};

/// Signed numbers that become unsigned: those that are quantized in the module and that nothing but
/// movement, joins and zero points see.
class UnsignedNumbers {
public:
  UnsignedNumbers(ModuleOp module, tn::WeightStore &weights)
      : module(module), operands(weights), rewriter(module.getContext()) {}

  void run() {
    module.walk([&](Operation *op) {
      if (op->getNumResults() == 1 && isa<RankedTensorType>(op->getResult(0).getType()) &&
          isSignedByte(getElementTypeOrSelf(op->getResult(0))) && isSource(op)) {
        numbers.insert(op->getResult(0));
      }
    });
    // Each may depend on any other.
    while (numbers.remove_if([&](Value value) { return !isFree(value); })) {
    }
    for (Value value : numbers) {
      retype(value);
    }
  }

private:
  static bool isMovement(Operation *op) {
    return isMoved(op) || isOrdered(op) || isa_and_nonnull<tn::ConcatOp>(op);
  }
  static bool isSource(Operation *op) {
    return isMovement(op) || (isa<tn::QuantizeOp>(op) && isPerTensor(op));
  }

  /// Whether what it is made of and all that reads it can be changed too.
  bool isFree(Value value) const {
    Operation *op = value.getDefiningOp();
    ValueRange sources = isa<tn::ConcatOp>(op) ? ValueRange(op->getOperands())
                                               : ValueRange(op->getOperands().take_front());
    bool isMadeOf = isa<tn::QuantizeOp>(op) ||
                    llvm::all_of(sources, [&](Value operand) { return numbers.contains(operand); });
    return isMadeOf && llvm::all_of(value.getUsers(), [&](Operation *user) {
             return readsZero(user) || (isMovement(user) && numbers.contains(user->getResult(0)));
           });
  }

  static bool readsZero(Operation *user) {
    if (isa<tn::DequantizeOp>(user)) {
      return isPerTensor(user);
    }
    return isa<tn::CastOp>(user) && getElementTypeOrSelf(user->getResult(0)).isInteger(32) &&
           llvm::all_of(user->getUsers(), [&](Operation *difference) {
             return isa<tn::SubOp>(difference) && difference->getOperand(0) == user->getResult(0) &&
                    tensorType(difference->getOperand(1)).getRank() == 0;
           });
  }

  void retype(Value value) {
    Type byte = rewriter.getIntegerType(8, /*isSigned=*/false);
    if (tn::QuantizeOp quantize = value.getDefiningOp<tn::QuantizeOp>()) {
      shiftZero(quantize, 2, byte);
    }
    value.setType(tn::withElement(value.getType(), byte));
    for (Operation *user : llvm::to_vector(value.getUsers())) {
      if (isa<tn::DequantizeOp>(user)) {
        shiftZero(user, 2, byte);
      } else if (isa<tn::CastOp>(user)) {
        for (Operation *difference : llvm::to_vector(user->getUsers())) {
          shiftZero(difference, 1, rewriter.getI32Type());
        }
      }
    }
  }

  void shiftZero(Operation *op, unsigned operand, Type element) {
    rewriter.setInsertionPoint(op);
    op->setOperand(operand, operands.shifted(rewriter, op->getOperand(operand), element));
  }

  ModuleOp module;
  IntegerOperands operands;
  PatternRewriter rewriter;
  llvm::SetVector<Value> numbers;
};

} // namespace

LogicalResult keepActivationsQuantized(ModuleOp module, tn::WeightStore &weights,
                                       bool areUnsigned) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<HoistMovement, SinkMovement, CancelQuantization>(module.getContext(), weights);
  patterns.add<HoistCentered>(module.getContext());
  if (failed(runPatterns(module, std::move(patterns)))) {
    return failure();
  }
  if (areUnsigned) {
    UnsignedNumbers(module, weights).run();
  }
  return success();
}

} // namespace tenon::opt
