// A product is one piece of assembly from its fence to its end, so that no access to its registers
// can be moved into it. Relies on the descriptor of a swizzled tile (PTX manual, matrix-descriptor
// format).
#include "compiler/codegen/cuda/Warpgroup.h"

#include "compiler/codegen/cuda/TensorCore.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kSums = kGroupRows * kTileColumns / kWarpgroup;
constexpr int64_t kRowBytes = kTileColumns * 2;
/// Depth of a tile with depth along its rows.
constexpr int64_t kStepsOfTile = kTileColumns / kMmaDepth;

/// Start / 16, the distance / 16 of groups of 8 rows (from bit 32) and the swizzle (1 from bit 62
/// on). Bit 16 is a distance that swizzled tiles of one row do not use.
Value descriptor(const ThreadBuilder &t, Value tile) {
  constexpr int64_t kFixed = 1 << 16 | 8 * kRowBytes / 16 << 32 | int64_t(1) << 62;
  Value address = LLVM::PtrToIntOp::create(t.builder, t.location, t.i32Type(), tile);
  Value start = t.div(t.bitAnd(address, t.i32(0x3ffff)), 16);
  start = arith::ExtUIOp::create(t.builder, t.location, t.i64Type(), start);
  return t.builder.createOrFold<arith::OrIOp>(t.location, start, t.i64(kFixed));
}

/// "{$first, ..., $last}".
std::string registers(int64_t first, int64_t count) {
  std::string list = "{";
  for (int64_t i = 0; i < count; ++i) {
    list += (i ? ", $" : "$") + std::to_string(first + i);
  }
  return list + "}";
}

struct Assembly {
  std::string text = "{\n.reg .pred fresh, more;\n.reg .b64 a, b;\nsetp.ne.b32 fresh, 0, 0;\n"
                     "setp.eq.b32 more, 0, 0;\nwgmma.fence.sync.aligned;\n";
  std::string type;

  explicit Assembly(Type element) : type(element.isBF16() ? "bf16" : "f16") {}

  void advance(const char *which, int64_t operand, int64_t bytes) {
    text += std::string("add.s64 ") + which + ", $" + std::to_string(operand) + ", " +
            std::to_string(bytes / 16) + ";\n";
  }
  /// `flags` says of operands in shared memory whether they are transposed.
  void multiply(const std::string &a, const char *predicate, const char *flags) {
    text += "wgmma.mma_async.sync.aligned.m64n64k16.f32." + type + "." + type + " " +
            registers(0, kSums) + ", " + a + ", b, " + predicate + ", 1, 1, " + flags + ";\n";
  }
  ThreadBuilder::Values finish(const ThreadBuilder &t, const std::string &inputs,
                               ValueRange operands) {
    text += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n}";
    std::string constraints;
    for (int64_t i = 0; i < kSums; ++i) {
      constraints += "=f,";
    }
    Type result = LLVM::LLVMStructType::getLiteral(t.builder.getContext(),
                                                   SmallVector<Type>(kSums, t.f32Type()));
    LLVM::InlineAsmOp product = LLVM::InlineAsmOp::create(
        t.builder, t.location, result, operands, text, constraints + inputs + "~{memory}",
        /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None, nullptr,
        nullptr);
    ThreadBuilder::Values sums;
    for (int64_t i = 0; i < kSums; ++i) {
      sums.push_back(t.member(product.getResult(0), i));
    }
    return sums;
  }
};

} // namespace

Value tileOffset(const ThreadBuilder &t, Value row, Value chunk) {
  Value place = t.builder.createOrFold<arith::XOrIOp>(t.location, chunk, t.rem(row, 8));
  return t.add(t.mul(row, kTileColumns), t.mul(place, 8));
}

void releaseTiles(const ThreadBuilder &t) {
  LLVM::InlineAsmOp::create(t.builder, t.location, TypeRange(), ValueRange(),
                            "fence.proxy.async.shared::cta;", "~{memory}",
                            /*has_side_effects=*/true, /*is_align_stack=*/false,
                            LLVM::TailCallKind::None, nullptr, nullptr);
}

ThreadBuilder::Values multiplyTiles(const ThreadBuilder &t, Type element, Value a, Value b,
                                    int64_t depth) {
  Assembly assembly(element);
  for (int64_t step = 0; step < depth / kMmaDepth; ++step) {
    int64_t at = step / kStepsOfTile * kGroupRows * kRowBytes + step % kStepsOfTile * kMmaDepth * 2;
    assembly.advance("a", kSums, at);
    assembly.advance("b", kSums + 1, at);
    assembly.multiply("a", step ? "more" : "fresh", "0, 0");
  }
  return assembly.finish(t, "l,l,", {descriptor(t, a), descriptor(t, b)});
}

ThreadBuilder::Values addProduct(const ThreadBuilder &t, Type element, ArrayRef<Value> a, Value b,
                                 ArrayRef<Value> sums) {
  Assembly assembly(element);
  std::string inputs;
  for (int64_t i = 0; i < kSums; ++i) {
    inputs += std::to_string(i) + ",";
  }
  int64_t firstWord = 2 * kSums;
  for (size_t word = 0; word < a.size(); word += 4) {
    assembly.advance("b", firstWord + a.size(), word / 4 * kMmaDepth * kRowBytes);
    assembly.multiply(registers(firstWord + word, 4), "more", "1");
    inputs += "r,r,r,r,";
  }
  ThreadBuilder::Values operands(sums);
  operands.append(a.begin(), a.end());
  operands.push_back(descriptor(t, b));
  return assembly.finish(t, inputs + "l,", operands);
}

} // namespace tenon::codegen::cuda
