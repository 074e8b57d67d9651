// Collects the rows of all families.
#include "compiler/frontend/pt2/OpTable.h"

using namespace llvm;

namespace tenon::pt2 {

Target parseTarget(StringRef target) {
  target.consume_front("torch.ops.");
  Target result;
  size_t first = target.find('.');
  size_t second = first == StringRef::npos ? StringRef::npos : target.find('.', first + 1);
  result.name = target.take_front(second);
  result.overload = second == StringRef::npos ? StringRef() : target.drop_front(second + 1);
  // A dunder ("__and__") is no form that writes.
  result.isInPlace = result.name.ends_with("_") && !result.name.ends_with("__");
  if (result.isInPlace) {
    result.name = result.name.drop_back();
  }
  return result;
}

OpTable::OpTable() {
  for (ArrayRef<OpRow> family :
       {elementwiseRows(), activationRows(),  reductionRows(),    normalizationRows(),
        contractionRows(), convolutionRows(), poolingRows(),      shapeRows(),
        movementRows(),    diagonalRows(),    joiningRows(),      partRows(),
        indexingRows(),    creationRows(),    attentionRows(),    resizeRows(),
        selectionRows(),   sizeRows(),        quantizationRows(), recurrentRows(),
        controlRows(),     samplingRows(),    specialRows(),      numberRows()}) {
    for (const OpRow &row : family) {
      rows[row.name] = &row;
    }
  }
  for (ArrayRef<OpRow> family : {complexRows(), fourierRows()}) {
    for (const OpRow &row : family) {
      complex[row.name] = &row;
    }
  }
}

const OpRow *OpTable::find(StringRef name) const {
  auto found = rows.find(name);
  return found == rows.end() ? nullptr : found->second;
}

const OpRow *OpTable::findComplex(StringRef name) const {
  auto found = complex.find(name);
  return found == complex.end() ? nullptr : found->second;
}

} // namespace tenon::pt2
