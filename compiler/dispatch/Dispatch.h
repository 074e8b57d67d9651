// Dispatch: every operation of the model ends in a tn.region with a target, a strategy and a
// recorded reason.
#pragma once

#include "compiler/dispatch/Records.h"
#include "compiler/graph/Tn.h"
#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"

namespace tenon::dispatch {

/// Predicted microseconds of a region by the kernel that would be chosen for it, from the end of
/// the kernel before; infinite if none computes it.
using KernelTimes = llvm::function_ref<double(tn::RegionOp)>;

/// Forms the regions of the module's function, whose dims are all known or over symbols. Weights
/// that kernels may have in layouts of their own are marked (WeightLayout.h).
llvm::LogicalResult dispatch(mlir::ModuleOp module, const target::Target &profile,
                             KernelTimes kernelTimes, Records &records);

} // namespace tenon::dispatch
