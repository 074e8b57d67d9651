// Moves transposes behind the operations that use them, until they cancel or are absorbed.
// Relies on each step leaving one transpose at most, nearer to the results.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/Patterns.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// Replaces an operation by the transpose of one on untransposed values.
LogicalResult replaceByTranspose(PatternRewriter &rewriter, Operation *op, Operation *moved,
                                 ArrayRef<int64_t> permutation) {
  rewriter.replaceOpWithNewOp<tn::TransposeOp>(op, op->getResult(0).getType(), moved->getResult(0),
                                               permutation);
  return success();
}

/// The type of the untransposed value behind a transposed result.
Type untransposed(Value result, ArrayRef<int64_t> permutation) {
  tn::Dims dims =
      permuted(ArrayRef<AffineExpr>(tn::getDims(result.getType())), inverse(permutation));
  return tn::makeTensor(dims, getElementTypeOrSelf(result));
}

/// f(transpose(x), transpose(y), c) -> transpose(f(x, y, c')): constants are transposed the other
/// way.
struct SinkThroughElementwise : RewritePattern {
  SinkThroughElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!op->hasTrait<tn::TnElementwise>()) {
      return failure();
    }
    tn::TransposeOp first;
    for (Value operand : op->getOperands()) {
      tn::TransposeOp transposed = operand.getDefiningOp<tn::TransposeOp>();
      if (transposed && sameShape(operand, op->getResult(0))) {
        first = transposed;
      }
    }
    if (!first) {
      return failure();
    }
    Permutation permutation(first.getPermutation());
    if (!llvm::all_of(op->getOperands(), [&](Value v) { return canFollow(v, permutation); })) {
      return failure();
    }
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(follow(rewriter, operand, permutation));
    }
    Operation *moved = rebuild(rewriter, op, operands, untransposed(op->getResult(0), permutation));
    return replaceByTranspose(rewriter, op, moved, permutation);
  }

private:
  static bool isScalarLike(Value value) {
    return llvm::all_of(tn::getDims(value.getType()), isOne);
  }

  /// The dims with leading ones up to that rank.
  static tn::Dims fullDims(Value operand, size_t rank) {
    tn::Dims dims = tn::getDims(operand.getType());
    dims.insert(dims.begin(), rank - dims.size(), getAffineConstantExpr(1, operand.getContext()));
    return dims;
  }

  /// The permutation keeps the order of dims other than one.
  static bool movesOnlyOnes(ArrayRef<AffineExpr> dims, ArrayRef<int64_t> permutation) {
    Permutation kept;
    llvm::copy_if(permutation, std::back_inserter(kept),
                  [&](int64_t from) { return !isOne(dims[from]); });
    return llvm::is_sorted(kept);
  }

  static bool canFollow(Value operand, ArrayRef<int64_t> permutation) {
    tn::TransposeOp transposed = operand.getDefiningOp<tn::TransposeOp>();
    return (transposed && transposed.getPermutation() == permutation) ||
           Constants::isConstant(operand) ||
           movesOnlyOnes(fullDims(operand, permutation.size()), inverse(permutation));
  }

  static Value follow(PatternRewriter &rewriter, Value operand, ArrayRef<int64_t> permutation) {
    tn::TransposeOp transposed = operand.getDefiningOp<tn::TransposeOp>();
    if (transposed && transposed.getPermutation() == permutation) {
      return transposed.getX();
    }
    if (isScalarLike(operand)) {
      return operand;
    }
    // Operands broadcast from the right: give it the full rank, then the order of x. Leading ones
    // say nothing; a constant of one dim is how other patterns know a bias.
    Permutation back = inverse(permutation);
    tn::Dims dims = fullDims(operand, permutation.size());
    SmallVector<AffineExpr> moved = permuted(ArrayRef<AffineExpr>(dims), back);
    ArrayRef<AffineExpr> kept = ArrayRef(moved).drop_while(isOne);
    if (movesOnlyOnes(dims, back)) {
      return reshape(rewriter, operand.getLoc(), operand, kept);
    }
    Value full = reshape(rewriter, operand.getLoc(), operand, dims);
    return reshape(rewriter, operand.getLoc(), transpose(rewriter, operand.getLoc(), full, back),
                   kept);
  }
};

