// The operators of PyTorch that import, as rows of data: one list a family, each in its file under
// ops/. A row stands for all overloads of a name, and for the form that writes its first argument
// ("add_"): functions ask for arguments by the names of PyTorch's schemas, and what is given and
// not asked for is a gap.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"

namespace tenon::pt2 {

class Call;

struct OpRow {
  const char *name; ///< "aten.add"
  void (*import)(Call &);
  /// Whether the shapes that PyTorch states for results are right, so that ours are held to them.
  bool statesShapes = true;
};

llvm::ArrayRef<OpRow> elementwiseRows();
llvm::ArrayRef<OpRow> activationRows();
llvm::ArrayRef<OpRow> reductionRows();
llvm::ArrayRef<OpRow> normalizationRows();
llvm::ArrayRef<OpRow> contractionRows();
llvm::ArrayRef<OpRow> convolutionRows();
llvm::ArrayRef<OpRow> poolingRows();
llvm::ArrayRef<OpRow> shapeRows();
llvm::ArrayRef<OpRow> movementRows();
llvm::ArrayRef<OpRow> diagonalRows();
llvm::ArrayRef<OpRow> partRows();
llvm::ArrayRef<OpRow> joiningRows();
llvm::ArrayRef<OpRow> indexingRows();
llvm::ArrayRef<OpRow> creationRows();
llvm::ArrayRef<OpRow> attentionRows();
llvm::ArrayRef<OpRow> resizeRows();
llvm::ArrayRef<OpRow> selectionRows();
llvm::ArrayRef<OpRow> sizeRows();
llvm::ArrayRef<OpRow> numberRows();
llvm::ArrayRef<OpRow> quantizationRows();
llvm::ArrayRef<OpRow> recurrentRows();
llvm::ArrayRef<OpRow> controlRows();
llvm::ArrayRef<OpRow> samplingRows();
llvm::ArrayRef<OpRow> specialRows();
/// What operators do that read or give complex tensors, as Fourier transforms all do. Those without
/// a function do with each part what they do with a real tensor.
llvm::ArrayRef<OpRow> complexRows();
llvm::ArrayRef<OpRow> fourierRows();

/// An operator's name taken apart.
struct Target {
  llvm::StringRef name;     ///< "aten.add"
  llvm::StringRef overload; ///< "Tensor"
  bool isInPlace = false;   ///< the name ended with '_', which `name` does not have
};
/// Of "torch.ops.aten.add_.Tensor", "_operator.mul", "torch.sym_min".
Target parseTarget(llvm::StringRef target);

/// All rows, found by name.
class OpTable {
public:
  OpTable();
  /// Null without a row.
  const OpRow *find(llvm::StringRef name) const;
  const OpRow *findComplex(llvm::StringRef name) const;

private:
  llvm::StringMap<const OpRow *> rows, complex;
};

} // namespace tenon::pt2
