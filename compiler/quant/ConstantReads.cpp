// Constants as models store them: dense and sparse tensors, attributes of Constant nodes.
#include "compiler/quant/ConstantOps.h"

#include "compiler/frontend/onnx/wire/TensorData.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tenon::quant {
namespace {

using onnx::DataType;

float fromHalf(uint16_t bits) {
  int exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  float size = exponent == 0    ? std::ldexp(static_cast<float>(mantissa), -24)
               : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                : std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25);
  return bits & 0x8000 ? -size : size;
}

template <typename Stored, typename Kept, typename Convert>
std::vector<Kept> decoded(const onnx::TensorData &data, const Convert &convert) {
  std::vector<Kept> result(data.elements);
  for (size_t i = 0; i < result.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, data.view.data() + i * sizeof(Stored), sizeof(Stored));
    result[i] = convert(stored);
  }
  return result;
}

bool isKnown(DataType type) {
  constexpr DataType kKnown[] = {DataType::Float,  DataType::Float16, DataType::BFloat16,
                                 DataType::Double, DataType::Int64,   DataType::Int32,
                                 DataType::Bool};
  return std::find(std::begin(kKnown), std::end(kKnown), type) != std::end(kKnown);
}

Folded constantOf(Result<onnx::TensorData> data, DataType type) {
  if (!data || data->seeded) {
    return std::nullopt;
  }
  Constant result{type, data->dims, {}, {}};
  switch (type) {
  case DataType::Float:
    result.floats = decoded<float, float>(*data, [](float value) { return value; });
    break;
  case DataType::Float16:
    result.floats = decoded<uint16_t, float>(*data, fromHalf);
    break;
  case DataType::BFloat16:
    result.floats = decoded<uint16_t, float>(
        *data, [](uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); });
    break;
  case DataType::Double:
    result.floats =
        decoded<double, float>(*data, [](double value) { return static_cast<float>(value); });
    break;
  case DataType::Int64:
    result.ints = decoded<int64_t, int64_t>(*data, [](int64_t value) { return value; });
    break;
  case DataType::Bool:
    result.ints = decoded<uint8_t, int64_t>(*data, [](uint8_t value) { return value != 0; });
    break;
  default:
    result.ints = decoded<int32_t, int64_t>(*data, [](int32_t value) { return value; });
  }
  return result;
}

} // namespace

Folded loadConstant(const onnx::Tensor &tensor, onnx::ExternalFiles &files) {
  return isKnown(tensor.type) ? constantOf(onnx::loadTensor(tensor, files), tensor.type)
                              : std::nullopt;
}

Folded loadConstant(const onnx::SparseTensor &tensor, onnx::ExternalFiles &files) {
  return isKnown(tensor.values.type)
             ? constantOf(onnx::loadTensor(tensor, files), tensor.values.type)
             : std::nullopt;
}

Folded loadConstant(const onnx::Node &node, onnx::ExternalFiles &files) {
  for (const onnx::Attribute &own : node.attributes) {
    int64_t floats = static_cast<int64_t>(own.floats.size());
    int64_t ints = static_cast<int64_t>(own.ints.size());
    if (own.name == "value" && own.tensor) {
      return loadConstant(*own.tensor, files);
    }
    if (own.name == "sparse_value" && own.sparse) {
      return loadConstant(*own.sparse, files);
    }
    if (own.name == "value_float") {
      return Constant{DataType::Float, {}, {own.f}, {}};
    }
    if (own.name == "value_floats") {
      return Constant{DataType::Float, {floats}, own.floats, {}};
    }
    if (own.name == "value_int") {
      return Constant{DataType::Int64, {}, {}, {own.i}};
    }
    if (own.name == "value_ints") {
      return Constant{DataType::Int64, {ints}, {}, own.ints};
    }
  }
  return std::nullopt;
}

} // namespace tenon::quant
