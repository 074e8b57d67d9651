// The elements of small values that constants alone decide, whatever operators compute them:
// padding, sizes and scales as exporters write them.
// Relies on the reference for what an operation computes; one that fails there is left to run time.
#include "compiler/frontend/onnx/Importer.h"

#include "compiler/graph/ElementType.h"
#include "compiler/reference/Interpreter.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Such computations are short, and their intermediate results small.
constexpr unsigned kMostOperations = 256;
constexpr int64_t kMostElements = 1 << 14;

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
    bool isSmall = llvm::all_of(op->getResultTypes(), [](Type type) {
      RankedTensorType tensor = dyn_cast<RankedTensorType>(type);
      return tensor && tensor.hasStaticShape() && tensor.getNumElements() <= kMostElements;
    });
    if (!isSmall || ++operations > kMostOperations || op->getNumRegions() != 0 || !isPure(op)) {
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

void Importer::evaluate(ImportedValue &value) {
  if (value.constant || value.sizes || !value.value || value.isEvaluated) {
    return;
  }
  value.isEvaluated = true;
  RankedTensorType type = value.type;
  if (!type.hasStaticShape() || type.getNumElements() > Sizes::kMaxElements ||
      tn::isLowBit(type.getElementType())) {
    return;
  }
  std::optional<reference::Tensor> tensor = ConstantEvaluator(store).evaluate(value.value);
  if (!tensor || tensor->dims() != type.getShape()) {
    return;
  }
  std::shared_ptr<TensorData> data = std::make_shared<TensorData>();
  data->dims.assign(type.getShape().begin(), type.getShape().end());
  data->type = tensor->dtype();
  data->elements = static_cast<uint64_t>(tensor->count());
  data->size = tensor->byteCount();
  const std::byte *bytes = reinterpret_cast<const std::byte *>(tensor->bytes());
  data->owned.assign(bytes, bytes + data->size);
  data->view = data->owned;
  value.constant = std::move(data);
}

} // namespace tenon::onnx
