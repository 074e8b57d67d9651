// Relies on indices and sizes being far below the limits of the index type, so that no sum or
// product overflows.
#include "compiler/codegen/cuda/base/Indexing.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {

int64_t Index::commonDivisor() const { return std::gcd(divisor, offset); }

IndicesKey keyOf(ArrayRef<Index> indices) {
  IndicesKey key;
  for (const Index &index : indices) {
    key.emplace_back(index.base.getAsOpaquePointer(), index.offset);
  }
  return key;
}

Value IndexMath::constant(int64_t value) {
  Key key(Op::Constant, nullptr, nullptr, value);
  if (const Value *found = known.find(key)) {
    return *found;
  }
  Value made = arith::ConstantIndexOp::create(builder, builder.getUnknownLoc(), value);
  known.insert(key, made);
  return made;
}

Index IndexMath::fromWord(Value word, int64_t divisor) {
  Value value =
      arith::IndexCastOp::create(builder, builder.getUnknownLoc(), builder.getIndexType(), word);
  return {value, 0, divisor, true};
}

Value IndexMath::make(Op op, Value a, Value b) {
  bool commutes = op == Op::Add || op == Op::Mul;
  const void *first = a.getAsOpaquePointer(), *second = b.getAsOpaquePointer();
  if (commutes && first > second) {
    std::swap(first, second);
  }
  Key key(op, first, second, 0);
  if (const Value *found = known.find(key)) {
    return *found;
  }
  Location location = builder.getUnknownLoc();
  AffineExpr x = builder.getAffineSymbolExpr(0), y = builder.getAffineSymbolExpr(1);
  auto apply = [&](AffineExpr expression) -> Value {
    std::optional<int64_t> constant = getConstantIntValue(b);
    if (constant) {
      expression = expression.replace(y, builder.getAffineConstantExpr(*constant));
    }
    AffineMap map = AffineMap::get(0, constant ? 1 : 2, expression);
    return affine::AffineApplyOp::create(builder, location, map,
                                         constant ? ValueRange{a} : ValueRange{a, b});
  };
  arith::IntegerOverflowFlags noWrap = arith::IntegerOverflowFlags::nsw;
  Value made;
  switch (op) {
  case Op::Add:
    made = arith::AddIOp::create(builder, location, a, b, noWrap);
    break;
  case Op::Mul:
    made = arith::MulIOp::create(builder, location, a, b, noWrap);
    break;
  case Op::DivUnsigned:
    made = arith::DivUIOp::create(builder, location, a, b);
    break;
  case Op::RemUnsigned:
    made = arith::RemUIOp::create(builder, location, a, b);
    break;
  case Op::FloorDiv:
    made = apply(x.floorDiv(y));
    break;
  default:
    made = apply(x % y);
  }
  known.insert(key, made);
  return made;
}

Value IndexMath::value(const Index &index) {
  if (!index.base) {
    return constant(index.offset);
  }
  return index.offset == 0 ? index.base : make(Op::Add, index.base, constant(index.offset));
}

Index IndexMath::add(const Index &a, const Index &b) {
  Index sum;
  sum.offset = a.offset + b.offset;
  sum.divisor = std::gcd(a.divisor, b.divisor);
  sum.isNonNegative = a.isNonNegative && b.isNonNegative;
  sum.base = !a.base ? b.base : !b.base ? a.base : make(Op::Add, a.base, b.base);
  return sum;
}

Index IndexMath::multiply(const Index &a, const Index &b) {
  if (!a.base) {
    if (!b.base) {
      return Index::constant(a.offset * b.offset);
    }
    return multiply(b, a);
  }
  if (!b.base) {
    int64_t factor = b.offset;
    if (factor == 0) {
      return Index::constant(0);
    }
    Value base = factor == 1 ? a.base : make(Op::Mul, a.base, constant(factor));
    return {base, a.offset * factor, a.divisor * std::abs(factor), a.isNonNegative && factor > 0};
  }
  bool isNonNegative = a.isNonNegative && a.offset >= 0 && b.isNonNegative && b.offset >= 0;
  return {make(Op::Mul, value(a), value(b)), 0,
          std::max<int64_t>(a.commonDivisor(), 1) * std::max<int64_t>(b.commonDivisor(), 1),
          isNonNegative};
}

