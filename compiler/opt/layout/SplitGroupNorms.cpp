// What stands between convolutions with its channels first, for GPUs, with these last as
// convolutions have them: resizing, and group norms of 16-bit floats. A norm that a cluster of
// blocks holds becomes means over positions and the channels of a group, which are one kernel of
// columns with what follows. A larger one becomes means over positions, and a factor and an offset
// for each channel, which fuse with what follows. Relies on sums of squares in FP32 being as exact
// as 16-bit numbers are.
#include "compiler/opt/GpuProducts.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Patterns.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// The value with its channels last, of which `x` is the transpose; null if it is not that.
Value channelsLastOf(Value x) {
  tn::TransposeOp transposed = x.getDefiningOp<tn::TransposeOp>();
  int64_t rank = tensorType(x).getRank();
  if (rank < 3) {
    return Value();
  }
  Permutation toFirst{0, rank - 1};
  llvm::append_range(toFirst, llvm::seq<int64_t>(1, rank - 1));
  return transposed && transposed.getPermutation() == ArrayRef<int64_t>(toFirst) ? transposed.getX()
                                                                                 : Value();
}

/// Elements from which on few columns leave most of a GPU idle, and how many are enough. Derived: a
/// cluster of 8 blocks shares at least 16 columns, so that 128 occupy 64 of 132 multiprocessors;
/// below a quarter no kernel of columns takes them (codegen/cuda/rows/Tuning.h).
constexpr int64_t kManyElements = int64_t(1) << 20, kEnoughColumns = 128;

/// Into how many equal parts the positions of each image are cut.
int64_t partsOf(AffineExpr positions, int64_t columns) {
  int64_t count = tn::constantDim(positions).value_or(0), parts = 1;
  while (count * columns >= kManyElements && columns * parts < kEnoughColumns &&
         count / parts % 2 == 0) {
    parts *= 2;
  }
  return parts;
}

/// Whether one kernel of columns takes a norm: as a cluster of blocks has threads and registers
/// (dispatch/FormColumns.cpp).
bool isOneKernel(std::optional<int64_t> positions, int64_t ofGroup) {
  return positions && ofGroup > 1 && ofGroup <= 128 &&
         *positions * std::max<int64_t>(ofGroup, 16) <= int64_t(1) << 18;
}

/// The operations that a norm becomes, in f32.
class Steps {
public:
  Steps(PatternRewriter &rewriter, Location location) : rewriter(rewriter), location(location) {}

  template <typename Op> Value make(Value a, Value b, Value like) const {
    return Op::create(rewriter, location, like.getType(), a, b);
  }
  Value number(double value) const {
    RankedTensorType type = RankedTensorType::get({}, rewriter.getF32Type());
    return tn::ConstantOp::create(
        rewriter, location, type,
        DenseElementsAttr::get(type, rewriter.getF32FloatAttr(static_cast<float>(value))));
  }
  Value wide(Value x) const { return castTo(rewriter, location, x, rewriter.getF32Type()); }
  Value shaped(Value x, ArrayRef<AffineExpr> dims) const {
    return reshape(rewriter, location, x, dims);
  }
  /// A vector over channels by groups, as a constant if it is one.
  Value byGroups(const Constants &constants, Value channels, ArrayRef<AffineExpr> dims) const {
    std::optional<std::vector<double>> numbers = constants.elements(channels);
    return numbers ? constants.make(rewriter, location, tn::makeTensor(dims, rewriter.getF32Type()),
                                    *numbers, "norm", "split-group-norms")
                   : wide(shaped(channels, dims));
  }
  Value mean(Value x, ArrayRef<int64_t> axes) const {
    tn::Dims dims = tn::getDims(x.getType());
    for (int64_t axis : axes) {
      dims[axis] = rewriter.getAffineConstantExpr(1);
    }
    return tn::ReduceOp::create(rewriter, location, tn::makeTensor(dims, getElementTypeOrSelf(x)),
                                x, tn::ReduceKind::mean, axes, /*keepdims=*/true);
  }

private:
  PatternRewriter &rewriter;
  Location location;
};

