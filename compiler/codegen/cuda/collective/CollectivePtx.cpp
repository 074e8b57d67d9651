// PTX of collectives, which belong to no region. Relies on a region without operations as the place
// where kernels are built.
#include "compiler/codegen/cuda/CudaCodegen.h"
#include "compiler/codegen/cuda/LowerRegion.h"
#include "compiler/codegen/cuda/base/EmitPtx.h"
#include "compiler/codegen/cuda/collective/Collective.h"
#include "engine/CollectiveAbi.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

llvm::Expected<std::string> ptxOf(StringRef name, const target::Target &gpu,
                                  llvm::function_ref<void(RegionBuilder &)> emit) {
  DialectRegistry registry;
  registerRegionDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> source =
      parseSourceString<ModuleOp>("func.func @kernel() { return }", ParserConfig(&context));
  RegionBuilder region(source->lookupSymbol<func::FuncOp>("kernel"), name, gpu);
  emit(region);
  if (failed(lowerKernels(region))) {
    return llvm::createStringError(name + ": lowering failed");
  }
  return emitPtx(*region.kernels, gpu);
}

} // namespace

std::vector<std::string> collectiveKernels(engine::CollectiveKind kind, DType type, int64_t ranks) {
  if (ranks > engine::kCollectiveRanks) {
    return {};
  }
  if (kind == engine::CollectiveKind::AllGather) {
    return {nameOf(AllGatherKernel{ranks, engine::kOneShotThreads})};
  }
  if (type != DType::F32 && type != DType::F16 && type != DType::BF16) {
    return {};
  }
  return {nameOf(AllReduceKernel{type, ranks, engine::kOneShotThreads, false}),
          nameOf(AllReduceKernel{type, ranks, engine::kTwoShotThreads, true})};
}

bool isCollective(StringRef kernel) { return kernel.starts_with("tenon_all_"); }

llvm::Expected<std::string> collectivePtx(StringRef name, const target::Target &gpu) {
  for (int64_t ranks = 2; ranks <= engine::kCollectiveRanks; ++ranks) {
    AllGatherKernel gather{ranks, engine::kOneShotThreads};
    if (name == nameOf(gather)) {
      return collectivePtx(gather, gpu);
    }
    for (DType type : {DType::F32, DType::F16, DType::BF16}) {
      for (bool isTwoShot : {false, true}) {
        int64_t threads = isTwoShot ? engine::kTwoShotThreads : engine::kOneShotThreads;
        AllReduceKernel reduce{type, ranks, threads, isTwoShot};
        if (name == nameOf(reduce)) {
          return collectivePtx(reduce, gpu);
        }
      }
    }
  }
  return llvm::createStringError(name + " is not a collective");
}

llvm::Expected<std::string> collectivePtx(const AllReduceKernel &kernel,
                                          const target::Target &gpu) {
  return ptxOf(nameOf(kernel), gpu, [&](RegionBuilder &region) { emitAllReduce(region, kernel); });
}

llvm::Expected<std::string> collectivePtx(const AllReduceNormKernel &kernel,
                                          const target::Target &gpu) {
  return ptxOf(nameOf(kernel), gpu,
               [&](RegionBuilder &region) { emitAllReduceNorm(region, kernel); });
}

llvm::Expected<std::string> collectivePtx(const AllGatherKernel &kernel,
                                          const target::Target &gpu) {
  return ptxOf(nameOf(kernel), gpu, [&](RegionBuilder &region) { emitAllGather(region, kernel); });
}

} // namespace tenon::codegen::cuda
