#include "server/protocol/Json.h"

#include "server/protocol/DataType.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tenon::server {
namespace {

/// Names, shapes and parameters of requests are some dozens of values.
constexpr size_t kMaxDepth = 32, kMaxValues = 100'000;

Status outOfRange(std::string_view name, size_t index, DType dtype) {
  return Status::error(ErrorId::BadRequestTensor,
                       fmt::format("element {} of input '{}' is not a value of {}", index, name,
                                   protocolName(dtype)));
}

/// False where T does not have the value.
template <typename T> bool convert(NumberList::Kind kind, uint64_t bits, T &value) {
  using Kind = NumberList::Kind;
  if constexpr (std::is_same_v<T, bool>) {
    value = bits != 0;
    return kind == Kind::Bool || (kind != Kind::Float && bits <= 1);
  } else if constexpr (std::is_floating_point_v<T>) {
    double wide = kind == Kind::Float    ? std::bit_cast<double>(bits)
                  : kind == Kind::Signed ? static_cast<double>(std::bit_cast<int64_t>(bits))
                                         : static_cast<double>(bits);
    wide = kind == Kind::Signed && bits == 0 ? -0.0 : wide; // 0 itself is unsigned
    value = static_cast<T>(wide);
    return kind != Kind::Bool && (std::isfinite(value) || !std::isfinite(wide));
  } else {
    if (kind == Kind::Bool || kind == Kind::Float) {
      return false;
    }
    bool isNegative = kind == Kind::Signed && std::bit_cast<int64_t>(bits) < 0;
    value = static_cast<T>(bits);
    return isNegative
               ? std::is_signed_v<T> && std::bit_cast<int64_t>(bits) >=
                                            static_cast<int64_t>(std::numeric_limits<T>::min())
               : bits <= static_cast<uint64_t>(std::numeric_limits<T>::max());
  }
}

template <typename T>
Status storeAs(const NumberList &list, DType dtype, MutableBytes out, std::string_view name) {
  for (size_t i = 0; i < list.size(); ++i) {
    T value;
    if (!convert(list.kinds[i], list.values[i], value)) {
      return outOfRange(name, i, dtype);
    }
    std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
  }
  return Status::ok();
}

} // namespace

Status storeNumbers(const NumberList &list, DType dtype, MutableBytes out, std::string_view name) {
  switch (dtype) {
  case DType::Bool:
    return storeAs<bool>(list, dtype, out, name);
  case DType::U8:
    return storeAs<uint8_t>(list, dtype, out, name);
  case DType::U16:
    return storeAs<uint16_t>(list, dtype, out, name);
  case DType::U32:
    return storeAs<uint32_t>(list, dtype, out, name);
  case DType::U64:
    return storeAs<uint64_t>(list, dtype, out, name);
  case DType::I8:
    return storeAs<int8_t>(list, dtype, out, name);
  case DType::I16:
    return storeAs<int16_t>(list, dtype, out, name);
  case DType::I32:
    return storeAs<int32_t>(list, dtype, out, name);
  case DType::I64:
    return storeAs<int64_t>(list, dtype, out, name);
  case DType::F32:
    return storeAs<float>(list, dtype, out, name);
  case DType::F64:
    return storeAs<double>(list, dtype, out, name);
  default:
    return Status::error(ErrorId::BadRequestTensor,
                         fmt::format("input '{}' has elements of {}, which JSON cannot express",
                                     name, protocolName(dtype)),
                         "send the input as binary data");
  }
}

Status parseRequestJson(std::string_view text, Json &value, std::vector<NumberList> *lists,
                        MemoryCharge *charge) {
  Status charged;
  std::function<bool(uint64_t)> mayHold = [&](uint64_t bytes) {
    charged = charge ? charge->resize(bytes) : Status::ok();
    return charged.isOk();
  };
  JsonLimits limits = {.maxDepth = kMaxDepth,
                       .maxValues = kMaxValues,
                       .listKey = "data",
                       .listParent = "inputs",
                       .mayHold = &mayHold};
  std::optional<JsonFault> fault = parseStrict(text, limits, value, lists);
  TENON_TRY(std::move(charged));
  return fault ? Status::error(ErrorId::BadRequest,
                               fmt::format("the JSON of the request is not valid: {}", fault->text))
               : Status::ok();
}

} // namespace tenon::server
