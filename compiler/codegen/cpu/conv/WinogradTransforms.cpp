// Rows of points +a and -a share their even and their odd part, so a line of six takes twelve
// operations. With M(x) the product of (x - p) over all points p, the row of p holds the
// coefficients of M(x) / (x - p), that of infinity those of M(x).
#include "compiler/codegen/cpu/conv/WinogradTransforms.h"

#include "compiler/graph/Winograd.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

class VectorMath {
public:
  VectorMath(OpBuilder &builder, Location location, Type type)
      : builder(builder), location(location), vector(cast<VectorType>(type)) {}

  Value add(Value a, Value b) const { return arith::AddFOp::create(builder, location, a, b); }
  Value sub(Value a, Value b) const { return arith::SubFOp::create(builder, location, a, b); }
  Value mul(Value a, double factor) const {
    return factor == 1 ? a : arith::MulFOp::create(builder, location, a, splat(factor));
  }
  /// a * factor + b
  Value fma(Value a, double factor, Value b) const {
    return factor == 1    ? add(b, a)
           : factor == -1 ? sub(b, a)
                          : vector::FMAOp::create(builder, location, a, splat(factor), b);
  }

private:
  Value splat(double value) const {
    Attribute element = builder.getF32FloatAttr(static_cast<float>(value));
    return arith::ConstantOp::create(builder, location, DenseElementsAttr::get(vector, element));
  }

  OpBuilder &builder;
  Location location;
  VectorType vector;
};

} // namespace

Vectors transformInputs(OpBuilder &builder, Location location, const Vectors &x) {
  int64_t m = static_cast<int64_t>(x.size()) - 2;
  VectorMath math(builder, location, x.front().getType());
  auto [a, b] = winograd::pointsOf(m);
  double inner = a * a, outer = b * b;
  if (m == 2) {
    return {math.fma(x[0], -inner, x[2]), math.fma(x[1], a, x[2]), math.fma(x[1], -a, x[2]),
            math.fma(x[1], -inner, x[3])};
  }
  Vectors rows = {math.fma(x[0], inner * outer, math.fma(x[2], -inner - outer, x[4]))};
  for (auto [point, other] : {std::pair(a, outer), std::pair(b, inner)}) {
    Value even = math.fma(x[2], -other, x[4]), odd = math.fma(x[1], -other, x[3]);
    rows.append({math.fma(odd, point, even), math.fma(odd, -point, even)});
  }
  rows.push_back(math.fma(x[1], inner * outer, math.fma(x[3], -inner - outer, x[5])));
  return rows;
}

/// Output i is the sum over points p of p^i times their sum; infinity has the last alone.
Vectors transformSums(OpBuilder &builder, Location location, const Vectors &sums) {
  int64_t m = static_cast<int64_t>(sums.size()) - 2;
  VectorMath math(builder, location, sums.front().getType());
  auto [a, b] = winograd::pointsOf(m);
  Value even = math.add(sums[1], sums[2]), odd = math.sub(sums[1], sums[2]);
  if (m == 2) {
    return {math.add(sums[0], even), math.fma(odd, a, sums[3])};
  }
  Value outerEven = math.add(sums[3], sums[4]), outerOdd = math.sub(sums[3], sums[4]);
  return {math.add(sums[0], math.add(even, outerEven)), math.fma(odd, a, math.mul(outerOdd, b)),
          math.fma(even, a * a, math.mul(outerEven, b * b)),
          math.fma(odd, a * a * a, math.fma(outerOdd, b * b * b, sums[5]))};
}

} // namespace tenon::codegen::cpu