/// group_norm(transpose(x)) -> transpose(x * factor + offset), by images and channels
struct SplitGroupNorm : Pattern<tn::GroupNormOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::GroupNormOp op, PatternRewriter &rewriter) const override {
    Value x = channelsLastOf(op.getX());
    Type element = getElementTypeOrSelf(op.getX());
    if (!x || !(element.isF16() || element.isBF16())) {
      return failure();
    }
    tn::Dims dims = tn::getDims(x.getType());
    std::optional<int64_t> channels = tn::constantDim(dims.back());
    int64_t groups = op.getGroups();
    AffineExpr positions =
        tn::elementCount(op.getContext(), ArrayRef(dims).drop_front().drop_back());
    if (!channels || *channels == 0 || !positions) {
      return failure();
    }
    Steps steps(rewriter, op.getLoc());
    AffineExpr ofGroup = rewriter.getAffineConstantExpr(*channels / groups),
               groupCount = rewriter.getAffineConstantExpr(groups);
    tn::Dims grouped = {dims[0], groupCount, ofGroup};
    if (isOneKernel(tn::constantDim(positions), *channels / groups)) {
      tn::Dims ofPositions = {dims[0], positions, groupCount, ofGroup};
      Value y = asOne(op, x, ofPositions, Steps(rewriter, op.getLoc()), rewriter);
      Permutation toFirst(op.getX().getDefiningOp<tn::TransposeOp>().getPermutation());
      rewriter.replaceOpWithNewOp<tn::TransposeOp>(op, op.getType(), steps.shaped(y, dims),
                                                   toFirst);
      return success();
    }
    // Moments of each channel, then of the channels of a group, which have as many positions each.
    AffineExpr parts = rewriter.getAffineConstantExpr(
                   partsOf(positions, *channels * tn::constantDim(dims[0]).value_or(1))),
               rows = tn::multiplyDims(dims[0], parts);
    if (!rows) {
      return failure();
    }
    Value lines =
        steps.wide(steps.shaped(x, {rows, tn::simplify(positions.floorDiv(parts)), dims.back()}));
    auto momentOf = [&](Value value) {
      Value moment = steps.mean(value, {1});
      if (!isOne(parts)) {
        moment = steps.mean(steps.shaped(moment, {dims[0], parts, dims.back()}), {1});
      }
      return steps.mean(steps.shaped(moment, grouped), {2});
    };
    Value mean = momentOf(lines), squares = momentOf(steps.make<tn::MulOp>(lines, lines, lines));
    Value inverse = inverseOf(op, mean, squares, steps, rewriter);
    Value scale = steps.byGroups(constants, op.getScale(), {groupCount, ofGroup}),
          bias = steps.byGroups(constants, op.getBias(), {groupCount, ofGroup});
    RankedTensorType ofChannels = tn::makeTensor(grouped, rewriter.getF32Type());
    Value factor = tn::MulOp::create(rewriter, op.getLoc(), ofChannels, inverse, scale);
    Value moved = tn::MulOp::create(rewriter, op.getLoc(), ofChannels, mean, factor);
    Value offset = tn::SubOp::create(rewriter, op.getLoc(), ofChannels, bias, moved);
    tn::Dims ofImage(dims.size(), rewriter.getAffineConstantExpr(1));
    ofImage.front() = dims.front();
    ofImage.back() = dims.back();
    Value wide = steps.wide(x);
    Value result = steps.make<tn::MulOp>(wide, steps.shaped(factor, ofImage), wide);
    result = steps.make<tn::AddOp>(result, steps.shaped(offset, ofImage), wide);
    result = castTo(rewriter, op.getLoc(), result, element);
    Permutation toFirst(op.getX().getDefiningOp<tn::TransposeOp>().getPermutation());
    rewriter.replaceOpWithNewOp<tn::TransposeOp>(op, op.getType(), result, toFirst);
    return success();
  }

