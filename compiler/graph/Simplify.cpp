// Brings shape expressions into a normal form, so that equal dims are equal expressions.
// Relies on symbols being non-negative sizes: products are divided exactly by a common factor.
#include "compiler/graph/Steps.h"

#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

#include <map>
#include <numeric>

using namespace mlir;

namespace tenon::tn {
namespace {

/// Larger expressions are given up: they come from hostile models, not from real ones.
constexpr size_t kMaxTerms = 256;
constexpr size_t kMaxDegree = 16;
constexpr unsigned kMaxDepth = 200;
/// Sums of two numbers within this cannot wrap, also where MLIR adds them.
constexpr int64_t kMaxCoefficient = int64_t(1) << 60;

/// A total order that does not depend on addresses.
int compareExpressions(AffineExpr a, AffineExpr b) {
  if (a == b) {
    return 0;
  }
  if (a.getKind() != b.getKind()) {
    return a.getKind() > b.getKind() ? -1 : 1; // leaves (symbols) before operations
  }
  if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(a)) {
    return symbol.getPosition() < cast<AffineSymbolExpr>(b).getPosition() ? -1 : 1;
  }
  if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(a)) {
    return constant.getValue() < cast<AffineConstantExpr>(b).getValue() ? -1 : 1;
  }
  if (AffineDimExpr dim = dyn_cast<AffineDimExpr>(a)) {
    return dim.getPosition() < cast<AffineDimExpr>(b).getPosition() ? -1 : 1;
  }
  AffineBinaryOpExpr left = cast<AffineBinaryOpExpr>(a);
  AffineBinaryOpExpr right = cast<AffineBinaryOpExpr>(b);
  int order = compareExpressions(left.getLHS(), right.getLHS());
  return order != 0 ? order : compareExpressions(left.getRHS(), right.getRHS());
}

/// Atoms (symbols and divisions) that are multiplied, sorted; empty for the constant term.
using Monomial = SmallVector<AffineExpr, 2>;

struct MonomialOrder {
  bool operator()(const Monomial &a, const Monomial &b) const {
    if (a.size() != b.size()) {
      return a.size() > b.size(); // the constant term comes last
    }
    for (auto [left, right] : llvm::zip_equal(a, b)) {
      int order = compareExpressions(left, right);
      if (order != 0) {
        return order < 0;
      }
    }
    return false;
  }
};

/// A sum of monomials with coefficients other than zero.
using Polynomial = std::map<Monomial, int64_t, MonomialOrder>;

bool addTerm(Polynomial &sum, const Monomial &monomial, int64_t coefficient) {
  std::optional<int64_t> total = llvm::checkedAdd(sum[monomial], coefficient);
  if (!total || *total > kMaxCoefficient || *total < -kMaxCoefficient) {
    return false;
  }
  if (*total == 0) {
    sum.erase(monomial);
  } else {
    sum[monomial] = *total;
  }
  return sum.size() <= kMaxTerms;
}

std::optional<Polynomial> add(Polynomial sum, const Polynomial &other) {
  for (const auto &[monomial, coefficient] : other) {
    if (!addTerm(sum, monomial, coefficient)) {
      return std::nullopt;
    }
  }
  return sum;
}

std::optional<Polynomial> multiply(const Polynomial &a, const Polynomial &b) {
  Polynomial product;
  for (const auto &[left, leftCoefficient] : a) {
    for (const auto &[right, rightCoefficient] : b) {
      Monomial monomial(left);
      llvm::append_range(monomial, right);
      llvm::sort(monomial, [](AffineExpr x, AffineExpr y) { return compareExpressions(x, y) < 0; });
      std::optional<int64_t> coefficient = llvm::checkedMul(leftCoefficient, rightCoefficient);
      if (!coefficient || monomial.size() > kMaxDegree ||
          !addTerm(product, monomial, *coefficient)) {
        return std::nullopt;
      }
    }
  }
  return product;
}

std::optional<int64_t> constantOf(const Polynomial &polynomial) {
  if (polynomial.empty()) {
    return 0;
  }
  if (polynomial.size() == 1 && polynomial.begin()->first.empty()) {
    return polynomial.begin()->second;
  }
  return std::nullopt;
}

AffineExpr rebuild(MLIRContext *context, const Polynomial &polynomial) {
  AffineExpr sum;
  for (const auto &[monomial, coefficient] : polynomial) {
    AffineExpr product;
    for (AffineExpr atom : monomial) {
      product = product ? product * atom : atom;
    }
    if (!product) {
      product = getAffineConstantExpr(coefficient, context);
    } else if (coefficient != 1) {
      product = product * coefficient;
    }
    sum = sum ? sum + product : product;
  }
  return sum ? sum : getAffineConstantExpr(0, context);
}

