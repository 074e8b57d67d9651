// Instruments a kernel in LLVM IR, where every access is an instruction with a pointer and a size.
// Relies on what the kernel does not get as a buffer or scratch being an alloca or a constant of
// its own.
#include "compiler/codegen/cpu/base/Guard.h"

#include "engine/KernelAbi.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"

#include <cstddef>

using namespace llvm;

namespace tenon::codegen::cpu {
namespace {

/// Larger than any access of one instruction but a copy, whose length becomes 0 instead.
constexpr uint64_t kOwnBytes = 4096;

static_assert(offsetof(TenonKernelContext, ranges) == 24 &&
                  offsetof(TenonKernelContext, rangeCount) == 32 && sizeof(TenonRange) == 24,
              "the text below has these offsets");

/// Whether [p, p + n) lies in a range that may be written, if `write` is set. Nothing lies
/// everywhere.
constexpr StringLiteral kIsInside = R"(
define i1 @tenon_is_inside(ptr %context, ptr %p, i64 %n, i1 %write) {
entry:
  %rangesAt = getelementptr i8, ptr %context, i64 24
  %ranges = load ptr, ptr %rangesAt
  %countAt = getelementptr i8, ptr %context, i64 32
  %count = load i64, ptr %countAt
  %first = ptrtoint ptr %p to i64
  %last = add i64 %first, %n
  %nothing = icmp eq i64 %n, 0
  br i1 %nothing, label %inside, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %outside
body:
  %next = add i64 %i, 1
  %range = getelementptr { ptr, i64, i64 }, ptr %ranges, i64 %i
  %begin = load ptr, ptr %range
  %bytesAt = getelementptr i8, ptr %range, i64 8
  %bytes = load i64, ptr %bytesAt
  %writableAt = getelementptr i8, ptr %range, i64 16
  %writableWord = load i64, ptr %writableAt
  %writable = icmp ne i64 %writableWord, 0
  %read = xor i1 %write, true
  %allowed = or i1 %writable, %read
  %from = ptrtoint ptr %begin to i64
  %to = add i64 %from, %bytes
  %after = icmp uge i64 %first, %from
  %before = icmp ule i64 %last, %to
  %both = and i1 %after, %before
  %found = and i1 %both, %allowed
  br i1 %found, label %inside, label %loop
inside:
  ret i1 true
outside:
  ret i1 false
}
)";

class Guard {
public:
  explicit Guard(Function &guarded)
      : kernel(guarded), builder(guarded.getContext()),
        layout(guarded.getParent()->getDataLayout()),
        isInside(guarded.getParent()->getFunction("tenon_is_inside")) {
    builder.SetInsertPoint(&*kernel.getEntryBlock().getFirstInsertionPt());
    own = builder.CreateAlloca(ArrayType::get(builder.getInt8Ty(), kOwnBytes));
    own->setAlignment(Align(64));
    failed = builder.CreateAlloca(builder.getInt1Ty());
    builder.CreateStore(builder.getFalse(), failed);
  }

  Error run() {
    SmallVector<Instruction *> all;
    for (Instruction &instruction : instructions(kernel)) {
      all.push_back(&instruction);
    }
    for (Instruction *instruction : all) {
      builder.SetInsertPoint(instruction);
      if (Error error = visit(*instruction)) {
        return error;
      }
    }
    return Error::success();
  }

private:
  Error visit(Instruction &instruction) {
    if (instruction.getParent() == &kernel.getEntryBlock() &&
        (instruction.getOpcode() == Instruction::Alloca || isOwnStore(instruction))) {
      return Error::success();
    }
    if (LoadInst *load = dyn_cast<LoadInst>(&instruction)) {
      redirect(load->getOperandUse(0), sizeOf(load->getType()), false);
    } else if (StoreInst *store = dyn_cast<StoreInst>(&instruction)) {
      redirect(store->getOperandUse(1), sizeOf(store->getValueOperand()->getType()), true);
    } else if (isa<AtomicRMWInst, AtomicCmpXchgInst>(instruction)) {
      redirect(instruction.getOperandUse(0), sizeOf(instruction.getOperand(1)->getType()), true);
    } else if (ReturnInst *end = dyn_cast<ReturnInst>(&instruction)) {
      Value *outside = builder.CreateLoad(builder.getInt1Ty(), failed);
      end->setOperand(0, builder.CreateSelect(outside, builder.getInt32(TENON_KERNEL_OUT_OF_BOUNDS),
                                              end->getReturnValue()));
    } else if (CallBase *call = dyn_cast<CallBase>(&instruction)) {
      return visitCall(*call);
    } else if (instruction.mayReadOrWriteMemory()) {
      return unknown(instruction);
    }
    return Error::success();
  }

