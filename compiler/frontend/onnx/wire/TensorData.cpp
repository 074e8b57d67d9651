// Raw data is viewed in place; typed lists are decoded with a range check for each element.
// Relies on Limits::rank having bounded the dims.
#include "compiler/frontend/onnx/wire/TensorData.h"

#include "compiler/frontend/onnx/wire/SeededWeights.h"
#include "compiler/frontend/onnx/wire/Wire.h"
#include "support/Shape.h"
#include "support/text/Text.h"

#include <cstring>

namespace tenon::onnx {

std::string_view nameOf(DataType type) {
  static constexpr std::string_view names[] = {
      "undefined",      "float",    "uint8",        "int8",           "uint16",
      "int16",          "int32",    "int64",        "string",         "bool",
      "float16",        "double",   "uint32",       "uint64",         "complex64",
      "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
      "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
      "uint2",          "int2"};
  size_t index = static_cast<size_t>(type);
  return index < std::size(names) ? names[index] : "unknown";
}

std::optional<DType> toDType(DataType type) {
  switch (type) {
  case DataType::Float:
    return DType::F32;
  case DataType::UInt8:
    return DType::U8;
  case DataType::Int8:
    return DType::I8;
  case DataType::UInt16:
    return DType::U16;
  case DataType::Int16:
    return DType::I16;
  case DataType::Int32:
    return DType::I32;
  case DataType::Int64:
    return DType::I64;
  case DataType::Bool:
    return DType::Bool;
  case DataType::Float16:
    return DType::F16;
  case DataType::Double:
    return DType::F64;
  case DataType::UInt32:
    return DType::U32;
  case DataType::UInt64:
    return DType::U64;
  case DataType::Complex64:
    return DType::Complex64;
  case DataType::Complex128:
    return DType::Complex128;
  case DataType::BFloat16:
    return DType::BF16;
  case DataType::Float8E4M3FN:
    return DType::F8E4M3FN;
  case DataType::Float8E4M3FNUZ:
    return DType::F8E4M3FNUZ;
  case DataType::Float8E5M2:
    return DType::F8E5M2;
  case DataType::Float8E5M2FNUZ:
    return DType::F8E5M2FNUZ;
  case DataType::UInt4:
    return DType::U4;
  case DataType::Int4:
    return DType::I4;
  case DataType::Float4E2M1:
    return DType::F4E2M1;
  case DataType::Float8E8M0:
    return DType::F8E8M0;
  case DataType::UInt2:
    return DType::U2;
  case DataType::Int2:
    return DType::I2;
  default:
    return std::nullopt;
  }
}

namespace {

Status tensorError(ErrorId id, const Tensor &tensor, std::string_view what) {
  return Status::error(id, strCat("tensor '", tensor.name, "' (", nameOf(tensor.type), ") ", what),
                       "export the model again; onnx.checker names the tensor too");
}

/// The typed list that holds elements of this type.
const std::vector<std::string_view> &listFor(const Tensor &tensor) {
  switch (tensor.type) {
  case DataType::Float:
  case DataType::Complex64:
    return tensor.floats;
  case DataType::Double:
  case DataType::Complex128:
    return tensor.doubles;
  case DataType::Int64:
    return tensor.int64s;
  case DataType::UInt32:
  case DataType::UInt64:
    return tensor.uint64s;
  default:
    return tensor.int32s;
  }
}

Status checkSources(const Tensor &tensor) {
  unsigned lists = !tensor.floats.empty() + !tensor.doubles.empty() + !tensor.int32s.empty() +
                   !tensor.int64s.empty() + !tensor.uint64s.empty() + !tensor.strings.empty();
  if (tensor.segmented) {
    return tensorError(ErrorId::OnnxTensorData, tensor, "is split into segments");
  }
  if (lists + tensor.hasRaw + tensor.external > 1) {
    return tensorError(ErrorId::OnnxTensorData, tensor, "has data in more than one form");
  }
  if (lists == 1 && listFor(tensor).empty()) {
    return tensorError(ErrorId::OnnxTensorData, tensor, "has data in the list of another type");
  }
  return Status::ok();
}

/// Whether a value of an integer list may stand for an element of `bits` bits (signed or not).
bool fits(int64_t value, unsigned bits) {
  return bits >= 64 || (value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << bits));
}

Status decodeIntegers(const Tensor &tensor, TensorData &data) {
  std::vector<int64_t> values;
  for (std::string_view run : listFor(tensor)) {
    TENON_TRY(appendVarints(run, values));
    if (values.size() > data.elements) {
      break;
    }
  }
  // Elements of 4 and 2 bits come a byte to a list entry, already packed.
  uint64_t entries = data.bits < 8 ? data.size : data.elements;
  if (values.size() != entries) {
    return tensorError(ErrorId::OnnxTensorSize, tensor,
                       strCat("needs ", entries, " elements and holds ", values.size()));
  }
  unsigned entryBits = std::max(data.bits, 8u);
  size_t width = entryBits / 8;
  data.owned.resize(data.size);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!fits(values[i], entryBits)) {
      return tensorError(ErrorId::OnnxTensorData, tensor,
                         strCat("holds ", values[i], ", which its type cannot represent"));
    }
    std::memcpy(data.owned.data() + i * width, &values[i], width);
  }
  return Status::ok();
}

