// Floats that a program computes from sizes ("n ** -0.5"), and integers that data decides.
// Relies on Python's floats being f64, in which each step is rounded as Python rounds it.
#include "compiler/frontend/pt2/ops/Numbers.h"

#include "compiler/frontend/common/Resizing.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

bool isReal(mlir::Value x) { return x && isa<FloatType>(getElementTypeOrSelf(x)); }

mlir::Value asReal(Call &c, mlir::Value x) { return x ? c.cast(x, c.builder().getF64Type()) : x; }

mlir::Value floorQuotient(Call &c, mlir::Value a, mlir::Value b) {
  mlir::Value rest = c.make<tn::ModOp>(a, b, /*fmod=*/false);
  return c.div(c.sub(a, rest), b);
}

mlir::Value computed(Call &c, Arithmetic function, mlir::Value a, mlir::Value b) {
  switch (function) {
  case Arithmetic::Add:
    return c.add(a, b);
  case Arithmetic::Subtract:
    return c.sub(a, b);
  case Arithmetic::Multiply:
    return c.mul(a, b);
  case Arithmetic::Divide:
    return c.div(asReal(c, a), asReal(c, b));
  case Arithmetic::FloorDivide:
    return floorQuotient(c, a, b);
  case Arithmetic::Remainder:
    return c.make<tn::ModOp>(a, b, /*fmod=*/false);
  case Arithmetic::Power:
    return c.make<tn::PowOp>(asReal(c, a), asReal(c, b));
  case Arithmetic::Min:
    return c.min(a, b);
  case Arithmetic::Max:
    return c.max(a, b);
  }
  return mlir::Value();
}

/// What the argument at a position stands for, if it is a float of sizes or a size.
std::optional<ScaledSize> scaledAt(Call &c, size_t index) {
  if (c.isSizeAt(index)) {
    AffineExpr size = c.sizeAt(index);
    return size ? std::optional(ScaledSize{size}) : std::nullopt;
  }
  const Argument *given = c.positional(index);
  Value *found = given && given->isName() ? c.find(*given) : nullptr;
  return found ? found->scaled : std::nullopt;
}

/// The number at a position that is the same for all sizes.
std::optional<double> constantAt(Call &c, size_t index) {
  const Argument *given = c.positional(index);
  if (given && given->kind == Argument::Kind::Float) {
    return given->real;
  }
  std::optional<ScaledSize> scaled = scaledAt(c, index);
  std::optional<int64_t> known = scaled ? tn::constantDim(scaled->size) : std::nullopt;
  bool isWhole = known && scaled->scale == 1 && scaled->divisor == 1;
  return isWhole ? std::optional(static_cast<double>(*known)) : std::nullopt;
}

/// A size times a float, or divided by a whole number.
std::optional<ScaledSize> scaledResult(Call &c, Arithmetic function) {
  std::optional<ScaledSize> left = scaledAt(c, 0), right = scaledAt(c, 1);
  std::optional<double> by = constantAt(c, 1), times = constantAt(c, 0);
  auto isPlain = [](const std::optional<ScaledSize> &x) {
    return x && x->scale == 1 && x->divisor == 1;
  };
  if (function == Arithmetic::Multiply && isPlain(left) && by) {
    return ScaledSize{left->size, *by};
  }
  if (function == Arithmetic::Multiply && isPlain(right) && times) {
    return ScaledSize{right->size, *times};
  }
  bool isWhole = by && *by >= 1 && *by < 1e6 && *by == static_cast<double>(int64_t(*by));
  return function == Arithmetic::Divide && isPlain(left) && isWhole
             ? std::optional(ScaledSize{left->size, 1, static_cast<int64_t>(*by)})
             : std::nullopt;
}

template <Arithmetic function> void onNumbers(Call &c) { setArithmetic(c, function); }

/// A power of a size by a small number is one.
void powerOfSize(Call &c) {
  std::optional<double> exponent = constantAt(c, 1);
  bool isWhole = c.isSizeAt(0) && c.isSizeAt(1) && exponent && *exponent >= 0 && *exponent <= 8;
  if (!isWhole) {
    return setArithmetic(c, Arithmetic::Power);
  }
  AffineExpr product = c.constantSize(1);
  for (int i = 0; i < static_cast<int>(*exponent); ++i) {
    product = frontend::multiplySizes(product, c.sizeAt(0));
  }
  c.setSize(product);
}

void toFloat(Call &c) {
  c.setValue(0, {.number = asReal(c, c.numberAt(0)), .scaled = scaledAt(c, 0)});
}

void squareRoot(Call &c) {
  c.setValue(0, {.number = c.unary<tn::SqrtOp>(asReal(c, c.numberAt(0)))});
}

/// Towards zero: a size where the float is one times or by a number.
void toInteger(Call &c) {
  std::optional<ScaledSize> x = scaledAt(c, 0);
  AffineExpr size = x ? c.symbols().canonical(x->size) : AffineExpr();
  if (size && c.symbols().bounds(size).min >= 0 && x->scale > 0 && x->scale < 1e6) {
    size = x->divisor != 1 ? frontend::divideSizes(c.symbols(), size, c.constantSize(x->divisor))
                           : frontend::scaledSize(c.symbols(), size, x->scale, /*inDoubles=*/true);
    if (size) {
      return c.setSize(size);
    }
  }
  mlir::Value number = c.numberAt(0);
  c.setValue(0, {.number = number ? c.cast(number, c.builder().getI64Type()) : number});
}

constexpr OpRow kNumberOpRows[] = {
    {"_operator.pow", powerOfSize}, {"_operator.truediv", onNumbers<Arithmetic::Divide>},
    {"math.trunc", toInteger},      {"torch._sym_sqrt", squareRoot},
    {"torch.sym_float", toFloat},   {"torch.sym_int", toInteger},
};

} // namespace

std::pair<mlir::Value, mlir::Value> numbersOf(Call &c) {
  mlir::Value a = c.numberAt(0), b = c.numberAt(1);
  return isReal(a) || isReal(b) ? std::pair(asReal(c, a), asReal(c, b)) : std::pair(a, b);
}

void setArithmetic(Call &c, Arithmetic function) {
  std::optional<ScaledSize> scaled = scaledResult(c, function);
  auto [a, b] = numbersOf(c);
  c.setValue(0, {.number = computed(c, function, a, b), .scaled = scaled});
}

ArrayRef<OpRow> numberRows() { return kNumberOpRows; }

} // namespace tenon::pt2
