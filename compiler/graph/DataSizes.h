// Which symbols data decides, and which symbols an operation names: what depends on such a symbol
// runs behind the operation that binds it, though no value may lead from one to the other.
#pragma once

#include "compiler/graph/Shape.h"
#include "llvm/ADT/MapVector.h"

namespace tenon::tn {

/// The tn.take_firsts below `root`, by the symbols that they bind, in the order of the IR.
llvm::MapVector<unsigned, mlir::Operation *> sizeBinders(mlir::Operation *root);

/// The symbols in the types and attributes of an operation and of those in it.
llvm::SmallVector<unsigned> symbolsNamed(mlir::Operation *op);

} // namespace tenon::tn
