// Two walks: backwards for what must be computed exactly (arguments of integer casts, sines,
// logarithms), then forwards for what may overflow. Relies on the function being one block in
// order.
#include "compiler/opt/precision/ConvertPrecisionRules.h"

#include "compiler/graph/NarrowFloats.h"
#include "compiler/graph/TnCustom.h"
#include "compiler/graph/TnRare.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/precision/IntegerOperands.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;

namespace tenon::opt {
namespace {

/// A product that sums over one element: positions times frequencies.
bool isOuterProduct(Operation *op) {
  tn::MatmulOp product = dyn_cast<tn::MatmulOp>(op);
  if (!product) {
    return false;
  }
  tn::Dims dims = tn::getDims(product.getA().getType());
  return isOne(dims[dims.size() - (product.getTransposeA() ? 2 : 1)]);
}

/// Operations whose operands have the precision of their results.
bool passesPrecision(Operation *op) {
  return op->hasTrait<tn::TnMovement>() || op->hasTrait<tn::TnElementwise>() ||
         isOuterProduct(op) || isa<tn::IotaOp, tn::ReduceOp, tn::CumsumOp>(op);
}

/// Sums of products that are narrow whatever they read.
bool isProduct(Operation *op) {
  return op->hasTrait<tn::TnContraction>() || isa<tn::ConvTransposeOp>(op);
}

/// What gives numbers of 8 bits as floats, through what moves them or takes the largest of some;
/// null for other values.
tn::DequantizeOp dequantizeOf8Bits(Value value) {
  Operation *op = value.getDefiningOp();
  while (isMoved(op) || isa_and_nonnull<tn::MaxPoolOp>(op)) {
    op = op->getOperand(0).getDefiningOp();
  }
  tn::DequantizeOp dequantize = dyn_cast_or_null<tn::DequantizeOp>(op);
  return dequantize && getElementTypeOrSelf(dequantize.getX()).isInteger(8) ? dequantize
                                                                            : tn::DequantizeOp();
}

bool isDequantized(Value value) { return static_cast<bool>(dequantizeOf8Bits(value)); }

/// Arithmetic on quantized weights alone, as where their zero points are no integers.
bool completesWeights(Operation *op) {
  return op->hasTrait<tn::TnElementwise>() && llvm::any_of(op->getOperands(), isDequantized) &&
         llvm::all_of(op->getOperands(), [](Value operand) {
           tn::DequantizeOp numbers = dequantizeOf8Bits(operand);
           return Constants::isConstant(numbers ? numbers.getX() : operand);
         });
}

bool isQuantizedProduct(Operation *op) {
  return isa<tn::MatmulOp, tn::ConvOp>(op) && isDequantized(op->getOperand(0)) &&
         isDequantized(op->getOperand(1));
}

/// Results stay near one, or grow like a logarithm, whatever the operand.
bool compresses(Operation *op) {
  return isa<tn::SigmoidOp, tn::HardSigmoidOp, tn::TanhOp, tn::ErfOp, tn::SinOp, tn::CosOp,
             tn::SignOp, tn::LogOp, tn::AsinhOp, tn::AcoshOp, tn::AtanOp>(op);
}

/// The operation renormalizes: its result has the model's usual range.
bool normalizes(Operation *op) {
  return isa<tn::SoftmaxOp, tn::LayerNormOp, tn::RmsNormOp, tn::GroupNormOp>(op);
}

} // namespace

PrecisionRules::PrecisionRules(func::FuncOp function, Constants &weightConstants,
                               FloatType narrowType, QuantizedProducts quantized)
    : constants(weightConstants), symbols(function->getParentOfType<ModuleOp>()),
      ranges(weightConstants), isHalf(narrowType.isF16()),
      keepsQuantized(quantized != QuantizedProducts::Convert),
      largest(isHalf ? tn::kLargestHalf : tn::kLargestBFloat), largestInteger(isHalf ? 2048 : 256) {
  Block &block = function.getBody().front();
  findIntegers(block, quantized);
  for (Operation &op : llvm::reverse(block)) {
    demandThrough(&op);
  }
  for (Operation &op : block) {
    ranges.add(&op);
    decide(&op);
  }
}

void PrecisionRules::findIntegers(Block &block, QuantizedProducts quantized) {
  IntegerOperands operands(constants.weights);
  for (Operation &op : block) {
    bool isOfAnyDevice = quantized == QuantizedProducts::Keep;
    if (keepsQuantized && isQuantizedProduct(&op) &&
        (isOfAnyDevice || isIntegerOnGpu(&op, operands))) {
      integers.insert(&op);
    }
  }
}

const PrecisionRule *PrecisionRules::demandOf(Operation *op) const {
  if (isa<tn::SinOp, tn::CosOp, tn::TanOp>(op)) {
    return &kFeedsAngle;
  }
  if (isa<tn::LogOp>(op)) {
    return &kFeedsLog;
  }
  if (isa<tn::QuantizeOp>(op) && keepsQuantized) {
    return &kFeedsQuantization;
  }
  if (integers.contains(op)) {
    return &kIntegers;
  }
  bool toInteger = isa<tn::CastOp>(op) && !isa<FloatType>(getElementTypeOrSelf(op->getResult(0)));
  return toInteger ? &kFeedsInteger : demanded.lookup(op);
}

void PrecisionRules::demandThrough(Operation *op) {
  const PrecisionRule *rule = demandOf(op);
  if (!rule) {
    return;
  }
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    bool passes = producer && (passesPrecision(producer) || isa<tn::MaxPoolOp>(producer));
    if (isF32(operand) && passes) {
      demanded.try_emplace(producer, rule);
    }
  }
}