/// quantize(transpose(x)) -> transpose(quantize(x)), and the way back
template <typename Op> struct SinkThroughQuantization : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    tn::TransposeOp transposed = op.getX().template getDefiningOp<tn::TransposeOp>();
    if (!transposed) {
      return failure();
    }
    Permutation permutation(transposed.getPermutation());
    Op moved = cast<Op>(rebuild(rewriter, op, {transposed.getX(), op.getScale(), op.getZeroPoint()},
                                untransposed(op.getY(), permutation)));
    moved.setAxis(permutation[op.getAxis()]);
    return replaceByTranspose(rewriter, op, moved, permutation);
  }
};

/// reduce(transpose(x)) -> transpose(reduce(x)), over the axes where the transpose took them from
struct SinkThroughReduce : OpRewritePattern<tn::ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ReduceOp op, PatternRewriter &rewriter) const override {
    tn::TransposeOp transposed = op.getX().getDefiningOp<tn::TransposeOp>();
    if (!transposed) {
      return failure();
    }
    ArrayRef<int64_t> permutation = transposed.getPermutation();
    SmallVector<int64_t> axes;
    for (int64_t axis : op.getAxes()) {
      axes.push_back(permutation[axis]);
    }
    llvm::sort(axes);
    // Without keepdims the reduced dims leave the permutation.
    Permutation rest;
    for (int64_t from : permutation) {
      if (op.getKeepdims()) {
        rest.push_back(from);
      } else if (!llvm::is_contained(axes, from)) {
        rest.push_back(from - llvm::count_if(axes, [&](int64_t axis) { return axis < from; }));
      }
    }
    Operation *moved =
        rebuild(rewriter, op, {transposed.getX()}, untransposed(op.getResult(), rest));
    cast<tn::ReduceOp>(moved).setAxes(axes);
    return replaceByTranspose(rewriter, op, moved, rest);
  }
};

/// concat(transpose(x), transpose(y)) -> transpose(concat(x, y))
struct SinkThroughConcat : OpRewritePattern<tn::ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ConcatOp op, PatternRewriter &rewriter) const override {
    tn::TransposeOp first = op.getXs().front().getDefiningOp<tn::TransposeOp>();
    if (!first) {
      return failure();
    }
    Permutation permutation(first.getPermutation());
    SmallVector<Value> operands;
    for (Value operand : op.getXs()) {
      tn::TransposeOp transposed = operand.getDefiningOp<tn::TransposeOp>();
      if (!transposed || transposed.getPermutation() != ArrayRef<int64_t>(permutation)) {
        return failure();
      }
      operands.push_back(transposed.getX());
    }
    Operation *moved = rebuild(rewriter, op, operands, untransposed(op.getResult(), permutation));
    cast<tn::ConcatOp>(moved).setAxis(permutation[op.getAxis()]);
    return replaceByTranspose(rewriter, op, moved, permutation);
  }
};

/// pad(transpose(x)) -> transpose(pad(x))
struct SinkThroughPad : OpRewritePattern<tn::PadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::PadOp op, PatternRewriter &rewriter) const override {
    tn::TransposeOp transposed = op.getX().getDefiningOp<tn::TransposeOp>();
    if (!transposed) {
      return failure();
    }
    Permutation permutation(transposed.getPermutation());
    SmallVector<Value> operands(op->getOperands());
    operands.front() = transposed.getX();
    tn::PadOp moved =
        cast<tn::PadOp>(rebuild(rewriter, op, operands, untransposed(op.getResult(), permutation)));
    moved.setBegins(permuted(op.getBegins(), inverse(permutation)));
    moved.setEnds(permuted(op.getEnds(), inverse(permutation)));
    return replaceByTranspose(rewriter, op, moved, permutation);
  }
};

