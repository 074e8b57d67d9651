// The elements of small values that constants alone decide, whatever operators compute them.
#pragma once

#include "compiler/graph/WeightStore.h"
#include "compiler/reference/Interpreter.h"
#include "mlir/IR/Value.h"

namespace tenon::frontend {

/// The value, if constants decide it by few and small operations.
std::optional<reference::Tensor> evaluateConstant(mlir::Value value, tn::WeightStore &weights);

} // namespace tenon::frontend
