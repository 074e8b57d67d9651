// One region of a model as an engine of its own, for whoever measures kernels. Relies on regions
// that are formed and whose kernels are not chosen yet, and on the weights of their model being
// there.
#pragma once

#include "compiler/dispatch/KernelChoice.h"
#include "compiler/graph/Tn.h"
#include "compiler/graph/WeightStore.h"
#include "compiler/pipeline/CodegenPhase.h"
#include "compiler/pipeline/Pipeline.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace tenon::pipeline {

/// A model of one region: what is not stored comes as an input.
mlir::OwningOpRef<mlir::ModuleOp> modelOf(tn::RegionOp region);
/// The only region of such a model.
tn::RegionOp regionOf(mlir::ModuleOp model);
/// Gives that region a kernel, and its weight the layout that this one reads.
void setKernel(mlir::ModuleOp model, const dispatch::KernelCandidate &candidate);

/// Writes a model with a kernel as an engine and gives the bytes of the file. `compiled` has the
/// code of its region alone, for one target, but maybe kernels of others. `name` goes into the
/// engine's provenance.
Result<uint64_t> writeRegionEngine(mlir::ModuleOp model, const CompiledRegions &compiled,
                                   const std::string &name, tn::WeightStore &weights,
                                   const CompileOptions &options, const std::string &path);

} // namespace tenon::pipeline
