// exp(x - max) / sum, with or without the maximum, becomes tn.softmax; its logarithm likewise.
// Relies on reductions over one axis that keep it. Without the maximum the result only gains range.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// The axis over which a value is reduced, if it is one and stays as a dim of one.
std::optional<int64_t> reducedAxis(Value value, tn::ReduceKind kind, Value of) {
  tn::ReduceOp reduce = value.getDefiningOp<tn::ReduceOp>();
  if (!reduce || reduce.getKind() != kind || reduce.getX() != of || !reduce.getKeepdims() ||
      reduce.getAxes().size() != 1 || !reduce->hasOneUse()) {
    return std::nullopt;
  }
  return reduce.getAxes().front();
}

struct SoftmaxQuotientPattern : Pattern<tn::DivOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::DivOp op, PatternRewriter &rewriter) const override {
    tn::ExpOp exp = op.getA().getDefiningOp<tn::ExpOp>();
    std::optional<int64_t> axis = reducedAxis(op.getB(), tn::ReduceKind::sum, op.getA());
    if (!exp || !axis || !op.getA().hasNUses(2)) {
      return failure();
    }
    Value x = exp.getX();
    tn::SubOp difference = x.getDefiningOp<tn::SubOp>();
    if (difference && difference->hasOneUse() &&
        reducedAxis(difference.getB(), tn::ReduceKind::max, difference.getA()) == axis) {
      x = difference.getA();
    }
    if (x.getType() != op.getType()) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::SoftmaxOp>(op, op.getType(), x, *axis, /*log=*/false);
    return success();
  }
};

/// log(softmax(x)) -> the logarithmic form, which does not round small probabilities to zero.
struct LogPattern : Pattern<tn::LogOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::LogOp op, PatternRewriter &rewriter) const override {
    tn::SoftmaxOp softmax = op.getX().getDefiningOp<tn::SoftmaxOp>();
    if (!softmax || softmax.getLog() || !softmax->hasOneUse()) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::SoftmaxOp>(op, op.getType(), softmax.getX(), softmax.getAxis(),
                                               /*log=*/true);
    return success();
  }
};

} // namespace

LogicalResult recognizeSoftmax(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<SoftmaxQuotientPattern, LogPattern>(module.getContext(), weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
