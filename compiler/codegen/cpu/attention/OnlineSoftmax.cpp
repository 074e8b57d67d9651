// Relies on scores being scaled, as the queries are.
#include "compiler/codegen/cpu/attention/OnlineSoftmax.h"

#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tenon::codegen::cpu {

OnlineSoftmax::OnlineSoftmax(KernelBuilder &kernel, int64_t lanes)
    : kernel(kernel), vector(VectorType::get(lanes, kernel.builder.getF32Type())) {}

void OnlineSoftmax::setScale(double whole, bool isRounded) {
  scale = isRounded && whole > 0 && std::isnormal(whole) ? std::exp2(std::round(std::log2(whole)))
                                                         : whole;
  scoreFactor = scale == whole ? 1 : whole / scale;
}

void OnlineSoftmax::scaleQueries(const IndexMath &math, Value from, Value to) const {
  AffineMap identity = math.builder.getMultiDimIdentityMap(2);
  SmallVector<utils::IteratorType> loops(2, utils::IteratorType::parallel);
  linalg::GenericOp::create(math.builder, math.location, ValueRange{from}, ValueRange{to},
                            ArrayRef<AffineMap>{identity, identity}, loops,
                            [&](OpBuilder &body, Location location, ValueRange args) {
                              Value wide = widen(body, location, args[0]);
                              Value factor = arith::ConstantOp::create(
                                  body, location, body.getF32FloatAttr(float(scale)));
                              Value scaled = arith::MulFOp::create(body, location, wide, factor);
                              scaled = narrow(body, location, scaled, args[1].getType());
                              linalg::YieldOp::create(body, location, scaled);
                            });
}

void OnlineSoftmax::writeSums(const IndexMath &math, Value row, Value count, Value columns,
                              Value to) const {
  Value from = math.view(sums, {row, math.constant(0)}, {count, columns});
  Value inverses = math.view(total, {row}, {count});
  AffineMap identity = math.builder.getMultiDimIdentityMap(2);
  AffineMap byRow = AffineMap::get(2, 0, math.builder.getAffineDimExpr(0));
  SmallVector<utils::IteratorType> loops(2, utils::IteratorType::parallel);
  linalg::GenericOp::create(math.builder, math.location, ValueRange{from, inverses}, ValueRange{to},
                            ArrayRef<AffineMap>{identity, byRow, identity}, loops,
                            [](OpBuilder &body, Location location, ValueRange args) {
                              Value scaled =
                                  arith::MulFOp::create(body, location, args[0], args[1]);
                              scaled = narrow(body, location, scaled, args[2].getType());
                              linalg::YieldOp::create(body, location, scaled);
                            });
}

void OnlineSoftmax::allocateRows(const IndexMath &math, int64_t rows, int64_t columns,
                                 AffineExpr width, Type element) {
  Value most = math.constant(rows);
  // One panel more, so that the rows do not all fall into the same cache sets.
  scores = allocate(kernel, {most, math.constant(columns + kPanel)});
  sums = allocate(kernel, {most, math.size(kernel, width.ceilDiv(kPanel) * kPanel)});
  largest = allocate(kernel, {most});
  total = allocate(kernel, {most});
  exponentials =
      element.isF32() ? scores : allocate(kernel, {most, math.constant(columns + kPanel)}, element);
}

void OnlineSoftmax::forEach(const IndexMath &math, Value count, Body body) const {
  cpu::forEach(math, math.constant(0), count, 1, body);
}

void OnlineSoftmax::when(const IndexMath &math, Value condition,
                         llvm::function_ref<void(const IndexMath &)> body) const {
  if (std::optional<int64_t> known = getConstantIntValue(condition)) {
    if (*known != 0) {
      body(math);
    }
    return;
  }
  scf::IfOp::create(math.builder, math.location, condition, [&](OpBuilder &then, Location at) {
    body(IndexMath(then, at));
    scf::YieldOp::create(then, at);
  });
}

Value OnlineSoftmax::broadcast(const IndexMath &math, Value scalar) const {
  return vector::BroadcastOp::create(math.builder, math.location, vector, scalar);
}

Value OnlineSoftmax::number(const IndexMath &math, double value) const {
  return arith::ConstantOp::create(math.builder, math.location,
                                   math.builder.getF32FloatAttr(float(value)));
}

Value OnlineSoftmax::lanesOf(const IndexMath &math, Value active) const {
  VectorType flags = VectorType::get(vector.getShape(), math.builder.getI1Type());
  return vector::CreateMaskOp::create(math.builder, math.location, flags, active);
}

/// `b` where `a` is no number.
Value OnlineSoftmax::larger(const IndexMath &math, Value a, Value b) const {
  Value isLarger =
      arith::CmpFOp::create(math.builder, math.location, arith::CmpFPredicate::OGT, a, b);
  return arith::SelectOp::create(math.builder, math.location, isLarger, a, b);
}

Value OnlineSoftmax::reduceLargest(const IndexMath &math, Value x) const {
  return combineLanes(math.builder, math.location, x,
                      [&](Value a, Value b) { return larger(math, a, b); });
}

/// Nothing seen yet.
void OnlineSoftmax::startRow(const IndexMath &math, Value row) {
  memref::StoreOp::create(math.builder, math.location, number(math, kLowestScore), largest, row);
  memref::StoreOp::create(math.builder, math.location, number(math, 0), total, row);
  Value end = math.builder.createOrFold<memref::DimOp>(math.location, sums, 1);
  Value nothing = broadcast(math, number(math, 0));
  scf::ForOp::create(math.builder, math.location, math.constant(0), end, lanes(math), ValueRange(),
                     [&](OpBuilder &b, Location at, Value column, ValueRange) {
                       vector::StoreOp::create(b, at, nothing, sums, ValueRange{row, column});
                       scf::YieldOp::create(b, at);
                     });
}

