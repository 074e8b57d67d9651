// Product, scale, mask, softmax and product become tn.attention over split heads.
// Relies on simplify, sinkTransposes and recognizeSoftmax; a query that sees no key gives what the
// model's softmax gives, and zeros only behind a guard that makes zeros of NaN.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/recognize/AttentionOperands.h"
#include "compiler/opt/recognize/CausalMask.h"

#include <limits>

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What softmax is taken of: scale * product, hidden where a condition does not hold, plus a mask.
struct Scores {
  tn::MatmulOp product;
  double scale = 1;
  bool isScaled = false;
  Value mask;
  Value condition;
  /// The constant in place of hidden scores.
  Value hidden;
};

/// What a cast between floats has widened, or narrowed; null if the value is no such cast.
Value widened(Value value, bool isNarrowed = false) {
  tn::CastOp cast = value.getDefiningOp<tn::CastOp>();
  if (!cast) {
    return {};
  }
  FloatType from = dyn_cast<FloatType>(getElementTypeOrSelf(cast.getX()));
  FloatType to = dyn_cast<FloatType>(getElementTypeOrSelf(cast.getType()));
  if (!from || !to || (isNarrowed ? from : to).getWidth() != 32 ||
      (isNarrowed ? to : from).getWidth() != 16) {
    return {};
  }
  return cast.getX();
}

/// A product lies behind the value, under nothing but scales, conditions and wider types that
/// nobody else reads.
bool comesFromProduct(Value value, Constants &constants) {
  while (value.hasOneUse()) {
    if (std::optional<WithScalar> scaled = matchScale(value, constants)) {
      value = scaled->value;
    } else if (tn::SelectOp select = value.getDefiningOp<tn::SelectOp>()) {
      value = select.getA();
    } else if (Value narrow = widened(value)) {
      value = narrow;
    } else {
      return isa_and_present<tn::MatmulOp>(value.getDefiningOp());
    }
  }
  return false;
}

/// value = scores + mask
bool peelMask(Value &value, Scores &scores, Constants &constants) {
  tn::AddOp sum = value.getDefiningOp<tn::AddOp>();
  if (!sum || scores.mask || scores.condition) {
    return false;
  }
  for (auto [inner, mask] :
       {std::pair(sum.getA(), sum.getB()), std::pair(sum.getB(), sum.getA())}) {
    if (inner.getType() == value.getType() && comesFromProduct(inner, constants)) {
      scores.mask = mask;
      value = inner;
      return true;
    }
  }
  return false;
}

/// value = scores where a condition holds, else a number that hides the position
bool peelCondition(Value &value, Scores &scores, Constants &constants) {
  tn::SelectOp select = value.getDefiningOp<tn::SelectOp>();
  if (!select || scores.condition || select.getA().getType() != value.getType()) {
    return false;
  }
  std::optional<double> hidden = constants.scalar(select.getB());
  if (!hidden || !hidesPosition(*hidden, getElementTypeOrSelf(value))) {
    return false;
  }
  scores.condition = select.getCondition();
  scores.hidden = select.getB();
  value = select.getA();
  return true;
}

/// Takes one layer off the scores. A scale outside of a mask would scale the mask: that ends it.
bool peelScores(Value &value, Scores &scores, Constants &constants) {
  if (!value.hasOneUse()) {
    return false;
  }
  if (std::optional<WithScalar> scaled = matchScale(value, constants)) {
    scores.scale *= scaled->scalar;
    scores.isScaled = true;
    value = scaled->value;
    return true;
  }
  // Attention takes no score for narrower than f32.
  if (Value narrow = widened(value)) {
    value = narrow;
    return true;
  }
  return !scores.isScaled &&
         (peelMask(value, scores, constants) || peelCondition(value, scores, constants));
}

