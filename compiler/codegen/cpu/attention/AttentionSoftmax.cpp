// Softmax with a running maximum: each block of keys raises a row's largest score, by which what
// was summed up before is scaled down. Relies on scores being scaled, as the queries are.
#include "compiler/codegen/cpu/attention/Attention.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Where the running maximum starts: finite, so that scores of minus infinity give exponentials of
/// 0 and no NaN.
constexpr double kLowest = std::numeric_limits<float>::lowest();
/// A mask below this, added to scores of up to 2^100, leaves nothing of them beside a score above
/// the second number.
constexpr double kHidden = -3e38, kVisible = -1e37;

/// A vector of floats as one of f32.
Value widenVector(OpBuilder &builder, Location location, Value x) {
  Type wide = builder.getF32Type();
  if (VectorType type = dyn_cast<VectorType>(x.getType())) {
    wide = type.clone(wide);
  }
  return x.getType() == wide ? x : arith::ExtFOp::create(builder, location, wide, x).getResult();
}

} // namespace

Value AttentionLowering::broadcast(const IndexMath &math, Value scalar) const {
  return vector::BroadcastOp::create(math.builder, math.location, vector, scalar);
}

Value AttentionLowering::number(const IndexMath &math, double value) const {
  return arith::ConstantOp::create(math.builder, math.location,
                                   math.builder.getF32FloatAttr(float(value)));
}

Value AttentionLowering::lanesOf(const IndexMath &math, Value active) const {
  VectorType flags = VectorType::get(vector.getShape(), math.builder.getI1Type());
  return vector::CreateMaskOp::create(math.builder, math.location, flags, active);
}

/// `b` where `a` is no number.
Value AttentionLowering::larger(const IndexMath &math, Value a, Value b) const {
  Value isLarger =
      arith::CmpFOp::create(math.builder, math.location, arith::CmpFPredicate::OGT, a, b);
  return arith::SelectOp::create(math.builder, math.location, isLarger, a, b);
}

Value AttentionLowering::reduceLargest(const IndexMath &math, Value x) const {
  return combineLanes(math.builder, math.location, x,
                      [&](Value a, Value b) { return larger(math, a, b); });
}

/// Nothing seen yet.
void AttentionLowering::startRow(const IndexMath &math, Value row) {
  memref::StoreOp::create(math.builder, math.location, number(math, kLowest), largest, row);
  memref::StoreOp::create(math.builder, math.location, number(math, 0), total, row);
  Value end = math.builder.createOrFold<memref::DimOp>(math.location, sums, 1);
  Value nothing = broadcast(math, number(math, 0));
  scf::ForOp::create(math.builder, math.location, math.constant(0), end, lanes(math), ValueRange(),
                     [&](OpBuilder &b, Location at, Value column, ValueRange) {
                       vector::StoreOp::create(b, at, nothing, sums, ValueRange{row, column});
                       scf::YieldOp::create(b, at);
                     });
}

/// 1 / sum of a row's exponentials in the place of the sum. Where it saw no key, 0, or infinity,
/// which makes NaN of its sums of 0.
void AttentionLowering::invertTotal(const IndexMath &math, Value row) {
  Value sum = memref::LoadOp::create(math.builder, math.location, total, row);
  Value inverse = arith::DivFOp::create(math.builder, math.location, number(math, 1), sum);
  std::optional<int64_t> length = tn::constantDim(k.length());
  if (!maskedRowsAreNan || !length || *length == 0) {
    Value zero = number(math, 0);
    Value isNone =
        arith::CmpFOp::create(math.builder, math.location, arith::CmpFPredicate::OEQ, sum, zero);
    if (maskedRowsAreNan) {
      isNone = arith::AndIOp::create(math.builder, math.location, isNone,
                                     math.isLess(keys, math.constant(1)));
    }
    inverse = arith::SelectOp::create(math.builder, math.location, isNone, zero, inverse);
  }
  memref::StoreOp::create(math.builder, math.location, inverse, total, row);
}

bool AttentionLowering::isMaskedByKey() const {
  return !maskDims.empty() && tn::constantDim(maskDims.back()) != 1;
}

