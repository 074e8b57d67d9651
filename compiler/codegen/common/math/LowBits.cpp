// Decoding builds the bits of an f32 from a code's fields. Encoding rounds the bits of a float to
// the code's fraction by adding half a unit; numbers below the normal ones are rounded by the FPU,
// by adding a power of two whose last bit is theirs. Relies on round to nearest even.
#include "compiler/codegen/common/math/LowBits.h"

#include "compiler/codegen/common/math/ScalarEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tenon::codegen {
namespace {

/// The fields of a float of a sign, an exponent and a fraction, as codes without the sign.
struct Format {
  unsigned fraction;
  int64_t bias;
  int64_t largest;       ///< the largest finite number
  int64_t overflow;      ///< what is beyond, where casts do not saturate
  int64_t nan;           ///< what NaN becomes
  bool keepsSign = true; ///< of zero and NaN
  unsigned width = 8;

  int64_t sign() const { return int64_t{1} << (width - 1); }
};

Format formatOf(Type element) {
  return llvm::TypeSwitch<Type, Format>(element)
      .Case([](Float8E4M3FNType) { return Format{3, 7, 0x7E, 0x7F, 0x7F}; })
      .Case([](Float8E4M3FNUZType) { return Format{3, 8, 0x7F, 0x80, 0x80, false}; })
      .Case([](Float8E5M2Type) { return Format{2, 15, 0x7B, 0x7C, 0x7E}; })
      .Case([](Float8E5M2FNUZType) { return Format{2, 16, 0x7F, 0x80, 0x80, false}; })
      .Default([](Type) { return Format{1, 1, 7, 7, 8, true, 4}; });
}

/// Builds ops on integers of one width, and floats of that width.
struct Bits {
  OpBuilder &b;
  Location location;
  IntegerType type;

  Bits(OpBuilder &builder, Location location, unsigned width)
      : b(builder), location(location), type(builder.getIntegerType(width)) {}

  Type real() const { return type.getWidth() == 64 ? Type(b.getF64Type()) : Type(b.getF32Type()); }
  /// Bits of the fraction, and the bias of the exponent, of that float.
  unsigned fraction() const { return type.getWidth() == 64 ? 52 : 23; }
  int64_t bias() const { return type.getWidth() == 64 ? 1023 : 127; }

  Value constant(int64_t value) {
    APInt bits(type.getWidth(), static_cast<uint64_t>(value), false, /*implicitTrunc=*/true);
    return arith::ConstantOp::create(b, location, b.getIntegerAttr(type, bits));
  }
  Value add(Value x, int64_t y) { return arith::AddIOp::create(b, location, x, constant(y)); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, location, x, y); }
  Value mask(Value x, int64_t y) { return arith::AndIOp::create(b, location, x, constant(y)); }
  Value merge(Value x, Value y) { return arith::OrIOp::create(b, location, x, y); }
  Value left(Value x, unsigned n) { return arith::ShLIOp::create(b, location, x, constant(n)); }
  Value right(Value x, unsigned n) { return arith::ShRUIOp::create(b, location, x, constant(n)); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, location, c, x, y); }
  Value test(arith::CmpIPredicate predicate, Value x, int64_t y) {
    return arith::CmpIOp::create(b, location, predicate, x, constant(y));
  }
  Value asReal(Value x) { return arith::BitcastOp::create(b, location, real(), x); }
  Value asBits(Value x) { return arith::BitcastOp::create(b, location, type, x); }
  /// An infinity of the float, as bits.
  int64_t infinity() const {
    return ((int64_t{1} << (type.getWidth() - 1 - fraction())) - 1) << fraction();
  }
};

using IntegerTest = arith::CmpIPredicate;

Value decodeInteger(OpBuilder &b, Location location, Type element, Value code) {
  Bits byte(b, location, 8);
  unsigned bits = element.getIntOrFloatBitWidth();
  Value high = byte.left(code, 8 - bits);
  return element.isUnsignedInteger()
             ? byte.right(high, 8 - bits)
             : arith::ShRSIOp::create(b, location, high, byte.constant(8 - bits)).getResult();
}