Status decodeReals(const Tensor &tensor, TensorData &data) {
  const std::vector<std::string_view> &runs = listFor(tensor);
  if (runs.size() == 1 && runs[0].size() == data.size) {
    data.view = std::as_bytes(std::span(runs[0].data(), runs[0].size()));
    return Status::ok();
  }
  for (std::string_view run : runs) {
    std::span<const std::byte> bytes = std::as_bytes(std::span(run.data(), run.size()));
    data.owned.insert(data.owned.end(), bytes.begin(), bytes.end());
  }
  if (data.owned.size() != data.size) {
    return tensorError(ErrorId::OnnxTensorSize, tensor,
                       strCat("needs ", data.size, " bytes and holds ", data.owned.size()));
  }
  return Status::ok();
}

Status loadExternal(const Tensor &tensor, ExternalFiles &files, TensorData &data) {
  TENON_ASSIGN(ExternalLocation location, parseExternalLocation(tensor));
  if (location.seeded) {
    if (!canSeed(tensor.type)) {
      return tensorError(ErrorId::OnnxSeeded, tensor, "has a type that cannot be seeded");
    }
    data.seeded = location;
    return Status::ok();
  }
  TENON_ASSIGN(data.view, files.view(location, data.size, tensor.name));
  return Status::ok();
}

/// The unused bits of the last byte of packed elements are zero, and a bool is 0 or 1.
Status checkPadding(const Tensor &tensor, const TensorData &data) {
  unsigned used = static_cast<unsigned>(data.elements * data.bits % 8);
  if (used != 0 && !data.view.empty() && (static_cast<unsigned>(data.view.back()) >> used) != 0) {
    return tensorError(ErrorId::OnnxTensorPadding, tensor, "has bits set after its last element");
  }
  if (data.type == DType::Bool) {
    for (std::byte value : data.view) {
      if (static_cast<unsigned>(value) > 1) {
        return tensorError(ErrorId::OnnxTensorPadding, tensor,
                           "contains a bool that is neither 0 nor 1");
      }
    }
  }
  return Status::ok();
}

Status sizeTensor(const Tensor &tensor, const std::vector<int64_t> &dims, TensorData &data) {
  data.dims = dims;
  data.type = *toDType(tensor.type);
  for (int64_t dim : dims) {
    if (dim < 0) {
      return tensorError(ErrorId::OnnxBadDim, tensor, strCat("has the dimension ", dim));
    }
  }
  std::optional<int64_t> elements = elementCount(dims);
  std::optional<int64_t> bytes = byteSize(data.type, dims);
  if (!elements || !bytes) {
    return tensorError(ErrorId::OnnxShapeOverflow, tensor, "has too many elements to count");
  }
  data.elements = static_cast<uint64_t>(*elements);
  data.bits = valueBits(data.type);
  data.size = data.bits < 8 ? (data.elements * data.bits + 7) / 8 : static_cast<uint64_t>(*bytes);
  return Status::ok();
}

constexpr uint64_t kMaxDenseBytes = uint64_t{1} << 31;

