// Convolutions over an axis of one, such as a 1-D convolution that was exported as [B, C, L, 1] by
// [k, 1], do without that axis, and so do the elementwise operations and transposes around them:
// the micro-kernel's rows run along the innermost axis, which must not be the one of one.
// Relies on one position of such an axis being the only one that a tap reads; all others read
// padding.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

template <typename T> SmallVector<T> without(ArrayRef<T> values, size_t position) {
  SmallVector<T> result(values);
  result.erase(result.begin() + position);
  return result;
}

tn::Dims dimsWithout(Value value, size_t position) {
  return tn::Dims(without<AffineExpr>(tn::getDims(value.getType()), position));
}

/// The value without its dim of one at `position`.
Value dropDim(PatternRewriter &rewriter, Location location, Value value, size_t position) {
  tn::Dims dims = dimsWithout(value, position);
  tn::ReshapeOp added = value.getDefiningOp<tn::ReshapeOp>();
  if (added && tn::sameDims(tn::getDims(added.getX().getType()), dims)) {
    return added.getX();
  }
  Value constant =
      withShape(rewriter, value, tn::makeTensor(dims, tensorType(value).getElementType()));
  return constant ? constant : reshape(rewriter, location, value, dims);
}

/// The position of the dim of one that is in `wide` alone; none if they differ in another way. Of
/// several that come next to each other it is the last.
std::optional<size_t> unitDim(ArrayRef<AffineExpr> wide, ArrayRef<AffineExpr> narrow) {
  if (wide.size() != narrow.size() + 1) {
    return std::nullopt;
  }
  for (size_t i = wide.size(); i-- > 0;) {
    if (isOne(wide[i]) && tn::sameDims(without(wide, i), narrow)) {
      return i;
    }
  }
  return std::nullopt;
}

/// A spatial axis of one of a convolution, and the tap that reads its position. A single position
/// with a single tap is a product in any rank.
struct UnitAxis {
  size_t axis;
  int64_t tap;
};

std::optional<UnitAxis> unitAxis(tn::ConvOp conv) {
  tn::Dims in = tn::getDims(conv.getX().getType());
  tn::Dims out = tn::getDims(conv.getType());
  ArrayRef<int64_t> filter = tensorType(conv.getWeight()).getShape().drop_front(2);
  bool isSingle = llvm::all_of(llvm::drop_begin(in, 2), isOne);
  for (size_t i = 0; i < filter.size(); ++i) {
    int64_t tap = conv.getPads()[i] / conv.getDilations()[i];
    bool isOnTap = conv.getPads()[i] % conv.getDilations()[i] == 0 && tap >= 0 && tap < filter[i];
    bool isWanted = filter[i] > 1 || (filter[i] == 1 && !isSingle);
    if (isWanted && isOnTap && isOne(in[2 + i]) && isOne(out[2 + i])) {
      return UnitAxis{i, tap};
    }
  }
  return std::nullopt;
}

/// The weights of the tap alone; quantized ones stay so, whose parameters belong to no tap.
Value weightOfTap(PatternRewriter &rewriter, tn::ConvOp conv, Value weight, UnitAxis unit) {
  if (tn::DequantizeOp source = weight.getDefiningOp<tn::DequantizeOp>()) {
    Value moved = weightOfTap(rewriter, conv, source.getX(), unit);
    Type type = tn::withElement(moved.getType(), getElementTypeOrSelf(weight));
    return rebuild(rewriter, source, {moved, source.getScale(), source.getZeroPoint()}, type)
        ->getResult(0);
  }
  tn::Dims dims = tn::getDims(weight.getType());
  size_t position = 2 + unit.axis;
  if (!isOne(dims[position])) {
    SmallVector<AffineExpr> starts(dims.size(), rewriter.getAffineConstantExpr(0));
    starts[position] = rewriter.getAffineConstantExpr(unit.tap);
    dims[position] = rewriter.getAffineConstantExpr(1);
    weight = tn::SliceOp::create(
        rewriter, conv.getLoc(), tn::makeTensor(dims, tensorType(weight).getElementType()), weight,
        AffineMap::get(0, 0, starts, rewriter.getContext()), SmallVector<int64_t>(dims.size(), 1));
  }
  return dropDim(rewriter, conv.getLoc(), weight, position);
}

/// conv(x) over an axis of one -> reshape(conv(reshape(x))) without it
struct DropConvAxis : OpRewritePattern<tn::ConvOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ConvOp op, PatternRewriter &rewriter) const override {
    std::optional<UnitAxis> unit = unitAxis(op);
    size_t axes = op.getStrides().size();
    if (op.getChannelsLast() || axes < 2 || !unit) {
      return failure();
    }
    SmallVector<Value> operands(op->getOperands());
    size_t position = 2 + unit->axis;
    operands[0] = dropDim(rewriter, op.getLoc(), op.getX(), position);
    operands[1] = weightOfTap(rewriter, op, op.getWeight(), *unit);
    tn::ConvOp narrow = cast<tn::ConvOp>(
        rebuild(rewriter, op, operands,
                tn::makeTensor(dimsWithout(op, position), op.getType().getElementType())));
    narrow.setStrides(without(op.getStrides(), unit->axis));
    narrow.setDilations(without(op.getDilations(), unit->axis));
    narrow.setPads(without<int64_t>(without(op.getPads(), axes + unit->axis), unit->axis));
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, op.getType(), narrow);
    return success();
  }
};