std::optional<Scores> matchScores(Value value, Constants &constants) {
  Scores scores;
  while (peelScores(value, scores, constants)) {
  }
  scores.product = value.getDefiningOp<tn::MatmulOp>();
  bool isOurs = scores.product && scores.product->hasOneUse() && !scores.product.getTransposeA();
  return isOurs ? std::optional<Scores>(scores) : std::nullopt;
}

/// The softmax behind the probabilities, past a cast to the type of V and the guard that turns rows
/// of NaN into zeros.
struct Probabilities {
  tn::SoftmaxOp softmax;
  bool isGuarded = false;
};

Probabilities matchProbabilities(Value value, Constants &constants) {
  if (!value.hasOneUse()) {
    return {};
  }
  if (Value wide = widened(value, /*isNarrowed=*/true)) {
    value = wide;
    if (!value.hasOneUse()) {
      return {};
    }
  }
  tn::SelectOp guard = value.getDefiningOp<tn::SelectOp>();
  Value rows = guard ? guard.getB() : value;
  tn::SoftmaxOp softmax = rows.getDefiningOp<tn::SoftmaxOp>();
  if (!softmax || softmax.getLog()) {
    return {};
  }
  if (guard) {
    tn::IsNanOp isNan = guard.getCondition().getDefiningOp<tn::IsNanOp>();
    bool isGuard = isNan && isNan.getX() == rows && isNan->hasOneUse() && rows.hasNUses(2) &&
                   constants.scalar(guard.getA()) == 0.0;
    return isGuard ? Probabilities{softmax, true} : Probabilities();
  }
  return softmax->hasOneUse() ? Probabilities{softmax} : Probabilities();
}

/// The mask operand of attention and whether the rest of the hiding is causal.
struct Mask {
  Value value;
  bool causal = false;
};

class MaskBuilder {
public:
  MaskBuilder(PatternRewriter &rewriter, const Constants &constants, AffineExpr queries,
              AffineExpr keys)
      : rewriter(rewriter), constants(constants), queries(queries), keys(keys) {}

  /// Fails, before anything is built, if condition and mask cannot both be expressed.
  FailureOr<Mask> build(const Scores &scores) {
    if (!scores.condition) {
      return scores.mask ? fromBias(scores.mask) : Mask();
    }
    if (!scores.mask) {
      return fromCondition(scores.condition, scores.hidden);
    }
    // With a finite number in hidden places, a mask on top could bring them back in a row where it
    // hides all the others.
    if (!isCausalCondition(scores.condition, queries, keys, constants) ||
        constants.scalar(scores.hidden) != -kInfinity) {
      return failure();
    }
    return Mask{fromBias(scores.mask).value, true};
  }

private:
  Mask fromBias(Value mask) {
    if (isCausalBias(mask, queries, keys, constants)) {
      return {nullptr, true};
    }
    if (tn::BroadcastOp broadcast = mask.getDefiningOp<tn::BroadcastOp>();
        broadcast && isDecided(broadcast)) {
      mask = broadcast.getX();
    }
    tn::SelectOp select = mask.getDefiningOp<tn::SelectOp>();
    bool isHiding = select && constants.scalar(select.getA()) == 0.0;
    std::optional<double> hidden = isHiding ? constants.scalar(select.getB()) : std::nullopt;
    if (!hidden || !hidesPosition(*hidden, getElementTypeOrSelf(mask))) {
      return {mask, false};
    }
    Mask result = fromCondition(select.getCondition(), select.getB());
    return result.causal ? result : Mask{mask, false};
  }

