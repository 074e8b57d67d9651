// Whether places that a request was padded with reach its own: which dims of the inputs may be made
// longer, what is behind filled with padding, so that each output holds within the request's own
// length what it would without. A rule for each operation says how padded places pass it.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>
#include <vector>

namespace tenon::tn {

/// What is known of one dim: a symbol that inputs have besides the batch.
struct PaddedDim {
  std::string name;
  bool isIndependent = false;
  /// Inputs by name that must be padded with this number, since it hides the padded places; others
  /// may be padded with anything finite. The proof is of requests that hide none of their own
  /// places by it: where a row of scores is all hidden, softmax depends on how many there are.
  std::map<std::string, int> masks;
  std::string output; ///< that padded places reach
  std::string node;   ///< by which they do; empty where it is no node
  std::string how;    ///< in words, of the node: "takes the mean over padded places"
};

/// The dims of the module's function @main that may be padded, in the order of its inputs. Works on
/// imported, optimized and dispatched modules.
std::vector<PaddedDim> paddedDims(mlir::ModuleOp module);

/// What is known of all modules, which compute the same.
std::vector<PaddedDim> paddedDims(llvm::ArrayRef<mlir::ModuleOp> modules);

} // namespace tenon::tn
