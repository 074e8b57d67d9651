// Joins the families' rows into one table.
// Relies on each family's list being constant data.
#include "compiler/frontend/onnx/OpTable.h"

using namespace llvm;

namespace tenon::onnx {

OpTable::OpTable() {
  for (ArrayRef<OpRow> family : {elementwiseRows(),
                                 activationRows(),
                                 reductionRows(),
                                 normalizationRows(),
                                 contractionRows(),
                                 convolutionRows(),
                                 poolingRows(),
                                 movementRows(),
                                 padRows(),
                                 partRows(),
                                 recurrentRows(),
                                 indexingRows(),
                                 creationRows(),
                                 shapeRows(),
                                 resizeRows(),
                                 quantizationRows(),
                                 linearQuantizationRows(),
                                 attentionRows(),
                                 scanRows(),
                                 gridRows(),
                                 samplingRows(),
                                 foldingRows(),
                                 selectionRows(),
                                 uniqueRows(),
                                 signalRows(),
                                 randomRows(),
                                 matrixRows(),
                                 mlRows(),
                                 treeRows(),
                                 supportRows(),
                                 trainingRows(),
                                 expertRows(),
                                 packedWeightRows(),
                                 lossRows(),
                                 controlRows(),
                                 loopRows(),
                                 bodyScanRows(),
                                 sequenceRows(),
                                 optionalRows(),
                                 rotaryRows(),
                                 microsoftAttentionRows(),
                                 microsoftFusionRows(),
                                 microsoftQuantizedRows(),
                                 microsoftProductRows(),
                                 packedAttentionRows()}) {
    for (const OpRow &row : family) {
      rows[(Twine(row.domain) + ":" + row.name).str()].push_back(&row);
    }
  }
}

const OpRow *rowOf(OpRows rows, int64_t opset) {
  const OpRow *newest = nullptr;
  for (const OpRow *row : rows) {
    newest = row->since <= opset ? row : newest;
  }
  return newest;
}

OpRows OpTable::find(StringRef domain, StringRef name) const {
  auto found = rows.find((Twine(domain) + ":" + name).str());
  return found == rows.end() ? OpRows() : OpRows(found->second);
}

} // namespace tenon::onnx
