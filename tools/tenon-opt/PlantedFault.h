// A pass that is wrong on purpose, with which tests prove that a numeric check catches such a pass.
// Relies on nobody but tests linking it.
#pragma once

#include "compiler/opt/Passes.h"

namespace tenon::opt {

/// Turns the first erf GELU into the tanh form (off by up to 4.7e-4), or else the first relu into a
/// leaky one, or else the first addition into a subtraction.
llvm::LogicalResult plantedFault(mlir::ModuleOp module, tn::WeightStore &weights);

inline constexpr Pass kPlantedFault = {"planted-fault", plantedFault};

} // namespace tenon::opt
