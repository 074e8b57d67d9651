// Replaces each call of an NVPTX intrinsic, and each piece of assembly, by a call of the model,
// then compiles for this machine.
#include "test/unit/codegen/emulator/GpuEmulator.h"

#include "compiler/target/Target.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "test/unit/codegen/emulator/WarpModel.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Support/TargetSelect.h"

#include <sys/mman.h>
#include <unistd.h>

using namespace llvm;

namespace tenon::codegen::cuda {
namespace {

extern "C" void tenonEmulate(const InstructionModel *instruction, void *result,
                             const void *arguments) {
  emulate(*instruction, result, arguments);
}

extern "C" void *tenonShared() { return currentShared(); }

/// x86 has no conversion from float to bfloat, and its compiler calls this; the result is the low
/// half of the register that a float is returned in.
extern "C" float tenonNarrow(float value) {
  uint32_t bits = llvm::bit_cast<uint32_t>(value);
  uint32_t narrow = value != value ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return llvm::bit_cast<float>(narrow);
}

extern "C" float tenonNarrowDouble(double value) { return tenonNarrow(static_cast<float>(value)); }

void replaceCall(CallInst &call, FunctionCallee model, Constant *instruction) {
  Function &function = *call.getFunction();
  IRBuilder<> entry(&*function.getEntryBlock().getFirstInsertionPt()), at(&call);
  SmallVector<Type *> types;
  for (Value *argument : call.args()) {
    types.push_back(argument->getType());
  }
  StructType *layout = StructType::get(function.getContext(), types);
  Value *arguments = entry.CreateAlloca(layout);
  Value *result = call.getType()->isVoidTy() ? ConstantPointerNull::get(entry.getPtrTy())
                                             : (Value *)entry.CreateAlloca(call.getType());
  for (auto [i, argument] : enumerate(call.args())) {
    at.CreateStore(argument, at.CreateStructGEP(layout, arguments, i));
  }
  at.CreateCall(model, {instruction, result, arguments});
  if (!call.getType()->isVoidTy()) {
    call.replaceAllUsesWith(at.CreateLoad(call.getType(), result));
  }
  call.eraseFromParent();
}

/// Where its model is.
Constant *placeOfModel(Module &module, StringRef name) {
  IRBuilder<> builder(module.getContext());
  uint64_t address = reinterpret_cast<uintptr_t>(&modelOf(name.str()));
  return ConstantExpr::getIntToPtr(builder.getInt64(address), builder.getPtrTy());
}

/// Intrinsics by their names, assembly by its text.
void replaceIntrinsics(Module &module) {
  IRBuilder<> builder(module.getContext());
  FunctionCallee model =
      module.getOrInsertFunction("tenonEmulate", builder.getVoidTy(), builder.getPtrTy(),
                                 builder.getPtrTy(), builder.getPtrTy());
  for (Function &function : module) {
    for (Instruction &instruction : make_early_inc_range(instructions(function))) {
      CallInst *call = dyn_cast<CallInst>(&instruction);
      if (call && call->isInlineAsm()) {
        InlineAsm *assembly = cast<InlineAsm>(call->getCalledOperand());
        std::string text = assembly->getAsmString().str();
        // Products are read, with what their operands are.
        bool isProduct = StringRef(text).contains("wgmma.");
        std::string name = isProduct ? assembly->getConstraintString().str() + "|" + text : text;
        replaceCall(*call, model, placeOfModel(module, name));
      }
    }
  }
  for (Function &function : make_early_inc_range(module)) {
    if (!function.getName().starts_with("llvm.nvvm.")) {
      continue;
    }
    Constant *instruction = placeOfModel(module, function.getName());
    for (User *user : make_early_inc_range(function.users())) {
      replaceCall(*cast<CallInst>(user), model, instruction);
    }
    function.eraseFromParent();
  }
}

/// Each shared array becomes a part of the running block's memory, found at the start of a
/// function. Returns the bytes of those with a size.
uint64_t placeShared(Module &module) {
  IRBuilder<> builder(module.getContext());
  FunctionCallee memory = module.getOrInsertFunction("tenonShared", builder.getPtrTy());
  uint64_t end = 0;
  for (GlobalVariable &global : make_early_inc_range(module.globals())) {
    if (global.getAddressSpace() != 3) {
      continue;
    }
    convertUsersOfConstantsToInstructions({&global});
    DenseMap<Function *, Value *> places;
    for (Use &use : make_early_inc_range(global.uses())) {
      Function *function = cast<Instruction>(use.getUser())->getFunction();
      Value *&place = places[function];
      if (!place) {
        builder.SetInsertPoint(&*function->getEntryBlock().getFirstInsertionPt());
        place = builder.CreateConstGEP1_64(builder.getInt8Ty(), builder.CreateCall(memory), end);
        place = builder.CreateAddrSpaceCast(place, global.getType());
      }
      use.set(place);
    }
    end += alignTo(module.getDataLayout().getTypeAllocSize(global.getValueType()), 128);
    global.eraseFromParent();
  }
  return end;
}

/// A function over arrays of arguments for each kernel, so that the host can call it.
void addEntries(Module &module, StringMap<uint32_t> &clusters) {
  SmallVector<Function *> kernels;
  for (Function &function : module) {
    if (function.getCallingConv() == CallingConv::PTX_Kernel) {
      kernels.push_back(&function);
    }
  }
  IRBuilder<> builder(module.getContext());
  for (Function *kernel : kernels) {
    kernel->setCallingConv(CallingConv::C);
    StringRef cluster = kernel->getFnAttribute("nvvm.cluster_dim").getValueAsString();
    clusters[kernel->getName()] = 1;
    cluster.split(',').first.getAsInteger(10, clusters[kernel->getName()]);
    Function *entry = Function::Create(
        FunctionType::get(builder.getVoidTy(),
                          {builder.getPtrTy(), builder.getPtrTy(), builder.getPtrTy()}, false),
        GlobalValue::ExternalLinkage, kernel->getName() + "_entry", module);
    builder.SetInsertPoint(BasicBlock::Create(module.getContext(), "", entry));
    SmallVector<Value *> arguments;
    unsigned counts[2] = {0, 0}, maps = 0;
    for (Argument &argument : kernel->args()) {
      if (argument.hasByValAttr()) {
        // The host's object in place of a copy on the stack.
        argument.removeAttr(Attribute::ByVal);
        arguments.push_back(builder.CreateConstGEP1_64(builder.getInt8Ty(), entry->getArg(2),
                                                       maps++ * sizeof(EmulatedTensorMap)));
        continue;
      }
      unsigned isSize = argument.getType()->isIntegerTy();
      Value *from =
          builder.CreateConstGEP1_64(argument.getType(), entry->getArg(isSize), counts[isSize]++);
      arguments.push_back(builder.CreateLoad(argument.getType(), from));
    }
    builder.CreateCall(kernel, arguments);
    builder.CreateRetVoid();
  }
}

} // namespace

Expected<std::unique_ptr<GpuEmulator>> GpuEmulator::create(mlir::ModuleOp source) {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<LLVMContext>();
  std::unique_ptr<Module> module = mlir::translateModuleToLLVMIR(source, *context);
  if (!module) {
    return createStringError("cannot translate the module");
  }
  std::unique_ptr<GpuEmulator> emulator(new GpuEmulator());
  Expected<orc::JITTargetMachineBuilder> machine = orc::JITTargetMachineBuilder::detectHost();
  if (!machine) {
    return machine.takeError();
  }
  // Kernels run for a few blocks: to compile them takes longer.
  machine->setCodeGenOptLevel(CodeGenOptLevel::None);
  Expected<std::unique_ptr<orc::LLJIT>> jit =
      orc::LLJITBuilder().setJITTargetMachineBuilder(*machine).create();
  if (!jit) {
    return jit.takeError();
  }
  emulator->jit = std::move(*jit);
  module->setTargetTriple(emulator->jit->getTargetTriple());
  module->setDataLayout(emulator->jit->getDataLayout());
  replaceIntrinsics(*module);
  emulator->staticBytes = placeShared(*module);
  addEntries(*module, emulator->clusters);
  orc::JITDylib &main = emulator->jit->getMainJITDylib();
  orc::SymbolMap symbols;
  auto add = [&](StringRef name, auto *function) {
    symbols[emulator->jit->mangleAndIntern(name)] = {orc::ExecutorAddr::fromPtr(function),
                                                     JITSymbolFlags::Exported};
  };
  add("tenonEmulate", &tenonEmulate);
  add("tenonShared", &tenonShared);
  add("__truncsfbf2", &tenonNarrow);
  add("__truncdfbf2", &tenonNarrowDouble);
  if (Error error = main.define(orc::absoluteSymbols(std::move(symbols)))) {
    return std::move(error);
  }
  if (Error error = emulator->jit->addIRModule(
          orc::ThreadSafeModule(std::move(module), std::move(context)))) {
    return std::move(error);
  }
  return emulator;
}

GpuEmulator::~GpuEmulator() = default;

Error GpuEmulator::launch(StringRef kernel, ArrayRef<void *> buffers, ArrayRef<int64_t> sizes,
                          int64_t blocks, uint32_t threads, uint64_t sharedBytes, bool reversed,
                          ArrayRef<EmulatedTensorMap> maps, bool together) {
  Expected<orc::ExecutorAddr> address = jit->lookup((kernel + "_entry").str());
  if (!address) {
    return address.takeError();
  }
  using Entry = void (*)(void *const *, const int64_t *, const EmulatedTensorMap *);
  Entry entry = address->toPtr<Entry>();
  uint32_t grid = static_cast<uint32_t>(blocks);
  LaunchShape shape{grid, threads, together ? grid : clusters.lookup(kernel), reversed,
                    staticBytes + sharedBytes};
  if (blocks % shape.cluster != 0) {
    return createStringError(kernel + ": the grid is not a multiple of the cluster");
  }
  // Of no architecture more than of this one.
  if (int64_t(shape.sharedBytes) > target::targetOf("sm_90").sharedBytes) {
    return createStringError(kernel + ": asks for " + Twine(shape.sharedBytes) +
                             " bytes of shared memory, more than a GPU has");
  }
  for (int64_t block = 0; block < blocks; block += shape.cluster) {
    std::string fault =
        runCluster(shape, block, [&] { entry(buffers.data(), sizes.data(), maps.data()); });
    if (!fault.empty()) {
      return createStringError(kernel + ", block " + Twine(block) + ": " + fault);
    }
  }
  return Error::success();
}

Error GpuEmulator::launchTogether(StringRef kernel, ArrayRef<std::vector<RankLaunch>> launches,
                                  int64_t blocks, uint32_t threads, bool reversed, uint32_t lag) {
  Expected<orc::ExecutorAddr> address = jit->lookup((kernel + "_entry").str());
  if (!address) {
    return address.takeError();
  }
  using Entry = void (*)(void *const *, const int64_t *, const EmulatedTensorMap *);
  Entry entry = address->toPtr<Entry>();
  uint32_t ranks = static_cast<uint32_t>(launches.front().size());
  LaunchShape shape{.blocks = static_cast<uint32_t>(blocks),
                    .threads = threads,
                    .cluster = static_cast<uint32_t>(blocks) * ranks,
                    .reversed = reversed,
                    .sharedBytes = staticBytes,
                    .ranks = ranks,
                    .lag = lag};
  std::string fault = runCluster(shape, 0, [&] {
    for (const std::vector<RankLaunch> &launch : launches) {
      const RankLaunch &own = launch[currentRank()];
      entry(own.buffers.data(), own.sizes.data(), nullptr);
      meetRank();
    }
  });
  return fault.empty() ? Error::success() : createStringError(kernel + ": " + fault);
}

GuardedBytes::GuardedBytes(size_t size) {
  size_t page = sysconf(_SC_PAGESIZE), rounded = (size + 15) / 16 * 16;
  mapped = (rounded + page - 1) / page * page + page;
  mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(static_cast<char *>(mapping) + mapped - page, page, PROT_NONE);
  start = static_cast<char *>(mapping) + mapped - page - rounded;
}

GuardedBytes::~GuardedBytes() {
  if (mapping) {
    munmap(mapping, mapped);
  }
}

GuardedBytes::GuardedBytes(GuardedBytes &&other)
    : mapping(std::exchange(other.mapping, nullptr)), start(other.start), mapped(other.mapped) {}

} // namespace tenon::codegen::cuda
