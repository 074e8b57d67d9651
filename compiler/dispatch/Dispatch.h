// Dispatch: every operation of the model ends in a tn.region with a target, a strategy and a
// recorded reason.
#pragma once

#include "compiler/dispatch/Records.h"
#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"

namespace tenon::dispatch {

/// Packs the weights of contractions and forms the regions of every function in the module. The
/// module must be normalized: all dims known or over symbols.
llvm::LogicalResult dispatch(mlir::ModuleOp module, const target::Target &profile,
                             Records &records);

} // namespace tenon::dispatch
