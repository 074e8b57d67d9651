// Relies on floats being IEEE's or BF16: a sign, an exponent whose largest value is for infinity
// and what is no number, and a fraction.
#include "compiler/codegen/cuda/selection/Keys.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// A number of up to 32 bits as the attribute of an i32 wants it.
Value pattern(const ThreadBuilder &t, Value like, int64_t bits) {
  return t.constantOfType(like, like.getType().isInteger(32) ? static_cast<int32_t>(bits) : bits);
}

int64_t ones(int64_t bits) { return bits == 64 ? -1 : (int64_t(1) << bits) - 1; }

} // namespace

KeyOrder::KeyOrder(Type element, bool isLargestFirst)
    : storage(storageType(element)), bits(8 * byteSize(storage)), isLargestFirst(isLargestFirst),
      isUnsigned(element.isUnsignedInteger() || element.isInteger(1)) {
  key = IntegerType::get(element.getContext(), bits == 64 ? 64 : 32);
}

/// The larger element has the larger key; `raw` are its bits.
Value KeyOrder::ascending(const ThreadBuilder &t, Value raw) const {
  if (isUnsigned) {
    return raw;
  }
  Value sign = pattern(t, raw, bits == 64 ? INT64_MIN : int64_t(1) << (bits - 1));
  FloatType floating = dyn_cast<FloatType>(storage);
  if (!floating) {
    return bitXor(t, raw, sign);
  }
  int64_t fraction = floating.getFPMantissaWidth() - 1;
  int64_t infinity = ((int64_t(1) << (bits - 1 - fraction)) - 1) << fraction;
  Value magnitude = t.bitAnd(raw, pattern(t, raw, ones(bits - 1)));
  Value isNegative = both(t, isNot(t, t.bitAnd(raw, sign), t.constantOfType(raw, 0)),
                          isNot(t, magnitude, t.constantOfType(raw, 0)));
  Value upper = bitOr(t, magnitude, sign), lower = t.sub(sign, magnitude);
  Value isNumber = isAtLeast(t, pattern(t, raw, infinity), magnitude);
  return t.select(isNumber, t.select(isNegative, lower, upper), pattern(t, raw, ones(bits)));
}

Value KeyOrder::keyOf(const ThreadBuilder &t, Value stored) const {
  Type own = IntegerType::get(storage.getContext(), bits);
  Value raw = t.bitcast(own, stored);
  if (own != key) {
    raw = t.builder.createOrFold<arith::ExtUIOp>(t.location, key, raw);
  }
  Value up = ascending(t, raw);
  return isLargestFirst ? up : bitXor(t, up, pattern(t, up, ones(bits)));
}

} // namespace tenon::codegen::cuda
