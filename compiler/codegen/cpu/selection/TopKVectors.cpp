// The few largest or smallest of each row: keys and places in vectors that stay sorted, into which
// one that stands before their last is shifted. A vector of the row is compared at once.
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/selection/TopKKeys.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Most elements that are kept in vectors: keys and places of 64 are eight registers of 512 bits.
constexpr int64_t kMaxInVectors = 64;

} // namespace

Value KeyedTopK::splat(const IndexMath &math, Type type, int64_t value) const {
  VectorType vector = VectorType::get(width, type);
  return arith::ConstantOp::create(
      math.builder, math.location,
      DenseElementsAttr::get(vector, math.builder.getIntegerAttr(type, value)));
}

/// Shifts in the key of a place behind all that do not stand after it. Of `sorted` only the first
/// `filled` count; all if that is null.
KeyedTopK::Sorted KeyedTopK::insert(const IndexMath &math, Sorted sorted, Value place,
                                    Value filled) const {
  OpBuilder &b = math.builder;
  Location location = math.location;
  Value key = memref::LoadOp::create(b, location, keys, place);
  Value added = vector::BroadcastOp::create(b, location, sorted.keys.getType(), key);
  Value number =
      vector::BroadcastOp::create(b, location, sorted.places.getType(), placeNumber(math, place));
  // The first lane is never shifted into: there what comes from before it stays.
  SmallVector<int64_t> order = {width};
  for (int64_t lane = 0; lane + 1 < width; ++lane) {
    order.push_back(lane);
  }
  Value ends = splat(math, b.getI32Type(), std::numeric_limits<int32_t>::max());
  Value shiftedKeys = vector::ShuffleOp::create(b, location, sorted.keys, ends, order);
  Value shiftedPlaces = vector::ShuffleOp::create(b, location, sorted.places, sorted.places, order);
  auto staysBefore = [&](Value vector, Value count) -> Value {
    Value stays = arith::CmpIOp::create(b, location, arith::CmpIPredicate::sge, vector, added);
    if (!count) {
      return stays;
    }
    VectorType flags = VectorType::get(width, b.getI1Type());
    Value counts = vector::CreateMaskOp::create(b, location, flags, count);
    return arith::AndIOp::create(b, location, stays, counts);
  };
  Value stays = staysBefore(sorted.keys, filled);
  Value follows = staysBefore(shiftedKeys, filled ? math.add(filled, math.constant(1)) : Value());
  auto choose = [&](Value old, Value fresh, Value shifted) -> Value {
    Value moved = arith::SelectOp::create(b, location, follows, fresh, shifted);
    return arith::SelectOp::create(b, location, stays, old, moved);
  };
  return {choose(sorted.keys, added, shiftedKeys), choose(sorted.places, number, shiftedPlaces)};
}

/// Inserts the places from `place` on whose bits are set.
KeyedTopK::Sorted KeyedTopK::insertSet(const IndexMath &math, Sorted sorted, Value set,
                                       Value place) const {
  Location location = math.location;
  Type bits = set.getType();
  SmallVector<Type> types = {bits, sorted.keys.getType(), sorted.places.getType()};
  scf::WhileOp loop = scf::WhileOp::create(
      math.builder, location, types, ValueRange{set, sorted.keys, sorted.places},
      [&](OpBuilder &b, Location, ValueRange state) {
        Value none = arith::ConstantOp::create(b, location, b.getIntegerAttr(bits, 0));
        Value isAny = arith::CmpIOp::create(b, location, arith::CmpIPredicate::ne, state[0], none);
        scf::ConditionOp::create(b, location, isAny, state);
      },
      [&](OpBuilder &b, Location, ValueRange state) {
        IndexMath in(b, location);
        Value one = arith::ConstantOp::create(b, location, b.getIntegerAttr(bits, 1));
        Value lane = math::CountTrailingZerosOp::create(b, location, state[0]);
        lane = arith::IndexCastUIOp::create(b, location, b.getIndexType(), lane);
        Sorted next = insert(in, {state[1], state[2]}, in.add(place, lane), Value());
        Value less = arith::SubIOp::create(b, location, state[0], one);
        Value rest = arith::AndIOp::create(b, location, state[0], less);
        scf::YieldOp::create(b, location, ValueRange{rest, next.keys, next.places});
      });
  return {loop.getResult(1), loop.getResult(2)};
}

