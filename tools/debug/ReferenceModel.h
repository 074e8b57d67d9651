// What a model's results ought to be: the reference on the unoptimized import with the sizes of the
// given inputs as constants, and what rounding may do to it. Relies on Noise for the latter.
#pragma once

#include "compiler/api/CompileOptions.h"
#include "compiler/frontend/common/Import.h"
#include "compiler/reference/Interpreter.h"
#include "mlir/IR/MLIRContext.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::debug {

using Tensors = std::vector<reference::Tensor>;

struct NamedTensor {
  std::string name;
  reference::Tensor tensor;
};

/// Checks results of a function by the project's tolerance and, beyond it, by evaluations that are
/// disturbed as rounding may; these are made when the first is needed.
class Explainer {
public:
  Explainer(mlir::func::FuncOp function, tn::WeightStore &store, Tensors inputs, Tensors expected,
            uint64_t seed);
  /// What is wrong with result number `index`; empty if nothing is.
  std::string problem(size_t index, const reference::Tensor &actual);

private:
  mlir::func::FuncOp function;
  tn::WeightStore &store;
  Tensors inputs;
  Tensors expected;
  uint64_t seed;
  std::vector<Tensors> samples;
};

class ReferenceModel {
public:
  ReferenceModel();

  using Import = llvm::function_ref<Result<frontend::ImportResult>(
      const frontend::ImportOptions &, mlir::MLIRContext &, tn::WeightStore &)>;
  /// TN0301 with the first gap if the model has gaps, TN0105 if an input is missing.
  Status import(Import read, const std::vector<NamedTensor> &given);
  /// A file, with `extraOutputs` as outputs too, as it is imported for such a compilation: a
  /// language model over its pages, nodes by kernels of the user's.
  Status importFile(const std::string &path, const std::vector<std::string> &extraOutputs,
                    const std::vector<NamedTensor> &given, const pipeline::CompileOptions &compile);

  /// Of the function's arguments, in their order.
  const Tensors &arguments() const { return inputs; }
  mlir::func::FuncOp function() { return *imported.module->getOps<mlir::func::FuncOp>().begin(); }
  /// Of the results, in their order.
  std::vector<std::string> names();
  Result<Tensors> evaluate(const reference::Hooks &hooks = {});
  /// The first difference that rounding does not explain; empty if there is none. `expected` is
  /// what evaluate gave. The seed decides how the reference is disturbed.
  std::string difference(const Tensors &expected, const Tensors &actual, uint64_t seed);

private:
  mlir::MLIRContext context;
  tn::WeightStore store;
  frontend::ImportResult imported;
  Tensors inputs; ///< in the order of the function's arguments
  std::optional<Explainer> explainer;
};

/// The names that results or arguments carry in `tn.name`.
std::vector<std::string> resultNames(mlir::func::FuncOp function);
std::vector<std::string> argumentNames(mlir::func::FuncOp function);

/// The tensors of these names, in their order; TN0105 if one is missing.
Result<Tensors> inOrder(const std::vector<NamedTensor> &given,
                        const std::vector<std::string> &names);

} // namespace tenon::debug
