// A value of the model is written anew where a constraint has determined a symbol.
// Relies on ModuleBuilder for the operations, types and attributes.
#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {

void Importer::bringUpToDate(ImportedValue &value) {
  if (!hasDetermined()) {
    return;
  }
  for (ImportedValue &element : value.elements) {
    bringUpToDate(element);
  }
  if (!value.type) {
    return;
  }
  value.type =
      value.value ? cast<RankedTensorType>(value.value.getType()) : canonicalType(value.type);
  if (value.sizes) {
    value.sizes->values = symbols.canonical(value.sizes->values);
  }
}

} // namespace tenon::onnx