private:
  /// 1 / sqrt(variance + epsilon)
  static Value inverseOf(tn::GroupNormOp op, Value mean, Value squares, const Steps &steps,
                         PatternRewriter &rewriter) {
    Value variance = steps.make<tn::SubOp>(squares, steps.make<tn::MulOp>(mean, mean, mean), mean);
    variance = steps.make<tn::MaxOp>(variance, steps.number(0), mean);
    variance =
        steps.make<tn::AddOp>(variance, steps.number(op.getEpsilon().convertToDouble()), mean);
    return tn::RsqrtOp::create(rewriter, op.getLoc(), mean.getType(), variance);
  }

  /// `x` as [images, positions, groups, channels of a group]. What is added for each channel of an
  /// image (an embedding of time), read by the norm alone, is added there, in the norm's kernel.
  static Value grouped(tn::GroupNormOp op, Value x, ArrayRef<AffineExpr> dims, const Steps &steps,
                       PatternRewriter &rewriter) {
    tn::AddOp add = x.getDefiningOp<tn::AddOp>();
    if (!add || !add->hasOneUse() || !op.getX().hasOneUse()) {
      return steps.shaped(x, dims);
    }
    tn::Dims all = tn::getDims(x.getType());
    for (auto [a, c] : {std::pair(add.getA(), add.getB()), std::pair(add.getB(), add.getA())}) {
      tn::Dims own = tn::getDims(c.getType());
      bool isOfImage = tn::sameDims(tn::getDims(a.getType()), all) && own.size() == all.size() &&
                       tn::sameDim(own.back(), all.back()) &&
                       llvm::all_of(ArrayRef(own).drop_front().drop_back(), isOne);
      if (isOfImage) {
        tn::Dims few = {own[0], rewriter.getAffineConstantExpr(1), dims[2], dims[3]};
        return rebuild(rewriter, add, {steps.shaped(a, dims), steps.shaped(c, few)},
                       tn::makeTensor(dims, getElementTypeOrSelf(x)))
            ->getResult(0);
      }
    }
    return steps.shaped(x, dims);
  }

  /// (x - mean) * inverse * scale + bias over [images, positions, groups, channels of a group]
  Value asOne(tn::GroupNormOp op, Value x, ArrayRef<AffineExpr> dims, const Steps &steps,
              PatternRewriter &rewriter) const {
    Value wide = steps.wide(grouped(op, x, dims, steps, rewriter));
    Value mean = steps.mean(wide, {1, 3}),
          squares = steps.mean(steps.make<tn::MulOp>(wide, wide, wide), {1, 3});
    Value result = steps.make<tn::SubOp>(wide, mean, wide);
    result = steps.make<tn::MulOp>(result, inverseOf(op, mean, squares, steps, rewriter), wide);
    ArrayRef<AffineExpr> ofChannels = dims.take_back(2);
    result =
        steps.make<tn::MulOp>(result, steps.byGroups(constants, op.getScale(), ofChannels), wide);
    result =
        steps.make<tn::AddOp>(result, steps.byGroups(constants, op.getBias(), ofChannels), wide);
    return castTo(rewriter, op.getLoc(), result, getElementTypeOrSelf(x));
  }
};

/// f(reshape(x)) -> reshape(f(x)), where positions are dims and groups are channels again
struct SinkBehindGroups : RewritePattern {
  explicit SinkBehindGroups(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    bool isUnary =
        op->getNumOperands() == 1 && op->getNumResults() == 1 && op->hasTrait<tn::TnElementwise>();
    tn::ReshapeOp merged =
        isUnary ? op->getOperand(0).getDefiningOp<tn::ReshapeOp>() : tn::ReshapeOp();
    tn::Dims from = merged ? tn::getDims(merged.getX().getType()) : tn::Dims(),
             to = merged ? tn::getDims(merged.getType()) : tn::Dims();
    if (from.size() != 4 || to.size() < 3 || !tn::sameDim(from[0], to[0]) ||
        !tn::constantDim(from[1]) || !tn::constantDim(from[3]) || isOne(from[3]) ||
        !tn::sameDim(tn::multiplyDims(from[2], from[3]), to.back())) {
      return failure();
    }
    Operation *moved = rebuild(rewriter, op, {merged.getX()},
                               tn::makeTensor(from, getElementTypeOrSelf(op->getResult(0))));
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, op->getResult(0).getType(), moved->getResult(0));
    return success();
  }
};

/// reshape(group_norm(reshape(x))) -> group_norm(x), where [N, groups, ...] are reshaped: how
/// exporters spell the norm without an operator for it.
struct GroupsAsChannels : Pattern<tn::ReshapeOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::ReshapeOp op, PatternRewriter &rewriter) const override {
    tn::GroupNormOp norm = op.getX().getDefiningOp<tn::GroupNormOp>();
    tn::ReshapeOp inner = norm ? norm.getX().getDefiningOp<tn::ReshapeOp>() : tn::ReshapeOp();
    if (!inner || inner.getX().getType() != op.getType() || tn::getDims(op.getType()).size() < 3) {
      return failure();
    }
    tn::Dims dims = tn::getDims(op.getType()), grouped = tn::getDims(norm.getType());
    std::optional<int64_t> channels = tn::constantDim(dims[1]), few = tn::constantDim(grouped[1]);
    if (!channels || !few || *few == 0 || *channels % *few != 0 ||
        !tn::sameDim(dims[0], grouped[0])) {
      return failure();
    }
    Type element = getElementTypeOrSelf(norm.getScale());
    auto repeated = [&](Value vector) {
      std::optional<std::vector<double>> numbers = constants.elements(vector);
      SmallVector<double> all;
      for (size_t i = 0; numbers && i < numbers->size(); ++i) {
        all.append(*channels / *few, (*numbers)[i]);
      }
      return numbers ? constants.make(rewriter, op.getLoc(),
                                      RankedTensorType::get({*channels}, element), all, "norm",
                                      "split-group-norms")
                     : Value();
    };
    Value scale = repeated(norm.getScale()), bias = repeated(norm.getBias());
    if (!scale || !bias) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::GroupNormOp>(op, op.getType(), inner.getX(), scale, bias,
                                                 norm.getGroups(), norm.getEpsilon());
    return success();
  }
};