/// The largest of `count` elements by vectors, the last of which may be short (`element` is then
/// told how many are active).
Value OnlineSoftmax::largestOf(const IndexMath &math, Value count, Elements element) const {
  Location location = math.location;
  Value rest = math.rem(count, lanes(math)), whole = math.sub(count, rest);
  Value start = broadcast(math, number(math, -std::numeric_limits<double>::infinity()));
  Value most = scf::ForOp::create(
                   math.builder, location, math.constant(0), whole, lanes(math), ValueRange{start},
                   [&](OpBuilder &b, Location, Value column, ValueRange state) {
                     IndexMath inner(b, location);
                     Value next = larger(inner, element(inner, column, Value()), state[0]);
                     scf::YieldOp::create(b, location, next);
                   })
                   .getResult(0);
  return scf::IfOp::create(
             math.builder, location, math.isLess(math.constant(0), rest),
             [&](OpBuilder &b, Location) {
               IndexMath inner(b, location);
               Value x = arith::SelectOp::create(b, location, lanesOf(inner, rest),
                                                 element(inner, whole, rest), start);
               scf::YieldOp::create(b, location, larger(inner, x, most));
             },
             [&](OpBuilder &b, Location) { scf::YieldOp::create(b, location, most); })
      .getResult(0);
}

void OnlineSoftmax::storeExponentials(const IndexMath &math, Value x, Value row,
                                      Value column) const {
  storeLanes(math, x, exponentials, ValueRange{row, column}, /*active=*/Value());
}

/// exp(score - shift), for the product with the values.
Value OnlineSoftmax::sumOfExponentials(const IndexMath &math, Value row, Value first, Value end,
                                       Value shift) {
  Location location = math.location;
  Value all = broadcast(math, shift), zero = broadcast(math, number(math, 0));
  Value sum = scf::ForOp::create(math.builder, location, first, end, lanes(math), ValueRange{zero},
                                 [&](OpBuilder &b, Location, Value column, ValueRange state) {
                                   Value x = vector::LoadOp::create(b, location, vector, scores,
                                                                    ValueRange{row, column});
                                   x = arith::SubFOp::create(b, location, x, all);
                                   Value e = math::ExpOp::create(b, location, x);
                                   storeExponentials(IndexMath(b, location), e, row, column);
                                   Value next = arith::AddFOp::create(b, location, state[0], e);
                                   scf::YieldOp::create(b, location, next);
                                 })
                  .getResult(0);
  return combineLanes(math.builder, location, sum, [&](Value a, Value b) -> Value {
    return arith::AddFOp::create(math.builder, location, a, b);
  });
}

/// What a row added up so far, by a smaller unit.
void OnlineSoftmax::rescale(const IndexMath &math, Value row, Value factor) {
  Value end = math.builder.createOrFold<memref::DimOp>(math.location, sums, 1);
  scf::ForOp::create(math.builder, math.location, math.constant(0), end, lanes(math), ValueRange(),
                     [&](OpBuilder &b, Location at, Value column, ValueRange) {
                       Value x =
                           vector::LoadOp::create(b, at, vector, sums, ValueRange{row, column});
                       x = arith::MulFOp::create(b, at, x, factor);
                       vector::StoreOp::create(b, at, x, sums, ValueRange{row, column});
                       scf::YieldOp::create(b, at);
                     });
}

/// Brings a row to a new largest score, and adds the sum of a block's exponentials.
void OnlineSoftmax::addToRow(const IndexMath &math, Value row, Value before, Value most,
                             Value sum) {
  OpBuilder &builder = math.builder;
  Location location = math.location;
  memref::StoreOp::create(builder, location, most, largest, row);
  Value step = arith::SubFOp::create(builder, location, before, most);
  Value factor = math::ExpOp::create(builder, location, broadcast(math, step));
  Value single = vector::ExtractOp::create(builder, location, factor, 0);
  Value old = memref::LoadOp::create(builder, location, total, row);
  Value scaled = arith::MulFOp::create(builder, location, old, single);
  Value now = arith::AddFOp::create(builder, location, scaled, sum);
  memref::StoreOp::create(builder, location, now, total, row);
  Value isRaised =
      arith::CmpFOp::create(builder, location, arith::CmpFPredicate::UNE, before, most);
  when(math, isRaised, [&](const IndexMath &inner) { rescale(inner, row, factor); });
}

Value OnlineSoftmax::wholeLanes(const IndexMath &math, Value count) const {
  Value most = math.constant(vector.getDimSize(0) - 1), width = lanes(math);
  return math.mul(math.div(math.add(count, most), width), width);
}

void OnlineSoftmax::clearExponentials(const IndexMath &math, Value row, Value first,
                                      Value end) const {
  Value nothing = broadcast(math, number(math, 0));
  scf::ForOp::create(math.builder, math.location, first, end, lanes(math), ValueRange(),
                     [&](OpBuilder &b, Location at, Value column, ValueRange) {
                       storeExponentials(IndexMath(b, at), nothing, row, column);
                       scf::YieldOp::create(b, at);
                     });
}

} // namespace tenon::codegen::cpu
