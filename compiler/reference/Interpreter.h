// Evaluates functions of `tn` operations on tensors: the truth for tests, for `compile --verify`
// and for constant folding. Plain and independent of the lowerings; faults of the data are a
// Status.
#pragma once

#include "compiler/reference/Evaluation.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <memory>

namespace tenon::reference {

struct InterpreterOptions {
  Precision precision = Precision::Native;
  unsigned threads = 2;
};

/// Calls around each operation of `evaluate`; any may be null. Operations inside a tn.region are
/// seen too, before the region itself.
struct Hooks {
  /// Results known from elsewhere (an earlier evaluation of an equal operation): the operation is
  /// then not evaluated.
  std::function<std::optional<std::vector<Tensor>>(mlir::Operation *, llvm::ArrayRef<Tensor>)>
      reuse;
  /// Gets the results; an error ends the evaluation with that error.
  std::function<Status(mlir::Operation *, llvm::ArrayRef<Tensor> operands,
                       llvm::ArrayRef<Tensor> results)>
      observe;
};

/// Not for use by two threads at once.
class Interpreter {
public:
  /// `weights` may be null if there is no tn.weight; it must outlive the interpreter and all
  /// tensors that come from it.
  explicit Interpreter(tn::WeightStore *weights, InterpreterOptions options = {});

  /// Evaluates a function. Inputs have the types of its arguments (floats may already be float64
  /// under Precision::F64) and determine the symbols.
  Result<std::vector<Tensor>> evaluate(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> inputs,
                                       const Hooks &hooks = {});
  /// Evaluates the one block of a region (a tn.region's body) for given symbols.
  Result<std::vector<Tensor>> evaluate(mlir::Region &region, llvm::ArrayRef<Tensor> inputs,
                                       llvm::ArrayRef<int64_t> symbols, const Hooks &hooks = {});
  /// Evaluates one operation; the operands stand in the order of its operands.
  Result<std::vector<Tensor>> evaluateOp(mlir::Operation *op, llvm::ArrayRef<Tensor> operands,
                                         llvm::ArrayRef<int64_t> symbols = {});

private:
  Result<std::vector<Tensor>> runBlock(mlir::Block &block, llvm::ArrayRef<Tensor> inputs,
                                       llvm::MutableArrayRef<int64_t> symbols, const Hooks &hooks);
  Result<std::vector<Tensor>> runOp(mlir::Operation *op, llvm::ArrayRef<Tensor> operands,
                                    llvm::MutableArrayRef<int64_t> symbols, const Hooks &hooks);

  tn::WeightStore *weights;
  InterpreterOptions options;
  Status poolStatus;
  std::unique_ptr<ThreadPool> pool;
};

/// The value of a symbol that data decides, until an operation has decided it.
inline constexpr int64_t kUndecided = -1;

/// The values of the module's symbols that the shapes of inputs determine. An error if a dim
/// contradicts them or lies outside its symbol's range.
Result<llvm::SmallVector<int64_t>> bindSymbols(mlir::func::FuncOp function,
                                               llvm::ArrayRef<Tensor> inputs);

} // namespace tenon::reference