/// slice(transpose(x)) -> transpose(slice(x)), when x is read in slices only
struct SinkThroughSlice : OpRewritePattern<tn::SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::SliceOp op, PatternRewriter &rewriter) const override {
    tn::TransposeOp transposed = op.getX().getDefiningOp<tn::TransposeOp>();
    if (!transposed || !llvm::all_of(transposed->getUsers(), llvm::IsaPred<tn::SliceOp>)) {
      return failure();
    }
    Permutation permutation(transposed.getPermutation());
    Permutation back = inverse(permutation);
    tn::SliceOp moved = cast<tn::SliceOp>(
        rebuild(rewriter, op, {transposed.getX()}, untransposed(op.getResult(), permutation)));
    AffineMap starts = op.getStarts();
    moved.setStarts(AffineMap::get(starts.getNumDims(), starts.getNumSymbols(),
                                   permuted(starts.getResults(), back), rewriter.getContext()));
    moved.setSteps(permuted(op.getSteps(), back));
    return replaceByTranspose(rewriter, op, moved, permutation);
  }
};

/// reshape(transpose(x)) -> transpose(reshape(x)), when each group of merged dims lies together in
/// x
struct SinkThroughReshape : OpRewritePattern<tn::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ReshapeOp op, PatternRewriter &rewriter) const override {
    tn::TransposeOp transposed = op.getX().getDefiningOp<tn::TransposeOp>();
    if (!transposed) {
      return failure();
    }
    tn::Dims in = tn::getDims(op.getX().getType());
    tn::Dims out = tn::getDims(op.getType());
    FailureOr<SmallVector<DimGroup>> groups = groupDims(in, out);
    if (failed(groups)) {
      return failure();
    }
    std::optional<SmallVector<DimGroup>> ordered =
        inSourceOrder(*groups, in, transposed.getPermutation());
    if (!ordered) {
      return failure();
    }
    tn::Dims newDims;
    Permutation permutation(out.size());
    for (const DimGroup &group : *ordered) {
      for (unsigned j = group.outBegin; j < group.outEnd; ++j) {
        permutation[j] = newDims.size();
        newDims.push_back(out[j]);
      }
    }
    Value moved = reshape(rewriter, op.getLoc(), transposed.getX(), newDims);
    rewriter.replaceOpWithNewOp<tn::TransposeOp>(op, op.getType(), moved, permutation);
    return success();
  }

private:
  /// The groups sorted by where the transpose took them from; nothing if one of them is not
  /// together and in order there. Dims of one may lie anywhere.
  static std::optional<SmallVector<DimGroup>>
  inSourceOrder(ArrayRef<DimGroup> groups, ArrayRef<AffineExpr> in, ArrayRef<int64_t> permutation) {
    // Positions in x, counting dims other than one.
    Permutation position(in.size(), -1);
    Permutation back = inverse(permutation);
    int64_t count = 0;
    for (int64_t to : back) {
      if (!isOne(in[to])) {
        position[to] = count++;
      }
    }
    SmallVector<std::pair<int64_t, DimGroup>> keyed;
    for (const DimGroup &group : groups) {
      int64_t first = -1;
      int64_t last = -1;
      for (unsigned i = group.inBegin; i < group.inEnd; ++i) {
        if (position[i] < 0) {
          continue;
        }
        if (last >= 0 && position[i] != last + 1) {
          return std::nullopt;
        }
        first = first < 0 ? position[i] : first;
        last = position[i];
      }
      keyed.emplace_back(first, group);
    }
    llvm::sort(keyed, [](const auto &a, const auto &b) {
      return std::pair(a.first, a.second.outBegin) < std::pair(b.first, b.second.outBegin);
    });
    SmallVector<DimGroup> ordered;
    for (const auto &[key, group] : keyed) {
      ordered.push_back(group);
    }
    return ordered;
  }
};

} // namespace

void addSinkTransposePatterns(RewritePatternSet &patterns, tn::WeightStore &weights) {
  patterns.add<SinkThroughElementwise, SinkThroughReduce, SinkThroughConcat, SinkThroughPad,
               SinkThroughSlice, SinkThroughReshape, SinkThroughQuantization<tn::QuantizeOp>,
               SinkThroughQuantization<tn::DequantizeOp>>(patterns.getContext());
  addMovementPatterns(patterns, weights);
}

LogicalResult sinkTransposes(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  addSinkTransposePatterns(patterns, weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