  bool isOwnStore(const Instruction &instruction) const {
    const StoreInst *store = dyn_cast<StoreInst>(&instruction);
    return store && store->getPointerOperand() == failed;
  }

  Error visitCall(CallBase &call) {
    switch (call.getIntrinsicID()) {
    case Intrinsic::masked_load:
      redirectMasked(call, 0, call.getArgOperand(call.arg_size() - 2), call.getType(), false);
      return Error::success();
    case Intrinsic::masked_store:
      redirectMasked(call, 1, call.getArgOperand(call.arg_size() - 1),
                     call.getArgOperand(0)->getType(), true);
      return Error::success();
    case Intrinsic::masked_gather:
      redirectLanes(call, 0, call.getArgOperand(call.arg_size() - 2), call.getType(), false);
      return Error::success();
    case Intrinsic::masked_scatter:
      redirectLanes(call, 1, call.getArgOperand(call.arg_size() - 1),
                    call.getArgOperand(0)->getType(), true);
      return Error::success();
    case Intrinsic::memset:
    case Intrinsic::memcpy:
    case Intrinsic::memmove:
      redirectCopy(call);
      return Error::success();
    case Intrinsic::prefetch:
    case Intrinsic::lifetime_start:
    case Intrinsic::lifetime_end:
    case Intrinsic::assume:
    case Intrinsic::x86_sse2_pause:
      return Error::success();
    default:
      break;
    }
    Function *callee = call.getCalledFunction();
    bool isQuiet =
        callee == isInside || (callee && callee->isIntrinsic() && !call.mayReadOrWriteMemory());
    return isQuiet ? Error::success() : unknown(call);
  }

  static Error unknown(const Instruction &instruction) {
    std::string text;
    raw_string_ostream stream(text);
    instruction.print(stream);
    return createStringError("--guard does not know the memory access of '" + text + "'");
  }

  Value *sizeOf(Type *type) { return builder.getInt64(layout.getTypeStoreSize(type)); }

  /// What the kernel is called with, and its own memory, is not for the launch to give.
  bool isOwn(Value *pointer) const {
    const Value *object = getUnderlyingObject(pointer, /*MaxLookup=*/0);
    return isa<AllocaInst, GlobalVariable, Argument>(object);
  }

  /// Notes a failure and gives where to access instead.
  Value *checked(Value *pointer, Value *bytes, bool writes) {
    Value *inside =
        builder.CreateCall(isInside, {kernel.getArg(0), pointer, bytes, builder.getInt1(writes)});
    note(inside);
    return builder.CreateSelect(inside, pointer, own);
  }

  void note(Value *inside) {
    Value *before = builder.CreateLoad(builder.getInt1Ty(), failed);
    builder.CreateStore(builder.CreateOr(before, builder.CreateNot(inside)), failed);
  }

  void redirect(Use &pointer, Value *bytes, bool writes) {
    if (!isOwn(pointer)) {
      pointer.set(checked(pointer, bytes, writes));
    }
  }

