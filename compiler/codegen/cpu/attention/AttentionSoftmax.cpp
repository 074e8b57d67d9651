// Scores of a block masked, and what is left of a row behind the last one. Relies on scores being
// scaled, as the queries are.
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

/// The exponentials of a row's scores against the block's keys, zeros for keys that it does not
/// see.
void AttentionLowering::softmaxRow(const IndexMath &math, const QueryBlock &block,
                                   const KeyBlock &part, Value row) {
  OpBuilder &builder = math.builder;
  Location location = math.location;
  Value seen = part.count, hidden;
  if (causal) {
    Value query = placeOf(math, block, row).query;
    Value all = math.add(math.add(query, math.constant(1)), start);
    hidden = window > 0 ? math.sub(firstOf(math, query), part.first) : Value();
    seen = math.min(part.count, math.max(math.constant(0), math.sub(all, part.first)));
  }
  Value before = isSingle ? number(math, kLowestScore)
                          : memref::LoadOp::create(builder, location, largest, row).getResult();
  Value most = larger(math, largestScore(math, block, part, row, seen, hidden), before);
  Value end = wholeLanes(math, seen);
  Value sum = sumOfExponentials(math, row, math.constant(0), end, most);
  if (isSingle) {
    memref::StoreOp::create(builder, location, sum, total, row);
  } else {
    addToRow(math, row, before, most, sum);
  }
  if (causal) {
    clearExponentials(math, row, end, part.count);
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
