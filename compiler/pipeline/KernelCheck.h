// The check of the user's kernels as they are in the engine, beside their references.
#pragma once

#include "compiler/api/CompileOptions.h"
#include "compiler/dispatch/Records.h"
#include "compiler/pipeline/CodegenPhase.h"

namespace tenon::pipeline {

/// Error where an operation of the user's has no kernel for a device, or the options exclude it.
Status checkBackend(const CompileOptions &options, mlir::ModuleOp module, bool isGpu);

/// Runs the kernels of a compiled module by options.tryKernel: at several sizes, on guarded
/// buffers, with outputs filled beforehand, twice. TN0309, TN0409 to TN0412. What was checked and
/// measured goes into the records of their regions; kernels for a GPU that is not there get a
/// notice.
Status checkKernels(const CompileOptions &options, mlir::ModuleOp module,
                    const CompiledRegions &compiled, dispatch::Records &records);

} // namespace tenon::pipeline
