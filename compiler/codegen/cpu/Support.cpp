// The support objects of a level: the product micro-kernels, and the functions that LLVM may call.
// Those are LLVM IR because they must not be compiled into calls of themselves.
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/codegen/cpu/base/Emit.h"
#include "compiler/codegen/cpu/gemm/LowBitKernels.h"
#include "compiler/codegen/cpu/gemm/MicroKernel.h"
#include "compiler/codegen/cpu/gemm/PanelPacking.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"

namespace tenon::codegen::cpu {

namespace {

/// The one of the called functions that stands for all.
constexpr llvm::StringLiteral kCalled = "memcpy";

/// Memory: 32 bytes at a time, then bytes. memmove copies backwards when the destination begins
/// inside the source; forwards is right for all other overlaps, as a block is read before it is
/// written.
/// __truncsfbf2: to the nearest bf16, ties to even, in the low bits of the result's register.
/// Called on levels without such an instruction by code that moves single elements.
constexpr llvm::StringLiteral kCalledFunctions = R"(
define ptr @memcpy(ptr %to, ptr %from, i64 %n) {
  %r = call ptr @memmove(ptr %to, ptr %from, i64 %n)
  ret ptr %to
}

define ptr @memmove(ptr %to, ptr %from, i64 %n) {
entry:
  %toInt = ptrtoint ptr %to to i64
  %fromInt = ptrtoint ptr %from to i64
  %distance = sub i64 %toInt, %fromInt
  %backwards = icmp ult i64 %distance, %n
  br i1 %backwards, label %back, label %blocks
blocks:
  %i = phi i64 [ 0, %entry ], [ %iNext, %block ]
  %iNext = add i64 %i, 32
  %fits = icmp ule i64 %iNext, %n
  br i1 %fits, label %block, label %bytes
block:
  %source = getelementptr i8, ptr %from, i64 %i
  %value = load <32 x i8>, ptr %source, align 1
  %target = getelementptr i8, ptr %to, i64 %i
  store <32 x i8> %value, ptr %target, align 1
  br label %blocks
bytes:
  %j = phi i64 [ %i, %blocks ], [ %jNext, %byte ]
  %more = icmp ult i64 %j, %n
  br i1 %more, label %byte, label %done
byte:
  %sourceByte = getelementptr i8, ptr %from, i64 %j
  %valueByte = load i8, ptr %sourceByte, align 1
  %targetByte = getelementptr i8, ptr %to, i64 %j
  store i8 %valueByte, ptr %targetByte, align 1
  %jNext = add i64 %j, 1
  br label %bytes
back:
  %left = phi i64 [ %n, %entry ], [ %leftNext, %backBlock ]
  %leftNext = sub i64 %left, 32
  %backFits = icmp uge i64 %left, 32
  br i1 %backFits, label %backBlock, label %backBytes
backBlock:
  %backSource = getelementptr i8, ptr %from, i64 %leftNext
  %backValue = load <32 x i8>, ptr %backSource, align 1
  %backTarget = getelementptr i8, ptr %to, i64 %leftNext
  store <32 x i8> %backValue, ptr %backTarget, align 1
  br label %back
backBytes:
  %rest = phi i64 [ %left, %back ], [ %restNext, %backByte ]
  %restNext = sub i64 %rest, 1
  %backMore = icmp ugt i64 %rest, 0
  br i1 %backMore, label %backByte, label %done
backByte:
  %backSourceByte = getelementptr i8, ptr %from, i64 %restNext
  %backValueByte = load i8, ptr %backSourceByte, align 1
  %backTargetByte = getelementptr i8, ptr %to, i64 %restNext
  store i8 %backValueByte, ptr %backTargetByte, align 1
  br label %backBytes
done:
  ret ptr %to
}

define ptr @memset(ptr %to, i32 %value, i64 %n) {
entry:
  %byteValue = trunc i32 %value to i8
  %first = insertelement <32 x i8> poison, i8 %byteValue, i64 0
  %all = shufflevector <32 x i8> %first, <32 x i8> poison, <32 x i32> zeroinitializer
  br label %blocks
blocks:
  %i = phi i64 [ 0, %entry ], [ %iNext, %block ]
  %iNext = add i64 %i, 32
  %fits = icmp ule i64 %iNext, %n
  br i1 %fits, label %block, label %bytes
block:
  %target = getelementptr i8, ptr %to, i64 %i
  store <32 x i8> %all, ptr %target, align 1
  br label %blocks
bytes:
  %j = phi i64 [ %i, %blocks ], [ %jNext, %byte ]
  %more = icmp ult i64 %j, %n
  br i1 %more, label %byte, label %done
byte:
  %targetByte = getelementptr i8, ptr %to, i64 %j
  store i8 %byteValue, ptr %targetByte, align 1
  %jNext = add i64 %j, 1
  br label %bytes
done:
  ret ptr %to
}

define float @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %kept = lshr i32 %bits, 16
  %odd = and i32 %kept, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %isNan = fcmp uno float %x, %x
  %rounded = select i1 %isNan, i32 2143289344, i32 %sum
  %upper = lshr i32 %rounded, 16
  %result = bitcast i32 %upper to float
  ret float %result
}
)";