/// group_norm(x) * c or + c, of a number for each channel -> group_norm(x), whose scale and bias
/// have it: how exporters go on behind the norm of instances.
template <typename Op> struct FoldIntoNorm : Pattern<Op> {
  using Pattern<Op>::Pattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    for (auto [x, c] : {std::pair(op->getOperand(0), op->getOperand(1)),
                        std::pair(op->getOperand(1), op->getOperand(0))}) {
      tn::GroupNormOp norm = x.template getDefiningOp<tn::GroupNormOp>();
      std::optional<std::vector<double>> numbers =
          norm && norm->hasOneUse() && isOfChannels(c, norm) ? this->constants.elements(c)
                                                             : std::nullopt;
      if (numbers && x.getType() == op->getResult(0).getType()) {
        Value scale = std::is_same_v<Op, tn::MulOp>
                          ? merged(norm, norm.getScale(), *numbers, rewriter)
                          : norm.getScale(),
              bias = merged(norm, norm.getBias(), *numbers, rewriter);
        if (scale && bias) {
          rewriter.replaceOpWithNewOp<tn::GroupNormOp>(op, norm.getType(), norm.getX(), scale, bias,
                                                       norm.getGroups(), norm.getEpsilon());
          return success();
        }
      }
    }
    return failure();
  }

private:
  static bool isOfChannels(Value c, tn::GroupNormOp norm) {
    tn::Dims dims = tn::getDims(c.getType()), all = tn::getDims(norm.getType());
    size_t behind = all.size() - 2;
    if (dims.size() <= behind || !tn::sameDim(dims[dims.size() - 1 - behind], all[1])) {
      return false;
    }
    dims.erase(dims.end() - 1 - behind);
    return llvm::all_of(dims, isOne);
  }

  Value merged(tn::GroupNormOp norm, Value own, ArrayRef<double> numbers,
               PatternRewriter &rewriter) const {
    std::optional<std::vector<double>> all = this->constants.elements(own);
    if (!all || all->size() != numbers.size()) {
      return Value();
    }
    for (auto [number, other] : llvm::zip(*all, numbers)) {
      number = std::is_same_v<Op, tn::MulOp> ? number * other : number + other;
    }
    return this->constants.make(rewriter, norm.getLoc(), cast<RankedTensorType>(own.getType()),
                                *all, "norm", "split-group-norms");
  }
};

/// resize(transpose(x)) -> transpose(resize(x))
struct SinkThroughResize : OpRewritePattern<tn::ResizeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ResizeOp op, PatternRewriter &rewriter) const override {
    Value x = channelsLastOf(op.getX());
    if (!x || !op.getRoi().empty() || op.getScales().size() != tn::getDims(x.getType()).size()) {
      return failure();
    }
    Permutation toFirst(op.getX().getDefiningOp<tn::TransposeOp>().getPermutation());
    Permutation toLast = inverse(toFirst);
    tn::Dims dims = permuted(ArrayRef<AffineExpr>(tn::getDims(op.getType())), toLast);
    tn::ResizeOp moved = cast<tn::ResizeOp>(
        rebuild(rewriter, op, {x}, tn::makeTensor(dims, getElementTypeOrSelf(op.getResult()))));
    moved.setScales(permuted(op.getScales(), toLast));
    rewriter.replaceOpWithNewOp<tn::TransposeOp>(op, op.getType(), moved, toFirst);
    return success();
  }
};

} // namespace

LogicalResult splitGroupNorms(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet spelled(module.getContext());
  spelled.add<GroupsAsChannels, FoldIntoNorm<tn::MulOp>, FoldIntoNorm<tn::AddOp>>(
      module.getContext(), weights);
  if (failed(runPatterns(module, std::move(spelled)))) {
    return failure();
  }
  RewritePatternSet patterns(module.getContext());
  patterns.add<SplitGroupNorm>(module.getContext(), weights);
  patterns.add<SinkThroughResize, SinkBehindGroups>(module.getContext());
  addSinkTransposePatterns(patterns, weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
