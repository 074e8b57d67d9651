// Each function is the one of its name in GumbelNoise.h, or a step of generate/sampling.
#include "compiler/codegen/common/math/Draws.h"

#include "compiler/codegen/common/math/Real.h"
#include "support/random/GumbelNoise.h"

#include <array>
#include <bit>
#include <utility>

using namespace mlir;

namespace tenon::codegen {
namespace {

/// Integers of one width as arithmetic.
class Whole {
public:
  Whole(OpBuilder &builder, Location location, Value value)
      : builder(&builder), location(location), value(value) {}

  Whole number(int64_t x) const {
    APInt bits(value.getType().getIntOrFloatBitWidth(), static_cast<uint64_t>(x),
               /*isSigned=*/false, /*implicitTrunc=*/true);
    return with(arith::ConstantOp::create(*builder, location,
                                          builder->getIntegerAttr(value.getType(), bits)));
  }
  Whole operator+(int64_t x) const { return make<arith::AddIOp>(number(x)); }
  Whole operator-(int64_t x) const { return make<arith::SubIOp>(number(x)); }
  Whole operator-(const Whole &b) const { return make<arith::SubIOp>(b); }
  Whole operator^(const Whole &b) const { return make<arith::XOrIOp>(b); }
  Whole operator|(const Whole &b) const { return make<arith::OrIOp>(b); }
  Whole operator&(int64_t x) const { return make<arith::AndIOp>(number(x)); }
  Whole operator<<(int64_t bits) const { return make<arith::ShLIOp>(number(bits)); }
  Whole operator>>(int64_t bits) const { return make<arith::ShRUIOp>(number(bits)); }
  Whole signedShift(int64_t bits) const { return make<arith::ShRSIOp>(number(bits)); }
  Whole narrow() const {
    return with(arith::TruncIOp::create(*builder, location, builder->getI32Type(), value));
  }
  Whole widen() const {
    return with(arith::ExtUIOp::create(*builder, location, builder->getI64Type(), value));
  }
  /// The low and the high word of a product.
  std::pair<Whole, Whole> times(int64_t x) const {
    arith::MulUIExtendedOp product =
        arith::MulUIExtendedOp::create(*builder, location, value, number(x));
    return {with(product.getLow()), with(product.getHigh())};
  }

  operator Value() const { return value; }

private:
  Whole with(Value other) const { return {*builder, location, other}; }
  template <typename Op> Whole make(const Whole &b) const {
    return with(Op::create(*builder, location, value, b.value));
  }

