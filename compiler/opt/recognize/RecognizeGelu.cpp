// Spellings of GELU become tn.gelu: x/2 * (1 + erf(x / sqrt 2)) and the tanh form, factors in any
// order. Relies on simplify (division by powers of two is a product, squares are x * x).
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace tenon::opt {
namespace {

/// A product taken apart: the scalar constants multiplied, and the other factors. Only products
/// that nobody else reads are opened.
struct Factors {
  double scale = 1;
  SmallVector<Value> values;
  /// Products still to be opened; no spelling of GELU has more.
  unsigned budget = 8;
};

void collectFactors(Value value, Constants &constants, bool isRoot, Factors &factors) {
  if ((isRoot || value.hasOneUse()) && factors.budget > 0) {
    --factors.budget;
    if (std::optional<WithScalar> scaled = matchScale(value, constants)) {
      factors.scale *= scaled->scalar;
      collectFactors(scaled->value, constants, false, factors);
      return;
    }
    tn::MulOp product = value.getDefiningOp<tn::MulOp>();
    if (product && product.getA().getType() == product.getB().getType()) {
      collectFactors(product.getA(), constants, false, factors);
      collectFactors(product.getB(), constants, false, factors);
      return;
    }
  }
  factors.values.push_back(value);
}

/// value = scale * x^power, powers spelled by tn.pow or by products.
bool isScaledPower(Value value, Value x, int power, double scale, Constants &constants) {
  Factors factors;
  collectFactors(value, constants, /*isRoot=*/false, factors);
  int found = 0;
  for (Value factor : factors.values) {
    std::optional<WithScalar> raised = matchScalar<tn::PowOp>(factor, constants);
    tn::MulOp square = factor.getDefiningOp<tn::MulOp>();
    if (factor == x) {
      found += 1;
    } else if (raised && raised->value == x && (raised->scalar == 2 || raised->scalar == 3) &&
               factor.hasOneUse()) {
      found += static_cast<int>(raised->scalar);
    } else if (square && square.getA() == x && square.getB() == x) {
      found += 2; // a square that others read too
    } else {
      return false;
    }
  }
  return found == power && isNear(factors.scale, scale, getElementTypeOrSelf(x));
}

/// u of 1 + f(u), where f and the sum have no other readers.
template <typename Function> Value matchOnePlus(Value value, Constants &constants) {
  std::optional<WithScalar> sum = matchScalar<tn::AddOp>(value, constants);
  Function function = sum ? sum->value.getDefiningOp<Function>() : Function();
  if (!function || sum->scalar != 1 || !value.hasOneUse() || !function->hasOneUse() ||
      !function.getX().hasOneUse()) {
    return nullptr;
  }
  return function.getX();
}

/// u = sqrt(2/pi) * (x + 0.044715 x^3), or with x drawn out of the sum.
bool isTanhArgument(Value u, Value x, Constants &constants) {
  constexpr double kCubic = 0.044715;
  double outer = std::sqrt(2 / std::numbers::pi);
  Type element = getElementTypeOrSelf(x);
  Factors factors;
  collectFactors(u, constants, /*isRoot=*/true, factors);
  if (!isNear(factors.scale, outer, element)) {
    return false;
  }
  if (factors.values.size() == 1) {
    tn::AddOp sum = factors.values.front().getDefiningOp<tn::AddOp>();
    if (!sum || !sum->hasOneUse()) {
      return false;
    }
    return (sum.getA() == x && isScaledPower(sum.getB(), x, 3, kCubic, constants)) ||
           (sum.getB() == x && isScaledPower(sum.getA(), x, 3, kCubic, constants));
  }
  if (factors.values.size() != 2 || !llvm::is_contained(factors.values, x)) {
    return false;
  }
  Value rest = factors.values[factors.values.front() == x ? 1 : 0];
  std::optional<WithScalar> sum = matchScalar<tn::AddOp>(rest, constants);
  return sum && sum->scalar == 1 && rest.hasOneUse() &&
         isScaledPower(sum->value, x, 2, kCubic, constants);
}

struct GeluPattern : Pattern<tn::MulOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::MulOp op, PatternRewriter &rewriter) const override {
    Constants constants = this->constants;
    Type element = op.getType().getElementType();
    Factors factors;
    collectFactors(op.getResult(), constants, /*isRoot=*/true, factors);
    if (!isa<FloatType>(element) || factors.values.size() != 2 || factors.scale != 0.5) {
      return failure();
    }
    for (unsigned i : {0u, 1u}) {
      Value x = factors.values[i];
      Value bracket = factors.values[1 - i];
      if (x.getType() != op.getType()) {
        continue;
      }
      Value erfArgument = matchOnePlus<tn::ErfOp>(bracket, constants);
      if (erfArgument && isScaledPower(erfArgument, x, 1, std::numbers::sqrt2 / 2, constants)) {
        rewriter.replaceOpWithNewOp<tn::GeluOp>(op, op.getType(), x, /*approximate=*/false);
        return success();
      }
      Value tanhArgument = matchOnePlus<tn::TanhOp>(bracket, constants);
      if (tanhArgument && isTanhArgument(tanhArgument, x, constants)) {
        rewriter.replaceOpWithNewOp<tn::GeluOp>(op, op.getType(), x, /*approximate=*/true);
        return success();
      }
    }
    return failure();
  }
};

} // namespace

LogicalResult recognizeGelu(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<GeluPattern>(module.getContext(), weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
