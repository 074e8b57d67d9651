// Names for people: the model nodes behind an operation, read from its location.
#pragma once

#include "mlir/IR/Operation.h"

#include <string>
#include <vector>

namespace tenon::dispatch {

/// The model nodes that a location names, in order, each once; empty when it names none.
std::vector<std::string> nodeNames(mlir::Location location);

/// The node names joined by '+', or the operation's own name (a region's: those of its operations).
std::string nameOf(mlir::Operation *op);

} // namespace tenon::dispatch
