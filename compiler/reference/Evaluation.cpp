// The table of operations and the helpers that their functions share.
// Relies on each family's rows; the table is made once and never changes.
#include "compiler/reference/Evaluation.h"

#include "support/Shape.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringMap.h"

namespace tenon::reference {

std::optional<DType> storageOf(mlir::Type element, Precision precision) {
  std::optional<DType> dtype = dtypeOf(element);
  bool widens = dtype && precision == Precision::F64 && isFloat(*dtype);
  return widens ? DType::F64 : dtype;
}

const Tensor *Evaluation::find(mlir::Value operand) const {
  for (auto [index, value] : llvm::enumerate(op->getOperands())) {
    if (value == operand) {
      return &operands[index];
    }
  }
  return nullptr;
}

Result<Sizes> Evaluation::sizesOf(mlir::Type type) const {
  Sizes sizes;
  for (mlir::AffineExpr dim : tn::getDims(type)) {
    std::optional<int64_t> size = tn::evaluate(dim, symbols);
    if (!size || *size < 0) {
      return Status::error(ErrorId::RunBadSize, "a dim of " + op->getName().getStringRef().str() +
                                                    " has no valid size for these inputs");
    }
    sizes.push_back(*size);
  }
  return sizes;
}

Result<Tensor> Evaluation::makeResult() const {
  mlir::RankedTensorType type =
      llvm::cast<mlir::RankedTensorType>(op->getResult(results.size()).getType());
  std::optional<DType> dtype = storageOf(type.getElementType(), precision);
  if (!dtype) {
    return Status::error(ErrorId::InternalError,
                         "the reference interpreter cannot hold a result of " +
                             op->getName().getStringRef().str());
  }
  TENON_ASSIGN(Sizes sizes, sizesOf(type));
  return Tensor::create(*dtype, sizes);
}

Status badOperand(const std::string &message) {
  return Status::error(ErrorId::RunInputMismatch, message);
}

OpFunction findOpFunction(llvm::StringRef name) {
  static const llvm::StringMap<OpFunction> table = [] {
    llvm::StringMap<OpFunction> result;
    for (llvm::ArrayRef<OpRow> rows :
         {unaryOps(), binaryOps(), reduceOps(), normalizeOps(), contractionOps(), convolutionOps(),
          poolingOps(), resizeOps(), movementOps(), indexingOps(), quantizeOps(), structureOps(),
          winogradOps(), rareOps(), recurrentOps(), customOps()}) {
      for (const OpRow &row : rows) {
        result[row.name] = row.function;
      }
    }
    return result;
  }();
  return table.lookup(name);
}

Sizes stridesOf(llvm::ArrayRef<int64_t> dims) {
  Sizes strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

int64_t productOf(llvm::ArrayRef<int64_t> dims) {
  int64_t product = 1;
  for (int64_t dim : dims) {
    product *= dim;
  }
  return product;
}

Result<Sizes> broadcastStrides(llvm::ArrayRef<int64_t> part, llvm::ArrayRef<int64_t> whole) {
  Sizes own = stridesOf(part);
  Sizes strides(whole.size());
  bool fits = part.size() <= whole.size();
  for (size_t back = 1; fits && back <= part.size(); ++back) {
    int64_t size = part[part.size() - back];
    fits = size == 1 || size == whole[whole.size() - back];
    strides[whole.size() - back] = size == 1 ? 0 : own[part.size() - back];
  }
  if (!fits) {
    return badOperand("an operand of shape " + formatDims({part.data(), part.size()}) +
                      " does not broadcast to " + formatDims({whole.data(), whole.size()}));
  }
  return strides;
}

} // namespace tenon::reference
