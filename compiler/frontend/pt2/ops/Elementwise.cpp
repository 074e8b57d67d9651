// Arithmetic, comparisons and logic, element by element, with PyTorch's promotion of types.
// One file, a third of which is the table of their names.
#include "compiler/frontend/common/Activations.h"
#include "compiler/frontend/common/Selection.h"
#include "compiler/frontend/pt2/Call.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// `Op` of self in the type of the result.
template <typename Op> void unary(Call &c) {
  c.setOutput(c.unary<Op>(c.toResult(c.value("self"))));
}

/// Integers stay as they are.
template <typename Op> void rounding(Call &c) {
  if (c.has("decimals") && c.integer("decimals", 0) != 0) {
    return c.gap("rounding to decimals is not supported", "scale, round and scale back");
  }
  mlir::Value x = c.value("self");
  c.setOutput(x && isa<IntegerType>(getElementTypeOrSelf(x)) ? x : c.unary<Op>(x));
}

/// Both operands in the type of the result.
template <typename Op> void arithmetic(Call &c) {
  Type element = c.resultElement();
  c.setOutput(c.make<Op>(c.operand("self", element), c.operand("other", element)));
}

/// 16-bit floats as f32, for what is one expression to PyTorch.
Type expressionElement(Call &c) {
  FloatType element = dyn_cast_if_present<FloatType>(c.resultElement());
  bool isNarrow = element && element.getWidth() < 32;
  return isNarrow ? Type(c.builder().getF32Type()) : c.resultElement();
}

/// a + alpha b, or a - alpha b.
template <typename Op> void combine(Call &c, StringRef first, StringRef second) {
  bool isScaled = c.has("alpha");
  Type element = isScaled ? expressionElement(c) : c.resultElement();
  mlir::Value a = c.operand(first, element), b = c.operand(second, element);
  b = isScaled ? c.mul(b, c.cast(c.operand("alpha", c.resultElement()), element)) : b;
  c.setOutput(c.toResult(c.make<Op>(a, b)));
}
void add(Call &c) {
  Type element = c.resultElement();
  bool isBool = element && element.isInteger(1);
  return isBool ? combine<tn::OrOp>(c, "self", "other") : combine<tn::AddOp>(c, "self", "other");
}
void sub(Call &c) { combine<tn::SubOp>(c, "self", "other"); }
void rsub(Call &c) { combine<tn::SubOp>(c, "other", "self"); }
void mul(Call &c) {
  Type element = c.productElement({"self", "other"});
  mlir::Value self = c.operand("self", element), other = c.operand("other", element);
  c.setOutput(element && element.isInteger(1) ? c.make<tn::AndOp>(self, other)
                                              : c.toResult(c.mul(self, other)));
}

/// Quotients that round down: one less where something remains and its sign is not the divisor's.
mlir::Value floorDivide(Call &c, mlir::Value a, mlir::Value b) {
  if (!a || !b) {
    return mlir::Value();
  }
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(a));
  a = c.widened(a), b = c.widened(b);
  mlir::Value zero = c.scalarLike(0, b), remainder = c.make<tn::ModOp>(a, b, /*fmod=*/true);
  auto isNegative = [&](mlir::Value x) { return c.compare(x, tn::Predicate::lt, zero); };
  mlir::Value isUneven = c.compare(remainder, tn::Predicate::ne, zero);
  mlir::Value isBelow =
      c.make<tn::AndOp>(isUneven, c.make<tn::XorOp>(isNegative(remainder), isNegative(b)));
  mlir::Value one = c.scalarLike(1, b);
  auto lowered = [&](mlir::Value quotient) {
    return c.select(isBelow, c.sub(quotient, one), quotient);
  };
  mlir::Value quotient = c.div(a, b);
  if (!isFloat) {
    return lowered(quotient);
  }
  // What is left of a divides but for rounding, so that the next whole number is meant; 0 has the
  // quotient's sign, and nothing is divided by 0.
  mlir::Value near = lowered(c.div(c.sub(a, remainder), b));
  mlir::Value whole = c.unary<tn::FloorOp>(near);
  mlir::Value isShort = c.compare(c.sub(near, whole), tn::Predicate::gt, c.scalarLike(0.5, b));
  whole = c.select(isShort, c.add(whole, one), whole);
  whole = c.select(c.compare(near, tn::Predicate::eq, zero), c.mul(quotient, zero), whole);
  whole = c.select(c.compare(b, tn::Predicate::eq, zero), quotient, whole);
  return c.toResult(whole);
}