/// f16 in the low bits of a register, which levels without instructions for it call; subnormal
/// numbers are multiples of 2^-24, which are the steps of floats from 0.5 on.
constexpr llvm::StringLiteral kHalfFunctions = R"(
define float @__extendhfsf2(float %x) {
  %bits = bitcast float %x to i32
  %magnitude = and i32 %bits, 32767
  %moved = shl i32 %magnitude, 13
  %normal = add i32 %moved, 939524096
  %special = add i32 %moved, 1879048192
  %quiet = or i32 %special, 4194304
  %whole = uitofp i32 %magnitude to float
  %small = fmul float %whole, 0x3E70000000000000
  %smallBits = bitcast float %small to i32
  %isSmall = icmp ult i32 %magnitude, 1024
  %isInfinite = icmp eq i32 %magnitude, 31744
  %isNan = icmp ugt i32 %magnitude, 31744
  %finite = select i1 %isSmall, i32 %smallBits, i32 %normal
  %number = select i1 %isInfinite, i32 %special, i32 %finite
  %any = select i1 %isNan, i32 %quiet, i32 %number
  %low = and i32 %bits, 32768
  %sign = shl i32 %low, 16
  %signed = or i32 %any, %sign
  %result = bitcast i32 %signed to float
  ret float %result
}

define float @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %magnitude = and i32 %bits, 2147483647
  %value = bitcast i32 %magnitude to float
  %stepped = fadd float %value, 5.000000e-01
  %steppedBits = bitcast float %stepped to i32
  %small = sub i32 %steppedBits, 1056964608
  %kept = lshr i32 %magnitude, 13
  %odd = and i32 %kept, 1
  %rebased = sub i32 %magnitude, 939520001
  %rounded = add i32 %rebased, %odd
  %normal = lshr i32 %rounded, 13
  %payload = and i32 %kept, 511
  %quiet = or i32 %payload, 32256
  %isSmall = icmp ult i32 %magnitude, 947912704
  %isLarge = icmp uge i32 %magnitude, 1199570944
  %isNan = icmp ugt i32 %magnitude, 2139095040
  %finite = select i1 %isSmall, i32 %small, i32 %normal
  %number = select i1 %isLarge, i32 31744, i32 %finite
  %any = select i1 %isNan, i32 %quiet, i32 %number
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %signed = or i32 %any, %sign
  %result = bitcast i32 %signed to float
  ret float %result
}
)";

/// Of x86-64 and Arm every level converts f16.
bool callsHalfFunctions(engine::CpuLevel level) {
  return engine::rowOf(level).architecture == engine::Architecture::RiscV64;
}

} // namespace

std::vector<std::string> supportNames() {
  std::vector<std::string> names = {kCalled.str(), kPackTransposed.str()};
  for (ProductType type : kProductTypes) {
    names.push_back(anyRowsSymbol(type));
  }
  names.push_back(invariantSymbol(ProductType::BF16));
  for (int64_t elements : kPackedWords) {
    names.push_back(packRowsSymbol(elements));
  }
  for (int64_t columns : kNarrowColumns) {
    names.push_back(anyRowsSymbol(ProductType::F32, columns));
    names.push_back(anyRowsSymbol(ProductType::U8S8, columns));
  }
  llvm::append_range(names, lowBitSymbols());
  return names;
}

llvm::Expected<std::vector<std::string>> supportOf(llvm::ArrayRef<llvm::StringRef> kernels) {
  llvm::StringSet<> called = {kCalled};
  for (llvm::StringRef kernel : kernels) {
    llvm::Expected<std::vector<std::string>> undefined = undefinedSymbols(kernel);
    if (!undefined) {
      return undefined.takeError();
    }
    for (const std::string &name : *undefined) {
      called.insert(name);
    }
  }
  std::vector<std::string> names = supportNames();
  std::erase_if(names, [&](const std::string &name) { return !called.contains(name); });
  return names;
}

llvm::Expected<std::string> supportObject(engine::CpuLevel level, llvm::StringRef name) {
  if (name == kCalled) {
    llvm::LLVMContext context;
    llvm::SMDiagnostic diagnostic;
    std::string text =
        kCalledFunctions.str() + (callsHalfFunctions(level) ? kHalfFunctions.str() : "");
    std::unique_ptr<llvm::Module> called = llvm::parseAssemblyString(text, diagnostic, context);
    return called ? emitObject(*called, level)
                  : llvm::createStringError("cannot parse the support code: " +
                                            diagnostic.getMessage());
  }
  mlir::DialectRegistry registry;
  registerEmitDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> kernels = buildProductKernels(&context, level, name);
  if (mlir::failed(lowerToLlvmDialect(*kernels))) {
    return llvm::createStringError("cannot lower the product kernels");
  }
  return emitObject(*kernels, level);
}

} // namespace tenon::codegen::cpu
