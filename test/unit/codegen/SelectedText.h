// A region's text with the kernel that is selected for it, as codegen takes it.
#pragma once

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/codegen/cuda/CudaCodegen.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tenon::codegen {

inline std::string withSelection(const std::string &text,
                                 llvm::Expected<dispatch::KernelSelection> selection) {
  if (!selection) {
    llvm::consumeError(selection.takeError());
    return text;
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  return withKernel(text, selection->chosen.toAttribute(&context));
}

inline std::string selectedForCpu(const std::string &text,
                                  engine::CpuLevel level = engine::CpuLevel::X86_64_V3) {
  return withSelection(text, cpu::selectKernel(text, target::cpuTarget(level), {}));
}
inline std::string selectedForCuda(const std::string &text, const target::Target &gpu) {
  return withSelection(text, cuda::selectKernel(text, gpu, {}));
}

} // namespace tenon::codegen