void div(Call &c) {
  Type element = c.productElement({"other"});
  std::string mode = c.text("rounding_mode", "");
  mlir::Value self = c.operand("self", element), other = c.operand("other", element);
  if (mode == "floor") {
    return c.setOutput(floorDivide(c, self, other));
  }
  mlir::Value quotient = c.div(self, other);
  c.setOutput(c.toResult(mode == "trunc" ? frontend::truncated(c, quotient) : quotient));
}
void floorDivide(Call &c) {
  Type element = c.productElement({"other"});
  c.setOutput(floorDivide(c, c.operand("self", element), c.operand("other", element)));
}

template <bool isFmod> void remainder(Call &c) {
  Type element = c.resultElement();
  c.setOutput(c.make<tn::ModOp>(c.operand("self", element), c.operand("other", element), isFmod));
}

void power(Call &c) {
  Type element = c.resultElement();
  mlir::Value self = c.operand("self", element);
  const Argument *exponent = c.argument("exponent");
  bool isNumber = exponent && (exponent->kind == Argument::Kind::Int ||
                               exponent->kind == Argument::Kind::Float);
  if (isNumber && c.real("exponent", 0) == 2) {
    return c.setOutput(c.mul(self, self));
  }
  if (isNumber && c.real("exponent", 0) == 0.5) {
    return c.setOutput(c.unary<tn::SqrtOp>(self));
  }
  c.setOutput(c.make<tn::PowOp>(self, c.operand("exponent", element)));
}

template <tn::Predicate predicate> void compare(Call &c) {
  Type element = c.promoted({"self", "other"});
  c.setOutput(c.compare(c.operand("self", element), predicate, c.operand("other", element)));
}

/// max and min of two tensors, or over all elements (`reduceAll`).
template <typename Op> void extremum(Call &c) {
  Type element = c.promoted({"self", "other"});
  c.setOutput(c.make<Op>(c.operand("self", element), c.operand("other", element)));
}

/// The other operand where one is NaN.
template <typename Op> void extremumIgnoringNan(Call &c) {
  Type element = c.promoted({"self", "other"});
  mlir::Value a = c.operand("self", element), b = c.operand("other", element);
  mlir::Value y = c.make<Op>(a, b);
  if (y && isa<FloatType>(element)) {
    auto isNan = [&](mlir::Value x) {
      return c.makeTyped<tn::IsNanOp>(tn::withElement(x.getType(), c.builder().getI1Type()), x);
    };
    y = c.select(isNan(a), b, c.select(isNan(b), a, y));
  }
  c.setOutput(y);
}

void clamp(Call &c) {
  Type element = c.resultElement();
  mlir::Value x = c.toResult(c.value("self"));
  if (c.has("min")) {
    x = c.max(x, c.operand("min", element));
  }
  if (c.has("max")) {
    x = c.min(x, c.operand("max", element));
  }
  c.setOutput(x);
}

/// Logic on bools made by comparing with zero.
mlir::Value truthOf(Call &c, StringRef name) {
  mlir::Value x = c.value(name);
  return x ? c.cast(x, c.builder().getI1Type()) : x;
}
template <typename Op> void logical(Call &c) {
  c.setOutput(c.make<Op>(truthOf(c, "self"), truthOf(c, "other")));
}
void logicalNot(Call &c) { c.setOutput(c.unary<tn::NotOp>(truthOf(c, "self"))); }
void bitwiseNot(Call &c) { c.setOutput(c.unary<tn::NotOp>(c.value("self"))); }
template <typename Op> void bitwise(Call &c) {
  Type element = c.promoted({"self", "other"});
  c.setOutput(c.make<Op>(c.operand("self", element), c.operand("other", element)));
}

/// Where the condition holds: a list of coordinates for each dim.
void listPositions(Call &c) {
  mlir::Value x = c.value("condition");
  if (!x || tn::getDims(x.getType()).empty()) {
    return c.gap("the positions in a scalar are not supported", "give it a dim");
  }
  SmallVector<mlir::Value> columns =
      frontend::coordinates(c, frontend::truePositions(c, x), tn::getDims(x.getType()));
  for (auto [i, column] : llvm::enumerate(columns)) {
    c.setOutput(static_cast<unsigned>(i), column);
  }
}

void where(Call &c) {
  if (!c.has("self")) {
    return listPositions(c);
  }
  Type element = c.resultElement();
  c.setOutput(c.select(c.cast(c.value("condition"), c.builder().getI1Type()),
                       c.operand("self", element), c.operand("other", element)));
}
void maskedFill(Call &c) {
  Type element = c.resultElement();
  c.setOutput(c.select(c.value("mask"), c.operand("value", element), c.value("self")));
}

