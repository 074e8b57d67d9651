// Atomic words as operations of the LLVM dialect. Relies on words of 64 bits that lie aligned.
#include "compiler/codegen/cpu/base/SharedMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

constexpr unsigned kWordBytes = 8;
/// Of the ABI's arguments.
constexpr unsigned kBuffersArgument = 1;

} // namespace

std::string preparingSymbol(StringRef symbol) { return (symbol + "_prepare").str(); }

void declareTemporaries(const KernelBuilder &kernel, ArrayRef<AffineExpr> bytes) {
  AffineMap map = AffineMap::get(0, kernel.symbols.size(), bytes, kernel.function().getContext());
  kernel.function()->setAttr(kTemporaries, AffineMapAttr::get(map));
}

Value temporaryAt(const IndexMath &math, func::FuncOp kernel, unsigned position, Type element,
                  ArrayRef<OpFoldResult> sizes) {
  Type pointer = LLVM::LLVMPointerType::get(math.builder.getContext());
  Value address = LLVM::GEPOp::create(math.builder, math.location, pointer, pointer,
                                      kernel.getArgument(kBuffersArgument),
                                      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(position)});
  Value start = LLVM::LoadOp::create(math.builder, math.location, pointer, address,
                                     /*alignment=*/0, /*isVolatile=*/false,
                                     /*isNonTemporal=*/false, /*isInvariant=*/true);
  return memrefAt(math.builder, math.location, start, element, sizes);
}

SharedWord::SharedWord(const IndexMath &math, Value words, Value number)
    : address(math.elementPointer(words, number)) {}

Value SharedWord::load(const IndexMath &math) const {
  return LLVM::LoadOp::create(math.builder, math.location, math.builder.getI64Type(), address,
                              kWordBytes, /*isVolatile=*/false, /*isNonTemporal=*/false,
                              /*isInvariant=*/false, /*isInvariantGroup=*/false,
                              LLVM::AtomicOrdering::acquire);
}

void SharedWord::set(const IndexMath &math, Value value) const {
  LLVM::StoreOp::create(math.builder, math.location, value, address, kWordBytes,
                        /*isVolatile=*/false, /*isNonTemporal=*/false, /*isInvariantGroup=*/false,
                        LLVM::AtomicOrdering::monotonic);
}

Value SharedWord::add(const IndexMath &math, Value value) const {
  return LLVM::AtomicRMWOp::create(math.builder, math.location, LLVM::AtomicBinOp::add, address,
                                   value, LLVM::AtomicOrdering::acq_rel);
}

Value SharedWord::exchange(const IndexMath &math, Value from, Value to) const {
  Value result =
      LLVM::AtomicCmpXchgOp::create(math.builder, math.location, address, from, to,
                                    LLVM::AtomicOrdering::acq_rel, LLVM::AtomicOrdering::monotonic);
  return LLVM::ExtractValueOp::create(math.builder, math.location, result, ArrayRef<int64_t>{1});
}

void SharedWord::waitFor(const IndexMath &math, Value least, engine::CpuLevel level) const {
  bool isX86 = engine::rowOf(level).architecture == engine::Architecture::X86_64;
  scf::WhileOp::create(
      math.builder, math.location, TypeRange(), ValueRange(),
      [&](OpBuilder &b, Location location, ValueRange) {
        Value isEarlier = arith::CmpIOp::create(b, location, arith::CmpIPredicate::slt,
                                                load(IndexMath(b, location)), least);
        scf::ConditionOp::create(b, location, isEarlier, ValueRange());
      },
      [&](OpBuilder &b, Location location, ValueRange) {
        if (isX86) {
          LLVM::CallIntrinsicOp::create(b, location, b.getStringAttr("llvm.x86.sse2.pause"),
                                        ValueRange());
        }
        scf::YieldOp::create(b, location);
      });
}

} // namespace tenon::codegen::cpu