Value decodePower(Bits &w, Value code) {
  constexpr int64_t kSubnormal = 0x400000; // 2^-127, below the normal numbers
  constexpr int64_t kNan = 0x7FC00000;
  Value bits = w.select(w.test(IntegerTest::eq, code, 0), w.constant(kSubnormal), w.left(code, 23));
  return w.asReal(w.select(w.test(IntegerTest::eq, code, 0xFF), w.constant(kNan), bits));
}

Value decodeFloat(Bits &w, Type element, Value code) {
  constexpr int64_t kNan = 0x7FC00000;
  Format format = formatOf(element);
  Value magnitude = w.mask(code, format.sign() - 1);
  Value sign = w.left(w.mask(code, format.sign()), 32 - format.width);
  unsigned shift = 23 - format.fraction;
  Value normal = w.add(w.left(magnitude, shift), (127 - format.bias) << 23);
  Value fraction = arith::UIToFPOp::create(w.b, w.location, w.real(), magnitude);
  Value unit = w.asReal(w.constant((127 + 1 - format.bias - int64_t(format.fraction)) << 23));
  Value small = w.asBits(arith::MulFOp::create(w.b, w.location, fraction, unit).getResult());
  Value bits =
      w.select(w.test(IntegerTest::ult, magnitude, int64_t{1} << format.fraction), small, normal);
  if (isa<Float8E5M2Type, Float8E4M3FNType>(element)) {
    Value beyond = w.constant(kNan);
    if (isa<Float8E5M2Type>(element)) {
      beyond = w.select(w.test(IntegerTest::eq, magnitude, format.overflow),
                        w.constant(w.infinity()), beyond);
    }
    bits = w.select(w.test(IntegerTest::ugt, magnitude, format.largest), beyond, bits);
  }
  bits = w.merge(bits, sign);
  if (!format.keepsSign) {
    Value isNan = w.test(IntegerTest::eq, w.mask(code, 0xFF), format.nan);
    bits = w.select(isNan, w.constant(kNan), bits);
  }
  return w.asReal(bits);
}

Value encodeFloat(Bits &w, Type element, Value number, bool saturate) {
  Format format = formatOf(element);
  unsigned shift = w.fraction() - format.fraction;
  Value bits = w.asBits(number);
  Value magnitude = w.mask(bits, ~(int64_t{1} << (w.type.getWidth() - 1)));
  Value odd = w.mask(w.right(magnitude, shift), 1);
  Value rounded = w.add(w.add(magnitude, (int64_t{1} << (shift - 1)) - 1), odd);
  Value normal = w.add(w.right(rounded, shift), -((w.bias() - format.bias) << format.fraction));
  int64_t exponent = w.bias() - format.bias + 1; // of the smallest normal number
  int64_t magic = (exponent + shift) << w.fraction();
  Value sum =
      arith::AddFOp::create(w.b, w.location, w.asReal(magnitude), w.asReal(w.constant(magic)));
  Value small = w.add(w.asBits(sum), -magic);
  Value isSmall = w.test(IntegerTest::ult, magnitude, exponent << w.fraction());
  Value code = w.select(isSmall, small, normal);
  Value beyond = w.constant(saturate ? format.largest : format.overflow);
  code = w.select(w.test(IntegerTest::sgt, code, format.largest), beyond, code);
  Value isNan = w.test(IntegerTest::ugt, magnitude, w.infinity());
  Value sign = w.mask(w.right(bits, w.type.getWidth() - format.width), format.sign());
  if (element.getIntOrFloatBitWidth() == 4) {
    return w.select(isNan, w.constant(format.nan), w.merge(code, sign));
  }
  if (format.keepsSign) {
    return w.merge(w.select(isNan, w.constant(format.nan), code), sign);
  }
  // Neither zero nor NaN has a sign; NaN is what zero with a sign would be.
  Value hasSign = w.test(IntegerTest::ne, code, 0);
  Value merged = w.select(hasSign, w.merge(code, sign), code);
  Value isUndefined = w.test(IntegerTest::eq, code, format.nan);
  merged = w.select(isUndefined, w.constant(format.nan), merged);
  return w.select(isNan, w.constant(format.nan), merged);
}

