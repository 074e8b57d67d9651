// Turns initializers, constants and known integers into operations, at their first use as data.
// Relies on the weight store for everything larger than a few elements.
#include "compiler/frontend/onnx/Importer.h"

#include "compiler/frontend/onnx/wire/SeededWeights.h"
#include "compiler/graph/TnRare.h"
#include "support/Text.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Larger constants go to the weight store.
constexpr uint64_t kMaxInlineElements = 64;

ArrayRef<char> charsOf(Bytes bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

DenseElementsAttr denseOf(const TensorData &data, RankedTensorType type) {
  ArrayRef<char> bytes = charsOf(data.view);
  if (data.elements == 0) {
    return DenseElementsAttr::get(type, ArrayRef<mlir::Attribute>());
  }
  if (data.type == DType::Bool) {
    SmallVector<bool> values;
    for (char byte : bytes) {
      values.push_back(byte != 0);
    }
    return DenseElementsAttr::get(type, values);
  }
  if (data.bits < 8) {
    std::vector<std::byte> unpacked = unpackedBytes(data);
    return DenseElementsAttr::getFromRawBuffer(type, charsOf(unpacked));
  }
  return DenseElementsAttr::getFromRawBuffer(type, bytes);
}

} // namespace

Type Importer::elementType(DataType type) {
  std::optional<DType> known = toDType(type);
  if (!known) {
    return Type();
  }
  switch (*known) {
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
    return Float8E4M3FNType::get(&context);
  case DType::F8E4M3FNUZ:
    return Float8E4M3FNUZType::get(&context);
  case DType::F8E5M2:
    return Float8E5M2Type::get(&context);
  case DType::F8E5M2FNUZ:
    return Float8E5M2FNUZType::get(&context);
  case DType::F8E8M0:
    return Float8E8M0FNUType::get(&context);
  case DType::F4E2M1:
    return Float4E2M1FNType::get(&context);
  case DType::I4:
    return builder.getIntegerType(4);
  case DType::U4:
    return builder.getIntegerType(4, false);
  case DType::I2:
    return builder.getIntegerType(2);
  case DType::U2:
    return builder.getIntegerType(2, false);
  default:
    return Type();
  }
}

RankedTensorType Importer::typeOf(const TensorData &data) {
  Type element;
  for (int32_t type = 1; type <= kLastDataType && !element; ++type) {
    if (toDType(static_cast<DataType>(type)) == data.type) {
      element = elementType(static_cast<DataType>(type));
    }
  }
  return element ? RankedTensorType::get(data.dims, element) : RankedTensorType();
}

Status Importer::defineConstant(Scope &scope, std::string_view name, const Tensor &tensor) {
  ImportedValue &value = scope.values[name];
  value = ImportedValue();
  value.name = name;
  if (!elementType(tensor.type)) {
    Gap gap;
    gap.opType = "Constant";
    gap.node = std::string(name);
    gap.dtype = std::string(nameOf(tensor.type));
    gap.rank = static_cast<int>(tensor.dims.size());
    gap.why = strCat("tensors of type ", nameOf(tensor.type), " are not supported");
    gap.workaround = "convert the tensor to a numeric type before exporting";
    gaps.push_back(std::move(gap));
    return Status::ok();
  }
  std::shared_ptr<TensorData> &known = loaded[&tensor];
  if (!known) {
    TENON_ASSIGN(TensorData data, loadTensor(tensor, files));
    known = std::make_shared<TensorData>(std::move(data));
  }
  value.type = typeOf(*known);
  TENON_TRY(checkValueType(value.type, name));
  value.constant = known;
  return Status::ok();
}