/// Turns an expression into a polynomial; holds the context and the depth.
class Normalizer {
public:
  explicit Normalizer(MLIRContext *context) : context(context) {}

  std::optional<Polynomial> run(AffineExpr expression) {
    if (depth >= kMaxDepth) {
      return std::nullopt;
    }
    ++depth;
    std::optional<Polynomial> result = visit(expression);
    --depth;
    return result;
  }

private:
  std::optional<Polynomial> visit(AffineExpr expression);
  std::optional<Polynomial> floorDivide(const Polynomial &numerator, int64_t divisor);
  std::optional<Polynomial> floorDivideOfDivision(const Polynomial &numerator, int64_t divisor);
  std::optional<Polynomial> divideExactly(const Polynomial &numerator, const Polynomial &divisor);
  std::optional<Polynomial> divide(AffineExprKind kind, const Polynomial &numerator,
                                   const Polynomial &divisor);

  Polynomial atom(AffineExpr expression) { return Polynomial{{Monomial{expression}, 1}}; }

  MLIRContext *context;
  unsigned depth = 0;
};

std::optional<Polynomial> Normalizer::visit(AffineExpr expression) {
  if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(expression)) {
    Polynomial result;
    return addTerm(result, {}, constant.getValue()) ? std::optional(result) : std::nullopt;
  }
  AffineBinaryOpExpr operation = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!operation) {
    return atom(expression);
  }
  std::optional<Polynomial> left = run(operation.getLHS());
  std::optional<Polynomial> right = run(operation.getRHS());
  if (!left || !right) {
    return std::nullopt;
  }
  switch (expression.getKind()) {
  case AffineExprKind::Add:
    return add(*left, *right);
  case AffineExprKind::Mul:
    return multiply(*left, *right);
  default:
    return divide(expression.getKind(), *left, *right);
  }
}

std::optional<Polynomial> Normalizer::divide(AffineExprKind kind, const Polynomial &numerator,
                                             const Polynomial &divisor) {
  std::optional<int64_t> constant = constantOf(divisor);
  if (constant && *constant <= 0) {
    return std::nullopt;
  }
  if (constant && kind == AffineExprKind::CeilDiv) {
    Polynomial rounded = numerator;
    return addTerm(rounded, {}, *constant - 1) ? floorDivide(rounded, *constant) : std::nullopt;
  }
  if (constant && kind == AffineExprKind::FloorDiv) {
    return floorDivide(numerator, *constant);
  }
  if (constant && kind == AffineExprKind::Mod) {
    std::optional<Polynomial> quotient = floorDivide(numerator, *constant);
    std::optional<Polynomial> whole =
        quotient ? multiply(*quotient, Polynomial{{Monomial{}, -*constant}}) : std::nullopt;
    return whole ? add(numerator, *whole) : std::nullopt;
  }
  if (std::optional<Polynomial> quotient = divideExactly(numerator, divisor)) {
    return kind == AffineExprKind::Mod ? Polynomial() : quotient;
  }
  return atom(getAffineBinaryOpExpr(kind, rebuild(context, numerator), rebuild(context, divisor)));
}

std::optional<Polynomial> Normalizer::floorDivide(const Polynomial &numerator, int64_t divisor) {
  // The whole part of each coefficient leaves the division.
  Polynomial quotient;
  Polynomial rest;
  int64_t common = divisor;
  for (const auto &[monomial, coefficient] : numerator) {
    // Those of a step stay as they are.
    bool isOfStep = divisor >= kLeastStepDivisor && !monomial.empty();
    int64_t whole =
        isOfStep ? coefficient / divisor : llvm::divideFloorSigned(coefficient, divisor);
    int64_t remainder = coefficient - whole * divisor;
    if (whole != 0) {
      quotient[monomial] = whole;
    }
    if (remainder != 0) {
      rest[monomial] = remainder;
    }
    if (!monomial.empty()) {
      common = std::gcd(common, remainder);
    }
  }
  if (constantOf(rest)) {
    return quotient; // 0 <= rest < divisor
  }
  // floor((g p + r) / (g d)) = floor((p + floor(r / g)) / d)
  Polynomial reduced;
  for (const auto &[monomial, coefficient] : rest) {
    if (coefficient / common != 0) {
      reduced[monomial] = coefficient / common;
    }
  }
  divisor /= common;
  std::optional<Polynomial> division =
      divisor == 1 ? std::optional<Polynomial>(reduced) : floorDivideOfDivision(reduced, divisor);
  if (!division) {
    division = atom(rebuild(context, reduced).floorDiv(divisor));
  }
  return add(*division, quotient);
}

