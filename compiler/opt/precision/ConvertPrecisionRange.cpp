// Interval arithmetic over the operations that masks, positions and probabilities are made with.
// Relies on doubles being wider than every element type it bounds.
#include "compiler/opt/precision/ConvertPrecisionRange.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace tenon::opt {
namespace {

/// Larger weights are not masks, and reading them all would cost more than it tells.
constexpr int64_t kMaxBytes = 16 << 20;

std::optional<Range> finiteRange(ArrayRef<double> elements) {
  std::optional<Range> range;
  for (double element : elements) {
    if (std::isfinite(element)) {
      range = range ? Range{std::min(range->low, element), std::max(range->high, element)}
                    : Range{element, element};
    }
  }
  return range;
}

/// What integers of 8 bits can be at all: pixels become floats without a loss.
std::optional<Range> rangeOfBytes(Type element) {
  if (!element.isInteger(8)) {
    return std::nullopt;
  }
  return element.isUnsignedInteger() ? Range{0, 255} : Range{-128, 127};
}

bool movesElements(Operation *op) {
  return isa<tn::ReshapeOp, tn::TransposeOp, tn::BroadcastOp, tn::SliceOp, tn::GatherOp,
             tn::GatherElementsOp, tn::GatherNdOp, tn::MaxPoolOp, tn::CeilOp, tn::FloorOp,
             tn::RoundOp>(op);
}

} // namespace

double Range::magnitude() const { return std::max(std::fabs(low), std::fabs(high)); }

std::optional<Range> Ranges::of(Value value) const {
  auto found = known.find(value);
  return found == known.end() ? std::nullopt : std::optional<Range>(found->second);
}

std::optional<Range> Ranges::ofFinite(Value constant) const {
  RankedTensorType type = cast<RankedTensorType>(constant.getType());
  bool isNumber = Constants::isConstant(constant) && elementBytes(type.getElementType()) != 0;
  if (!isNumber || type.getNumElements() * elementBytes(type.getElementType()) > kMaxBytes) {
    return std::nullopt;
  }
  bool isLookedAt = llvm::any_of(constant.getUsers(), [](Operation *user) {
    return user->hasTrait<tn::TnElementwise>() || movesElements(user) ||
           isa<tn::PadOp, tn::ConcatOp, tn::IotaOp, tn::AttentionOp>(user);
  });
  if (!isLookedAt && !constant.getDefiningOp<tn::ConstantOp>()) {
    return std::nullopt;
  }
  std::optional<std::vector<double>> elements = constants.elements(constant);
  return elements ? finiteRange(*elements) : std::nullopt;
}

void Ranges::add(Operation *op) {
  if (op->getNumResults() != 1) {
    return;
  }
  std::optional<Range> range = infer(op);
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  // An integer that may have wrapped around is bounded by nothing.
  double limit = isa<FloatType>(element) ? std::numeric_limits<double>::max()
                                         : std::ldexp(1, element.getIntOrFloatBitWidth() - 1);
  if (range && (element.isInteger(1) || range->magnitude() <= limit)) {
    known[op->getResult(0)] = *range;
  }
}

std::optional<Range> Ranges::binary(Operation *op) const {
  std::optional<Range> left = of(op->getOperand(0));
  std::optional<Range> right = of(op->getOperand(1));
  if (!left || !right) {
    return std::nullopt;
  }
  auto [a, b] = std::pair(*left, *right);
  if (isa<tn::AddOp>(op)) {
    return Range{a.low + b.low, a.high + b.high};
  }
  if (isa<tn::SubOp>(op)) {
    return Range{a.low - b.high, a.high - b.low};
  }
  if (isa<tn::MaxOp>(op)) {
    return Range{std::max(a.low, b.low), std::max(a.high, b.high)};
  }
  if (isa<tn::MinOp>(op)) {
    return Range{std::min(a.low, b.low), std::min(a.high, b.high)};
  }
  auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return Range{low, high};
}

std::optional<Range> Ranges::infer(Operation *op) const {
  if (getElementTypeOrSelf(op->getResult(0).getType()).isInteger(1)) {
    return Range{0, 1};
  }
  if (movesElements(op)) {
    return of(op->getOperand(0));
  }
  return llvm::TypeSwitch<Operation *, std::optional<Range>>(op)
      .Case<tn::ConstantOp, tn::WeightOp>([&](Operation *constant) -> std::optional<Range> {
        std::optional<Range> range = ofFinite(constant->getResult(0));
        std::optional<std::vector<double>> all =
            range ? constants.elements(constant->getResult(0)) : std::nullopt;
        bool isFinite = all && llvm::all_of(*all, [](double x) { return std::isfinite(x); });
        return isFinite ? range : std::nullopt;
      })
      .Case<tn::SoftmaxOp>([](tn::SoftmaxOp softmax) {
        return softmax.getLog() ? std::nullopt : std::optional(Range{0, 1});
      })
      .Case<tn::SigmoidOp, tn::HardSigmoidOp>([](Operation *) { return Range{0, 1}; })
      .Case<tn::TanhOp, tn::ErfOp, tn::SinOp, tn::CosOp, tn::SignOp>(
          [](Operation *) { return Range{-1, 1}; })
      .Case<tn::ClampOp>([](tn::ClampOp clamp) {
        return Range{clamp.getLo().convertToDouble(), clamp.getHi().convertToDouble()};
      })
      .Case<tn::CastOp>([&](tn::CastOp cast) {
        std::optional<Range> x = of(cast.getX());
        return x ? x : rangeOfBytes(getElementTypeOrSelf(cast.getX()));
      })
      .Case<tn::NegOp>([&](tn::NegOp neg) {
        std::optional<Range> x = of(neg.getX());
        return x ? std::optional(Range{-x->high, -x->low}) : std::nullopt;
      })
      .Case<tn::AddOp, tn::SubOp, tn::MulOp, tn::MaxOp, tn::MinOp>(
          [&](Operation *arithmetic) { return binary(arithmetic); })
      .Case<tn::SelectOp>([&](tn::SelectOp select) -> std::optional<Range> {
        std::optional<Range> a = of(select.getA()), b = of(select.getB());
        return a && b ? std::optional(Range{std::min(a->low, b->low), std::max(a->high, b->high)})
                      : std::nullopt;
      })
      .Case<tn::ReduceOp>([&](tn::ReduceOp reduce) {
        bool isBounded =
            reduce.getKind() != tn::ReduceKind::sum && reduce.getKind() != tn::ReduceKind::prod;
        return isBounded ? of(reduce.getX()) : std::nullopt;
      })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace tenon::opt
