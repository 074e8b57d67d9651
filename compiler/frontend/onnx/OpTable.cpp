// Joins the families' rows into one table.
// Relies on each family's list being constant data.
#include "compiler/frontend/onnx/OpTable.h"

using namespace llvm;

namespace tenon::onnx {

OpTable::OpTable() {
  for (ArrayRef<OpRow> family :
       {elementwiseRows(), activationRows(),  reductionRows(),    normalizationRows(),
        contractionRows(), convolutionRows(), poolingRows(),      movementRows(),
        partRows(),        recurrentRows(),   indexingRows(),     creationRows(),
        shapeRows(),       resizeRows(),      quantizationRows(), linearQuantizationRows(),
        attentionRows(),   scanRows(),        gridRows(),         samplingRows(),
        foldingRows(),     signalRows(),      randomRows(),       matrixRows(),
        mlRows(),          lossRows(),        controlRows()}) {
    for (const OpRow &row : family) {
      rows[(Twine(row.domain) + ":" + row.name).str()] = &row;
    }
  }
}

const OpRow *OpTable::find(StringRef domain, StringRef name) const {
  return rows.lookup((Twine(domain) + ":" + name).str());
}

} // namespace tenon::onnx
