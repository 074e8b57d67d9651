// Evaluates weights, constants, sizes and the layout of packed weights.
// Relies on the WeightStore for bytes, whose number is checked against the type.
#include "compiler/reference/Evaluation.h"

#include "support/Text.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"

#include <cstring>

using namespace mlir;

namespace tenon::reference {
namespace {

/// The stored form of a constant's bytes, before any change of precision.
Result<Tensor> shareBytes(Evaluation &evaluation, llvm::ArrayRef<char> bytes) {
  RankedTensorType type = cast<RankedTensorType>(evaluation.op->getResult(0).getType());
  std::optional<DType> dtype = dtypeOf(type.getElementType());
  if (!dtype) {
    return badOperand("the constant's type cannot be held");
  }
  return Tensor::share(*dtype, type.getShape(), bytes);
}

Status finishConstant(Evaluation &evaluation, const Tensor &stored) {
  bool widens = evaluation.precision == Precision::F64 && isFloat(stored.dtype());
  TENON_ASSIGN(Tensor y, convert(stored, widens ? DType::F64 : stored.dtype()));
  return evaluation.finish(std::move(y));
}

Status evaluateWeight(Evaluation &evaluation) {
  llvm::StringRef id = cast<tn::WeightOp>(evaluation.op).getId();
  if (!evaluation.weights || !evaluation.weights->find(id)) {
    return Status::error(ErrorId::InternalError,
                         strCat("there is no weight '", std::string_view(id), "'"));
  }
  TENON_ASSIGN(Tensor stored, shareBytes(evaluation, evaluation.weights->bytes(id)));
  return finishConstant(evaluation, stored);
}

Status evaluateConstant(Evaluation &evaluation) {
  ElementsAttr value = cast<tn::ConstantOp>(evaluation.op).getValue();
  if (DenseResourceElementsAttr resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob) {
      return badOperand("the constant's bytes are missing");
    }
    TENON_ASSIGN(Tensor stored, shareBytes(evaluation, blob->getData()));
    return finishConstant(evaluation, stored);
  }
  DenseElementsAttr dense = dyn_cast<DenseElementsAttr>(value);
  std::optional<DType> dtype = dtypeOf(value.getElementType());
  if (!dense || !dtype) {
    return badOperand("the constant is of a kind that cannot be read");
  }
  TENON_ASSIGN(Tensor stored, Tensor::create(*dtype, dense.getType().getShape()));
  if (*dtype == DType::Bool) {
    for (auto [i, element] : llvm::enumerate(dense.getValues<bool>())) {
      stored.as<Bool>()[i].value = element;
    }
    return finishConstant(evaluation, stored);
  }
  llvm::ArrayRef<char> raw = dense.getRawData();
  size_t width = bitWidth(*dtype) / 8;
  for (int64_t i = 0; i < stored.count(); ++i) {
    std::memcpy(stored.mutableBytes() + i * width, raw.data() + (dense.isSplat() ? 0 : i * width),
                width);
  }
  return finishConstant(evaluation, stored);
}

Status evaluateSizes(Evaluation &evaluation) {
  AffineMap values = cast<tn::SizesOp>(evaluation.op).getValues();
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_TRY(visitInteger(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (auto [i, expression] : llvm::enumerate(values.getResults())) {
      std::optional<int64_t> value = tn::evaluate(expression, evaluation.symbols);
      if (!value) {
        return Status::error(ErrorId::RunBadSize, "a size cannot be computed for these inputs");
      }
      y.as<T>()[i] = narrow<T>(*value);
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

Status evaluatePack(Evaluation &evaluation) {
  tn::PackOp op = cast<tn::PackOp>(evaluation.op);
  const Tensor &weight = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Sizes own = stridesOf(weight.dims());
  Sizes dims;
  Sizes strides;
  for (int64_t source : op.getPermutation()) {
    dims.push_back(weight.dims()[source]);
    strides.push_back(own[source]);
  }
  int64_t panel = op.getPanel();
  int64_t rows = productOf(llvm::ArrayRef<int64_t>(dims).take_front(op.getRows()));
  int64_t columns = productOf(llvm::ArrayRef<int64_t>(dims).drop_front(op.getRows()));
  int64_t perGroup = columns / int64_t(op.getGroups());
  int64_t panels = (perGroup + panel - 1) / panel;
  size_t width = bitWidth(y.dtype()) / 8;
  Walker<1> walker(dims, {strides}, 0);
  for (int64_t i = 0; i < weight.count(); ++i, walker.next()) {
    int64_t row = i / columns;
    int64_t group = i % columns / perGroup;
    int64_t column = i % columns % perGroup;
    int64_t target = ((group * panels + column / panel) * rows + row) * panel + column % panel;
    std::memcpy(y.mutableBytes() + target * width, weight.bytes() + walker.offset() * width, width);
  }
  return evaluation.finish(std::move(y));
}

constexpr OpRow kRows[] = {
    {"tn.weight", evaluateWeight},
    {"tn.constant", evaluateConstant},
    {"tn.sizes", evaluateSizes},
    {"tn.pack", evaluatePack},
};

} // namespace

llvm::ArrayRef<OpRow> structureOps() { return kRows; }

} // namespace tenon::reference
