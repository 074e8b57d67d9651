// `compile --verify`: evaluates the model on seeded inputs after every pass and names the pass and
// the operation where the numbers first change. Only operations whose content or operands changed
// are evaluated again.
#pragma once

#include "compiler/graph/WeightStore.h"
#include "compiler/reference/Compare.h"
#include "compiler/reference/Interpreter.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Hash.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenon::pipeline {

/// Values for the inputs of @main that any model can take: small sizes that its constraints allow,
/// floats in [-1, 1), integers 0 or 1.
Result<std::vector<reference::Tensor>> seededInputs(mlir::ModuleOp module, uint64_t seed = 0);

/// Floats in [-1, 1), integers and bools 0 or 1, the same on every machine.
Result<reference::Tensor> seededTensor(DType dtype, llvm::ArrayRef<int64_t> dims, uint64_t seed);

class NumericCheck {
public:
  NumericCheck(tn::WeightStore &weights, unsigned threads);

  /// Makes the inputs and takes the model's results as the truth for all later checks.
  Status start(mlir::ModuleOp module);
  /// The same on the given inputs, in the order of the function's arguments.
  Status start(mlir::ModuleOp module, std::vector<reference::Tensor> given);
  /// What the module gives for the inputs; `accept` makes it what later values are compared with.
  Result<std::vector<reference::Tensor>> evaluate(mlir::ModuleOp module);
  void accept() { last = std::move(now); }
  /// Names the first operation of the module last evaluated whose value differs from what was
  /// accepted.
  std::string firstSuspect(mlir::ModuleOp module) const;
  /// TN0403 if a result is not what it was, naming the pass and the first operation that differs.
  Status check(llvm::StringRef pass, mlir::ModuleOp module);
  /// The same after a pass that lowers the precision on purpose: results may differ by some
  /// roundings of `computed` (F16 or BF16), and are the truth from then on.
  Status checkLowered(llvm::StringRef pass, mlir::ModuleOp module, DType computed);

  /// By how much the outputs that the truth has differ from it.
  struct Change {
    double relative = 0;    ///< the largest difference, relative to its output's largest element
    bool isRounding = true; ///< whether every output is within the tolerance of `check`
    std::string output;     ///< the one with that difference
    std::string what;       ///< the comparison in words; empty without a difference
  };
  Result<Change> changeBy(mlir::ModuleOp module);

  /// Operations evaluated so far, as opposed to reused.
  uint64_t evaluated() const { return evaluatedOps; }

private:
  /// A result of an operation that the last evaluation made.
  struct Known {
    std::vector<std::string> nodes;
    reference::Tensor tensor;
  };
  using KnownValues = std::map<Hash128, Known>;

  using Compare = std::function<reference::Comparison(const reference::Tensor &expected,
                                                      const reference::Tensor &actual)>;
  /// The results, if `compare` finds them equal to the truth.
  Result<std::vector<reference::Tensor>> check(llvm::StringRef pass, mlir::ModuleOp module,
                                               const Compare &compare);
  std::string firstSuspect(mlir::func::FuncOp function, const Compare &compare) const;

  reference::Interpreter interpreter;
  std::vector<reference::Tensor> inputs;
  std::vector<reference::Tensor> truth;
  KnownValues last;
  KnownValues now;
  uint64_t evaluatedOps = 0;
};

} // namespace tenon::pipeline
