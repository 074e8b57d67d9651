// The operators that import, as rows of data: one list a family, each in its file under ops/.
// Relies on the test of these rows against ONNX's own schemas
// (test/unit/frontend/SignatureTest.cpp).
#pragma once

#include "compiler/frontend/onnx/wire/Model.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <initializer_list>
#include <limits>

namespace tenon::onnx {

class NodeContext;

/// Any number of inputs or outputs.
inline constexpr uint8_t kMany = 255;

inline constexpr AttributeType kInt = AttributeType::Int;
inline constexpr AttributeType kInts = AttributeType::Ints;
inline constexpr AttributeType kFloat = AttributeType::Float;
inline constexpr AttributeType kFloats = AttributeType::Floats;
inline constexpr AttributeType kString = AttributeType::String;
inline constexpr AttributeType kStrings = AttributeType::Strings;
inline constexpr AttributeType kTensor = AttributeType::Tensor;
inline constexpr AttributeType kSparseTensor = AttributeType::SparseTensor;
inline constexpr AttributeType kGraph = AttributeType::Graph;
inline constexpr AttributeType kTypeProto = AttributeType::Type;

/// An attribute of an operator in the opsets of its row, or in some of them.
struct AttributeRow {
  const char *name;
  AttributeType type;
  int64_t since = 1;
  int64_t until = std::numeric_limits<int64_t>::max(); ///< inclusive
  bool required = false;

  constexpr bool isIn(int64_t opset) const { return since <= opset && opset <= until; }
};

constexpr AttributeRow needs(AttributeRow attribute) {
  attribute.required = true;
  return attribute;
}

using Attributes = std::initializer_list<AttributeRow>;

/// An operator from one opset on, until its next row: ONNX changed the number of its inputs there.
struct OpRow {
  const char *name;
  int64_t since;
  uint8_t minInputs;
  uint8_t maxInputs;
  uint8_t maxOutputs;
  void (*import)(NodeContext &);
  Attributes attributes = {};
  const char *domain = "";
  uint16_t optional = 0;        ///< a bit for each of the first `minInputs` that may be left out
  bool takesContainers = false; ///< inputs may be sequences or optionals
};

/// The domain of ONNX Runtime's operators.
inline constexpr char kMicrosoft[] = "com.microsoft";

llvm::ArrayRef<OpRow> elementwiseRows();
llvm::ArrayRef<OpRow> activationRows();
llvm::ArrayRef<OpRow> reductionRows();
llvm::ArrayRef<OpRow> normalizationRows();
llvm::ArrayRef<OpRow> contractionRows();
llvm::ArrayRef<OpRow> convolutionRows();
llvm::ArrayRef<OpRow> poolingRows();
llvm::ArrayRef<OpRow> movementRows();
llvm::ArrayRef<OpRow> padRows();
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
llvm::ArrayRef<OpRow> selectionRows();
llvm::ArrayRef<OpRow> uniqueRows();
llvm::ArrayRef<OpRow> signalRows();
llvm::ArrayRef<OpRow> randomRows();
llvm::ArrayRef<OpRow> matrixRows();
llvm::ArrayRef<OpRow> mlRows();
llvm::ArrayRef<OpRow> treeRows();
llvm::ArrayRef<OpRow> supportRows();
llvm::ArrayRef<OpRow> trainingRows();
llvm::ArrayRef<OpRow> expertRows();
llvm::ArrayRef<OpRow> packedWeightRows();
llvm::ArrayRef<OpRow> lossRows();
llvm::ArrayRef<OpRow> controlRows();
llvm::ArrayRef<OpRow> loopRows();
llvm::ArrayRef<OpRow> bodyScanRows();
llvm::ArrayRef<OpRow> sequenceRows();
llvm::ArrayRef<OpRow> optionalRows();
llvm::ArrayRef<OpRow> rotaryRows();
llvm::ArrayRef<OpRow> microsoftAttentionRows();
llvm::ArrayRef<OpRow> microsoftFusionRows();
llvm::ArrayRef<OpRow> microsoftQuantizedRows();
llvm::ArrayRef<OpRow> microsoftProductRows();
llvm::ArrayRef<OpRow> packedAttentionRows();

/// Tries to evaluate a node on known integers only; true if all its outputs are set.
bool foldSizes(NodeContext &context);

/// The rows of one operator, the oldest first; none if Tenon lacks it.
using OpRows = llvm::ArrayRef<const OpRow *>;

/// The row that an opset has; null if all are newer.
const OpRow *rowOf(OpRows rows, int64_t opset);

/// All rows, found by "domain:name".
class OpTable {
public:
  OpTable();
  OpRows find(llvm::StringRef domain, llvm::StringRef name) const;
  const llvm::StringMap<llvm::SmallVector<const OpRow *, 2>> &operators() const { return rows; }

private:
  llvm::StringMap<llvm::SmallVector<const OpRow *, 2>> rows;
};

} // namespace tenon::onnx
