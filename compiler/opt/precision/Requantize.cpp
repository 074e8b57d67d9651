// Quantization behind products of quantized numbers: what is divided by the scale becomes part of
// the factors, terms and scales before it, as such a product is dequantized and quantized by one
// multiplication. The quotient is rounded otherwise, so that a number half way between two levels
// may become the other one. Relies on positive scales.
#include "compiler/opt/precision/IntegerOperands.h"

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kRequantizePass = "integer-products";
/// Operations between the sums and the quantization.
constexpr int kRequantizeSteps = 8;

class Requantize : public Pattern<tn::QuantizeOp> {
public:
  using Pattern::Pattern;

  LogicalResult matchAndRewrite(tn::QuantizeOp op, PatternRewriter &rewriter) const override {
    if (!isUsualScale(constants, op.getScale()) || constants.scalar(op.getScale()) == 1.0 ||
        !isPerTensor(op) || !getElementTypeOrSelf(op.getX()).isF32() ||
        !isByte(getElementTypeOrSelf(op.getY())) || !isDivisible(op.getX(), kRequantizeSteps)) {
      return failure();
    }
    Value levels = divided(rewriter, op.getX(), *constants.scalar(op.getScale()));
    Value one = number(rewriter, op.getScale(), {1.0});
    rewriter.replaceOpWithNewOp<tn::QuantizeOp>(op, op.getY().getType(), levels, one,
                                                op.getZeroPoint(), op.getAxis());
    return success();
  }

private:
  /// Of 8-bit numbers, by one constant scale.
  bool isDequantized(Value value) const {
    tn::DequantizeOp source = dequantizeOf(value);
    return source && isPerTensor(source) && constants.scalar(source.getScale());
  }

  /// Whether a constant factor scales it, and nothing else reads what would have to change.
  bool isDivisible(Value value, int steps) const {
    if (isDequantized(value)) {
      return true;
    }
    Operation *op = value.getDefiningOp();
    if (!op || !op->hasOneUse() || steps == 0) {
      return false;
    }
    if (tn::MulOp product = dyn_cast<tn::MulOp>(op)) {
      tn::CastOp sums = product.getA().getDefiningOp<tn::CastOp>();
      return sums && getElementTypeOrSelf(sums.getX()).isInteger(32) &&
             constants.elements(product.getB());
    }
    if (tn::AddOp sum = dyn_cast<tn::AddOp>(op)) {
      return isDivisible(sum.getA(), steps - 1) &&
             (constants.elements(sum.getB()).has_value() || isDivisible(sum.getB(), steps - 1));
    }
    return isa<tn::ReluOp>(op) && isDivisible(op->getOperand(0), steps - 1);
  }

  Value divided(PatternRewriter &rewriter, Value value, double scale) const {
    if (std::optional<std::vector<double>> elements = constants.elements(value)) {
      for (double &element : *elements) {
        element /= scale;
      }
      return number(rewriter, value, *elements);
    }
    Operation *op = value.getDefiningOp();
    SmallVector<Value> operands(op->getOperands());
    // What is divided of a factor, of both terms, of the scale.
    bool isSum = isa<tn::AddOp, tn::ReluOp>(op);
    for (auto [i, operand] : llvm::enumerate(operands)) {
      if (isSum || i == 1) {
        operand = divided(rewriter, operand, scale);
      }
    }
    return rebuild(rewriter, op, operands, value.getType())->getResult(0);
  }

  Value number(PatternRewriter &rewriter, Value like, ArrayRef<double> elements) const {
    return constants.make(rewriter, like.getLoc(), tensorType(like), elements, "requantized",
                          kRequantizePass);
  }
};

} // namespace

void addRequantizePatterns(RewritePatternSet &patterns, tn::WeightStore &weights) {
  patterns.add<Requantize>(patterns.getContext(), weights);
}

} // namespace tenon::opt
