// Walks the operators of the main graph in order and imports each through its row of the table.
#include "compiler/frontend/tflite/Importer.h"

#include "compiler/frontend/tflite/Node.h"
#include "compiler/graph/DimText.h"
#include "compiler/graph/ElementType.h"
#include "compiler/graph/State.h"
#include "mlir/IR/Diagnostics.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::tflite {

RankedTensorType storedType(MLIRContext *context, const fb::Tensor &tensor) {
  std::optional<DType> type = typeOf(tensor);
  if (!type) {
    return {};
  }
  SmallVector<int64_t> dims;
  forEach(tensor.shape(), [&](int32_t dim) { dims.push_back(dim); });
  return RankedTensorType::get(dims, tn::elementType(*type, context));
}

std::string labelOf(const fb::Tensor &tensor, int32_t index) {
  return tensor.name() && tensor.name()->size() > 0 ? tensor.name()->str()
                                                    : strCat("tensor.", index);
}

Importer::Importer(const fb::Model &model, const frontend::ImportOptions &theOptions,
                   MLIRContext &owner, tn::WeightStore &theStore)
    : ModuleBuilder(owner, theStore), file(model), graph(*model.subgraphs()->Get(0)),
      options(theOptions), values(sizeOf(graph.tensors())) {}

Result<frontend::ImportResult> Importer::run() {
  beginModule();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    lastDiagnostic = tn::nameSymbols(diagnostic.str(), symbols.all());
    return success();
  });
  tn::ScopedAssumptions listening(&context, symbols);
  TENON_TRY(importInputs());
  for (size_t i = 0; i < sizeOf(graph.operators()); ++i) {
    TENON_TRY(importNode(*graph.operators()->Get(static_cast<uint32_t>(i)), i));
  }
  TENON_TRY(finish());
  frontend::ImportResult result;
  if (!gaps.empty()) {
    result.gaps = std::move(gaps);
    return result;
  }
  TENON_ASSIGN(result.module, takeModule());
  for (const auto &[name, variable] : variables) {
    if (variable.now) {
      TENON_TRY(tn::declareState(*result.module, name + ".state", name + ".next"));
    }
  }
  return result;
}

Status Importer::importNode(const fb::Operator &op, size_t index) {
  Node node(*this, op, index);
  if (node.isPoisoned()) {
    return Status::ok();
  }
  symbols.setNode(node.label());
  const OpRow *row = table.find(node.kind);
  if (!row) {
    node.gap("Tenon does not support this operator", "convert the model without it");
  } else if (node.numInputs() < row->inputs) {
    node.error(ErrorId::OnnxBadArity, "it has " + Twine(node.numInputs()) + " operands");
  } else {
    row->import(node);
  }
  bool isComplete =
      node.failed() || llvm::all_of(llvm::seq<size_t>(0, node.numOutputs()), [&](size_t i) {
        int32_t output = op.outputs()->Get(static_cast<uint32_t>(i));
        return values[output].stored || !values[output].variable.empty();
      });
  if (!isComplete) {
    node.gap("its result cannot be imported");
  }
  return std::move(pending);
}

Value Importer::addState(StringRef name, RankedTensorType type) {
  return addInput((name + ".state").str(), tn::getDims(type), type.getElementType());
}

Value Importer::permuted(const fb::Tensor &tensor, ArrayRef<int64_t> permutation, StringRef name) {
  RankedTensorType from = storedType(&context, tensor);
  Bytes data = dataOf(file, tensor);
  size_t size = from ? bitWidth(*typeOf(tensor)) / 8 : 0;
  if (!from || data.size() != size * from.getNumElements()) {
    return {};
  }
  SmallVector<int64_t> dims, strides(from.getRank(), 1), steps;
  for (int64_t i = from.getRank() - 1; i-- > 0;) {
    strides[i] = strides[i + 1] * from.getDimSize(i + 1);
  }
  for (int64_t dim : permutation) {
    dims.push_back(from.getDimSize(dim));
    steps.push_back(strides[dim]);
  }
  std::vector<char> bytes(data.size());
  SmallVector<int64_t> at(dims.size(), 0);
  for (size_t to = 0; to < bytes.size(); to += size) {
    int64_t element = 0;
    for (auto [index, step] : llvm::zip_equal(at, steps)) {
      element += index * step;
    }
    std::memcpy(bytes.data() + to, data.data() + element * size, size);
    for (size_t d = dims.size(); d-- > 0 && ++at[d] == dims[d];) {
      at[d] = 0;
    }
  }
  RankedTensorType type = RankedTensorType::get(dims, from.getElementType());
  Location location = NameLoc::get(builder.getStringAttr(name));
  if (type.getNumElements() <= static_cast<int64_t>(frontend::kMaxInlineElements)) {
    return tn::ConstantOp::create(builder, location, type,
                                  frontend::denseElements(type, std::as_bytes(std::span(bytes))));
  }
  return tn::WeightOp::create(builder, location, type,
                              store.addOwned(name, std::move(bytes), "model"));
}

void Importer::setError(Status status) {
  if (pending.isOk()) {
    pending = std::move(status);
  }
}

void Importer::addGap(frontend::Gap gap) { gaps.push_back(std::move(gap)); }

} // namespace tenon::tflite
