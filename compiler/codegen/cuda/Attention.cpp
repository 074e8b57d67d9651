// Picks the kernel. Relies on the kernels saying what they fit.
#include "compiler/codegen/cuda/Attention.h"

#include "compiler/codegen/cuda/AttentionKernels.h"
#include "compiler/codegen/cuda/AttentionStream.h"
#include "compiler/codegen/cuda/Strategies.h"

using namespace mlir;

namespace tenon::codegen::cuda {

bool emitAttention(ModuleOp module, func::FuncOp source, StringRef symbol,
                   const engine::CudaArch &arch, RegionCode &code) {
  FailureOr<AttentionProblem> problem = matchAttention(source);
  if (failed(problem)) {
    return false;
  }
  if (fitsTensorCores(*problem)) {
    std::optional<StreamLayout> layout = streamLayout(*problem, arch);
    if (layout && isFasterStreamed(*layout, arch)) {
      emitStreamAttention(module, symbol, *problem, *layout, code);
      return true;
    }
    emitTensorCoreAttention(module, symbol, *problem, chooseTile(*problem, arch), arch, code);
    return true;
  }
  return emitPlainAttention(module, symbol, *problem, arch, code);
}

FailureOr<bool> emitAttention(RegionBuilder &region) {
  return emitAttention(*region.kernels, region.source, region.symbol, region.arch, region.code);
}

} // namespace tenon::codegen::cuda
