// Products and convolutions of 8-bit numbers less their zero points read these as f16, which holds
// them exactly: a GPU's tensor cores multiply f16, and kernels sum integers. Relies on the operands
// being known to be that small.
#include "compiler/graph/NarrowIntegers.h"
#include "compiler/opt/GpuProducts.h"
#include "compiler/opt/Match.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kNarrowPass = "narrow-integer-products";

/// Operations looked through for the range of a value.
constexpr int kRangeSteps = 16;

struct Interval {
  int64_t least = 0, most = 0;
};

/// What an 8-bit type holds, or a bool.
std::optional<Interval> rangeOfType(Type element) {
  IntegerType type = dyn_cast<IntegerType>(element);
  if (!type || type.getWidth() > 8) {
    return std::nullopt;
  }
  int64_t count = int64_t(1) << type.getWidth();
  bool isUnsigned = type.isUnsigned() || type.getWidth() == 1;
  return isUnsigned ? Interval{0, count - 1} : Interval{-count / 2, count / 2 - 1};
}

template <typename Op> struct NarrowProduct : Pattern<Op> {
  using Pattern<Op>::Pattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Value left = op->getOperand(0), right = op->getOperand(1);
    if (!op.getType().getElementType().isInteger(32) || tn::isNarrowProduct(op) ||
        tn::isByteProduct(op) || !isProduct(op) || !isNarrow(left) || !isNarrow(right)) {
      return failure();
    }
    rewriter.setInsertionPoint(op);
    Value operands[2] = {half(rewriter, left), Value()};
    if (isa<tn::ConvOp>(op)) {
      // The channels of a filter lie side by side, for copies of many of them.
      Permutation order = channelsLast(tensorType(right).getRank());
      operands[1] =
          transpose(rewriter, op.getLoc(), stored(rewriter, right, order), inverse(order));
    } else {
      operands[1] = half(rewriter, right);
    }
    rewriter.modifyOpInPlace(op, [&] {
      for (unsigned i : {0u, 1u}) {
        op->setOperand(
            i, tn::CastOp::create(rewriter, op.getLoc(), op->getOperand(i).getType(), operands[i]));
      }
      op->setAttr(tn::kNarrowIntegers, rewriter.getUnitAttr());
    });
    return success();
  }

