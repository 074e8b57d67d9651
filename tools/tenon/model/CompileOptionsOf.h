// The verbs' request as the pipeline's options, for the parts of the tool that use MLIR.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/pipeline/Pipeline.h"
#include "tools/tenon/model/CompilerBridge.h"

namespace tenon::tool {

pipeline::CompileOptions compileOptionsOf(const CompileRequest &request);

/// To import a model with these shapes.
frontend::ImportOptions importOptionsOf(const std::vector<ShapeArgument> &shapes);

} // namespace tenon::tool
