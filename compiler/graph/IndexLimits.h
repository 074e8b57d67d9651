// Which indices the inputs of a graph may hold: a token's number is below the size of its table.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>

namespace tenon::tn {

/// The largest index, by the name of an input of @main, of inputs of integers that as they are, or
/// after a cast, pick from dims of fixed size. Works on imported, optimized and dispatched modules.
std::map<std::string, int64_t> indexLimits(mlir::ModuleOp module);

} // namespace tenon::tn
