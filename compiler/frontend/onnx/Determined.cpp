// What is imported already is written anew where a constraint has determined a symbol.
// Relies on types and affine maps being the only places of symbols.
#include "compiler/frontend/onnx/NodeContext.h"

#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;

namespace tenon::onnx {

RankedTensorType Importer::canonicalType(RankedTensorType type) const {
  return type && type.getEncoding()
             ? tn::makeTensor(symbols.canonical(tn::getDims(type)), type.getElementType())
             : type;
}

void Importer::rewriteDetermined(Operation *root) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](RankedTensorType type) { return canonicalType(type); });
  replacer.addReplacement([&](AffineMapAttr map) {
    tn::Dims results = symbols.canonical(map.getValue().getResults());
    return AffineMapAttr::get(tn::symbolMap(results, &context));
  });
  replacer.recursivelyReplaceElementsIn(root, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

void Importer::bringUpToDate() {
  if (symbols.determined() != determined) {
    determined = symbols.determined();
    rewriteDetermined(function);
  }
}

void Importer::bringUpToDate(ImportedValue &value) {
  if (determined == 0) {
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

void Importer::storeStatedDims() {
  for (auto [index, dims] : llvm::enumerate(inputDimsAsStated)) {
    if (!tn::sameDims(dims, tn::getDims(function.getArgumentTypes()[index]))) {
      function.setArgAttr(index, tn::kStatedDims,
                          AffineMapAttr::get(tn::symbolMap(dims, &context)));
    }
  }
}

} // namespace tenon::onnx