Value Importer::materializeConstant(const std::shared_ptr<TensorData> &constant, StringRef name,
                                    Location location) {
  const TensorData &data = *constant;
  RankedTensorType type = typeOf(data);
  SeededRecipe recipe;
  if (data.seeded) {
    recipe = {seededState(name, options.seed), data.seeded->scale, data.seeded->center,
              data.type == DType::F64    ? DataType::Double
              : data.type == DType::F16  ? DataType::Float16
              : data.type == DType::BF16 ? DataType::BFloat16
                                         : DataType::Float};
  }
  if (data.elements <= kMaxInlineElements && !data.seeded) {
    return tn::ConstantOp::create(builder, location, type, denseOf(data, type));
  }
  std::string &id = weightIds[constant];
  if (id.empty() && data.seeded) {
    uint64_t bytesEach = data.size / std::max<uint64_t>(data.elements, 1);
    id = store.addGenerated(
        name, data.size,
        [recipe, bytesEach](uint64_t begin, uint64_t size, char *out) {
          fillSeeded(recipe, begin / bytesEach, size / bytesEach, out);
        },
        "seeded");
  } else if (id.empty() && data.owned.empty()) {
    id = store.addView(name, charsOf(data.view), "model");
  } else if (id.empty()) {
    ArrayRef<char> bytes = charsOf(data.view);
    id = store.addOwned(name, std::vector<char>(bytes.begin(), bytes.end()), "model");
  }
  if (data.bits < 8) {
    RankedTensorType packed =
        RankedTensorType::get({static_cast<int64_t>(data.size)}, builder.getIntegerType(8, false));
    Value bytes = tn::WeightOp::create(builder, location, packed, id);
    return tn::UnpackBitsOp::create(builder, location, type, bytes);
  }
  return tn::WeightOp::create(builder, location, type, id);
}

Value Importer::materializeReals(ArrayRef<double> values, ArrayRef<int64_t> shape, DType type,
                                 StringRef name, Location location) {
  std::shared_ptr<TensorData> made = std::make_shared<TensorData>();
  TensorData &data = *made;
  data.dims.assign(shape.begin(), shape.end());
  data.type = type;
  data.elements = values.size();
  auto fill = [&](auto zero) {
    std::vector<decltype(zero)> rounded(values.begin(), values.end());
    std::span<const std::byte> bytes = std::as_bytes(std::span(rounded));
    data.owned.assign(bytes.begin(), bytes.end());
  };
  type == DType::F64 ? fill(double()) : fill(float());
  data.size = data.owned.size();
  data.view = data.owned;
  return materializeConstant(made, name, location);
}

Value Importer::materializeSizes(const Sizes &sizes, Type element, Location location) {
  RankedTensorType type = RankedTensorType::get(sizes.shape, element);
  std::optional<SmallVector<int64_t>> constants = sizes.constants();
  if (constants) {
    unsigned width = element.getIntOrFloatBitWidth();
    SmallVector<llvm::APInt> values;
    for (int64_t value : *constants) {
      values.push_back(
          llvm::APInt(width, static_cast<uint64_t>(value), false, /*implicitTrunc=*/true));
    }
    DenseElementsAttr dense = values.empty()
                                  ? DenseElementsAttr::get(type, ArrayRef<mlir::Attribute>())
                                  : DenseElementsAttr::get(type, values);
    return tn::ConstantOp::create(builder, location, type, dense);
  }
  RankedTensorType flat =
      sizes.rank() <= 1
          ? type
          : RankedTensorType::get({static_cast<int64_t>(sizes.values.size())}, element);
  Value result =
      tn::SizesOp::create(builder, location, flat, tn::symbolMap(sizes.values, &context));
  return flat == type ? result : tn::ReshapeOp::create(builder, location, type, result);
}

Value Importer::materialize(ImportedValue &value, Location location) {
  if (!value.value && value.constant) {
    value.value = materializeConstant(value.constant, value.name, location);
  } else if (!value.value && value.sizes) {
    value.value = materializeSizes(*value.sizes, value.type.getElementType(), location);
  }
  return value.value;
}

} // namespace tenon::onnx
