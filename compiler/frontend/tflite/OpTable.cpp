// Collects the rows of all families.
#include "compiler/frontend/tflite/OpTable.h"

using namespace llvm;

namespace tenon::tflite {

OpTable::OpTable() {
  for (ArrayRef<OpRow> family : {elementwiseRows(), contractionRows(), windowRows(),
                                 reductionRows(), shapeRows(), movementRows(), variableRows()}) {
    for (const OpRow &row : family) {
      rows[row.name] = &row;
    }
  }
}

const OpRow *OpTable::find(StringRef name) const {
  auto found = rows.find(name);
  return found == rows.end() ? nullptr : found->second;
}

} // namespace tenon::tflite
