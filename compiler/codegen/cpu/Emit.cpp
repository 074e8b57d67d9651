// LLVM IR to an ELF relocatable with a short optimizer pipeline: MLIR has already vectorized,
// hoisted and unrolled. Relies on the X86 backend only; nothing of the host is asked.
#include "compiler/codegen/cpu/Emit.h"

#include "compiler/codegen/cpu/Levels.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/DeadStoreElimination.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

namespace tenon::codegen::cpu {

namespace {

const llvm::Target &x86Target() {
  static const llvm::Target *target = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    std::string error;
    return llvm::TargetRegistry::lookupTarget(llvm::Triple(kTriple), error);
  }();
  return *target;
}

std::unique_ptr<llvm::TargetMachine> targetMachine(const LevelTarget &target) {
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  // One section a function: what the linker finds unused goes.
  options.FunctionSections = true;
  return std::unique_ptr<llvm::TargetMachine>(x86Target().createTargetMachine(
      llvm::Triple(kTriple), target.cpu, target.features, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

/// No function is known by its name: a code object has no libm to call.
llvm::TargetLibraryInfoImpl emptyLibrary() {
  llvm::TargetLibraryInfoImpl library{llvm::Triple(kTriple)};
  library.disableAllFunctions();
  return library;
}

void setAttributes(llvm::Module &module, const LevelTarget &target) {
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

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  functions.registerPass([] { return llvm::TargetLibraryAnalysis(emptyLibrary()); });
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                       /*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::SimplifyCFGPass());
  for (llvm::Function &function : module) {
    if (!function.isDeclaration()) {
      passes.run(function, functions);
    }
  }
}

bool isProvided(llvm::StringRef symbol) {
  return symbol == "memcpy" || symbol == "memset" || symbol == "memmove" ||
         symbol == "__truncsfbf2" || symbol.starts_with("tenon_product_");
}

/// A call that a code object cannot have is a hole in our lowering: better named here than by the
/// linker, which sees all regions at once.
llvm::Error checkImports(llvm::StringRef object) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "kernel.o"));
  if (!file) {
    return file.takeError();
  }
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!flags || !name) {
      return llvm::joinErrors(flags.takeError(), name.takeError());
    }
    bool undefined = *flags & llvm::object::SymbolRef::SF_Undefined;
    if (undefined && !name->empty() && !isProvided(*name)) {
      return llvm::createStringError("generated code calls '" + *name +
                                     "', which a code object does not contain");
    }
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::string> emitObject(llvm::Module &module, engine::CpuLevel level) {
  const LevelTarget &target = targetOf(level);
  std::unique_ptr<llvm::TargetMachine> machine = targetMachine(target);
  module.setTargetTriple(llvm::Triple(kTriple));
  module.setDataLayout(machine->createDataLayout());
  setAttributes(module, target);
  std::string problem;
  llvm::raw_string_ostream problemStream(problem);
  if (llvm::verifyModule(module, &problemStream)) {
    return llvm::createStringError("generated LLVM IR is not valid: " + problem);
  }
  optimize(module, *machine);

  llvm::SmallString<0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager backend;
  backend.add(new llvm::TargetLibraryInfoWrapperPass(emptyLibrary()));
  if (machine->addPassesToEmitFile(backend, stream, /*DwoOut=*/nullptr,
                                   llvm::CodeGenFileType::ObjectFile, /*DisableVerify=*/true)) {
    return llvm::createStringError("the x86 backend cannot emit objects");
  }
  backend.run(module);
  if (llvm::Error error = checkImports(object)) {
    return std::move(error);
  }
  return std::string(object.data(), object.size());
}

llvm::Expected<std::string> emitObject(mlir::ModuleOp module, engine::CpuLevel level) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated =
      mlir::translateModuleToLLVMIR(module, context, "tenon", /*disableVerification=*/true);
  if (!translated) {
    return llvm::createStringError("cannot translate the kernel to LLVM IR");
  }
  return emitObject(*translated, level);
}

} // namespace tenon::codegen::cpu
