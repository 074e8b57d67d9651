// Picks the kernel. Relies on the kernels saying what they fit.
#include "compiler/codegen/cuda/Attention.h"

#include "compiler/codegen/cuda/AttentionKernels.h"

using namespace mlir;

namespace tenon::codegen::cuda {

bool emitAttention(ModuleOp module, func::FuncOp source, StringRef symbol,
                   const engine::CudaArch &arch, RegionCode &code) {
  FailureOr<AttentionProblem> problem = matchAttention(source);
  if (failed(problem)) {
    return false;
  }
  if (fitsTensorCores(*problem)) {
    emitTensorCoreAttention(module, symbol, *problem, chooseTile(*problem, arch), arch, code);
    return true;
  }
  return emitPlainAttention(module, symbol, *problem, arch, code);
}

} // namespace tenon::codegen::cuda