  /// select(condition, 0, hidden), with the causal part of the condition taken out where that is
  /// exact: always if it is all of it, else only for -inf, since rows that hide every key differ
  /// otherwise.
  Mask fromCondition(Value condition, Value hidden) {
    SmallVector<Value> parts = conditionsOf(condition, constants);
    size_t before = parts.size();
    if (before == 1 || constants.scalar(hidden) == -kInfinity) {
      llvm::erase_if(parts,
                     [&](Value part) { return isCausalCondition(part, queries, keys, constants); });
    }
    if (parts.empty()) {
      return {nullptr, before > 0};
    }
    Value rest = parts.size() == before ? condition : conjunction(parts);
    RankedTensorType hiddenType = tensorType(hidden);
    Value zero = tn::ConstantOp::create(
        rewriter, hidden.getLoc(), hiddenType,
        DenseElementsAttr::get(hiddenType,
                               rewriter.getFloatAttr(hiddenType.getElementType(), 0.0)));
    FailureOr<tn::Dims> dims =
        tn::broadcastDims(tn::getDims(rest.getType()), tn::getDims(hiddenType));
    Value mask = tn::SelectOp::create(rewriter, rest.getLoc(),
                                      tn::makeTensor(*dims, hiddenType.getElementType()), rest,
                                      zero, hidden);
    return {mask, parts.size() != before};
  }

  Value conjunction(ArrayRef<Value> parts) {
    Value result = parts.front();
    for (Value part : parts.drop_front()) {
      FailureOr<tn::Dims> dims =
          tn::broadcastDims(tn::getDims(result.getType()), tn::getDims(part.getType()));
      result = tn::AndOp::create(rewriter, part.getLoc(),
                                 tn::makeTensor(*dims, rewriter.getI1Type()), result, part);
    }
    return result;
  }

  PatternRewriter &rewriter;
  const Constants &constants;
  AffineExpr queries;
  AffineExpr keys;
};

struct AttentionPattern : Pattern<tn::MatmulOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::MatmulOp op, PatternRewriter &rewriter) const override {
    Constants constants = this->constants;
    auto [softmax, isGuarded] = matchProbabilities(op.getA(), constants);
    int64_t rank = op.getType().getRank();
    if (!softmax || op.getTransposeA() || rank < 2 ||
        static_cast<int64_t>(softmax.getAxis()) != rank - 1) {
      return failure();
    }
    std::optional<Scores> scores = matchScores(softmax.getX(), constants);
    if (!scores || !haveOneBatch({op.getResult(), scores->product.getResult(),
                                  scores->product.getA(), scores->product.getB(), op.getB()})) {
      return failure();
    }
    auto isLow = [&](Value value) {
      return !value || rank <= 4 || tensorType(value).getRank() < 4;
    };
    if (!isLow(scores->mask) || !isLow(scores->condition)) {
      return failure(); // its batch dims would have to become one
    }
    tn::Dims scoreDims = tn::getDims(softmax.getType());
    FailureOr<Mask> mask =
        MaskBuilder(rewriter, constants, scoreDims[rank - 2], scoreDims[rank - 1]).build(*scores);
    if (failed(mask)) {
      return failure();
    }
    Operand q = makeOperand(rewriter, scores->product.getA(), /*swapped=*/false,
                            /*sharesHeads=*/false, constants);
    Operand k = keysOf(*scores, rewriter, /*sharesHeads=*/true, constants);
    Operand v = valuesOf(op, rewriter, /*sharesHeads=*/true, constants);
    if (!tn::sameDim(headsOf(k), headsOf(v))) {
      k = keysOf(*scores, rewriter, /*sharesHeads=*/false, constants);
      v = valuesOf(op, rewriter, /*sharesHeads=*/false, constants);
    }
    // A transpose back to heads inside is the only reader in most models: write that order at once.
    tn::TransposeOp merged =
        op->hasOneUse() ? dyn_cast<tn::TransposeOp>(*op->getUsers().begin()) : tn::TransposeOp();
    bool resultInner =
        merged && ArrayRef(liftedOrder(merged.getPermutation())) == ArrayRef<int64_t>(kHeadsInner);
    Operation *replaced = resultInner ? merged.getOperation() : op.getOperation();
    rewriter.setInsertionPoint(replaced);
    RankedTensorType type = tensorType(replaced->getResult(0));
    tn::Dims dims = tn::getDims(type);
    Type element = type.getElementType();
    // Where one product is of a narrower type than the other, attention is all f32.
    if (getElementTypeOrSelf(q.value) != getElementTypeOrSelf(v.value)) {
      element = rewriter.getF32Type();
      for (Value *operand : {&q.value, &k.value, &v.value, &mask->value}) {
        *operand = *operand ? castTo(rewriter, op.getLoc(), *operand, element) : Value();
      }
    }
    Value attention = tn::AttentionOp::create(
        rewriter, op.getLoc(), tn::makeTensor(liftedDims(dims, op.getContext()), element), q.value,
        k.value, v.value, mask->value, /*start=*/Value(),
        rewriter.getF64FloatAttr(scores->scale * q.scale * k.scale),
        rewriter.getBoolAttr(mask->causal),
        rewriter.getDenseBoolArrayAttr({q.headsInner, k.headsInner, v.headsInner, resultInner}),
        mask->value && !isGuarded ? rewriter.getUnitAttr() : UnitAttr());
    Value result = castTo(rewriter, op.getLoc(), attention, type.getElementType());
    rewriter.replaceOp(replaced, reshape(rewriter, op.getLoc(), result, dims));
    return success();
  }

