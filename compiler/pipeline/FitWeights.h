// `--max-weights`: other kernels than the fastest where the layouts that these want of the weights
// would take too much together. Relies on regions that are formed, whose weights are not laid out
// yet: each region has at most one that a kernel may want in another layout.
#pragma once

#include "compiler/dispatch/KernelChoice.h"
#include "compiler/graph/Tn.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Result.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace tenon::pipeline {

/// The kernels of a region: first the one that it gets without a bound, then what else it may get.
using KernelsOf = llvm::function_ref<std::vector<dispatch::KernelCandidate>(tn::RegionOp region)>;

/// The regions that get another kernel than their first, so that the module's weights as kernels
/// read them take at most `most` times what they take as they are. Of what saves bytes, that is
/// taken first which is predicted to cost least time a byte. An error tells the least that they can
/// take.
Result<llvm::DenseMap<mlir::Operation *, dispatch::KernelChoice>>
fitWeights(mlir::ModuleOp module, double most, KernelsOf kernelsOf);

} // namespace tenon::pipeline