private:
  static bool isProduct(tn::MatmulOp) { return true; }
  /// Depthwise ones are no products.
  static bool isProduct(tn::ConvOp op) {
    return op.getChannelsLast() &&
           (op.getGroups() == 1 || tensorType(op.getWeight()).getDimSize(1) != 1);
  }
  static Permutation channelsLast(int64_t rank) {
    Permutation order{0};
    llvm::append_range(order, llvm::seq<int64_t>(2, rank));
    order.push_back(1);
    return order;
  }

  bool isNarrow(Value value) const {
    std::optional<Interval> range = rangeOf(value, kRangeSteps);
    return range && range->least >= -tn::kMaxNarrow && range->most <= tn::kMaxNarrow;
  }

  std::optional<Interval> rangeOf(Value value, int steps) const {
    if (std::optional<Interval> range = rangeOfType(getElementTypeOrSelf(value))) {
      return range;
    }
    if (Constants::isConstant(value)) {
      return rangeOfConstant(value);
    }
    Operation *op = value.getDefiningOp();
    bool isRead = isa_and_nonnull<tn::CastOp, tn::TransposeOp, tn::ReshapeOp, tn::BroadcastOp,
                                  tn::SliceOp, tn::SubOp, tn::AddOp>(op);
    if (steps == 0 || !isRead || !getElementTypeOrSelf(op->getOperand(0)).isInteger()) {
      return std::nullopt;
    }
    std::optional<Interval> first = rangeOf(op->getOperand(0), steps - 1);
    if (!first || !isa<tn::SubOp, tn::AddOp>(op)) {
      return first;
    }
    std::optional<Interval> second = rangeOf(op->getOperand(1), steps - 1);
    if (!second) {
      return std::nullopt;
    }
    return isa<tn::AddOp>(op) ? Interval{first->least + second->least, first->most + second->most}
                              : Interval{first->least - second->most, first->most - second->least};
  }

  std::optional<Interval> rangeOfConstant(Value value) const {
    bool isInteger = getElementTypeOrSelf(value).isInteger();
    std::optional<std::vector<double>> elements =
        isInteger ? this->constants.elements(value) : std::nullopt;
    if (!elements || elements->empty()) {
      return std::nullopt;
    }
    auto [least, most] = std::minmax_element(elements->begin(), elements->end());
    return Interval{static_cast<int64_t>(*least), static_cast<int64_t>(*most)};
  }

  static RankedTensorType halfType(PatternRewriter &rewriter, Value value) {
    return tn::withElement(value.getType(), rewriter.getF16Type());
  }

  Value half(PatternRewriter &rewriter, Value value) const {
    RankedTensorType type = halfType(rewriter, value);
    if (!Constants::isConstant(value)) {
      return tn::CastOp::create(rewriter, value.getLoc(), type, value);
    }
    return this->constants.make(rewriter, value.getLoc(), type, *this->constants.elements(value),
                                nameOf(value, "f16"), kNarrowPass);
  }

  /// A filter as f16 in another order of dims.
  Value stored(PatternRewriter &rewriter, Value filter, const Permutation &order) const {
    if (!Constants::isConstant(filter)) {
      return half(rewriter, transpose(rewriter, filter.getLoc(), filter, order));
    }
    RankedTensorType type = halfType(rewriter, filter);
    std::vector<double> from = *this->constants.elements(filter), to;
    int64_t channels = type.getDimSize(1), taps = 1;
    for (int64_t size : type.getShape().drop_front(2)) {
      taps *= size;
    }
    for (int64_t column = 0; column < type.getDimSize(0); ++column) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t channel = 0; channel < channels; ++channel) {
          to.push_back(from[(column * channels + channel) * taps + tap]);
        }
      }
    }
    RankedTensorType moved =
        RankedTensorType::get(permuted(type.getShape(), order), type.getElementType());
    return this->constants.make(rewriter, filter.getLoc(), moved, to,
                                nameOf(filter, "channels_last"), kNarrowPass);
  }

  static std::string nameOf(Value constant, StringRef what) {
    tn::WeightOp weight = constant.getDefiningOp<tn::WeightOp>();
    return (weight ? weight.getId() + "." + what : llvm::Twine(what)).str();
  }
};

/// transpose(cast(x)) -> cast(transpose(x)), transpose(x - z) -> transpose(x) - transpose(z), of
/// integers: what is moved is as small as it can be, and a kernel that moves first computes too.
struct HoistTranspose : OpRewritePattern<tn::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::TransposeOp op, PatternRewriter &rewriter) const override {
    Operation *producer = op.getX().getDefiningOp();
    if (!isa_and_nonnull<tn::CastOp, tn::SubOp>(producer) || !producer->hasOneUse() ||
        !op.getType().getElementType().isInteger(32) ||
        !getElementTypeOrSelf(producer->getOperand(0)).isInteger()) {
      return failure();
    }
    SmallVector<Value> moved;
    for (Value operand : producer->getOperands()) {
      bool isWhole = tensorType(operand).getRank() == op.getType().getRank();
      bool isOne =
          tensorType(operand).hasStaticShape() && tensorType(operand).getNumElements() == 1;
      if (!isWhole && !isOne) {
        return failure();
      }
      moved.push_back(isWhole ? transpose(rewriter, op.getLoc(), operand, op.getPermutation())
                              : operand);
    }
    rewriter.replaceOp(op, rebuild(rewriter, producer, moved, op.getType()));
    return success();
  }
};

} // namespace

LogicalResult narrowIntegerProducts(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<NarrowProduct<tn::MatmulOp>, NarrowProduct<tn::ConvOp>>(module.getContext(),
                                                                       weights);
  patterns.add<HoistTranspose>(module.getContext());
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
