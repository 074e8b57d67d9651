// Planted miscompiles: what a wrong pattern, a wrong rule or a wrong lowering would do to a module,
// put there between two phases, so that the detector can be shown to detect.
#pragma once

#include "compiler/pipeline/Pipeline.h"
#include "test/random/FaultNames.h"

#include <string>
#include <vector>

namespace tenon::random {

/// Changes the module if this is the fault's phase and it applies; true if something was changed.
bool plantFault(const std::string &name, pipeline::Phase phase, mlir::ModuleOp module);

} // namespace tenon::random
