// Whether the rows of a batch meet: which outputs of a graph hold, at place i of their first dim, a
// function of place i of the inputs alone, the same one for every i and however many rows there
// are. A rule for each operation says how rows pass it; what no rule allows mixes.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace tenon::tn {

/// What is known of one output.
struct OutputRows {
  std::string name;
  bool isIndependent = false;
  std::string node; ///< that mixes rows, or reads what is no row; empty where it is no node
  std::string how;  ///< in words, of the node: "takes the mean over the rows"
};

/// The outputs of the module's function @main, in their order. The batch is the symbol that is dim
/// 0 of the first input; without one, no output is independent. Works on imported, optimized and
/// dispatched modules. An output that is the next value of a state is left out.
std::vector<OutputRows> outputRows(mlir::ModuleOp module);

/// The record "rows" of an engine (schema tenon.rows/1), over modules that compute the same: an
/// output is independent if it is in all of them, and so is a dim that is padded
/// (PaddingIndependence.h). What indices inputs may hold is beside it (IndexLimits.h). Equal
/// modules give equal text.
std::string rowsRecord(llvm::ArrayRef<mlir::ModuleOp> modules);

} // namespace tenon::tn
