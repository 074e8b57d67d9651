// The operators that import, as rows of data: one list a family, each in its file under ops/.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"

#include <cstdint>

namespace tenon::onnx {

class NodeContext;

/// Any number of inputs or outputs.
inline constexpr uint8_t kMany = 255;

struct OpRow {
  const char *name;
  int64_t since; ///< the oldest opset that has the operator
  uint8_t minInputs;
  uint8_t maxInputs;
  uint8_t maxOutputs;
  void (*import)(NodeContext &);
  const char *domain = "";
};

llvm::ArrayRef<OpRow> elementwiseRows();
llvm::ArrayRef<OpRow> activationRows();
llvm::ArrayRef<OpRow> reductionRows();
llvm::ArrayRef<OpRow> normalizationRows();
llvm::ArrayRef<OpRow> contractionRows();
llvm::ArrayRef<OpRow> convolutionRows();
llvm::ArrayRef<OpRow> poolingRows();
llvm::ArrayRef<OpRow> movementRows();
llvm::ArrayRef<OpRow> partRows();
llvm::ArrayRef<OpRow> recurrentRows();
llvm::ArrayRef<OpRow> indexingRows();
llvm::ArrayRef<OpRow> creationRows();
llvm::ArrayRef<OpRow> shapeRows();
llvm::ArrayRef<OpRow> resizeRows();
llvm::ArrayRef<OpRow> quantizationRows();
llvm::ArrayRef<OpRow> linearQuantizationRows();
llvm::ArrayRef<OpRow> attentionRows();
llvm::ArrayRef<OpRow> scanRows();
llvm::ArrayRef<OpRow> gridRows();
llvm::ArrayRef<OpRow> samplingRows();
llvm::ArrayRef<OpRow> foldingRows();
llvm::ArrayRef<OpRow> signalRows();
llvm::ArrayRef<OpRow> randomRows();
llvm::ArrayRef<OpRow> matrixRows();
llvm::ArrayRef<OpRow> mlRows();
llvm::ArrayRef<OpRow> lossRows();
llvm::ArrayRef<OpRow> controlRows();

/// Tries to evaluate a node on known integers only; true if all its outputs are set.
bool foldSizes(NodeContext &context);

/// All rows, found by "domain:name".
class OpTable {
public:
  OpTable();
  const OpRow *find(llvm::StringRef domain, llvm::StringRef name) const;

private:
  llvm::StringMap<const OpRow *> rows;
};

} // namespace tenon::onnx
