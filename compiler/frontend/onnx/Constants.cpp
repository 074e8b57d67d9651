// Turns initializers, constants and known integers into operations, at their first use as data.
// Relies on the weight store for everything larger than a few elements.
#include "compiler/frontend/onnx/Importer.h"

#include "compiler/frontend/onnx/wire/SeededWeights.h"
#include "compiler/graph/TnRare.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

ArrayRef<char> charsOf(Bytes bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

DenseElementsAttr denseOf(const TensorData &data, RankedTensorType type) {
  if (data.bits < 8) {
    std::vector<std::byte> unpacked = unpackedBytes(data);
    return denseElements(type, unpacked);
  }
  return denseElements(type, data.view);
}

} // namespace

Type Importer::elementType(DataType type) {
  std::optional<DType> known = toDType(type);
  return known ? ModuleBuilder::elementType(*known) : Type();
}

RankedTensorType Importer::typeOf(const TensorData &data) {
  Type element = ModuleBuilder::elementType(data.type);
  return element ? RankedTensorType::get(data.dims, element) : RankedTensorType();
}

Status Importer::defineConstant(Scope &scope, std::string_view name, const Tensor &tensor,
                                const SparseTensor *sparse) {
  ImportedValue &value = scope.values[name];
  value = ImportedValue();
  value.name = name;
  if (!elementType(tensor.type)) {
    Gap gap;
    gap.opType = "Constant";
    gap.node = std::string(name);
    gap.dtype = std::string(nameOf(tensor.type));
    gap.rank = static_cast<int>((sparse ? sparse->dims : tensor.dims).size());
    gap.why = strCat("tensors of type ", nameOf(tensor.type), " are not supported");
    gap.workaround = "convert the tensor to a numeric type before exporting";
    gaps.push_back(std::move(gap));
    return Status::ok();
  }
  std::shared_ptr<TensorData> &known = loaded[&tensor];
  if (!known) {
    TENON_ASSIGN(TensorData data, sparse ? loadTensor(*sparse, files) : loadTensor(tensor, files));
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

Value Importer::materialize(ImportedValue &value, Location location) {
  if (!value.value && value.constant) {
    value.value = materializeConstant(value.constant, value.name, location);
  } else if (!value.value && value.sizes) {
    value.value = materializeSizes(*value.sizes, value.type.getElementType(), location);
  }
  return value.value;
}

} // namespace tenon::onnx
