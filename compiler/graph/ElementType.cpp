// One row an element type.
#include "compiler/graph/ElementType.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/TypeSwitch.h"

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
    return llvm::TypeSwitch<mlir::Type, std::optional<DType>>(element)
        .Case([](mlir::Float8E4M3FNType) { return DType::F8E4M3FN; })
        .Case([](mlir::Float8E4M3FNUZType) { return DType::F8E4M3FNUZ; })
        .Case([](mlir::Float8E5M2Type) { return DType::F8E5M2; })
        .Case([](mlir::Float8E5M2FNUZType) { return DType::F8E5M2FNUZ; })
        .Case([](mlir::Float8E8M0FNUType) { return DType::F8E8M0; })
        .Case([](mlir::Float4E2M1FNType) { return DType::F4E2M1; })
        .Default(std::nullopt);
  }
  bool isUnsigned = integer.isUnsigned();
  switch (integer.getWidth()) {
  case 1:
    return DType::Bool;
  case 2:
    return isUnsigned ? DType::U2 : DType::I2;
  case 4:
    return isUnsigned ? DType::U4 : DType::I4;
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

bool isLowBit(mlir::Type element) {
  std::optional<DType> dtype = dtypeOf(element);
  return dtype && tenon::isLowBit(*dtype);
}

} // namespace tenon::tn