template <typename Op> void test(Call &c) {
  mlir::Value x = c.value("self");
  if (x && !isa<FloatType>(getElementTypeOrSelf(x))) {
    x = c.cast(x, c.builder().getF32Type());
  }
  Type truth = x ? Type(tn::withElement(x.getType(), c.builder().getI1Type())) : Type();
  if constexpr (std::is_same_v<Op, tn::IsInfOp>) {
    c.setOutput(c.makeTyped<Op>(truth, x, true, true));
  } else {
    c.setOutput(c.makeTyped<Op>(truth, x));
  }
}
void isFinite(Call &c) {
  mlir::Value x = c.value("self");
  // Of an infinity and of NaN the difference to itself is NaN.
  mlir::Value zero = c.sub(x, x);
  c.setOutput(c.compare(zero, tn::Predicate::eq, zero));
}

/// Of NaN it is 0, unlike ONNX's.
void sign(Call &c) {
  mlir::Value x = c.value("self"), isNumber = c.compare(x, tn::Predicate::eq, x);
  c.setOutput(c.select(isNumber, c.unary<tn::SignOp>(x), c.scalarLike(0, x)));
}

void square(Call &c) {
  mlir::Value x = c.value("self");
  c.setOutput(c.mul(x, x));
}
void log2(Call &c) {
  c.setOutput(c.mul(c.unary<tn::LogOp>(c.toResult(c.value("self"))),
                    c.scalar(1.4426950408889634, c.resultElement())));
}
void log10(Call &c) {
  c.setOutput(c.mul(c.unary<tn::LogOp>(c.toResult(c.value("self"))),
                    c.scalar(0.4342944819032518, c.resultElement())));
}
void exp2(Call &c) {
  mlir::Value x = c.toResult(c.value("self"));
  c.setOutput(c.make<tn::PowOp>(c.scalarLike(2, x), x));
}

template <bool isQuotient> void addProduct(Call &c) {
  Type element = expressionElement(c);
  mlir::Value a = c.operand("tensor1", element), b = c.operand("tensor2", element);
  mlir::Value y = isQuotient ? c.div(a, b) : c.mul(a, b);
  y = c.has("value") ? c.mul(y, c.operand("value", element)) : y;
  c.setOutput(c.toResult(c.add(c.operand("self", element), y)));
}
void lerp(Call &c) {
  Type element = expressionElement(c);
  mlir::Value start = c.operand("self", element), way = c.sub(c.operand("end", element), start);
  c.setOutput(c.toResult(c.add(start, c.mul(c.operand("weight", element), way))));
}

void castTo(Call &c) {
  c.ignore({"device", "layout", "non_blocking", "copy", "memory_format", "pin_memory", "other"});
  StringRef operand = c.has("a") ? "a" : "self"; // as prims call it
  mlir::Value x = c.value(operand);
  Type element = c.resultElement();
  if (!x || !element) {
    return;
  }
  bool mayShare = c.target.name != "aten._to_copy" && !c.truth("copy", false);
  if (getElementTypeOrSelf(x) == element && mayShare) {
    c.elementNamed("dtype", element);
    return c.forward(operand);
  }
  c.elementNamed("dtype", element);
  bool isNarrow = element.isInteger(8) || element.isInteger(16);
  if (isa<FloatType>(getElementTypeOrSelf(x)) && isNarrow) {
    // PyTorch converts by way of a wider integer, so that -1 becomes 255, and 200 becomes -56.
    x = c.cast(x, c.builder().getI32Type());
  }
  c.setOutput(c.cast(x, element));
}