/// The mask's elements for a row and a vector of keys (`active` of them, or all).
Value AttentionLowering::maskAt(const IndexMath &math, const QueryBlock &block,
                                const QueryPlace &place, Value key, Value active) const {
  SmallVector<Value> position = {block.batch, place.head, place.query, key};
  SmallVector<Value> indices;
  for (auto [i, dim] : llvm::enumerate(maskDims)) {
    bool repeats = tn::constantDim(dim) == 1;
    indices.push_back(repeats ? math.constant(0) : position[4 - maskDims.size() + i]);
  }
  if (!isMaskedByKey()) {
    Value single = memref::LoadOp::create(math.builder, math.location, mask, indices);
    return broadcast(math, widenVector(math.builder, math.location, single));
  }
  VectorType stored =
      VectorType::get(vector.getShape(), cast<MemRefType>(mask.getType()).getElementType());
  Value elements;
  if (active) {
    Value none =
        arith::ConstantOp::create(math.builder, math.location, math.builder.getZeroAttr(stored));
    elements = vector::MaskedLoadOp::create(math.builder, math.location, stored, mask, indices,
                                            lanesOf(math, active), none);
  } else {
    elements = vector::LoadOp::create(math.builder, math.location, stored, mask, indices);
  }
  return widenVector(math.builder, math.location, elements);
}

