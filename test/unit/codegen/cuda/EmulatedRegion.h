// Compiles a region by its strategy and runs it on the emulated GPU. Library calls cannot run
// there, so contractions take the generated fallback.
#pragma once

#include "compiler/reference/Tensor.h"
#include "engine/CudaArch.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace tenon::codegen::cuda {

/// `text` is RegionSource::text, `results` have the types and dims of its outputs. Memory that was
/// not written is NaN; access beyond a buffer ends the process. `reversed` runs threads from the
/// last.
llvm::Expected<std::vector<reference::Tensor>>
runEmulated(const std::string &text, llvm::ArrayRef<reference::Tensor> inputs,
            llvm::ArrayRef<reference::Tensor> results, const std::vector<int64_t> &symbols,
            bool reversed = false);

} // namespace tenon::codegen::cuda
