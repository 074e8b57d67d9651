// The sizes that an engine is to be fast at, beside those that it takes (`--optimize-for`).
#pragma once

#include "compiler/pipeline/Pipeline.h"

namespace tenon::pipeline {

/// The shapes under which the model is compiled again for one set of sizes: those of `options`,
/// with the set's in their place. `module` is the imported model. BadArgument for a single number
/// where the inputs have more than one free size, or none, and for a size out of its range.
Result<std::vector<ShapeArgument>> shapesFor(const SizesArgument &sizes,
                                             const CompileOptions &options, mlir::ModuleOp module);

} // namespace tenon::pipeline
