// The operators of TensorFlow Lite that import, as rows of data: one list a family, each in its
// file under ops/.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"

namespace tenon::tflite {

class Node;

struct OpRow {
  const char *name; ///< "CONV_2D"
  unsigned inputs;  ///< at least
  void (*import)(Node &);
};

llvm::ArrayRef<OpRow> elementwiseRows();
llvm::ArrayRef<OpRow> contractionRows();
llvm::ArrayRef<OpRow> windowRows();
llvm::ArrayRef<OpRow> reductionRows();
llvm::ArrayRef<OpRow> shapeRows();
llvm::ArrayRef<OpRow> movementRows();
llvm::ArrayRef<OpRow> variableRows();

/// All rows, found by name.
class OpTable {
public:
  OpTable();
  /// Null without a row.
  const OpRow *find(llvm::StringRef name) const;

private:
  llvm::StringMap<const OpRow *> rows;
};

} // namespace tenon::tflite