/// Those of a vector of the row that stand before the last that is wanted. Such as no longer do
/// once others are in are shifted into lanes behind it, which nobody reads.
KeyedTopK::Sorted KeyedTopK::insertVector(const IndexMath &math, Sorted sorted, Value place) const {
  OpBuilder &b = math.builder;
  Location location = math.location;
  VectorType type = VectorType::get(lanes, b.getI32Type());
  Value vector = vector::LoadOp::create(b, location, type, keys, place);
  int64_t last = *getConstantIntValue(wanted) - 1;
  Value bound = vector::BroadcastOp::create(
      b, location, type, vector::ExtractOp::create(b, location, sorted.keys, last).getResult());
  Value before = arith::CmpIOp::create(b, location, arith::CmpIPredicate::sgt, vector, bound);
  Type bits = b.getIntegerType(lanes);
  Value packed = vector::BitCastOp::create(b, location, VectorType::get(1, bits), before);
  Value set = vector::ExtractOp::create(b, location, packed, 0);
  return insertSet(math, sorted, set, place);
}

void KeyedTopK::writeSorted(const IndexMath &math, Sorted sorted) const {
  for (int64_t rank = 0; rank < *getConstantIntValue(wanted); ++rank) {
    Value place = vector::ExtractOp::create(math.builder, math.location, sorted.places, rank);
    place =
        arith::IndexCastOp::create(math.builder, math.location, math.builder.getIndexType(), place);
    write(math, math.constant(rank), place);
  }
}

AffineExpr KeyedTopK::select() {
  width = std::max<int64_t>(8, llvm::PowerOf2Ceil(*getConstantIntValue(wanted)));
  forRows([&](const IndexMath &math, Value) {
    auto loop = [&](Value from, Value to, int64_t step, Sorted sorted,
                    llvm::function_ref<Sorted(const IndexMath &, Sorted, Value)> body) {
      scf::ForOp made = scf::ForOp::create(
          math.builder, math.location, from, to, math.constant(step),
          ValueRange{sorted.keys, sorted.places},
          [&](OpBuilder &b, Location location, Value i, ValueRange state) {
            Sorted next = body(IndexMath(b, location), {state[0], state[1]}, i);
            scf::YieldOp::create(b, location, ValueRange{next.keys, next.places});
          });
      return Sorted{made.getResult(0), made.getResult(1)};
    };
    Sorted sorted{splat(math, math.builder.getI32Type(), std::numeric_limits<int32_t>::min()),
                  splat(math, placeType, 0)};
    sorted = loop(math.constant(0), wanted, 1, sorted,
                  [&](const IndexMath &in, Sorted now, Value i) { return insert(in, now, i, i); });
    Value rest = math.rem(math.sub(length, wanted), math.constant(lanes));
    Value whole = math.sub(length, rest);
    sorted = loop(wanted, whole, lanes, sorted, [&](const IndexMath &in, Sorted now, Value i) {
      return insertVector(in, now, i);
    });
    sorted = loop(whole, length, 1, sorted, [&](const IndexMath &in, Sorted now, Value i) {
      return insert(in, now, i, Value());
    });
    writeSorted(math, sorted);
  });
  return outer * inner;
}

namespace {

FamilyMatch matchVectorTopK(Region &region) {
  tn::TopKOp op = keyedTopK(region.source);
  std::optional<int64_t> count =
      op ? tn::constantDim(tn::getDims(op.getValues().getType())[op.getAxis()]) : std::nullopt;
  return count && *count > 0 && *count <= kMaxInVectors
             ? FamilyMatch::take(op)
             : FamilyMatch::refuse("no selection of 1 to 64 elements of at most 32 bits");
}

FailureOr<AffineExpr> lowerVectorTopK(KernelBuilder &kernel, Region &region, const tn::TopKOp &op) {
  return KeyedTopK(kernel, op, region.level()).select();
}

} // namespace

constexpr KernelFamily kTopKVectors = {
    .name = "topk_vectors",
    .what = "the few largest of rows: vectors that stay sorted, into which larger keys are shifted",
    .strategies = {dispatch::kSingle},
    .needs = {"top_k"},
    .needsElements = true,
    .match = matchVectorTopK,
    .emit = emitKernel<lowerVectorTopK>,
    .order = noSums<Region>};

} // namespace tenon::codegen::cpu