constexpr OpRow kElementwiseOpRows[] = {
    {"aten.abs", unary<tn::AbsOp>},
    {"aten.neg", unary<tn::NegOp>},
    {"aten.exp", unary<tn::ExpOp>},
    {"aten.log", unary<tn::LogOp>},
    {"aten.sqrt", unary<tn::SqrtOp>},
    {"aten.rsqrt", unary<tn::RsqrtOp>},
    {"aten.reciprocal", unary<tn::ReciprocalOp>},
    {"aten.sin", unary<tn::SinOp>},
    {"aten.cos", unary<tn::CosOp>},
    {"aten.tan", unary<tn::TanOp>},
    {"aten.asin", unary<tn::AsinOp>},
    {"aten.acos", unary<tn::AcosOp>},
    {"aten.atan", unary<tn::AtanOp>},
    {"aten.sinh", unary<tn::SinhOp>},
    {"aten.cosh", unary<tn::CoshOp>},
    {"aten.tanh", unary<tn::TanhOp>},
    {"aten.asinh", unary<tn::AsinhOp>},
    {"aten.acosh", unary<tn::AcoshOp>},
    {"aten.atanh", unary<tn::AtanhOp>},
    {"aten.absolute", unary<tn::AbsOp>},
    {"aten.negative", unary<tn::NegOp>},
    {"aten.arcsin", unary<tn::AsinOp>},
    {"aten.arccos", unary<tn::AcosOp>},
    {"aten.arctan", unary<tn::AtanOp>},
    {"aten.arcsinh", unary<tn::AsinhOp>},
    {"aten.arccosh", unary<tn::AcoshOp>},
    {"aten.arctanh", unary<tn::AtanhOp>},
    {"aten.erf", unary<tn::ErfOp>},
    {"aten.special_erf", unary<tn::ErfOp>},
    {"aten.sign", sign},
    {"aten.sgn", sign},
    {"aten.ceil", rounding<tn::CeilOp>},
    {"aten.floor", rounding<tn::FloorOp>},
    {"aten.round", rounding<tn::RoundOp>},
    {"aten.log2", log2},
    {"aten.log10", log10},
    {"aten.exp2", exp2},
    {"aten.square", square},
    {"aten.add", add},
    {"aten.sub", sub},
    {"aten.subtract", sub},
    {"aten.rsub", rsub},
    {"aten.mul", mul},
    {"aten.multiply", mul},
    {"aten.div", div},
    {"aten.divide", div},
    {"aten.true_divide", div},
    {"aten.floor_divide", floorDivide},
    {"aten.remainder", remainder<false>},
    {"aten.fmod", remainder<true>},
    {"aten.pow", power},
    {"aten.eq", compare<tn::Predicate::eq>},
    {"aten.ne", compare<tn::Predicate::ne>},
    {"aten.lt", compare<tn::Predicate::lt>},
    {"aten.le", compare<tn::Predicate::le>},
    {"aten.gt", compare<tn::Predicate::gt>},
    {"aten.ge", compare<tn::Predicate::ge>},
    {"aten.greater", compare<tn::Predicate::gt>},
    {"aten.greater_equal", compare<tn::Predicate::ge>},
    {"aten.less", compare<tn::Predicate::lt>},
    {"aten.less_equal", compare<tn::Predicate::le>},
    {"aten.not_equal", compare<tn::Predicate::ne>},
    {"aten.maximum", extremum<tn::MaxOp>},
    {"aten.minimum", extremum<tn::MinOp>},
    {"aten.fmax", extremumIgnoringNan<tn::MaxOp>},
    {"aten.fmin", extremumIgnoringNan<tn::MinOp>},
    {"aten.clamp", clamp},
    {"aten.clip", clamp},
    {"aten.clamp_min", clamp},
    {"aten.clamp_max", clamp},
    {"aten.logical_and", logical<tn::AndOp>},
    {"aten.logical_or", logical<tn::OrOp>},
    {"aten.logical_xor", logical<tn::XorOp>},
    {"aten.logical_not", logicalNot},
    {"aten.bitwise_not", bitwiseNot},
    {"aten.bitwise_and", bitwise<tn::AndOp>},
    {"aten.bitwise_or", bitwise<tn::OrOp>},
    {"aten.bitwise_xor", bitwise<tn::XorOp>},
    {"aten.__and__", bitwise<tn::AndOp>},
    {"aten.__or__", bitwise<tn::OrOp>},
    {"aten.__xor__", bitwise<tn::XorOp>},
    {"aten.where", where},
    {"aten.masked_fill", maskedFill},
    {"aten.isnan", test<tn::IsNanOp>},
    {"aten.isinf", test<tn::IsInfOp>},
    {"aten.isfinite", isFinite},
    {"aten.addcmul", addProduct<false>},
    {"aten.addcdiv", addProduct<true>},
    {"aten.lerp", lerp},
    {"aten.to", castTo},
    {"aten._to_copy", castTo},
    {"aten.type_as", castTo},
    {"aten.float", castTo},
    {"aten.half", castTo},
    {"aten.double", castTo},
    {"aten.int", castTo},
    {"aten.long", castTo},
    {"aten.bool", castTo},
    {"prims.convert_element_type", castTo},
};

} // namespace

ArrayRef<OpRow> elementwiseRows() { return kElementwiseOpRows; }

} // namespace tenon::pt2
