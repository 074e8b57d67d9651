// Products and convolutions of bf16 with constant weights that are predicted to be faster in FP32
// (no units of bf16, or Winograd's filtering) read their operand widened and weights of FP32; their
// results are rounded where they are stored, as before. Relies on casts fusing into neighbours.
#include "compiler/opt/precision/IntegerOperands.h"

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kWidenPass = "widen-products";

/// Elements of the depth that a word of bf16 holds: fill-words fills those of one group.
constexpr int64_t kPair = 2;

int64_t filledDepth(Operation *op) {
  int64_t own = tensorType(op->getOperand(1)).getDimSize(1);
  tn::ConvOp conv = dyn_cast<tn::ConvOp>(op);
  return conv && conv.getGroups() != 1 ? own : llvm::alignTo(own, kPair);
}

bool isBf16(Value value) { return getElementTypeOrSelf(value).isBF16(); }

template <typename Op> struct Widen : Pattern<Op> {
  Widen(MLIRContext *context, tn::WeightStore &weights, const PriceProduct &price)
      : Pattern<Op>(context, weights), price(price) {}

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Value x = op->getOperand(0), weight = op->getOperand(1);
    if (!isBf16(x) || !isBf16(weight) || !Constants::isConstant(weight) ||
        Constants::isConstant(x) || isKeptWide(op)) {
      return failure();
    }
    PricedProduct priced(price, op, filledDepth(op));
    if (!priced.isWide()) {
      return failure();
    }
    std::optional<std::vector<double>> elements = this->constants.elements(weight);
    if (!elements) {
      return failure();
    }
    Location location = op.getLoc();
    Type f32 = rewriter.getF32Type();
    SmallVector<Value> operands(op->getOperands());
    operands[0] = castTo(rewriter, location, x, f32);
    tn::WeightOp stored = weight.getDefiningOp<tn::WeightOp>();
    operands[1] = this->constants.make(
        rewriter, weight.getLoc(), tn::withElement(weight.getType(), f32), *elements,
        stored ? (stored.getId() + ".f32").str() : "f32", kWidenPass);
    for (Value &operand : llvm::drop_begin(operands, 2)) {
      operand = castTo(rewriter, location, operand, f32);
    }
    Type result = op.getType().getElementType();
    Operation *wide = rebuild(rewriter, op, operands, tn::withElement(op.getType(), f32));
    priced.keep(rewriter, wide);
    rewriter.replaceOp(op, castTo(rewriter, location, wide->getResult(0), result));
    return success();
  }

  const PriceProduct &price;
};

} // namespace

LogicalResult widenProducts(ModuleOp module, tn::WeightStore &weights, const PriceProduct &price) {
  if (!price) {
    return success();
  }
  RewritePatternSet patterns(module.getContext());
  patterns.add<Widen<tn::MatmulOp>, Widen<tn::ConvOp>>(module.getContext(), weights, price);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
