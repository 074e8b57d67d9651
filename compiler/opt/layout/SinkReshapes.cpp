// Reshapes that split or merge dims around slices, concatenations and elementwise operations go
// behind them, so that what stands between (rotary embedding above all) is one index space and so
// one kernel. Relies on other reshapes being free at the border of a region.
#include "compiler/opt/Passes.h"
#include "compiler/opt/Patterns.h"

#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// `dims` without the dim at `position`, which is one.
tn::Dims withoutDim(ArrayRef<AffineExpr> dims, size_t position) {
  tn::Dims result(dims);
  result.erase(result.begin() + position);
  return result;
}

/// `dims` with the dim at `position` multiplied into the next one.
tn::Dims mergedDims(ArrayRef<AffineExpr> dims, size_t position) {
  tn::Dims result = withoutDim(dims, position);
  result[position] = tn::multiplyDims(dims[position], dims[position + 1]);
  return result;
}

/// The one dim whose size a slice changes, if it takes one element of it and all of the others.
std::optional<size_t> pickedDim(tn::SliceOp op) {
  tn::Dims in = tn::getDims(op.getX().getType());
  tn::Dims out = tn::getDims(op.getType());
  std::optional<size_t> picked;
  for (size_t i = 0; i < in.size(); ++i) {
    if (tn::sameDim(in[i], out[i])) {
      continue;
    }
    if (picked || !isOne(out[i]) || !tn::constantDim(op.getStarts().getResult(i))) {
      return std::nullopt;
    }
    picked = i;
  }
  return picked;
}

/// reshape(slice(reshape(x))) that picks one of the parts of a dim -> a slice of that dim:
/// [b, 64] -> [b, 2, 32] -> [b, 1, 32] -> [b, 32] is columns of [b, 64]
struct PickToSlice : OpRewritePattern<tn::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ReshapeOp op, PatternRewriter &rewriter) const override {
    tn::SliceOp slice = op.getX().getDefiningOp<tn::SliceOp>();
    tn::ReshapeOp split = slice ? slice.getX().getDefiningOp<tn::ReshapeOp>() : tn::ReshapeOp();
    std::optional<size_t> picked = split ? pickedDim(slice) : std::nullopt;
    tn::Dims in = split ? tn::getDims(split.getType()) : tn::Dims();
    if (!picked || *picked + 1 >= in.size()) {
      return failure();
    }
    std::optional<int64_t> inner = tn::constantDim(in[*picked + 1]);
    tn::Dims out = withoutDim(tn::getDims(slice.getType()), *picked);
    if (!inner || !tn::sameDims(out, tn::getDims(op.getType()))) {
      return failure();
    }
    SmallVector<AffineExpr> starts(slice.getStarts().getResults());
    AffineExpr start = starts[*picked] * *inner;
    starts.erase(starts.begin() + *picked);
    starts[*picked] = start;
    SmallVector<int64_t> steps(starts.size(), 1);
    for (auto [i, step] : llvm::enumerate(slice.getSteps())) {
      if (i != *picked && step != 1) {
        return failure();
      }
    }
    Value whole = reshape(rewriter, split.getLoc(), split.getX(), mergedDims(in, *picked));
    AffineMap map = slice.getStarts();
    rewriter.replaceOpWithNewOp<tn::SliceOp>(
        op, op.getType(), whole,
        AffineMap::get(map.getNumDims(), map.getNumSymbols(), starts, op.getContext()), steps);
    return success();
  }
};

/// The position of a dim of one that a reshape adds and does nothing else.
std::optional<size_t> addedDim(tn::ReshapeOp op) {
  tn::Dims in = tn::getDims(op.getX().getType());
  tn::Dims out = tn::getDims(op.getType());
  if (out.size() != in.size() + 1) {
    return std::nullopt;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (isOne(out[i]) && tn::sameDims(withoutDim(out, i), in)) {
      return i;
    }
  }
  return std::nullopt;
}

/// concat(reshape(x), reshape(y)) along a dim that the reshapes add -> reshape(concat(x, y)) along
/// the next one
struct ConcatOfParts : OpRewritePattern<tn::ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ConcatOp op, PatternRewriter &rewriter) const override {
    size_t axis = op.getAxis();
    tn::Dims dims = tn::getDims(op.getType());
    SmallVector<Value> operands;
    for (Value x : op.getXs()) {
      tn::ReshapeOp part = x.getDefiningOp<tn::ReshapeOp>();
      tn::Dims partDims = tn::getDims(x.getType());
      if (!part || !isOne(partDims[axis]) ||
          !tn::sameDims(withoutDim(partDims, axis), tn::getDims(part.getX().getType()))) {
        return failure();
      }
      operands.push_back(part.getX());
    }
    if (axis + 1 >= dims.size()) {
      return failure();
    }
    Type type = tn::makeTensor(mergedDims(dims, axis), op.getType().getElementType());
    Operation *whole = rebuild(rewriter, op, operands, type);
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, op.getType(), whole->getResult(0));
    return success();
  }
};

/// f(reshape(x), reshape(y)) -> reshape(f(x, y)) where the reshapes add the same dim of one
struct SinkAddedDim : RewritePattern {
  SinkAddedDim(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!op->hasTrait<tn::TnElementwise>()) {
      return failure();
    }
    std::optional<size_t> added;
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      tn::ReshapeOp reshaped = operand.getDefiningOp<tn::ReshapeOp>();
      std::optional<size_t> here = reshaped ? addedDim(reshaped) : std::nullopt;
      bool isFirst = operands.empty();
      if (!here || (!isFirst && here != added) || !sameShape(operand, op->getResult(0))) {
        return failure();
      }
      added = here;
      operands.push_back(reshaped.getX());
    }
    if (!added) {
      return failure();
    }
    Type type = tn::makeTensor(withoutDim(tn::getDims(op->getResult(0).getType()), *added),
                               tensorType(op->getResult(0)).getElementType());
    Operation *moved = rebuild(rewriter, op, operands, type);
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, op->getResult(0).getType(), moved->getResult(0));
    return success();
  }
};

} // namespace

LogicalResult sinkReshapes(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<PickToSlice, ConcatOfParts, SinkAddedDim>(module.getContext());
  patterns.add<MergeTwice<tn::ReshapeOp>>(module.getContext(), weights);
  if (failed(runPatterns(module, std::move(patterns)))) {
    return failure();
  }
  // The parts of one value were picked from reshapes of their own, which are equal now.
  IRRewriter rewriter(module.getContext());
  DominanceInfo dominance(module);
  eliminateCommonSubExpressions(rewriter, dominance, module);
  return success();
}

} // namespace tenon::opt
