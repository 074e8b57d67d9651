// The steps of EmitModule.h: verification, the target's passes on each function, the backend.
// Relies on LLVM's new pass manager for the first part and its legacy one for the backend.
#include "compiler/codegen/common/region/EmitModule.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

namespace tenon::codegen {
namespace {

llvm::TargetLibraryInfoImpl emptyLibrary(const llvm::TargetMachine &machine) {
  llvm::TargetLibraryInfoImpl library{machine.getTargetTriple()};
  library.disableAllFunctions();
  return library;
}

void optimize(llvm::Module &module, const Emission &emission) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  functions.registerPass(
      [&] { return llvm::TargetLibraryAnalysis(emptyLibrary(emission.machine)); });
  llvm::PassBuilder builder(&emission.machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::FunctionPassManager passes;
  emission.addPasses(passes);
  for (llvm::Function &function : module) {
    if (!function.isDeclaration()) {
      passes.run(function, functions);
    }
  }
}

} // namespace

llvm::Expected<std::string> emitModule(llvm::Module &module, const Emission &emission) {
  module.setTargetTriple(emission.machine.getTargetTriple());
  module.setDataLayout(emission.machine.createDataLayout());
  std::string problem;
  llvm::raw_string_ostream problemStream(problem);
  if (llvm::verifyModule(module, &problemStream)) {
    return llvm::createStringError("generated LLVM IR is not valid: " + problem);
  }
  emission.prepare(module);
  optimize(module, emission);

  llvm::SmallString<0> code;
  llvm::raw_svector_ostream stream(code);
  llvm::legacy::PassManager backend;
  backend.add(new llvm::TargetLibraryInfoWrapperPass(emptyLibrary(emission.machine)));
  if (emission.machine.addPassesToEmitFile(backend, stream, /*DwoOut=*/nullptr, emission.type,
                                           /*DisableVerify=*/true)) {
    return llvm::createStringError("the backend of " + emission.machine.getTargetTriple().str() +
                                   " cannot emit this kind of file");
  }
  backend.run(module);
  return std::string(code.data(), code.size());
}

llvm::Expected<std::string> emitModule(mlir::ModuleOp module, const Emission &emission) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated =
      mlir::translateModuleToLLVMIR(module, context, "tenon", /*disableVerification=*/true);
  if (!translated) {
    return llvm::createStringError("cannot translate the kernels to LLVM IR");
  }
  return emitModule(*translated, emission);
}

} // namespace tenon::codegen
