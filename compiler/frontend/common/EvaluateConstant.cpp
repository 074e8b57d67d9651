// Evaluates operations on constants.
// Relies on the reference for what an operation computes; one that fails there is left to run time.
#include "compiler/frontend/common/EvaluateConstant.h"

#include "compiler/graph/Tn.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace tenon::frontend {
namespace {

/// Such computations are short, and their intermediate results small.
constexpr unsigned kMaxOperations = 256;
constexpr int64_t kMaxElements = 1 << 14;

class ConstantEvaluator {
public:
  explicit ConstantEvaluator(tn::WeightStore &weights)
      : interpreter(&weights, {.precision = reference::Precision::Native, .threads = 1}) {}

  std::optional<reference::Tensor> evaluate(Value value) {
    OpResult result = dyn_cast<OpResult>(value);
    if (!result) {
      return std::nullopt;
    }
    auto known = results.find(result.getOwner());
    if (known == results.end()) {
      std::optional<std::vector<reference::Tensor>> computed = compute(result.getOwner());
      if (!computed) {
        return std::nullopt;
      }
      known = results.try_emplace(result.getOwner(), std::move(*computed)).first;
    }
    return known->second[result.getResultNumber()];
  }

private:
  std::optional<std::vector<reference::Tensor>> compute(Operation *op) {
    if (isa<tn::AndOp>(op)) {
      // One that does not hold decides it, whatever the other is.
      for (Value operand : op->getOperands()) {
        std::optional<reference::Tensor> tensor = evaluate(operand);
        if (tensor && tensor->count() == 1 && op->getResult(0).getType() == operand.getType() &&
            tensor->dtype() == DType::Bool && tensor->bytes()[0] == 0) {
          return std::vector<reference::Tensor>{*tensor};
        }
      }
    }
    bool isSmall = llvm::all_of(op->getResultTypes(), [](Type type) {
      RankedTensorType tensor = dyn_cast<RankedTensorType>(type);
      return tensor && tensor.hasStaticShape() && tensor.getNumElements() <= kMaxElements;
    });
    if (!isSmall || ++operations > kMaxOperations || op->getNumRegions() != 0 || !isPure(op)) {
      return std::nullopt;
    }
    SmallVector<reference::Tensor> operands;
    for (Value operand : op->getOperands()) {
      std::optional<reference::Tensor> tensor = evaluate(operand);
      if (!tensor) {
        return std::nullopt;
      }
      operands.push_back(std::move(*tensor));
    }
    Result<std::vector<reference::Tensor>> computed = interpreter.evaluateOp(op, operands);
    return computed && computed->size() == op->getNumResults() ? std::optional(*computed)
                                                               : std::nullopt;
  }

  reference::Interpreter interpreter;
  llvm::DenseMap<Operation *, std::vector<reference::Tensor>> results;
  unsigned operations = 0;
};

} // namespace

std::optional<reference::Tensor> evaluateConstant(Value value, tn::WeightStore &weights) {
  return ConstantEvaluator(weights).evaluate(value);
}

} // namespace tenon::frontend