private:
  static AffineExpr headsOf(const Operand &operand) {
    return tn::getDims(operand.value.getType())[operand.headsInner ? 2 : 1];
  }

  static Operand keysOf(const Scores &scores, PatternRewriter &rewriter, bool sharesHeads,
                        Constants &constants) {
    tn::MatmulOp product = scores.product;
    return makeOperand(rewriter, product.getB(), !product.getTransposeB(), sharesHeads, constants);
  }

  static Operand valuesOf(tn::MatmulOp op, PatternRewriter &rewriter, bool sharesHeads,
                          Constants &constants) {
    Operand v = makeOperand(rewriter, op.getB(), op.getTransposeB(), sharesHeads, constants);
    if (v.scale == 1) {
      return v;
    }
    // A scale of the values stays where it is.
    Value value = op.getB();
    if (op.getTransposeB()) {
      value = transpose(rewriter, op.getLoc(), value, swapLast(tensorType(value).getRank()));
    }
    return {lift(rewriter, value)};
  }

  /// Batch and heads are the same in all values: none is broadcast.
  static bool haveOneBatch(ArrayRef<Value> values) {
    tn::Dims first = tn::getDims(values.front().getType());
    return llvm::all_of(values, [&](Value value) {
      tn::Dims dims = tn::getDims(value.getType());
      return dims.size() == first.size() &&
             tn::sameDims(ArrayRef(dims).drop_back(2), ArrayRef(first).drop_back(2));
    });
  }
};

/// Heads of keys and values that were repeated for the heads of the queries: attention does that
/// itself and reads them once.
struct SharedHeadsPattern : Pattern<tn::AttentionOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::AttentionOp op, PatternRewriter &rewriter) const override {
    SmallVector<bool> inner(op.getHeadsInner());
    Value k = beforeRepeat(rewriter, op.getK(), inner[1] ? 2 : 1);
    Value v = k ? beforeRepeat(rewriter, op.getV(), inner[2] ? 2 : 1) : Value();
    if (!v || !tn::sameDim(tn::getDims(k.getType())[inner[1] ? 2 : 1],
                           tn::getDims(v.getType())[inner[2] ? 2 : 1])) {
      return failure();
    }
    rewriter.modifyOpInPlace(op, [&] {
      op.getKMutable().assign(k);
      op.getVMutable().assign(v);
    });
    return success();
  }
};

/// Masks that exporters made of a whole sequence.
struct ZeroMaskPattern : Pattern<tn::AttentionOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::AttentionOp op, PatternRewriter &rewriter) const override {
    if (!op.getMask() || !hidesNothing(op.getMask(), constants)) {
      return failure();
    }
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().clear(); });
    return success();
  }
};

} // namespace

LogicalResult recognizeAttention(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<AttentionPattern, SharedHeadsPattern, ZeroMaskPattern>(module.getContext(), weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
