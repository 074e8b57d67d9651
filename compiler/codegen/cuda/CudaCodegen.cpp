// One region from text to PTX and library calls.
#include "compiler/codegen/cuda/CudaCodegen.h"

namespace tenon::codegen::cuda {

llvm::Expected<CompiledRegion> compileRegion(llvm::StringRef, llvm::StringRef,
                                             const engine::CudaArch &arch) {
  return llvm::createStringError("no code generation for " + llvm::Twine(arch.name) + " yet");
}

llvm::Expected<std::string> linkPtx(llvm::ArrayRef<llvm::StringRef>) {
  return llvm::createStringError("no code generation for GPUs yet");
}

} // namespace tenon::codegen::cuda
