// Convolutions and poolings work channels-last; the transposes that this puts around them cancel.
// Relies on SinkTransposes.cpp to bring each transpose to the next operation that undoes it. A
// model without convolutions keeps its layout: only these gain more than two transposes cost.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/Patterns.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// N, spatial..., C as positions in N, C, spatial...
Permutation toChannelsLast(int64_t rank) {
  Permutation result{0};
  llvm::append_range(result, llvm::seq<int64_t>(2, rank));
  result.push_back(1);
  return result;
}

/// op(x) -> transpose(op(transpose(x)) {channelsLast})
template <typename Op> struct ToChannelsLast : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    int64_t rank = op.getType().getRank();
    if (op.getChannelsLast() || rank < 3) {
      return failure();
    }
    Permutation permutation = toChannelsLast(rank);
    SmallVector<Value> operands(op->getOperands());
    operands.front() = transpose(rewriter, op.getLoc(), operands.front(), permutation);
    tn::Dims dims = permuted(ArrayRef<AffineExpr>(tn::getDims(op.getType())), permutation);
    Op moved = cast<Op>(
        rebuild(rewriter, op, operands, tn::makeTensor(dims, op.getType().getElementType())));
    moved.setChannelsLast(true);
    rewriter.replaceOpWithNewOp<tn::TransposeOp>(op, op.getType(), moved, inverse(permutation));
    return success();
  }
};

} // namespace

LogicalResult channelsLast(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  bool hasConv = module.walk([](tn::ConvOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (hasConv) {
    patterns.add<ToChannelsLast<tn::ConvOp>, ToChannelsLast<tn::MaxPoolOp>,
                 ToChannelsLast<tn::AvgPoolOp>, ToChannelsLast<tn::BatchNormOp>>(
        module.getContext());
  }
  addSinkTransposePatterns(patterns, weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