/// The largest of `count` elements by vectors, the last of which may be short (`element` is then
/// told how many are active).
Value AttentionLowering::largestOf(
    const IndexMath &math, Value count,
    llvm::function_ref<Value(const IndexMath &, Value, Value)> element) const {
  Location location = math.location;
  Value rest = math.rem(count, lanes(math)), whole = math.sub(count, rest);
  Value start = broadcast(math, number(math, -kInfinity));
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

/// The largest of a row's scores, masked in their place; minus infinity behind the last of them,
/// and before the first one that a window leaves, `hidden` of the block's (null: none).
Value AttentionLowering::largestScore(const IndexMath &math, const QueryBlock &block,
                                      const KeyBlock &part, Value row, Value seen, Value hidden) {
  QueryPlace place = placeOf(math, block, row);
  auto element = [&](const IndexMath &inner, Value column, Value active) -> Value {
    OpBuilder &b = inner.builder;
    Value x = vector::LoadOp::create(b, inner.location, vector, scores, ValueRange{row, column});
    if (scoreFactor != 1) {
      x = arith::MulFOp::create(b, inner.location, x, broadcast(inner, number(inner, scoreFactor)));
    }
    if (mask) {
      Value key = inner.add(part.first, column);
      x = arith::AddFOp::create(b, inner.location, x, maskAt(inner, block, place, key, active));
    }
    if (active) {
      Value none = broadcast(inner, number(inner, -kInfinity));
      x = arith::SelectOp::create(b, inner.location, lanesOf(inner, active), x, none);
    }
    if (hidden) {
      // None of the lanes where what is left of them is negative.
      Value none = broadcast(inner, number(inner, -kInfinity));
      x = arith::SelectOp::create(b, inner.location, lanesOf(inner, inner.sub(hidden, column)),
                                  none, x);
    }
    if (mask || active || hidden || scoreFactor != 1) {
      vector::StoreOp::create(b, inner.location, x, scores, ValueRange{row, column});
    }
    return x;
  };
  return reduceLargest(math, largestOf(math, seen, element));
}

void AttentionLowering::storeExponentials(const IndexMath &math, Value x, Value row,
                                          Value column) const {
  storeLanes(math, x, exponentials, ValueRange{row, column}, /*active=*/Value());
}

/// exp(score - shift), for the product with the values.
Value AttentionLowering::sumOfExponentials(const IndexMath &math, Value row, Value end,
                                           Value shift) {
  Location location = math.location;
  Value all = broadcast(math, shift), zero = broadcast(math, number(math, 0));
  Value sum = scf::ForOp::create(math.builder, location, math.constant(0), end, lanes(math),
                                 ValueRange{zero},
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
void AttentionLowering::rescale(const IndexMath &math, Value row, Value factor) {
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
void AttentionLowering::addToRow(const IndexMath &math, Value row, Value before, Value most,
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

/// The exponentials of a row's scores against the block's keys, zeros for keys that it does not
/// see.
void AttentionLowering::softmaxRow(const IndexMath &math, const QueryBlock &block,
                                   const KeyBlock &part, Value row) {
  OpBuilder &builder = math.builder;
  Location location = math.location;
  Value seen = part.count, width = lanes(math), hidden;
  if (causal) {
    Value query = placeOf(math, block, row).query;
    Value all = math.add(math.add(query, math.constant(1)), start);
    hidden = window > 0 ? math.sub(firstOf(math, query), part.first) : Value();
    seen = math.min(part.count, math.max(math.constant(0), math.sub(all, part.first)));
  }
  Value before = isSingle ? number(math, kLowest)
                          : memref::LoadOp::create(builder, location, largest, row).getResult();
  Value most = larger(math, largestScore(math, block, part, row, seen, hidden), before);
  Value end =
      math.mul(math.div(math.add(seen, math.constant(vector.getDimSize(0) - 1)), width), width);
  Value sum = sumOfExponentials(math, row, end, most);
  if (isSingle) {
    memref::StoreOp::create(builder, location, sum, total, row);
  } else {
    addToRow(math, row, before, most, sum);
  }
  if (causal) {
    Value nothing = broadcast(math, number(math, 0));
    scf::ForOp::create(builder, location, end, part.count, width, ValueRange(),
                       [&](OpBuilder &b, Location at, Value column, ValueRange) {
                         storeExponentials(IndexMath(b, at), nothing, row, column);
                         scf::YieldOp::create(b, at);
                       });
  }
}

/// The largest element of the mask for the block's rows and keys.
Value AttentionLowering::largestOfMask(const IndexMath &math, const QueryBlock &block,
                                       const KeyBlock &part) const {
  // One row says it for all where the mask has neither heads nor queries.
  bool isSame = llvm::all_of(ArrayRef(maskDims).drop_back(1).take_back(2),
                             [](AffineExpr dim) { return tn::constantDim(dim) == 1; });
  Value rows = isSame ? math.constant(1) : block.count;
  Value start = number(math, -kInfinity);
  return scf::ForOp::create(
             math.builder, math.location, math.constant(0), rows, math.constant(1),
             ValueRange{start},
             [&](OpBuilder &b, Location at, Value row, ValueRange state) {
               IndexMath inner(b, at);
               QueryPlace place = placeOf(inner, block, row);
               auto element = [&](const IndexMath &in, Value column, Value active) -> Value {
                 Value x = maskAt(in, block, place, in.add(part.first, column), active);
                 // What is no number hides nothing.
                 Value isNumber = arith::CmpFOp::create(in.builder, in.location,
                                                        arith::CmpFPredicate::ORD, x, x);
                 Value most = broadcast(in, number(in, kInfinity));
                 return arith::SelectOp::create(in.builder, in.location, isNumber, x, most);
               };
               Value most = reduceLargest(inner, largestOf(inner, part.count, element));
               scf::YieldOp::create(b, at, larger(inner, most, state[0]));
             })
      .getResult(0);
}

/// Whether the mask hides all of the block's keys from all of its rows: by minus infinity, or by a
/// number beside which nothing is left of them in rows that have seen others.
Value AttentionLowering::isHidden(const IndexMath &math, const QueryBlock &block,
                                  const KeyBlock &part) const {
  OpBuilder &builder = math.builder;
  Location location = math.location;
  auto compare = [&](arith::CmpFPredicate predicate, Value a, double b) -> Value {
    return arith::CmpFOp::create(builder, location, predicate, a, number(math, b));
  };
  Value most = largestOfMask(math, block, part);
  Value least =
      scf::ForOp::create(builder, location, math.constant(0), block.count, math.constant(1),
                         ValueRange{number(math, kInfinity)},
                         [&](OpBuilder &b, Location at, Value row, ValueRange state) {
                           Value x = memref::LoadOp::create(b, at, largest, row);
                           Value isLess =
                               arith::CmpFOp::create(b, at, arith::CmpFPredicate::OLT, x, state[0]);
                           Value next = arith::SelectOp::create(b, at, isLess, x, state[0]);
                           scf::YieldOp::create(b, at, next);
                         })
          .getResult(0);
  Value isSlight =
      arith::AndIOp::create(builder, location, compare(arith::CmpFPredicate::OLT, most, kHidden),
                            compare(arith::CmpFPredicate::OGT, least, kVisible));
  Value isNone = compare(arith::CmpFPredicate::OEQ, most, -kInfinity);
  return arith::OrIOp::create(builder, location, isNone, isSlight);
}

} // namespace tenon::codegen::cpu
