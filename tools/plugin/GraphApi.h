// tenon/graph.h over the compiler's graph. Built without exceptions, as the compiler is; its header
// is free of MLIR.
#pragma once

#include "compiler/api/CompileOptions.h"
#include "tenon/graph.h"

namespace tenon::tool {

/// The pass as the pipeline takes it; checkPass (Plugin.h) has accepted it.
pipeline::UserPass userPassOf(const tenon_pass &pass);

} // namespace tenon::tool
