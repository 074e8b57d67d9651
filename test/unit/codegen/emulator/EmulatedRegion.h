// Compiles a region by its strategy and runs it on the emulated GPU. Library calls cannot run
// there, so contractions take the generated fallback.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/reference/Tensor.h"
#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace tenon::codegen::cuda {

/// Runs the steps' kernels on `memory`, the places of the region's inputs and results; temporaries
/// are its own, not written bytes of them NaN. `kernels` are in the LLVM dialect. `status` gets the
/// highest that a kernel reported; without it one that does fails the run.
llvm::Error runSteps(mlir::ModuleOp kernels, const RegionCode &code, std::vector<void *> memory,
                     const std::vector<int64_t> &symbols, bool reversed = false,
                     int32_t *status = nullptr);

/// `text` is RegionSource::text, `results` have the types and dims of its outputs. Memory that was
/// not written is NaN; access beyond a buffer ends the process. `reversed` runs threads from the
/// last. The kernel is the one that `gpu` gets, but no library's.
llvm::Expected<std::vector<reference::Tensor>>
runEmulated(const std::string &text, llvm::ArrayRef<reference::Tensor> inputs,
            llvm::ArrayRef<reference::Tensor> results, const std::vector<int64_t> &symbols,
            bool reversed = false, int32_t *status = nullptr,
            const target::Target &gpu = target::targetOf("sm_90"));

} // namespace tenon::codegen::cuda