  OpBuilder *builder;
  Location location;
  Value value;
};

formula::Real realOf(OpBuilder &builder, Location location, double value, Type type) {
  return formula::Real(
      builder, location,
      arith::ConstantOp::create(builder, location, builder.getFloatAttr(type, value)));
}

/// Of logits that nothing draws.
constexpr double kNever = -1e30f;

} // namespace

Value exponential(OpBuilder &builder, Location location, Value argument) {
  constexpr float kLogOf2Inverse = 1.44269504f, kLogOf2 = 0.693359375f,
                  kLogOf2Rest = -2.12194440e-4f, kLeast = -87, kRounds = 0x1.8p23f;
  constexpr float kSeries[] = {1.f / 5040, 1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, 1.f / 2, 1, 1};
  formula::Real x(builder, location, argument);
  Value isLess = x < kLeast;
  formula::Real held = x.number(kLeast).where(isLess, x);
  formula::Real shifted = held * kLogOf2Inverse + kRounds;
  formula::Real whole = shifted - kRounds, rest = (held - whole * kLogOf2) - whole * kLogOf2Rest;
  formula::Real sum = x.number(kSeries[0]);
  for (float coefficient : llvm::ArrayRef(kSeries).drop_front()) {
    sum = sum * rest + coefficient;
  }
  Whole power = Whole(builder, location, shifted.bits()) - std::bit_cast<int32_t>(kRounds);
  Value bits = arith::AddIOp::create(builder, location, sum.bits(), power << 23);
  return x.number(0).where(isLess, x.fromBits(bits));
}

Value logarithm(OpBuilder &builder, Location location, Value argument) {
  constexpr int64_t kHalfRoot = 0x3FE6A09E667F3BCD;
  constexpr int kTerms = 12;
  formula::Real x(builder, location, argument);
  Whole bits(builder, location, x.bits());
  Whole power = (bits - kHalfRoot).signedShift(52);
  formula::Real m = x.fromBits(bits - (power << 52));
  formula::Real s = (m - 1) / (m + 1), square = s * s, sum = x.number(0);
  for (int term = kTerms; term >= 0; --term) {
    sum = sum * square + 1.0 / (2 * term + 1);
  }
  formula::Real n = x.fromInteger(power);
  return n * kLn2High + (n * kLn2Low + (s * 2) * sum);
}

Value gumbel(OpBuilder &builder, Location location, Value uniform) {
  formula::Real inner(builder, location, logarithm(builder, location, uniform));
  return -formula::Real(builder, location, logarithm(builder, location, -inner));
}

Value uniform(OpBuilder &builder, Location location, Value seed, Value position, Value token) {
  constexpr int64_t kFirst = 0xD2511F53, kSecond = 0xCD9E8D57;
  constexpr int64_t kStepFirst = 0x9E3779B9, kStepSecond = 0xBB67AE85;
  constexpr int kRounds = 10;
  Whole wideSeed(builder, location, seed), widePosition(builder, location, position);
  Whole zero = Whole(builder, location, token).number(0);
  std::array<Whole, 4> counter = {Whole(builder, location, token), zero, widePosition.narrow(),
                                  (widePosition >> 32).narrow()};
  std::array<Whole, 2> key = {wideSeed.narrow(), (wideSeed >> 32).narrow()};
  for (int64_t round = 0; round < kRounds; ++round) {
    auto [firstLow, firstHigh] = counter[0].times(kFirst);
    auto [secondLow, secondHigh] = counter[2].times(kSecond);
    counter = {secondHigh ^ counter[1] ^ (key[0] + round * kStepFirst), secondLow,
               firstHigh ^ counter[3] ^ (key[1] + round * kStepSecond), firstLow};
  }
  Whole bits = (counter[0].widen() << 32 | counter[1].widen()) >> 12;
  Value number = arith::UIToFPOp::create(builder, location, builder.getF64Type(), Value(bits));
  return (formula::Real(builder, location, number) + 0.5) * 0x1p-52;
}

Value shareOf(OpBuilder &builder, Location location, Value probability) {
  constexpr double kRounds = 0x1.8p52;
  Value wide = arith::ExtFOp::create(builder, location, builder.getF64Type(), probability);
  formula::Real shifted = formula::Real(builder, location, wide) * kWholeShare + kRounds;
  return Whole(builder, location, shifted.bits()) - std::bit_cast<int64_t>(kRounds);
}

LogitScale LogitScale::make(OpBuilder &builder, Location location, Value largest,
                            Value temperature) {
  constexpr double kMost = 1e30;
  formula::Real one = realOf(builder, location, 1, temperature.getType());
  formula::Real inverse = one / formula::Real(builder, location, temperature);
  // Also where it is none, since the temperature is 0.
  formula::Real held = inverse.where(inverse < kMost, inverse.number(kMost));
  return {largest, arith::TruncFOp::create(builder, location, builder.getF32Type(), Value(held))};
}

Value LogitScale::scaled(OpBuilder &builder, Location location, Value logit) const {
  formula::Real difference =
      formula::Real(builder, location, logit) - formula::Real(builder, location, largest);
  formula::Real product = difference * formula::Real(builder, location, factor);
  return product.where(product > kNever, product.number(kNever));
}

Value logitKey(OpBuilder &builder, Location location, Value scaled) {
  return Whole(builder, location, formula::Real(builder, location, scaled).bits()) & kNoKey;
}

Value logitOfKey(OpBuilder &builder, Location location, Value key) {
  formula::Real zero = realOf(builder, location, 0, builder.getF32Type());
  return -zero.fromBits(key);
}

Value lastKey(OpBuilder &builder, Location location, Value minP) {
  formula::Real share(builder, location, minP);
  formula::Real held = share.where(share < 1, share.number(1));
  Value least = arith::TruncFOp::create(builder, location, builder.getF32Type(),
                                        logarithm(builder, location, held));
  Value key = logitKey(builder, location, least);
  Value isBound = share > 0;
  return arith::SelectOp::create(builder, location, isBound, key,
                                 Whole(builder, location, key).number(kNoKey - 1));
}

Value shareOfKey(OpBuilder &builder, Location location, Value key) {
  Value probability = exponential(builder, location, logitOfKey(builder, location, key));
  Value share = shareOf(builder, location, probability);
  Value isKey = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne, key,
                                      Whole(builder, location, key).number(kNoKey));
  return arith::SelectOp::create(builder, location, isKey, share,
                                 Whole(builder, location, share).number(0));
}

Value wantedShares(OpBuilder &builder, Location location, Value topP, Value shares) {
  Value mass = arith::SIToFPOp::create(builder, location, builder.getF64Type(), shares);
  formula::Real product =
      formula::Real(builder, location, topP) * formula::Real(builder, location, mass);
  Value whole = arith::FPToSIOp::create(builder, location, builder.getI64Type(), Value(product));
  return arith::MaxSIOp::create(builder, location, whole,
                                Whole(builder, location, whole).number(1));
}

} // namespace tenon::codegen