/// Where a reshape puts a dim of one into a convolution's result, or what is computed of it by
/// elementwise operations and transposes.
std::optional<size_t> addedToConv(Value value) {
  tn::ReshapeOp added = value.getDefiningOp<tn::ReshapeOp>();
  std::optional<size_t> position =
      added ? unitDim(tn::getDims(added.getType()), tn::getDims(added.getX().getType()))
            : std::nullopt;
  for (Operation *op = position ? added.getX().getDefiningOp() : nullptr; op;
       op = op->getOperand(0).getDefiningOp()) {
    if (isa<tn::ConvOp>(op)) {
      return position;
    }
    if (!op->hasTrait<tn::TnElementwise>() && !isa<tn::TransposeOp>(op)) {
      break;
    }
  }
  return std::nullopt;
}

/// The operand of a result of rank `rank` without the dim of one at `position` of that, or as it is
/// if it has no such dim.
Value narrowed(PatternRewriter &rewriter, Location location, Value operand, size_t position,
               size_t rank) {
  size_t missing = rank - tensorType(operand).getRank();
  return position < missing ? operand : dropDim(rewriter, location, operand, position - missing);
}

/// f(reshape(x), y) -> reshape(f(x, reshape(y))) behind such a convolution
struct SinkUnitDim : RewritePattern {
  explicit SinkUnitDim(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!op->hasTrait<tn::TnElementwise>() || op->getNumResults() != 1) {
      return failure();
    }
    std::optional<size_t> position;
    for (Value operand : op->getOperands()) {
      if (!position && sameShape(operand, op->getResult(0))) {
        position = addedToConv(operand);
      }
    }
    if (!position) {
      return failure();
    }
    size_t rank = tensorType(op->getResult(0)).getRank();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(narrowed(rewriter, op->getLoc(), operand, *position, rank));
    }
    RankedTensorType type = tensorType(op->getResult(0));
    Operation *moved =
        rebuild(rewriter, op, operands,
                tn::makeTensor(dimsWithout(op->getResult(0), *position), type.getElementType()));
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, type, moved->getResult(0));
    return success();
  }
};

/// The permutation of the dims that are left without result dim `position`.
Permutation permutationWithout(ArrayRef<int64_t> permutation, size_t position) {
  int64_t gone = permutation[position];
  Permutation result = without(permutation, position);
  for (int64_t &from : result) {
    from -= from > gone ? 1 : 0;
  }
  return result;
}

/// transpose(reshape(x)) -> reshape(transpose(x)) behind such a convolution
struct SinkUnitDimBelowTranspose : OpRewritePattern<tn::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::TransposeOp op, PatternRewriter &rewriter) const override {
    std::optional<size_t> position = addedToConv(op.getX());
    if (!position) {
      return failure();
    }
    size_t to = llvm::find(op.getPermutation(), int64_t(*position)) - op.getPermutation().begin();
    Value x = op.getX().getDefiningOp<tn::ReshapeOp>().getX();
    Value moved = transpose(rewriter, op.getLoc(), x, permutationWithout(op.getPermutation(), to));
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, op.getType(), moved);
    return success();
  }
};

/// reshape(transpose(x)) -> transpose(reshape(x)) where the reshape drops a dim of one for a
/// convolution
struct HoistDropAboveTranspose : OpRewritePattern<tn::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ReshapeOp op, PatternRewriter &rewriter) const override {
    tn::TransposeOp moved = op.getX().getDefiningOp<tn::TransposeOp>();
    std::optional<size_t> position =
        moved ? unitDim(tn::getDims(moved.getType()), tn::getDims(op.getType())) : std::nullopt;
    if (!position || !op->hasOneUse() || !isa<tn::ConvOp>(*op->user_begin())) {
      return failure();
    }
    size_t from = moved.getPermutation()[*position];
    Value x = dropDim(rewriter, op.getLoc(), moved.getX(), from);
    rewriter.replaceOp(op, transpose(rewriter, op.getLoc(), x,
                                     permutationWithout(moved.getPermutation(), *position)));
    return success();
  }
};

} // namespace

LogicalResult dropUnitDims(ModuleOp module, tn::WeightStore &weights) {
  bool isNeeded = false;
  module.walk([&](tn::ConvOp conv) {
    isNeeded |= conv.getStrides().size() > 1 && !conv.getChannelsLast() && unitAxis(conv);
  });
  if (!isNeeded) {
    return success();
  }
  RewritePatternSet patterns(module.getContext());
  patterns.add<DropConvAxis, SinkUnitDim, SinkUnitDimBelowTranspose, HoistDropAboveTranspose>(
      module.getContext());
  if (failed(runPatterns(module, std::move(patterns)))) {
    return failure();
  }
  // Reshapes that meet, and the slices of weights.
  return simplify(module, weights);
}

} // namespace tenon::opt