/// Which elements of the dense tensor the values are: numbers [count] or [count, rank], in order.
Result<std::vector<uint64_t>> positions(const SparseTensor &sparse, uint64_t count,
                                        const TensorData &dense, ExternalFiles &files) {
  const Tensor &indices = sparse.indices;
  size_t rank = indices.dims.size() == 2 ? dense.dims.size() : 1;
  if (indices.type != DataType::Int64 || indices.dims.empty() || indices.dims.size() > 2) {
    return tensorError(ErrorId::OnnxTensorData, sparse.values, "has indices of another form");
  }
  TENON_ASSIGN(TensorData numbers, loadTensor(indices, files));
  if (numbers.view.size() != count * rank * sizeof(int64_t)) {
    return tensorError(ErrorId::OnnxTensorSize, sparse.values,
                       strCat("has ", count, " values, but another number of indices"));
  }
  std::vector<uint64_t> result;
  for (uint64_t e = 0; e < count; ++e) {
    uint64_t position = 0;
    for (size_t i = 0; i < rank; ++i) {
      int64_t index = 0;
      std::memcpy(&index, numbers.view.data() + (e * rank + i) * sizeof(index), sizeof(index));
      uint64_t size =
          indices.dims.size() == 2 ? static_cast<uint64_t>(dense.dims[i]) : dense.elements;
      if (index < 0 || static_cast<uint64_t>(index) >= size) {
        return tensorError(ErrorId::OnnxTensorData, sparse.values,
                           strCat("has the index ", index, " where ", size, " is the size"));
      }
      position = position * size + static_cast<uint64_t>(index);
    }
    if (!result.empty() && position <= result.back()) {
      return tensorError(ErrorId::OnnxTensorData, sparse.values, "has indices out of order");
    }
    result.push_back(position);
  }
  return result;
}

} // namespace

std::vector<std::byte> unpackedBytes(const TensorData &data) {
  std::vector<std::byte> bytes(data.elements);
  unsigned perByte = 8 / data.bits;
  std::byte mask = static_cast<std::byte>((1u << data.bits) - 1);
  for (uint64_t i = 0; i < data.elements; ++i) {
    bytes[i] = (data.view[i / perByte] >> (i % perByte * data.bits)) & mask;
  }
  return bytes;
}

Result<TensorData> loadTensor(const Tensor &tensor, ExternalFiles &files) {
  TensorData data;
  TENON_TRY(sizeTensor(tensor, tensor.dims, data));
  TENON_TRY(checkSources(tensor));
  if (tensor.external) {
    TENON_TRY(loadExternal(tensor, files, data));
    if (data.seeded) {
      return data;
    }
  } else if (tensor.hasRaw) {
    if (tensor.raw.size() != data.size) {
      return tensorError(ErrorId::OnnxTensorSize, tensor,
                         strCat("needs ", data.size, " bytes and holds ", tensor.raw.size()));
    }
    data.view = std::as_bytes(std::span(tensor.raw.data(), tensor.raw.size()));
  } else if (&listFor(tensor) == &tensor.floats || &listFor(tensor) == &tensor.doubles) {
    TENON_TRY(decodeReals(tensor, data));
  } else {
    TENON_TRY(decodeIntegers(tensor, data));
  }
  if (!data.owned.empty()) {
    data.view = data.owned;
  }
  TENON_TRY(checkPadding(tensor, data));
  return data;
}

Result<TensorData> loadTensor(const SparseTensor &sparse, ExternalFiles &files) {
  TensorData dense;
  TENON_TRY(sizeTensor(sparse.values, sparse.dims, dense));
  if (dense.bits < 8 || dense.size > kMaxDenseBytes) {
    return tensorError(ErrorId::OnnxTensorData, sparse.values,
                       "has elements of a few bits, or more than 2 GiB once it is dense");
  }
  TENON_ASSIGN(TensorData values, loadTensor(sparse.values, files));
  if (values.seeded) {
    return tensorError(ErrorId::OnnxSeeded, sparse.values, "is sparse and cannot be seeded");
  }
  TENON_ASSIGN(std::vector<uint64_t> places, positions(sparse, values.elements, dense, files));
  dense.owned.resize(dense.size);
  dense.view = dense.owned;
  size_t width = dense.bits / 8;
  for (size_t e = 0; e < places.size(); ++e) {
    std::memcpy(dense.owned.data() + places[e] * width, values.view.data() + e * width, width);
  }
  return dense;
}

} // namespace tenon::onnx
