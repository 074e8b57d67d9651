// Kernels of the user's: what the importers get of them, and the check of each as it is in the
// engine, beside its reference.
#pragma once

#include "compiler/api/CompileOptions.h"
#include "compiler/dispatch/Records.h"
#include "compiler/kernels/Library.h"
#include "compiler/pipeline/CodegenPhase.h"

#include <memory>

namespace tenon::pipeline {

/// The kernels of all libraries, with their references imported; null for no library.
Result<std::shared_ptr<const kernels::KernelTable>> kernelTable(const CompileOptions &options);

/// Error where an operation of the user's has no kernel for a device.
Status checkBackend(mlir::ModuleOp module, bool isGpu);

/// Runs the kernels of a compiled module by options.tryKernel: at several sizes, on guarded buffers,
/// with outputs filled beforehand, twice. TN0309, TN0409 to TN0412. What was checked and measured
/// goes into the records of their regions; kernels for a GPU that is not there get a notice.
Status checkKernels(const CompileOptions &options, mlir::ModuleOp module,
                    const CompiledRegions &compiled, dispatch::Records &records);

} // namespace tenon::pipeline
