// Much of each row in order: a radix sort of keys and places, from the lowest digit on. Relies on
// rows of fewer than 2^31 elements.
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/selection/TopKKeys.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <array>
#include <limits>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// A row is sorted if at least one of so many elements is asked for.
constexpr int64_t kSortedShare = 16;
constexpr int64_t kDigitBits = 8, kDigits = 32 / kDigitBits, kBuckets = 1 << kDigitBits;

} // namespace

/// Digits of the key as an unsigned number that is larger the later it stands.
Value KeyedTopK::digitOf(const IndexMath &math, Value key, int64_t digit) const {
  OpBuilder &b = math.builder;
  Value turned = arith::XOrIOp::create(b, math.location, key,
                                       number(math, std::numeric_limits<int32_t>::max()));
  Value shifted =
      arith::ShRUIOp::create(b, math.location, turned, number(math, digit * kDigitBits));
  Value masked = arith::AndIOp::create(b, math.location, shifted, number(math, kBuckets - 1));
  return arith::IndexCastUIOp::create(b, math.location, b.getIndexType(), masked);
}

/// How often each digit comes at each position, in one pass, and where its bucket begins.
void KeyedTopK::countDigits(const IndexMath &math) const {
  Value zero = math.constant(0), one = math.constant(1);
  clear(math, counts);
  forEach(math, zero, length, 1, [&](const IndexMath &in, Value i) {
    Value key = memref::LoadOp::create(in.builder, in.location, keys, i);
    for (int64_t digit = 0; digit < kDigits; ++digit) {
      Value at = in.add(digitOf(in, key, digit), in.constant(digit * kBuckets));
      Value count = memref::LoadOp::create(in.builder, in.location, counts, at);
      memref::StoreOp::create(in.builder, in.location,
                              arith::AddIOp::create(in.builder, in.location, count, number(in, 1)),
                              counts, at);
    }
  });
  for (int64_t digit = 0; digit < kDigits; ++digit) {
    scf::ForOp::create(math.builder, math.location, math.constant(digit * kBuckets),
                       math.constant((digit + 1) * kBuckets), one, ValueRange{number(math, 0)},
                       [&](OpBuilder &b, Location location, Value at, ValueRange state) {
                         Value count = memref::LoadOp::create(b, location, counts, at);
                         memref::StoreOp::create(b, location, state[0], counts, at);
                         Value next = arith::AddIOp::create(b, location, state[0], count);
                         scf::YieldOp::create(b, location, next);
                       });
  }
}

/// Moves all into the buckets of a digit, in their order.
void KeyedTopK::sortBy(const IndexMath &math, int64_t digit, ArrayRef<Value> from,
                       ArrayRef<Value> to) const {
  forEach(math, math.constant(0), length, 1, [&](const IndexMath &in, Value i) {
    OpBuilder &b = in.builder;
    Location location = in.location;
    Value key = memref::LoadOp::create(b, location, from[0], i);
    // Before the first digit each is at its own place.
    Value place = digit == 0 ? placeNumber(in, i)
                             : memref::LoadOp::create(b, location, from[1], i).getResult();
    Value bucket = in.add(digitOf(in, key, digit), in.constant(digit * kBuckets));
    Value next = memref::LoadOp::create(b, location, counts, bucket);
    memref::StoreOp::create(b, location, arith::AddIOp::create(b, location, next, number(in, 1)),
                            counts, bucket);
    Value target = arith::IndexCastUIOp::create(b, location, b.getIndexType(), next);
    memref::StoreOp::create(b, location, key, to[0], target);
    memref::StoreOp::create(b, location, place, to[1], target);
  });
}

AffineExpr KeyedTopK::sort() {
  IndexMath outside(kernel.builder, kernel.location);
  otherKeys = allocate(kernel, {length}, kernel.builder.getI32Type());
  places = allocate(kernel, {length}, placeType);
  otherPlaces = allocate(kernel, {length}, placeType);
  counts = allocate(kernel, {outside.constant(kDigits * kBuckets)}, kernel.builder.getI32Type());
  forRows([&](const IndexMath &math, Value) {
    countDigits(math);
    std::array<Value, 2> from = {keys, places}, to = {otherKeys, otherPlaces};
    for (int64_t digit = 0; digit < kDigits; ++digit) {
      sortBy(math, digit, from, to);
      std::swap(from, to);
    }
    forEach(math, math.constant(0), wanted, 1, [&](const IndexMath &in, Value rank) {
      Value place = memref::LoadOp::create(in.builder, in.location, from[1], rank);
      place = arith::IndexCastOp::create(in.builder, in.location, in.builder.getIndexType(), place);
      write(in, rank, place);
    });
  });
  return outer * inner;
}

namespace {

FamilyMatch matchSort(Region &region) {
  tn::TopKOp op = keyedTopK(region.source);
  std::optional<int64_t> size, count;
  if (op) {
    size = tn::constantDim(tn::getDims(op.getX().getType())[op.getAxis()]);
    count = tn::constantDim(tn::getDims(op.getValues().getType())[op.getAxis()]);
  }
  // Counts are of 32 bits.
  bool isShort = size && *size <= std::numeric_limits<int32_t>::max();
  return isShort && count && *count * kSortedShare >= *size
             ? FamilyMatch::take(op)
             : FamilyMatch::refuse("no selection of much of rows with elements of at most 32 bits");
}

FailureOr<AffineExpr> lowerSort(KernelBuilder &kernel, Region &region, const tn::TopKOp &op) {
  return KeyedTopK(kernel, op, region.level()).sort();
}

} // namespace

constexpr KernelFamily kSortRadix = {
    .name = "sort_radix",
    .what = "much of each row in order: a radix sort of keys and places",
    .strategies = {dispatch::kSingle},
    .needs = {"top_k"},
    .needsElements = true,
    .match = matchSort,
    .emit = emitKernel<lowerSort>,
    .order = noSums<Region>};

} // namespace tenon::codegen::cpu
