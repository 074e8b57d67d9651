// PTX of collectives, which belong to no region. Relies on a region without operations as the place
// where kernels are built.
#include "compiler/codegen/cuda/LowerRegion.h"
#include "compiler/codegen/cuda/base/EmitPtx.h"
#include "compiler/codegen/cuda/collective/Collective.h"
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
