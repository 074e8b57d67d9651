// Identities and chains of the operations that only move elements, as patterns of `simplify`.
// Relies on result types that state the shape: a reshape is free, so others become reshapes where
// they can.
#include "compiler/opt/Match.h"
#include "compiler/opt/Patterns.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// Movement whose result has the operand's type does nothing.
/// `tn.reshape %x : tensor<4xf32> -> tensor<4xf32>` -> `%x`
template <typename Op> struct DropIdentity : Pattern<Op> {
  using Pattern<Op>::Pattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (op->getOperand(0).getType() != op->getResult(0).getType() || !isMeaningless(op)) {
      return failure();
    }
    rewriter.replaceOp(op, op->getOperand(0));
    return success();
  }

private:
  static bool isMeaningless(tn::ReshapeOp) { return true; }
  static bool isMeaningless(tn::CastOp) { return true; }
  static bool isMeaningless(tn::BroadcastOp) { return true; }
  static bool isMeaningless(tn::TransposeOp op) { return isIdentity(op.getPermutation()); }
  static bool isMeaningless(tn::ConcatOp op) { return op.getXs().size() == 1; }
  static bool isMeaningless(tn::SliceOp op) {
    // All elements in order: steps of one leave no other start.
    return llvm::all_of(op.getSteps(), [](int64_t step) { return step == 1; });
  }
  static bool isMeaningless(tn::PadOp op) {
    auto isZero = [](int64_t count) { return count == 0; };
    return llvm::all_of(op.getBegins(), isZero) && llvm::all_of(op.getEnds(), isZero);
  }
};

/// A broadcast that only adds dims of one is a reshape.
struct BroadcastToReshape : Pattern<tn::BroadcastOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::BroadcastOp op, PatternRewriter &rewriter) const override {
    tn::Dims in = tn::getDims(op.getX().getType());
    tn::Dims out = tn::getDims(op.getType());
    size_t added = out.size() - in.size();
    if (!llvm::all_of(ArrayRef(out).take_front(added), isOne) ||
        !tn::sameDims(in, ArrayRef(out).drop_front(added))) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, op.getType(), op.getX());
    return success();
  }
};

/// transpose(transpose(x)) -> transpose(x)
struct MergeTransposes : Pattern<tn::TransposeOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::TransposeOp op, PatternRewriter &rewriter) const override {
    tn::TransposeOp inner = op.getX().getDefiningOp<tn::TransposeOp>();
    if (!inner) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::TransposeOp>(
        op, op.getType(), inner.getX(), compose(inner.getPermutation(), op.getPermutation()));
    return success();
  }
};

/// A transpose that keeps the order of all dims other than one moves nothing: it is a reshape.
struct TransposeToReshape : Pattern<tn::TransposeOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::TransposeOp op, PatternRewriter &rewriter) const override {
    tn::Dims in = tn::getDims(op.getX().getType());
    int64_t last = -1;
    for (int64_t from : op.getPermutation()) {
      if (isOne(in[from])) {
        continue;
      }
      if (from < last) {
        return failure();
      }
      last = from;
    }
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, op.getType(), op.getX());
    return success();
  }
};

/// A transpose between two reshapes that merge leading dims and split them again:
/// [b,h,s,d] -> [bh,s,d] -> [bh,d,s] -> [b,h,d,s] is one transpose of the first.
struct TransposeBetweenReshapes : Pattern<tn::ReshapeOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::ReshapeOp op, PatternRewriter &rewriter) const override {
    tn::TransposeOp transposed = op.getX().getDefiningOp<tn::TransposeOp>();
    tn::ReshapeOp merge =
        transposed ? transposed.getX().getDefiningOp<tn::ReshapeOp>() : tn::ReshapeOp();
    if (!merge) {
      return failure();
    }
    FailureOr<SmallVector<DimGroup>> groups =
        groupDims(tn::getDims(merge.getX().getType()), tn::getDims(merge.getType()));
    if (failed(groups)) {
      return failure();
    }
    // Each dim of the merged shape stands for the dims of its group, which the transpose moves as
    // one.
    SmallVector<DimGroup> groupOf;
    for (const DimGroup &group : *groups) {
      if (group.outEnd - group.outBegin != 1) {
        return failure();
      }
      groupOf.push_back(group);
    }
    Permutation permutation;
    for (int64_t from : transposed.getPermutation()) {
      llvm::append_range(permutation,
                         llvm::seq<int64_t>(groupOf[from].inBegin, groupOf[from].inEnd));
    }
    tn::Dims in = tn::getDims(merge.getX().getType());
    if (!tn::sameDims(permuted(ArrayRef(in), permutation), tn::getDims(op.getType()))) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::TransposeOp>(op, op.getType(), merge.getX(), permutation);
    return success();
  }
};

/// cast(cast(x)) back to x's type, through a type that holds every value of it -> x
struct DropCastThere : Pattern<tn::CastOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::CastOp op, PatternRewriter &rewriter) const override {
    tn::CastOp inner = op.getX().getDefiningOp<tn::CastOp>();
    if (!inner || inner.getX().getType() != op.getType()) {
      return failure();
    }
    Type from = getElementTypeOrSelf(op.getType());
    Type through = getElementTypeOrSelf(inner.getType());
    bool isWiderFloat = isa<FloatType>(from) && isa<FloatType>(through) && !from.isF64() &&
                        (through.isF32() || through.isF64());
    bool isWiderInteger = isa<IntegerType>(from) && isa<IntegerType>(through) &&
                          from.getIntOrFloatBitWidth() < through.getIntOrFloatBitWidth();
    if (!isWiderFloat && !isWiderInteger && !from.isInteger(1)) {
      return failure();
    }
    rewriter.replaceOp(op, inner.getX());
    return success();
  }
};

/// reshape(weight) -> the same weight read with another shape
struct ReshapeWeight : Pattern<tn::ReshapeOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::ReshapeOp op, PatternRewriter &rewriter) const override {
    tn::WeightOp weight = op.getX().getDefiningOp<tn::WeightOp>();
    if (!weight || !op.getType().hasStaticShape()) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::WeightOp>(op, op.getType(), weight.getId());
    return success();
  }
};

} // namespace

void addMovementPatterns(RewritePatternSet &patterns, tn::WeightStore &weights) {
  patterns.add<DropIdentity<tn::ReshapeOp>, DropIdentity<tn::CastOp>, DropIdentity<tn::BroadcastOp>,
               DropIdentity<tn::TransposeOp>, DropIdentity<tn::ConcatOp>, DropIdentity<tn::SliceOp>,
               DropIdentity<tn::PadOp>, MergeTwice<tn::ReshapeOp>, MergeTwice<tn::BroadcastOp>,
               BroadcastToReshape, MergeTransposes, TransposeToReshape, TransposeBetweenReshapes,
               DropCastThere, ReshapeWeight>(patterns.getContext(), weights);
}

} // namespace tenon::opt