Index IndexMath::floorDiv(const Index &a, const Index &b) {
  bool isNonNegative = a.isNonNegative && a.offset >= 0;
  if (!b.base) {
    int64_t divisor = b.offset;
    if (divisor == 1) {
      return a;
    }
    if (divisor == 0) { // of an empty tensor, which has no element to compute
      return Index::constant(0);
    }
    if (!a.base) {
      return Index::constant(llvm::divideFloorSigned(a.offset, divisor));
    }
    Op op = a.isNonNegative ? Op::DivUnsigned : Op::FloorDiv;
    if (a.divisor % divisor == 0) {
      return {make(op, a.base, constant(divisor)), llvm::divideFloorSigned(a.offset, divisor),
              a.divisor / divisor, a.isNonNegative};
    }
    // The rest of the base is a multiple of what both have in common, so a smaller offset does not
    // carry.
    int64_t common = std::gcd(a.divisor, divisor);
    if (a.offset >= 0 && a.offset < common) {
      return {make(op, a.base, constant(divisor)), 0, 1, a.isNonNegative};
    }
  }
  Op op = isNonNegative ? Op::DivUnsigned : Op::FloorDiv;
  return {make(op, value(a), value(b)), 0, 1, isNonNegative};
}

Index IndexMath::mod(const Index &a, const Index &b) {
  bool isNonNegative = a.isNonNegative && a.offset >= 0;
  if (!b.base) {
    int64_t divisor = b.offset;
    if (divisor == 1 || divisor == 0) { // 0: of an empty tensor, which has no element to compute
      return Index::constant(0);
    }
    if (!a.base || a.divisor % divisor == 0) {
      return Index::constant(llvm::mod(a.offset, divisor));
    }
    int64_t common = std::gcd(a.divisor, divisor);
    if (a.offset >= 0 && a.offset < common) {
      Op op = a.isNonNegative ? Op::RemUnsigned : Op::Mod;
      return {make(op, a.base, constant(divisor)), a.offset, common, true};
    }
  }
  Op op = isNonNegative ? Op::RemUnsigned : Op::Mod;
  return {make(op, value(a), value(b)), 0, 1, true};
}

Index IndexMath::evaluate(AffineExpr expression, ArrayRef<Index> dims, ArrayRef<Index> symbols) {
  if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(expression)) {
    return Index::constant(constant.getValue());
  }
  if (AffineDimExpr dim = dyn_cast<AffineDimExpr>(expression)) {
    return dims[dim.getPosition()];
  }
  if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(expression)) {
    return symbols[symbol.getPosition()];
  }
  AffineBinaryOpExpr binary = cast<AffineBinaryOpExpr>(expression);
  Index left = evaluate(binary.getLHS(), dims, symbols);
  Index right = evaluate(binary.getRHS(), dims, symbols);
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return add(left, right);
  case AffineExprKind::Mul:
    return multiply(left, right);
  case AffineExprKind::FloorDiv:
    return floorDiv(left, right);
  case AffineExprKind::CeilDiv:
    return floorDiv(add(add(left, right), Index::constant(-1)), right);
  default:
    return mod(left, right);
  }
}

Index IndexMath::linearize(ArrayRef<Index> indices, ArrayRef<Index> sizes) {
  Index linear = Index::constant(0), stride = Index::constant(1);
  for (size_t i = indices.size(); i-- > 0;) {
    linear = add(linear, multiply(indices[i], stride));
    stride = multiply(stride, sizes[i]);
  }
  return linear;
}

Indices IndexMath::delinearize(const Index &linear, ArrayRef<Index> sizes) {
  Indices result(sizes.size(), Index::constant(0));
  Index rest = linear;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i].isConstant() && sizes[i].offset == 1) {
      continue;
    }
    bool isFirst = llvm::all_of(sizes.take_front(i), [](const Index &size) {
      return size.isConstant() && size.offset == 1;
    });
    result[i] = isFirst ? rest : mod(rest, sizes[i]);
    rest = isFirst ? Index::constant(0) : floorDiv(rest, sizes[i]);
  }
  return result;
}

} // namespace tenon::codegen::cuda