/// floor((floor(p / b) + q) / d) = floor((p + b q) / (b d)): a chain of strided windows becomes one
/// division. Nothing if the numerator has no such form.
std::optional<Polynomial> Normalizer::floorDivideOfDivision(const Polynomial &numerator,
                                                            int64_t divisor) {
  Polynomial others;
  AffineBinaryOpExpr inner(nullptr);
  for (const auto &[monomial, coefficient] : numerator) {
    AffineBinaryOpExpr division(nullptr);
    for (AffineExpr factor : monomial) {
      if (factor.getKind() == AffineExprKind::FloorDiv) {
        division = cast<AffineBinaryOpExpr>(factor);
      }
    }
    if (!division) {
      others[monomial] = coefficient;
      continue;
    }
    if (inner || monomial.size() != 1 || coefficient != 1) {
      return std::nullopt;
    }
    inner = division;
  }
  AffineConstantExpr innerDivisor =
      inner ? dyn_cast<AffineConstantExpr>(inner.getRHS()) : AffineConstantExpr();
  if (!innerDivisor) {
    return std::nullopt;
  }
  std::optional<int64_t> total = llvm::checkedMul(innerDivisor.getValue(), divisor);
  std::optional<Polynomial> merged = run(inner.getLHS());
  if (!total || !merged) {
    return std::nullopt;
  }
  for (const auto &[monomial, coefficient] : others) {
    std::optional<int64_t> scaled = llvm::checkedMul(coefficient, innerDivisor.getValue());
    if (!scaled || !addTerm(*merged, monomial, *scaled)) {
      return std::nullopt;
    }
  }
  return floorDivide(*merged, *total);
}

std::optional<Polynomial> Normalizer::divideExactly(const Polynomial &numerator,
                                                    const Polynomial &divisor) {
  if (numerator == divisor) {
    return Polynomial{{Monomial{}, 1}};
  }
  if (divisor.empty()) {
    return std::nullopt;
  }
  // Long division: the first monomials are the largest of an order that products keep.
  const auto &[factors, divisorCoefficient] = *divisor.begin();
  Polynomial quotient, rest = numerator;
  while (!rest.empty()) {
    const auto &[monomial, coefficient] = *rest.begin();
    Monomial left(monomial);
    for (AffineExpr factor : factors) {
      auto found = llvm::find(left, factor);
      if (found == left.end()) {
        return std::nullopt;
      }
      left.erase(found);
    }
    if (divisorCoefficient <= 0 || coefficient % divisorCoefficient != 0 ||
        quotient.size() >= kMaxTerms) {
      return std::nullopt;
    }
    int64_t count = coefficient / divisorCoefficient;
    quotient[left] = count;
    std::optional<Polynomial> part = multiply(Polynomial{{left, -count}}, divisor);
    std::optional<Polynomial> less = part ? add(std::move(rest), *part) : std::nullopt;
    if (!less) {
      return std::nullopt;
    }
    rest = std::move(*less);
  }
  return quotient;
}

} // namespace

AffineExpr simplify(AffineExpr expression) {
  if (!expression || isa<AffineConstantExpr, AffineSymbolExpr>(expression)) {
    return expression;
  }
  std::optional<Polynomial> normal = Normalizer(expression.getContext()).run(expression);
  return normal ? rebuild(expression.getContext(), *normal) : AffineExpr();
}

static AffineExpr combineDims(AffineExpr a, AffineExpr b, bool product) {
  if (!a || !b) {
    return AffineExpr();
  }
  Normalizer normalizer(a.getContext());
  std::optional<Polynomial> left = normalizer.run(a);
  std::optional<Polynomial> right = normalizer.run(b);
  std::optional<Polynomial> result;
  if (left && right) {
    result = product ? multiply(*left, *right) : add(*left, *right);
  }
  return result ? rebuild(a.getContext(), *result) : AffineExpr();
}

AffineExpr addDims(AffineExpr a, AffineExpr b) { return combineDims(a, b, false); }

AffineExpr multiplyDims(AffineExpr a, AffineExpr b) { return combineDims(a, b, true); }

} // namespace tenon::tn
