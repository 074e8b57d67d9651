// One row an element type.
#include "compiler/graph/ElementType.h"

#include "mlir/IR/BuiltinTypes.h"

namespace tenon::tn {

std::optional<DType> dtypeOf(mlir::Type element) {
  if (element.isF32()) {
    return DType::F32;
  }
  if (element.isF64()) {
    return DType::F64;
  }
  if (element.isF16()) {
    return DType::F16;
  }
  if (element.isBF16()) {
    return DType::BF16;
  }
  mlir::IntegerType integer = llvm::dyn_cast<mlir::IntegerType>(element);
  if (!integer) {
    return std::nullopt;
  }
  bool isUnsigned = integer.isUnsigned();
  switch (integer.getWidth()) {
  case 1:
    return DType::Bool;
  case 8:
    return isUnsigned ? DType::U8 : DType::I8;
  case 16:
    return isUnsigned ? DType::U16 : DType::I16;
  case 32:
    return isUnsigned ? DType::U32 : DType::I32;
  case 64:
    return isUnsigned ? DType::U64 : DType::I64;
  default:
    return std::nullopt;
  }
}

} // namespace tenon::tn
