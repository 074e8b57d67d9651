// Where an operation comes from in the user's model: names, module and source line, as frontends
// put them into locations and passes fuse them. Relies on MLIR's location attributes only.
#pragma once

#include "mlir/IR/Operation.h"

#include <string>
#include <vector>

namespace tenon::tn {

struct NodeOrigin {
  std::vector<std::string> names; ///< of the model's nodes, each once, the first one's first
  std::vector<std::string> kinds; ///< the model's operators: "Conv", "BatchNormalization"
  std::string module;             ///< "encoder/layer.0"; empty at the top, or where none is known
  std::string source;             ///< "model.py:12", or empty
};

NodeOrigin originOf(mlir::Location location);

/// The first of the names, or the operation's own where there is none; empty without an operation.
std::string nodeName(mlir::Operation *op);

} // namespace tenon::tn