bool PrecisionRules::fits(Value value) const {
  std::optional<Range> range = ranges.of(value);
  return range && range->magnitude() <= largest;
}

/// A scalar constant too small for the narrow type counts as out of range like one too large: an
/// epsilon that vanishes divides by zero. Small elements of arrays do not.
PrecisionRules::Risk PrecisionRules::constantRisk(Value value) const {
  std::optional<Range> range = ranges.ofFinite(value);
  if (range && range->magnitude() > largest) {
    return Risk::Range;
  }
  constexpr double kSmallestNormalHalf = 0x1p-14;
  std::optional<double> scalar = isHalf ? constants.scalar(value) : std::nullopt;
  bool vanishes = scalar && *scalar != 0 && std::fabs(*scalar) < kSmallestNormalHalf;
  return vanishes ? Risk::Range : Risk::None;
}

PrecisionRules::Risk PrecisionRules::riskOf(Value value) const { return risks.lookup(value); }

PrecisionRules::Risk PrecisionRules::operandRisk(Operation *op) const {
  Risk risk = Risk::None;
  for (Value operand : op->getOperands()) {
    risk = isF32(operand) ? std::max(risk, riskOf(operand)) : risk;
  }
  return risk;
}

bool PrecisionRules::needsClamp(Value value) const {
  return riskOf(value) != Risk::None && !fits(value);
}

const PrecisionRule *PrecisionRules::ruleOfCast(tn::CastOp cast) const {
  if (isa<FloatType>(getElementTypeOrSelf(cast.getX()))) {
    return nullptr;
  }
  std::optional<Range> range = ranges.of(cast.getY());
  return range && range->magnitude() <= largestInteger ? nullptr : &kCounts;
}

const PrecisionRule *PrecisionRules::ruleOfReduce(tn::ReduceOp reduce) const {
  bool isProduct = reduce.getKind() == tn::ReduceKind::prod;
  if (!isHalf || (reduce.getKind() != tn::ReduceKind::sum && !isProduct)) {
    return nullptr;
  }
  if (isProduct) {
    return &kGrows;
  }
  tn::Dims dims = tn::getDims(reduce.getX().getType());
  double count = 1;
  for (int64_t axis : reduce.getAxes()) {
    count *= dims[axis] ? static_cast<double>(symbols.bounds(dims[axis]).max) : largest;
  }
  std::optional<Range> range = ranges.of(reduce.getX());
  return count <= 1 || (range && range->magnitude() * count <= largest) ? nullptr : &kSums;
}

