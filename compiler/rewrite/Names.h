// What operations and their attributes are called to passes of the user. Relies on `tn` being
// loaded.
#pragma once

#include "mlir/IR/OperationSupport.h"

#include <string>
#include <vector>

namespace tenon::rewrite {

/// Of operations that a model may have; constants are "constant".
std::vector<std::string> operationNames(mlir::MLIRContext *context);

/// Those that a pass may read and set.
std::vector<std::string> attributeNames(mlir::OperationName name);

mlir::OperationName operationName(llvm::StringRef op, mlir::MLIRContext *context);

} // namespace tenon::rewrite
