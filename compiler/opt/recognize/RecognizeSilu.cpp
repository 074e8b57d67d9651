// Spellings of the sigmoid and of x * sigmoid(x) become tn.sigmoid and tn.silu.
// Relies on constants being scalars or splats.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// x of 1 + exp(-x), when nobody else reads the parts.
Value matchOnePlusExpOfNeg(Value value, Constants &constants) {
  std::optional<WithScalar> sum = matchScalar<tn::AddOp>(value, constants);
  tn::ExpOp exp = sum ? sum->value.getDefiningOp<tn::ExpOp>() : tn::ExpOp();
  if (!exp || sum->scalar != 1 || !value.hasOneUse() || !exp->hasOneUse() ||
      !exp.getX().hasOneUse()) {
    return nullptr;
  }
  if (tn::NegOp neg = exp.getX().getDefiningOp<tn::NegOp>()) {
    return neg.getX();
  }
  std::optional<WithScalar> product = matchScalar<tn::MulOp>(exp.getX(), constants);
  return product && product->scalar == -1 ? product->value : nullptr;
}

/// 1 / (1 + exp(-x)) -> sigmoid(x), x / (1 + exp(-x)) -> silu(x)
struct SigmoidQuotientPattern : Pattern<tn::DivOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::DivOp op, PatternRewriter &rewriter) const override {
    Constants constants = this->constants;
    Value x = matchOnePlusExpOfNeg(op.getB(), constants);
    if (!x || x.getType() != op.getType()) {
      return failure();
    }
    if (op.getA() == x) {
      rewriter.replaceOpWithNewOp<tn::SiluOp>(op, op.getType(), x);
      return success();
    }
    if (constants.scalar(op.getA()) != 1.0) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::SigmoidOp>(op, op.getType(), x);
    return success();
  }
};

/// reciprocal(1 + exp(-x)) -> sigmoid(x)
struct ReciprocalPattern : Pattern<tn::ReciprocalOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::ReciprocalOp op, PatternRewriter &rewriter) const override {
    Constants constants = this->constants;
    Value x = matchOnePlusExpOfNeg(op.getX(), constants);
    if (!x) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::SigmoidOp>(op, op.getType(), x);
    return success();
  }
};

/// x * sigmoid(x) -> silu(x), unless the sigmoid is needed anyway
struct SigmoidProductPattern : Pattern<tn::MulOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::MulOp op, PatternRewriter &rewriter) const override {
    for (auto [x, gate] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())}) {
      tn::SigmoidOp sigmoid = gate.getDefiningOp<tn::SigmoidOp>();
      if (sigmoid && sigmoid.getX() == x && sigmoid->hasOneUse()) {
        rewriter.replaceOpWithNewOp<tn::SiluOp>(op, op.getType(), x);
        return success();
      }
    }
    return failure();
  }
};

} // namespace

LogicalResult recognizeSilu(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<SigmoidQuotientPattern, ReciprocalPattern, SigmoidProductPattern>(
      module.getContext(), weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
