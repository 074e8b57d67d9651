// The elements of small values that constants alone decide, whatever operators compute them:
// padding, sizes and scales as exporters write them.
// Relies on the reference for what an operation computes; one that fails there is left to run time.
#include "compiler/frontend/common/EvaluateConstant.h"
#include "compiler/frontend/onnx/Importer.h"
#include "compiler/graph/ElementType.h"

using namespace mlir;

namespace tenon::onnx {
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
  std::optional<reference::Tensor> tensor = evaluateConstant(value.value, store);
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
