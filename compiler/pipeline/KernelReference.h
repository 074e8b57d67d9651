// Functions of the user's beside which kernels are checked, as code that a trial runs.
#pragma once

#include "compiler/graph/Tn.h"
#include "compiler/pipeline/CodeTarget.h"
#include "support/Result.h"

#include <string>

namespace tenon::pipeline {

/// A call of the function, with the buffers of the region whose kernel is checked.
struct ReferenceCode {
  std::string level; ///< of a CPU: the first that its library is for
  std::string code;
  codegen::RegionCode region;
  llvm::SmallVector<mlir::AffineExpr> symbols; ///< of the region, over those of the model
};

/// For a region of a tn.custom alone, whose kernel has a referenceSymbol. TN0307 for a library that
/// cannot be part of a code object.
Result<ReferenceCode> compileReference(tn::RegionOp region, const kernels::Kernel &kernel,
                                       const KernelLibraries &libraries);

} // namespace tenon::pipeline