  /// From the first lane that is accessed to the last.
  void redirectMasked(CallBase &call, unsigned pointer, Value *mask, Type *type, bool writes) {
    if (isOwn(call.getArgOperand(pointer))) {
      return;
    }
    unsigned lanes = cast<FixedVectorType>(type)->getNumElements();
    Value *bits = builder.CreateZExt(builder.CreateBitCast(mask, builder.getIntNTy(lanes)),
                                     builder.getInt64Ty());
    Value *zeros = builder.CreateBinaryIntrinsic(Intrinsic::ctlz, bits, builder.getFalse());
    Value *count = builder.CreateSub(builder.getInt64(64), zeros);
    // Lanes before the first that counts are not read either, and may lie outside.
    Value *skipped = builder.CreateBinaryIntrinsic(Intrinsic::cttz, bits, builder.getFalse());
    skipped = builder.CreateBinaryIntrinsic(Intrinsic::umin, skipped, count);
    Value *each = sizeOf(cast<FixedVectorType>(type)->getElementType());
    Value *before = builder.CreateMul(skipped, each);
    Value *bytes = builder.CreateMul(builder.CreateSub(count, skipped), each);
    Value *first = builder.CreatePtrAdd(call.getArgOperand(pointer), before);
    Value *safe = checked(first, bytes, writes);
    call.setArgOperand(pointer, builder.CreatePtrAdd(safe, builder.CreateNeg(before)));
  }

  void redirectLanes(CallBase &call, unsigned pointers, Value *mask, Type *type, bool writes) {
    FixedVectorType *vector = cast<FixedVectorType>(type);
    Value *all = call.getArgOperand(pointers);
    Value *safe = all;
    for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
      Value *isRead = builder.CreateExtractElement(mask, lane);
      Value *bytes =
          builder.CreateSelect(isRead, sizeOf(vector->getElementType()), builder.getInt64(0));
      Value *pointer = checked(builder.CreateExtractElement(all, lane), bytes, writes);
      safe = builder.CreateInsertElement(safe, pointer, lane);
    }
    call.setArgOperand(pointers, safe);
  }

  void redirectCopy(CallBase &call) {
    unsigned pointers = call.getIntrinsicID() == Intrinsic::memset ? 1 : 2;
    Value *bytes = call.getArgOperand(2);
    Value *inside = builder.getTrue();
    for (unsigned i = 0; i < pointers; ++i) {
      Value *pointer = call.getArgOperand(i);
      if (!isOwn(pointer)) {
        inside = builder.CreateAnd(inside,
                                   builder.CreateCall(isInside, {kernel.getArg(0), pointer, bytes,
                                                                 builder.getInt1(i == 0)}));
      }
    }
    note(inside);
    call.setArgOperand(2, builder.CreateSelect(inside, bytes, builder.getInt64(0)));
  }

  Function &kernel;
  IRBuilder<> builder;
  const DataLayout &layout;
  Function *isInside;
  AllocaInst *own = nullptr;
  AllocaInst *failed = nullptr;
};

void inlineAll(Module &module, ArrayRef<Function *> kernels) {
  for (Function &function : module) {
    if (!function.isDeclaration() && !is_contained(kernels, &function)) {
      function.setLinkage(GlobalValue::InternalLinkage);
      function.removeFnAttr(Attribute::NoInline);
      function.addFnAttr(Attribute::AlwaysInline);
    }
  }
  PassBuilder passes;
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(components);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, components, modules);
  AlwaysInlinerPass().run(module, modules);
}

} // namespace

Error guardAccesses(Module &module, ArrayRef<StringRef> names) {
  SmallVector<Function *> kernels;
  for (StringRef name : names) {
    kernels.push_back(module.getFunction(name));
    if (!kernels.back() || kernels.back()->isDeclaration()) {
      return createStringError("there is no kernel '" + name + "' to guard");
    }
  }
  inlineAll(module, kernels);
  SMDiagnostic diagnostic;
  std::unique_ptr<Module> check = parseAssemblyString(kIsInside, diagnostic, module.getContext());
  if (check) {
    check->setDataLayout(module.getDataLayout());
    check->setTargetTriple(module.getTargetTriple());
  }
  if (!check || Linker::linkModules(module, std::move(check))) {
    return createStringError("cannot add the guard: " + diagnostic.getMessage());
  }
  // The linker leaves out what is internal before it is called.
  module.getFunction("tenon_is_inside")->setLinkage(GlobalValue::InternalLinkage);
  for (Function *kernel : kernels) {
    if (Error error = Guard(*kernel).run()) {
      return error;
    }
  }
  return Error::success();
}

} // namespace tenon::codegen::cpu
