// LLVM IR to an ELF relocatable with a short optimizer pipeline: MLIR has already vectorized,
// hoisted and unrolled. Nothing of the host is asked.
#include "compiler/codegen/cpu/base/Emit.h"

#include "compiler/codegen/common/region/EmitModule.h"
#include "compiler/codegen/cpu/base/Guard.h"
#include "engine/Level.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/DeadStoreElimination.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

namespace tenon::codegen::cpu {

namespace {

const llvm::Target &backendOf(const llvm::Triple &triple) {
  static const bool isRegistered = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeRISCVTargetInfo();
    LLVMInitializeRISCVTarget();
    LLVMInitializeRISCVTargetMC();
    LLVMInitializeRISCVAsmPrinter();
    return true;
  }();
  (void)isRegistered;
  std::string error;
  return *llvm::TargetRegistry::lookupTarget(triple, error);
}

/// "+avx512vnni,+avx512bf16", as LLVM is told.
std::string featuresOf(const engine::CpuLevelRow &target) {
  llvm::SmallVector<llvm::StringRef> features;
  for (const engine::CpuFeature &feature : engine::kCpuFeatures) {
    if (feature.architecture == target.architecture && (target.features & feature.bit) != 0 &&
        !feature.llvm.empty()) {
      features.push_back(feature.llvm);
    }
  }
  return llvm::join(features, ",");
}

std::unique_ptr<llvm::TargetMachine> targetMachine(const engine::CpuLevelRow &target) {
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  // One section a function: what the linker finds unused goes.
  options.FunctionSections = true;
  llvm::Triple triple{llvm::StringRef(target.triple)};
  return std::unique_ptr<llvm::TargetMachine>(backendOf(triple).createTargetMachine(
      triple, target.cpu, featuresOf(target), options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      llvm::CodeGenOptLevel::Default));
}

void setAttributes(llvm::Module &module, const engine::CpuLevelRow &target) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) {
      // All callees are linked into the same object: no PLT.
      function.setDSOLocal(!function.isIntrinsic());
      continue;
    }
    function.addFnAttr("tune-cpu", target.tune);
    function.addFnAttr("prefer-vector-width", std::to_string(target.vectorBits));
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

/// Keeps LLVM from computing in f16 what the model widens: x86 has no such instructions, and makes
/// a maximum of f16 of a dozen, where that of f32 is one or a few.
void keepWide(llvm::Module &module) {
  llvm::SmallVector<llvm::Instruction *> widened;
  for (llvm::Function &function : module) {
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      bool isHalf = llvm::isa<llvm::FPExtInst>(instruction) &&
                    instruction.getOperand(0)->getType()->getScalarType()->isHalfTy();
      if (isHalf) {
        widened.push_back(&instruction);
      }
    }
  }
  for (llvm::Instruction *value : widened) {
    llvm::IRBuilder<> builder(value->getNextNode());
    llvm::Value *fence = builder.CreateArithmeticFence(value, value->getType());
    value->replaceUsesWithIf(fence, [&](llvm::Use &use) { return use.getUser() != fence; });
  }
}

void addPasses(llvm::FunctionPassManager &passes) {
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                       /*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::SimplifyCFGPass());
}

bool isProvided(llvm::StringRef symbol) {
  return symbol == "memcpy" || symbol == "memset" || symbol == "memmove" ||
         symbol == "__truncsfbf2" || symbol == "__truncsfhf2" || symbol == "__extendhfsf2" ||
         symbol.starts_with("tenon_product_") || symbol.starts_with(kUserPrefix);
}

/// A call that a code object cannot have is a hole in our lowering: better named here than by the
/// linker, which sees all regions at once.
llvm::Error checkImports(llvm::StringRef object) {
  llvm::Expected<std::vector<std::string>> called = undefinedSymbols(object);
  if (!called) {
    return called.takeError();
  }
  for (const std::string &name : *called) {
    if (!isProvided(name)) {
      return llvm::createStringError("generated code calls '" + name +
                                     "', which a code object does not contain");
    }
  }
  return llvm::Error::success();
}

/// Guarded kernels with more instructions take longer to optimize than to run; those of products,
/// which run long, have about 4,000.
constexpr unsigned kLongGuarded = 6000;

unsigned instructionsOf(const llvm::Module &module) {
  unsigned count = 0;
  for (const llvm::Function &function : module) {
    count += function.getInstructionCount();
  }
  return count;
}

template <typename Module>
llvm::Expected<std::string> emit(Module &module, engine::CpuLevel level,
                                 llvm::ArrayRef<llvm::StringRef> guarded = {}) {
  const engine::CpuLevelRow &target = engine::rowOf(level);
  std::unique_ptr<llvm::TargetMachine> machine = targetMachine(target);
  llvm::Error problem = llvm::Error::success();
  auto prepare = [&](llvm::Module &translated) {
    if (!guarded.empty()) {
      problem = guardAccesses(translated, guarded);
      // AArch64 and RISC-V select instructions in another way without optimization.
      if (machine->getTargetTriple().isX86() && instructionsOf(translated) > kLongGuarded) {
        machine->setOptLevel(llvm::CodeGenOptLevel::None);
      }
    }
    if (machine->getTargetTriple().isX86()) {
      keepWide(translated);
    }
    setAttributes(translated, target);
  };
  llvm::Expected<std::string> object =
      emitModule(module, {*machine, llvm::CodeGenFileType::ObjectFile, prepare, addPasses});
  if (problem) {
    llvm::consumeError(object.takeError());
    return std::move(problem);
  }
  if (!object) {
    return object.takeError();
  }
  if (llvm::Error error = checkImports(*object)) {
    return std::move(error);
  }
  return object;
}

} // namespace

/// Those that have all of the flags `with` and none of `without`.
static llvm::Expected<std::vector<std::string>> symbolsOf(llvm::StringRef object, uint32_t with,
                                                          uint32_t without) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "kernel.o"));
  if (!file) {
    return file.takeError();
  }
  std::vector<std::string> names;
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!flags || !name) {
      return llvm::joinErrors(flags.takeError(), name.takeError());
    }
    if ((*flags & with) == with && (*flags & without) == 0 && !name->empty()) {
      names.push_back(name->str());
    }
  }
  return names;
}

llvm::Expected<std::vector<std::string>> undefinedSymbols(llvm::StringRef object) {
  return symbolsOf(object, llvm::object::SymbolRef::SF_Undefined, 0);
}

llvm::Expected<std::vector<std::string>> definedSymbols(llvm::StringRef object) {
  return symbolsOf(object, llvm::object::SymbolRef::SF_Global,
                   llvm::object::SymbolRef::SF_Undefined);
}

llvm::Expected<std::string> emitObject(llvm::Module &module, engine::CpuLevel level) {
  return emit(module, level);
}

llvm::Expected<std::string> emitObject(mlir::ModuleOp module, engine::CpuLevel level,
                                       llvm::ArrayRef<llvm::StringRef> guarded) {
  return emit(module, level, guarded);
}

} // namespace tenon::codegen::cpu
