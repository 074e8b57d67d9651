// What cached PTX depends on besides its region and architecture: these sources and LLVM's version. A
// file of its own because every change of the sources compiles it again.
#include "compiler/codegen/cuda/CudaCodegen.h"
#include "compiler/codegen/cuda/SourceHash.inc"
#include "llvm/Config/llvm-config.h"

namespace tenon::codegen::cuda {

llvm::StringRef codegenVersion() { return TENON_CODEGEN_CUDA_HASH " LLVM " LLVM_VERSION_STRING; }

} // namespace tenon::codegen::cuda