/// The rule that an operation falls under by what it is.
const PrecisionRule *PrecisionRules::ownRule(Operation *op) const {
  auto growing = [&](Value x, double bound) {
    std::optional<Range> range = ranges.of(x);
    return !isHalf || (range && range->magnitude() <= bound) ? nullptr : &kGrows;
  };
  constexpr double kLogOfLargestHalf = 11; // exp(11) = 59874
  return llvm::TypeSwitch<Operation *, const PrecisionRule *>(op)
      .Case<tn::ExpOp, tn::SinhOp, tn::CoshOp>([&](Operation *exponential) {
        return growing(exponential->getOperand(0), kLogOfLargestHalf);
      })
      .Case<tn::ReciprocalOp>([&](Operation *) { return isHalf ? &kDivides : nullptr; })
      .Case<tn::DivOp>([&](tn::DivOp div) {
        return isHalf && !Constants::isConstant(div.getB()) ? &kDivides : nullptr;
      })
      .Case<tn::MulOp>([&](tn::MulOp mul) {
        return mul.getA() == mul.getB() && !Constants::isConstant(mul.getA()) ? &kSquares : nullptr;
      })
      .Case<tn::PowOp>([](Operation *) { return &kSquares; })
      .Case<tn::SinOp, tn::CosOp, tn::TanOp>([](Operation *) { return &kFeedsAngle; })
      .Case<tn::LogOp>([](Operation *) { return &kFeedsLog; })
      .Case<tn::SampleOp>([](Operation *) { return &kDraws; })
      .Case<tn::CustomOp>([](Operation *) { return &kOwnKernel; })
      .Case<tn::CastOp>([&](tn::CastOp cast) { return ruleOfCast(cast); })
      .Case<tn::IotaOp>([](Operation *) { return &kCounts; })
      .Case<tn::ReduceOp>([&](tn::ReduceOp reduce) { return ruleOfReduce(reduce); })
      .Case<tn::CumsumOp>([](Operation *) { return &kRuns; })
      .Case<tn::ScatterElementsOp, tn::ScatterNdOp>([](auto scatter) {
        bool combines =
            scatter.getKind() == tn::ScatterKind::add || scatter.getKind() == tn::ScatterKind::mul;
        return combines ? &kAccumulates : nullptr;
      })
      .Case<tn::QuantizeOp, tn::DequantizeOp>([](Operation *) { return &kQuantizes; })
      .Default([&](Operation *other) {
        if (completesWeights(other)) {
          return &kQuantizes;
        }
        return integers.contains(other) ? &kIntegers : nullptr;
      });
}

/// A value of ordinary range times or over another, as where a norm divides by its deviation: the
/// result is ordinary again.
bool PrecisionRules::isRescaled(Operation *op) const {
  if (!isa<tn::MulOp, tn::DivOp>(op)) {
    return false;
  }
  auto isOrdinary = [&](unsigned operand) {
    return !Constants::isConstant(op->getOperand(operand)) &&
           riskOf(op->getOperand(operand)) == Risk::None;
  };
  auto isLarge = [&](unsigned operand) {
    return !Constants::isConstant(op->getOperand(operand)) && !isOrdinary(operand);
  };
  return (isOrdinary(0) && (isLarge(1) || isa<tn::DivOp>(op))) || (isLarge(0) && isOrdinary(1));
}

PrecisionRules::Risk PrecisionRules::resultRisk(Operation *op, const PrecisionRule *rule,
                                                Risk operands) const {
  bool isOrdinary = compresses(op) || normalizes(op) || isRescaled(op) || isProduct(op) ||
                    isa<tn::QuantizeOp, tn::DequantizeOp>(op);
  if (isOrdinary) {
    return isOuterProduct(op) ? operands : Risk::None;
  }
  if (rule == &kCounts || rule == &kRuns) {
    return Risk::Exactness;
  }
  bool grows = rule == &kGrows || rule == &kSquares || rule == &kSums || rule == &kDivides;
  Risk risk = grows ? std::max(operands, Risk::Range) : operands;
  return risk == Risk::Range && fits(op->getResult(0)) ? Risk::None : risk;
}

void PrecisionRules::decide(Operation *op) {
  if (llvm::none_of(op->getResults(), isF32)) {
    return;
  }
  if (isa<tn::ConstantOp, tn::WeightOp>(op)) {
    risks[op->getResult(0)] = constantRisk(op->getResult(0));
    return;
  }
  Risk operands = operandRisk(op);
  const PrecisionRule *rule = ownRule(op);
  rule = rule ? rule : demanded.lookup(op);
  bool mayNarrowOperands = isProduct(op) && operands != Risk::Exactness;
  // Pages are read by nothing but attention, and so have its type.
  bool isAttention = isa<tn::AttentionOp, tn::PagedAttentionOp, tn::PagedWriteOp>(op);
  if (!rule && operands != Risk::None && !mayNarrowOperands && !isAttention) {
    bool isConstant = llvm::any_of(op->getOperands(), [&](Value operand) {
      return Constants::isConstant(operand) && riskOf(operand) != Risk::None;
    });
    rule = isConstant ? &kConstant : &kFollows;
  }
  Risk risk = rule ? resultRisk(op, rule, operands) : Risk::None;
  if (rule) {
    wide[op] = rule;
  }
  for (Value result : op->getResults()) {
    risks[result] = isF32(result) ? risk : Risk::None;
  }
}

} // namespace tenon::opt
