// Of 8-bit elements: VNNI's instruction where the level has it; on other x86 the even and the odd
// elements of a word in 16 bits, multiplied and summed by pairs, as what multiplies 8 bits there
// saturates; elsewhere LLVM's own reduction by parts, which it has an instruction for where there
// is one. Of bf16: the dot instruction where the level has it, elsewhere two of f32, which the
// upper and the lower half of a word are with zeros behind them.
#include "compiler/codegen/cpu/gemm/DotStep.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

constexpr int64_t kByte = 8, kHalf = 16;

bool isX86(engine::CpuLevel level) {
  return engine::rowOf(level).architecture == engine::Architecture::X86_64;
}

int64_t lanesOf(Value words) { return cast<VectorType>(words.getType()).getDimSize(0); }

} // namespace

bool DotStep::isOneInstruction(engine::CpuLevel level, ProductType type) {
  uint32_t features = engine::rowOf(level).features;
  switch (type) {
  case ProductType::F32:
  case ProductType::I32:
    return true;
  case ProductType::U8S8:
    return !isX86(level) || (features & (engine::x86::kVnni | engine::x86::kAvxVnni)) != 0;
  case ProductType::BF16:
    return isX86(level) && (features & engine::x86::kBf16) != 0;
  }
  llvm_unreachable("a type of the table");
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

/// Of bytes as 16-bit elements: the even ones without sign by a mask, the odd ones by a shift.
DotStep::Factor DotStep::ofA(Value words) const {
  if (!isSplit()) {
    return {words};
  }
  if (type == ProductType::BF16) {
    return splitFloats(words);
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
  VectorType wide = VectorType::get(4 * lanes, builder.getI32Type());
  Value products = arith::MulIOp::create(builder, location,
                                         arith::ExtUIOp::create(builder, location, wide, left),
                                         arith::ExtSIOp::create(builder, location, wide, right));
  return call("llvm.vector.partial.reduce.add", sum.getType(), {sum, products});
}

Value DotStep::multiplyAddFloats(Value a, Value b, Value sum) const {
  int64_t lanes = lanesOf(sum);
  VectorType elements = VectorType::get(2 * lanes, builder.getBF16Type());
  Value left = vector::BitCastOp::create(builder, location, elements, a);
  Value right = vector::BitCastOp::create(builder, location, elements, b);
  StringRef intrinsic = lanes == 16  ? "llvm.x86.avx512bf16.dpbf16ps.512"
                        : lanes == 8 ? "llvm.x86.avx512bf16.dpbf16ps.256"
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
  StringRef intrinsic =
      lanesOf(sum) == 16 ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd";
  for (auto [left, right] : llvm::zip_equal(a, b)) {
    Value products = call(intrinsic, sum.getType(), {left, right});
    sum = arith::AddIOp::create(builder, location, sum, products);
  }
  return sum;
}

} // namespace tenon::codegen::cpu
