// One table, read both ways.

#include "server/protocol/DataType.h"

#include <utility>

namespace tenon::server {
namespace {

constexpr std::pair<DType, std::string_view> kNames[] = {
    {DType::Bool, "BOOL"},  {DType::U8, "UINT8"}, {DType::U16, "UINT16"}, {DType::U32, "UINT32"},
    {DType::U64, "UINT64"}, {DType::I8, "INT8"},  {DType::I16, "INT16"},  {DType::I32, "INT32"},
    {DType::I64, "INT64"},  {DType::F16, "FP16"}, {DType::F32, "FP32"},   {DType::F64, "FP64"},
    {DType::BF16, "BF16"}};

} // namespace

std::string_view protocolName(DType type) {
  for (const auto &[each, name] : kNames) {
    if (each == type) {
      return name;
    }
  }
  return "";
}

std::optional<DType> parseProtocolName(std::string_view name) {
  for (const auto &[type, each] : kNames) {
    if (each == name) {
      return type;
    }
  }
  return std::nullopt;
}

} // namespace tenon::server