/// Numbers come as f64, in which none of the exponents wanted belongs to a subnormal number.
Value encodePower(Bits &w, Value number, tn::EncodeOp op) {
  constexpr int64_t kMax = 254, kNan = 255;
  int64_t one = int64_t{1} << w.fraction();
  Value magnitude = w.mask(w.asBits(number), ~(int64_t{1} << 63));
  int64_t rounding = op.getRound() == "up" ? one - 1 : op.getRound() == "nearest" ? one / 2 : 0;
  Value code = w.add(w.right(w.add(magnitude, rounding), w.fraction()), -(w.bias() - 127));
  bool saturate = op.getSaturate();
  code = w.select(w.test(IntegerTest::sgt, code, kMax), w.constant(saturate ? kMax : kNan), code);
  code = w.select(w.test(IntegerTest::slt, code, 0), w.constant(saturate ? 0 : kNan), code);
  return w.select(w.test(IntegerTest::ugt, magnitude, w.infinity()), w.constant(kNan), code);
}

/// Integers wrap; a float that 32 bits do not hold gives 0, as does NaN.
Value encodeInteger(OpBuilder &b, Location location, Type element, Value number) {
  Value whole = number;
  if (isa<FloatType>(number.getType())) {
    auto real = [&](double value) -> Value {
      return arith::ConstantOp::create(b, location, b.getFloatAttr(number.getType(), value));
    };
    constexpr double kLimit = 2147483648.0;
    Value low =
        arith::CmpFOp::create(b, location, arith::CmpFPredicate::OGT, number, real(-kLimit));
    Value high =
        arith::CmpFOp::create(b, location, arith::CmpFPredicate::OLT, number, real(kLimit));
    Value holds = arith::AndIOp::create(b, location, low, high);
    Value held = arith::SelectOp::create(b, location, holds, number, real(0));
    whole = arith::FPToSIOp::create(b, location, b.getI32Type(), held);
  }
  if (whole.getType() != b.getI8Type()) {
    whole = arith::TruncIOp::create(b, location, b.getI8Type(), whole);
  }
  return Bits(b, location, 8).mask(whole, (1 << element.getIntOrFloatBitWidth()) - 1);
}

} // namespace

Value emitEncode(OpBuilder &b, Location location, tn::EncodeOp op, Value stored) {
  Type element = getElementTypeOrSelf(op.getY());
  Value x = ScalarEmitter(b, location, getElementTypeOrSelf(op.getX())).load(stored);
  if (isa<IntegerType>(element)) {
    return encodeInteger(b, location, element, x);
  }
  if (op->hasAttr(kEncodesByInstruction) && x.getType().isF32()) {
    Value code = arith::TruncFOp::create(b, location, element, x);
    return arith::BitcastOp::create(b, location, b.getI8Type(), code);
  }
  bool isPower = isa<Float8E8M0FNUType>(element);
  if (isPower && !x.getType().isF64()) {
    x = arith::ExtFOp::create(b, location, b.getF64Type(), x);
  }
  Bits word(b, location, x.getType().getIntOrFloatBitWidth());
  Value code = isPower ? encodePower(word, x, op) : encodeFloat(word, element, x, op.getSaturate());
  return arith::TruncIOp::create(b, location, b.getI8Type(), code);
}

Value decodedFloat(OpBuilder &b, Location location, Type element, Value code) {
  Bits word(b, location, 32);
  Value wide = arith::ExtUIOp::create(b, location, b.getI32Type(), code);
  return isa<Float8E8M0FNUType>(element) ? decodePower(word, wide)
                                         : decodeFloat(word, element, wide);
}

Value encodedFloat(OpBuilder &b, Location location, Type element, Value number) {
  Bits word(b, location, 32);
  return arith::TruncIOp::create(b, location, b.getI8Type(),
                                 encodeFloat(word, element, number, /*saturate=*/true));
}

Value emitDecode(OpBuilder &b, Location location, tn::DecodeOp op, Value code) {
  Type element = getElementTypeOrSelf(op.getX());
  if (isa<IntegerType>(element)) {
    return decodeInteger(b, location, element, code);
  }
  Value number = decodedFloat(b, location, element, code);
  Type type = getElementTypeOrSelf(op.getY());
  if (type.isF32()) {
    return number;
  }
  return type.isF64() ? Value(arith::ExtFOp::create(b, location, type, number))
                      : Value(arith::TruncFOp::create(b, location, type, number));
}

} // namespace tenon::codegen
