// Payne and Hanek's reduction: of x / (2 pi) only the bits behind the point matter, and those
// follow from the bits of 1 / (2 pi) around the exponent of x. Relies on |x| >= 2^45 and finite.
#include "compiler/codegen/common/math/LargeAngle.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <array>
#include <iterator>
#include <limits>

using namespace mlir;

namespace tenon::codegen::formula {

namespace {

constexpr int64_t kMantissaBits = 52, kExponentBias = 1023, kWordBits = 64;
/// 2 pi / 2^64: what the last bit of a turn of 64 bits stands for.
constexpr double kTurnUnit = 0x1.921fb54442d18p-62;

/// The bits of 1 / (2 pi), behind 64 zeros for what stands before the point.
constexpr uint64_t kInverse[] = {
    0,
    0x28be60db9391054a,
    0x7f09d5f47d4d3770,
    0x36d8a5664f10e410,
    0x7f9458eaf7aef158,
    0x6dc91b8e909374b8,
    0x01924bba82746487,
    0x3f877ac72c4a69cf,
    0xba208d7d4baed121,
    0x3a671c09ad17df90,
    0x4e64758e60d4ce7d,
    0x272117e2ef7e4a0e,
    0xc7fe25fff7816603,
    0xfbcbc462d6829b47,
    0xdb4d9fb3c9f2c26d,
    0xd3d18fd9a797fa8b,
    0x5d49eeb1faf97c5e,
    0xcf41ce7de294a4ba,
    0x9afed7ec47e35742,
};
constexpr int64_t kWords = std::size(kInverse);
/// A window of two words may begin within a word.
constexpr int64_t kTouched = 3;

/// Integers of 64 bits, a lane each.
class Words {
public:
  explicit Words(const Real &x) : x(x) {}

  Value number(uint64_t value) const { return x.integer(static_cast<int64_t>(value)); }
  Value add(Value a, Value b) const { return x.create<arith::AddIOp>(a, b); }
  Value subtract(Value a, Value b) const { return x.create<arith::SubIOp>(a, b); }
  Value multiply(Value a, Value b) const { return x.create<arith::MulIOp>(a, b); }
  Value either(Value a, Value b) const { return x.create<arith::OrIOp>(a, b); }
  Value low(Value a, int64_t bits) const {
    return x.create<arith::AndIOp>(a, number((uint64_t{1} << bits) - 1));
  }
  Value left(Value a, Value by) const { return x.create<arith::ShLIOp>(a, by); }
  Value right(Value a, Value by) const { return x.create<arith::ShRUIOp>(a, by); }
  Value right(Value a, int64_t by) const { return right(a, number(by)); }

private:
  const Real &x;
};

/// The product's upper 64 bits, up to 2 too few: three products of halves, without their carries.
Value upperProduct(const Words &words, Value a, Value b) {
  Value aLow = words.low(a, 32), aHigh = words.right(a, 32);
  Value bLow = words.low(b, 32), bHigh = words.right(b, 32);
  Value middle = words.add(words.right(words.multiply(aHigh, bLow), 32),
                           words.right(words.multiply(aLow, bHigh), 32));
  return words.add(words.multiply(aHigh, bHigh), middle);
}

/// Words `index` to `index + 2` of kInverse in each lane.
std::array<Value, kTouched> wordsAt(const Real &x, Value index) {
  Words words(x);
  std::array<Value, kTouched> result;
  constexpr int64_t kLast = kWords - kTouched;
  for (int64_t k = 0; k < kTouched; ++k) {
    result[k] = words.number(kInverse[kLast + k]);
  }
  for (int64_t first = kLast - 1; first >= 0; --first) {
    Value isHere = x.create<arith::CmpIOp>(arith::CmpIPredicate::sle, index, words.number(first));
    for (int64_t k = 0; k < kTouched; ++k) {
      result[k] = x.create<arith::SelectOp>(isHere, words.number(kInverse[first + k]), result[k]);
    }
  }
  return result;
}

/// |x| / (2 pi) modulo 1, times 2^64.
Value turnsOf(const Real &x) {
  Words words(x);
  Value bits = x.abs().bits();
  Value mantissa = words.either(words.low(bits, kMantissaBits), words.number(uint64_t{1} << 52));
  // |x| is the mantissa times 2^(place - 64).
  Value place = words.subtract(words.right(bits, kMantissaBits),
                               words.number(kExponentBias + kMantissaBits - kWordBits));
  std::array<Value, kTouched> word = wordsAt(x, words.right(place, 6));
  Value shift = words.low(place, 6);
  Value back = words.subtract(words.number(kWordBits - 1), shift);
  auto window = [&](int64_t k) {
    return words.either(words.left(word[k], shift), words.right(words.right(word[k + 1], 1), back));
  };
  return words.add(words.multiply(mantissa, window(0)), upperProduct(words, mantissa, window(1)));
}

ReducedAngle payneHanek(const Real &x) {
  constexpr uint64_t kQuarter = uint64_t{1} << 62;
  Words words(x);
  Value turns = turnsOf(x);
  Value quadrant = words.right(words.add(turns, words.number(kQuarter / 2)), 62);
  Value rest = words.subtract(turns, words.left(quadrant, words.number(62)));
  Value isNegative = x < 0.0;
  Value negated = words.subtract(words.number(0), quadrant);
  Real angle = x.fromInteger(rest) * kTurnUnit;
  return {x.create<arith::SelectOp>(isNegative, negated, quadrant),
          (-angle).where(isNegative, angle)};
}

} // namespace

Value anyOf(OpBuilder &builder, Location loc, Value condition) {
  return isa<VectorType>(condition.getType())
             ? vector::ReductionOp::create(builder, loc, vector::CombiningKind::OR, condition)
                   .getResult()
             : condition;
}

namespace {

Value allOf(OpBuilder &builder, Location loc, Value condition) {
  return isa<VectorType>(condition.getType())
             ? vector::ReductionOp::create(builder, loc, vector::CombiningKind::AND, condition)
                   .getResult()
             : condition;
}

} // namespace

ReducedAngle reduceLargeAngle(const Real &x, Value isSmall, const ReducedAngle &reduced) {
  OpBuilder &builder = x.getBuilder();
  Location loc = x.getLoc();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  scf::IfOp branch = scf::IfOp::create(
      builder, loc, allOf(builder, loc, isSmall),
      [&](OpBuilder &then, Location) {
        scf::YieldOp::create(then, loc, ValueRange{reduced.quadrant, Value(reduced.rest)});
      },
      [&](OpBuilder &other, Location) {
        Real inside(other, loc, x);
        Real magnitude = inside.abs();
        Value isLarge = inside.create<arith::AndIOp>(
            inside.create<arith::CmpFOp>(arith::CmpFPredicate::OGE, Value(magnitude),
                                         Value(inside.number(kLargeAngle))),
            magnitude < kInfinity);
        ReducedAngle angle = payneHanek(inside);
        Value quadrant = inside.create<arith::SelectOp>(isLarge, angle.quadrant, reduced.quadrant);
        scf::YieldOp::create(other, loc,
                             ValueRange{quadrant, Value(angle.rest.where(isLarge, reduced.rest))});
      });
  return {branch.getResult(0), Real(builder, loc, branch.getResult(1))};
}

} // namespace tenon::codegen::formula
