// `compile --verify`: evaluates the model on seeded inputs after every pass and names the pass and
// the operation where the numbers first change. Only operations whose content or operands changed
// are evaluated again.
#pragma once

#include "compiler/graph/WeightStore.h"
#include "compiler/reference/Compare.h"
#include "compiler/reference/Interpreter.h"
#include "support/Hash.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenon::pipeline {

class NumericCheck {
public:
  NumericCheck(tn::WeightStore &weights, unsigned threads);

  /// Makes the inputs and takes the model's results as the truth for all later checks.
  Status start(mlir::ModuleOp module);
  /// TN0403 if a result is not what it was, naming the pass and the first operation that differs.
  Status check(llvm::StringRef pass, mlir::ModuleOp module);
  /// The same after a pass that lowers the precision on purpose: results may differ by some
  /// roundings of `computed` (F16 or BF16), and are the truth from then on.
  Status checkLowered(llvm::StringRef pass, mlir::ModuleOp module, DType computed);

  /// Operations evaluated so far, as opposed to reused.
  uint64_t evaluated() const { return evaluatedOps; }

private:
  /// A result of an operation that the last evaluation made.
  struct Known {
    std::vector<std::string> nodes;
    reference::Tensor tensor;
  };
  using KnownValues = std::map<Hash128, Known>;

  Result<std::vector<reference::Tensor>> evaluate(mlir::func::FuncOp function, KnownValues &values);
  using Compare = std::function<reference::Comparison(const reference::Tensor &expected,
                                                      const reference::Tensor &actual)>;
  /// The results, if `compare` finds them equal to the truth.
  Result<std::vector<reference::Tensor>> check(llvm::StringRef pass, mlir::ModuleOp module,
                                               const Compare &compare);
  std::string firstSuspect(mlir::func::FuncOp function, const KnownValues &now,
                           const Compare &compare) const;

  reference::Interpreter interpreter;
  std::vector<reference::Tensor> inputs;
  std::vector<reference::Tensor> truth;
  KnownValues last;
  uint64_t evaluatedOps = 0;
};

} // namespace tenon::pipeline
