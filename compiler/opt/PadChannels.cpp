// Narrow convolutions get a number of input channels that the matrix units can load, and casts of
// pictures move behind the transposes and reshapes that follow them, so that all of this is one
// kernel. Relies on zeros adding nothing.
#include "compiler/opt/DerivedWeights.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// Channels that lie in 16 bytes.
constexpr int64_t kNarrowChannels = 8;

/// f(cast(input)) -> cast(f(input)) for a movement that alone reads the cast
template <typename Op> struct SinkCast : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    tn::CastOp cast = op.getX().template getDefiningOp<tn::CastOp>();
    if (!cast || !cast->hasOneUse() || !isa<BlockArgument>(cast.getX())) {
      return failure();
    }
    Type element = tensorType(cast.getX()).getElementType();
    Operation *moved = rebuild(rewriter, op, cast.getX(), tn::withElement(op.getType(), element));
    rewriter.replaceOpWithNewOp<tn::CastOp>(op, op.getType(), moved->getResult(0));
    return success();
  }
};

/// conv(x, w) -> conv(pad(x), pad(w)) with a multiple of 8 channels
struct PadConv : OpRewritePattern<tn::ConvOp> {
  PadConv(MLIRContext *context, DerivedWeights &weights)
      : OpRewritePattern(context), weights(weights) {}

  LogicalResult matchAndRewrite(tn::ConvOp op, PatternRewriter &rewriter) const override {
    RankedTensorType weight = tensorType(op.getWeight());
    Type element = weight.getElementType();
    int64_t channels = weight.getDimSize(1);
    int64_t padded = llvm::alignTo(channels, kNarrowChannels);
    if (!op.getChannelsLast() || weight.getRank() != 4 || op.getGroups() != 1 ||
        !(element.isF16() || element.isBF16()) || padded == channels ||
        !Constants::isConstant(op.getWeight())) {
      return failure();
    }
    tn::Dims dims = tn::getDims(op.getX().getType());
    dims.back() = rewriter.getAffineConstantExpr(padded);
    Value x = tn::PadOp::create(rewriter, op.getLoc(), tn::makeTensor(dims, element), op.getX(),
                                Value(), rewriter.getDenseI64ArrayAttr({0, 0, 0, 0}),
                                rewriter.getDenseI64ArrayAttr({0, 0, 0, padded - channels}),
                                tn::PadModeAttr::get(op.getContext(), tn::PadMode::constant));
    Value filter = weights.pad(rewriter, op.getLoc(), op.getWeight(), 1, padded);
    rewriter.modifyOpInPlace(op, [&] {
      op.getXMutable().set(x);
      op.getWeightMutable().set(filter);
    });
    return success();
  }

private:
  DerivedWeights &weights;
};

} // namespace

LogicalResult padChannels(ModuleOp module, tn::WeightStore &store) {
  DerivedWeights weights(store);
  RewritePatternSet patterns(module.getContext());
  patterns.add<SinkCast<tn::TransposeOp>, SinkCast<tn::ReshapeOp>>(module.getContext());
  patterns.add<PadConv>(module.getContext(), weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
