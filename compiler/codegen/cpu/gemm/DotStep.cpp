// Of 8-bit elements: VNNI's instruction, usdot or sdot where the level has it, of which sdot takes
// A less 128; on other x86 and Arm the even and the odd elements of a word in 16 bits, multiplied
// and summed by pairs, as what multiplies 8 bits on x86 saturates; on RISC-V each element in 32
// bits, multiplied into the sum. Each is named or spelled out: LLVM's own reduction by parts leaves
// open which elements it adds up. Of bf16: the dot instruction where the level has it, elsewhere
// two of f32, which the upper and the lower half of a word are with zeros behind them.
#include "compiler/codegen/cpu/gemm/DotStep.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

constexpr int64_t kByte = 8, kHalf = 16, kWord = 32;
/// The highest bit of each byte of a word.
constexpr int32_t kSigns = static_cast<int32_t>(0x80808080);

bool isOf(engine::CpuLevel level, engine::Architecture architecture) {
  return engine::rowOf(level).architecture == architecture;
}

bool isX86(engine::CpuLevel level) { return isOf(level, engine::Architecture::X86_64); }

/// Features of the architecture by which a level has an instruction for words of bytes.
uint32_t byteFeatures(engine::Architecture architecture) {
  switch (architecture) {
  case engine::Architecture::X86_64:
    return engine::x86::kVnni | engine::x86::kAvxVnni;
  case engine::Architecture::AArch64:
    return engine::arm::kDotProd | engine::arm::kI8mm;
  default:
    return 0;
  }
}

/// Of a vector or a scalar.
TypedAttr constantOf(Type type, IntegerAttr value) {
  VectorType vector = dyn_cast<VectorType>(type);
  return vector ? TypedAttr(DenseElementsAttr::get(vector, value)) : TypedAttr(value);
}

int64_t lanesOf(Value words) { return cast<VectorType>(words.getType()).getDimSize(0); }

} // namespace

bool DotStep::isOneInstruction(engine::CpuLevel level, ProductType type) {
  const engine::CpuLevelRow &row = engine::rowOf(level);
  uint32_t features = row.features;
  switch (type) {
  case ProductType::F32:
  case ProductType::I32:
    return true;
  case ProductType::U8S8:
    return (features & byteFeatures(row.architecture)) != 0;
  case ProductType::BF16:
    return (features & (isX86(level)                                 ? engine::x86::kBf16
                        : isOf(level, engine::Architecture::AArch64) ? engine::arm::kBf16
                                                                     : 0)) != 0;
  }
  llvm_unreachable("a type of the table");
}

bool DotStep::takesLess128(engine::CpuLevel level, ProductType type) {
  return type == ProductType::U8S8 && isOf(level, engine::Architecture::AArch64) &&
         isOneInstruction(level, type) && (engine::rowOf(level).features & engine::arm::kI8mm) == 0;
}

/// The even and the odd elements, as f32.
DotStep::Factor DotStep::splitFloats(Value words) const {
  VectorType integers = VectorType::get(lanesOf(words), builder.getI32Type());
  VectorType floats = VectorType::get(lanesOf(words), builder.getF32Type());
  Value bits = vector::BitCastOp::create(builder, location, integers, words);
  auto all = [&](uint32_t value) {
    return arith::ConstantOp::create(
        builder, location,
        DenseElementsAttr::get(integers, llvm::APInt(integers.getElementTypeBitWidth(), value)));
  };
  Value even = arith::ShLIOp::create(builder, location, bits, all(kHalf));
  Value odd = arith::AndIOp::create(builder, location, bits, all(~uint32_t(0) << kHalf));
  return {vector::BitCastOp::create(builder, location, floats, even),
          vector::BitCastOp::create(builder, location, floats, odd)};
}

/// The four bytes of a word, or of each word, in 32 bits.
DotStep::Factor DotStep::splitBytes(Value words, bool isSigned) const {
  auto all = [&](int32_t value) {
    return arith::ConstantOp::create(builder, location,
                                     constantOf(words.getType(), builder.getI32IntegerAttr(value)));
  };
  Factor elements;
  for (int32_t above = kWord - kByte; above >= 0; above -= kByte) {
    Value upper = arith::ShLIOp::create(builder, location, words, all(above));
    Value rest = all(kWord - kByte);
    elements.push_back(isSigned
                           ? arith::ShRSIOp::create(builder, location, upper, rest).getResult()
                           : arith::ShRUIOp::create(builder, location, upper, rest).getResult());
  }
  return elements;
}

/// Of bytes as 16-bit elements: the even ones without sign by a mask, the odd ones by a shift.
DotStep::Factor DotStep::ofA(Value words) const {
  if (takesLess128(level, type)) {
    Value signs =
        arith::ConstantOp::create(builder, location,
                                  DenseElementsAttr::get(cast<VectorType>(words.getType()),
                                                         builder.getI32IntegerAttr(kSigns)));
    return {arith::XOrIOp::create(builder, location, words, signs)};
  }
  if (!isSplit()) {
    return {words};
  }
  if (type == ProductType::BF16) {
    return splitFloats(words);
  }
  if (isOf(level, engine::Architecture::RiscV64)) {
    // Of one word, so that a multiplication takes the element from a scalar register.
    Factor elements = splitBytes(words.getDefiningOp<vector::BroadcastOp>().getSource(),
                                 /*isSigned=*/false);
    for (Value &element : elements) {
      element = vector::BroadcastOp::create(builder, location, words.getType(), element);
    }
    return elements;
  }
  VectorType halves = VectorType::get(2 * lanesOf(words), builder.getI16Type());
  Value pairs = vector::BitCastOp::create(builder, location, halves, words);
  auto all = [&](int64_t value) {
    return arith::ConstantOp::create(
        builder, location, DenseElementsAttr::get(halves, builder.getI16IntegerAttr(value)));
  };
  return {arith::AndIOp::create(builder, location, pairs, all((1 << kByte) - 1)),
          arith::ShRUIOp::create(builder, location, pairs, all(kByte))};
}

