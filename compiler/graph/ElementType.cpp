// One row an element type.
#include "compiler/graph/ElementType.h"

#include "mlir/IR/Builders.h"
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

mlir::Type elementType(DType type, mlir::MLIRContext *context) {
  mlir::Builder builder(context);
  switch (type) {
  case DType::F32:
    return builder.getF32Type();
  case DType::F64:
    return builder.getF64Type();
  case DType::F16:
    return builder.getF16Type();
  case DType::BF16:
    return builder.getBF16Type();
  case DType::I8:
    return builder.getIntegerType(8);
  case DType::I16:
    return builder.getIntegerType(16);
  case DType::I32:
    return builder.getIntegerType(32);
  case DType::I64:
    return builder.getIntegerType(64);
  case DType::U8:
    return builder.getIntegerType(8, false);
  case DType::U16:
    return builder.getIntegerType(16, false);
  case DType::U32:
    return builder.getIntegerType(32, false);
  case DType::U64:
    return builder.getIntegerType(64, false);
  case DType::Bool:
    return builder.getI1Type();
  case DType::F8E4M3FN:
    return mlir::Float8E4M3FNType::get(context);
  case DType::F8E4M3FNUZ:
    return mlir::Float8E4M3FNUZType::get(context);
  case DType::F8E5M2:
    return mlir::Float8E5M2Type::get(context);
  case DType::F8E5M2FNUZ:
    return mlir::Float8E5M2FNUZType::get(context);
  case DType::F8E8M0:
    return mlir::Float8E8M0FNUType::get(context);
  case DType::F4E2M1:
    return mlir::Float4E2M1FNType::get(context);
  case DType::I4:
    return builder.getIntegerType(4);
  case DType::U4:
    return builder.getIntegerType(4, false);
  case DType::I2:
    return builder.getIntegerType(2);
  case DType::U2:
    return builder.getIntegerType(2, false);
  default:
    return {};
  }
}

} // namespace tenon::tn
