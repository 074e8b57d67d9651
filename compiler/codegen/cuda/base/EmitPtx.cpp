// LLVM IR to PTX with a short optimizer pipeline; the NVPTX backend adds its own passes (address
// spaces, vectors of loads and stores, strength reduction). Nothing of the host is asked: no
// libdevice.
#include "compiler/codegen/cuda/base/EmitPtx.h"

#include "compiler/codegen/common/region/EmitModule.h"
#include "compiler/target/Target.h"
#include "support/text/Text.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Vectorize/SLPVectorizer.h"

namespace tenon::codegen::cuda {
namespace {

constexpr llvm::StringLiteral kTriple = "nvptx64-nvidia-cuda";

const llvm::Target &nvptxTarget() {
  static const llvm::Target *target = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    std::string error;
    return llvm::TargetRegistry::lookupTarget(llvm::Triple(kTriple), error);
  }();
  return *target;
}

/// The PTX version as LLVM's feature.
std::string ptxFeature(const target::Target &gpu) {
  return "+ptx" + std::to_string(gpu.ptxVersion);
}

std::unique_ptr<llvm::TargetMachine> targetMachine(const target::Target &gpu) {
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  return std::unique_ptr<llvm::TargetMachine>(nvptxTarget().createTargetMachine(
      llvm::Triple(kTriple), gpu.variant(), ptxFeature(gpu), options, std::nullopt, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
}

/// What a kernel reads after it has waited for the kernels before it must not be read earlier, but
/// loads of what does not change may move freely: their pointers are made to come out of the wait.
void orderAfterWait(llvm::Function &kernel) {
  llvm::CallInst *wait = nullptr;
  for (llvm::Instruction &instruction : llvm::instructions(kernel)) {
    llvm::IntrinsicInst *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (call && call->getIntrinsicID() == llvm::Intrinsic::nvvm_griddepcontrol_wait) {
      wait = call;
      break;
    }
  }
  if (!wait) {
    return;
  }
  for (llvm::Argument &argument : kernel.args()) {
    // What is passed by value was there before the kernel was started.
    if (!argument.getType()->isPointerTy() || argument.hasByValAttr()) {
      continue;
    }
    llvm::FunctionType *type =
        llvm::FunctionType::get(argument.getType(), {argument.getType()}, false);
    llvm::InlineAsm *copy =
        llvm::InlineAsm::get(type, "mov.b64 $0, $1;", "=l,l", /*hasSideEffects=*/true);
    llvm::CallInst *later =
        llvm::CallInst::Create(type, copy, {&argument}, "", std::next(wait->getIterator()));
    llvm::DominatorTree dominators(kernel);
    argument.replaceUsesWithIf(later, [&](llvm::Use &use) {
      return use.getUser() != later && dominators.dominates(later, use);
    });
  }
}

void addPasses(llvm::FunctionPassManager &passes) {
  auto clean = [&] {
    passes.addPass(llvm::InstCombinePass());
    passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
    passes.addPass(llvm::SimplifyCFGPass());
  };
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  clean();
  llvm::LoopPassManager loops;
  loops.addPass(llvm::LoopRotatePass());
  loops.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
  clean();
  passes.addPass(llvm::LoopUnrollPass(llvm::LoopUnrollOptions(/*OptLevel=*/2)));
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  clean();
  // Pairs of 16-bit floats.
  passes.addPass(llvm::SLPVectorizerPass());
  clean();
}

/// A call that the driver could not resolve is a hole in our lowering: better named here.
llvm::Error checkCalls(llvm::StringRef ptx) {
  size_t at = ptx.find(".extern .func");
  if (at == llvm::StringRef::npos) {
    return llvm::Error::success();
  }
  // ".extern .func  (.param .b32 func_retval0) __nv_expf" or without a result.
  llvm::StringRef rest = ptx.drop_front(at + strlen(".extern .func")).ltrim();
  if (rest.starts_with("(")) {
    rest = rest.drop_until([](char c) { return c == ')'; }).drop_front().ltrim();
  }
  llvm::StringRef name = rest.take_until([](char c) { return isspace(c) || c == '('; });
  return llvm::createStringError("generated code calls '" + name +
                                 "', which the PTX does not contain");
}

std::string withoutComments(llvm::StringRef ptx) {
  std::string result;
  while (!ptx.empty()) {
    llvm::StringRef line;
    std::tie(line, ptx) = ptx.split('\n');
    line = line.take_front(line.find("//")).rtrim();
    if (!line.empty()) {
      result += line;
      result += '\n';
    }
  }
  return result;
}

/// The version that the text needs: warpgroups multiply unsigned by signed bytes since 8.4, which
/// drivers from 550 on read. Others may be older, and so are engines without such products.
std::string withVersion(std::string ptx, const target::Target &gpu) {
  constexpr int64_t kSince = 84;
  std::string named = strCat(".version ", gpu.ptxVersion / 10, '.', gpu.ptxVersion % 10);
  bool isOlder = gpu.ptxVersion < kSince && ptx.find("k32.s32.u8.s8") != std::string::npos;
  if (size_t at = isOlder ? ptx.find(named) : std::string::npos; at != std::string::npos) {
    ptx.replace(at, named.size(), strCat(".version ", kSince / 10, '.', kSince % 10));
  }
  return ptx;
}

template <typename Module>
llvm::Expected<std::string> emit(Module &module, const target::Target &gpu) {
  std::unique_ptr<llvm::TargetMachine> machine = targetMachine(gpu);
  auto prepare = [](llvm::Module &translated) {
    for (llvm::Function &function : translated) {
      orderAfterWait(function);
    }
  };
  llvm::Expected<std::string> ptx =
      emitModule(module, {*machine, llvm::CodeGenFileType::AssemblyFile, prepare, addPasses});
  if (!ptx) {
    return ptx.takeError();
  }
  if (llvm::Error error = checkCalls(*ptx)) {
    return std::move(error);
  }
  return withVersion(withoutComments(*ptx), gpu);
}

} // namespace

llvm::Expected<std::string> emitPtx(llvm::Module &module, const target::Target &gpu) {
  return emit(module, gpu);
}

llvm::Expected<std::string> emitPtx(mlir::ModuleOp module, const target::Target &gpu) {
  return emit(module, gpu);
}

} // namespace tenon::codegen::cuda