DotStep::Factor DotStep::ofB(Value words) const {
  if (!isSplit()) {
    return {words};
  }
  if (type == ProductType::BF16) {
    return splitFloats(words);
  }
  if (isOf(level, engine::Architecture::RiscV64)) {
    return splitBytes(words, /*isSigned=*/true);
  }
  VectorType halves = VectorType::get(2 * lanesOf(words), builder.getI16Type());
  Value pairs = vector::BitCastOp::create(builder, location, halves, words);
  Value byte = arith::ConstantOp::create(
      builder, location, DenseElementsAttr::get(halves, builder.getI16IntegerAttr(kByte)));
  Value even = arith::ShLIOp::create(builder, location, pairs, byte);
  return {arith::ShRSIOp::create(builder, location, even, byte),
          arith::ShRSIOp::create(builder, location, pairs, byte)};
}

Value DotStep::call(StringRef intrinsic, Type result, ValueRange operands) const {
  return LLVM::CallIntrinsicOp::create(builder, location, result, builder.getStringAttr(intrinsic),
                                       operands)
      .getResult(0);
}

Value DotStep::multiplyAddBytes(Value a, Value b, Value sum) const {
  int64_t lanes = lanesOf(sum);
  VectorType bytes = VectorType::get(4 * lanes, builder.getI8Type());
  Value left = vector::BitCastOp::create(builder, location, bytes, a);
  Value right = vector::BitCastOp::create(builder, location, bytes, b);
  if (isX86(level)) {
    StringRef intrinsic = lanes == 16  ? "llvm.x86.avx512.vpdpbusd.512"
                          : lanes == 8 ? "llvm.x86.avx512.vpdpbusd.256"
                                       : "llvm.x86.avx512.vpdpbusd.128";
    return call(intrinsic, sum.getType(), {sum, left, right});
  }
  StringRef intrinsic =
      takesLess128(level, type) ? "llvm.aarch64.neon.sdot" : "llvm.aarch64.neon.usdot";
  return call(intrinsic, sum.getType(), {sum, left, right});
}

/// Of pairs of 16-bit elements that lie beside each other or, on RISC-V, of one element.
Value DotStep::multiplyPart(Value a, Value b, Value sum) const {
  if (isX86(level)) {
    StringRef intrinsic =
        lanesOf(sum) == 16 ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd";
    return call(intrinsic, sum.getType(), {a, b});
  }
  if (isOf(level, engine::Architecture::AArch64)) {
    // The product of a u8 and an s8 fits 16 bits, that of two of them does not.
    return call("llvm.aarch64.neon.saddlp", sum.getType(),
                {arith::MulIOp::create(builder, location, a, b)});
  }
  return arith::MulIOp::create(builder, location, a, b);
}

Value DotStep::multiplyAddFloats(Value a, Value b, Value sum) const {
  int64_t lanes = lanesOf(sum);
  VectorType elements = VectorType::get(2 * lanes, builder.getBF16Type());
  Value left = vector::BitCastOp::create(builder, location, elements, a);
  Value right = vector::BitCastOp::create(builder, location, elements, b);
  StringRef intrinsic = !isX86(level) ? "llvm.aarch64.neon.bfdot"
                        : lanes == 16 ? "llvm.x86.avx512bf16.dpbf16ps.512"
                        : lanes == 8  ? "llvm.x86.avx512bf16.dpbf16ps.256"
                                      : "llvm.x86.avx512bf16.dpbf16ps.128";
  return call(intrinsic, sum.getType(), {sum, left, right});
}

Value DotStep::multiplyAdd(const Factor &a, const Factor &b, Value sum) const {
  switch (type) {
  case ProductType::F32:
    return vector::FMAOp::create(builder, location, a[0], b[0], sum);
  case ProductType::I32:
    // The low 32 bits, as their sum wraps.
    return arith::AddIOp::create(builder, location,
                                 arith::MulIOp::create(builder, location, a[0], b[0]), sum);
  case ProductType::BF16:
    if (!isSplit()) {
      return multiplyAddFloats(a[0], b[0], sum);
    }
    for (auto [left, right] : llvm::zip_equal(a, b)) {
      sum = vector::FMAOp::create(builder, location, left, right, sum);
    }
    return sum;
  case ProductType::U8S8:
    break;
  }
  if (!isSplit()) {
    return multiplyAddBytes(a[0], b[0], sum);
  }
  for (auto [left, right] : llvm::zip_equal(a, b)) {
    Value products = multiplyPart(left, right, sum);
    sum = arith::AddIOp::create(builder, location, sum, products);
  }
  return sum;
}

} // namespace tenon::codegen::cpu
