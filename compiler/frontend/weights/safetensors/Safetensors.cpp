// Reads the header and places the tensors that it names.
#include "compiler/frontend/weights/safetensors/Safetensors.h"

#include "support/json/StrictJson.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <optional>

namespace tenon::safetensors {
namespace {

/// As the format's own reader has it.
constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxDepth = 8, kMaxDims = 16;

struct Row {
  std::string_view name;
  uint64_t bits;
  int id = -1; ///< as GGUF counts the types that Tenon reads
};

constexpr Row kTypes[] = {
    {"F32", 32, 0},     {"F16", 16, 1},     {"BF16", 16, 30}, {"F64", 64},    {"BOOL", 8},
    {"U8", 8},          {"I8", 8},          {"U16", 16},      {"I16", 16},    {"U32", 32},
    {"I32", 32},        {"U64", 64},        {"I64", 64},      {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8},   {"C64", 64},    {"F4", 4},
    {"F6_E2M3", 6},     {"F6_E3M2", 6},
};

struct Extent {
  uint64_t begin, end;
  std::string_view name;
};

Status damaged(std::string_view what) {
  return Status::error(ErrorId::SafetensorsDamaged, std::string(what),
                       "download the file again, and compare its size");
}

class Reader {
public:
  explicit Reader(Bytes file) : bytes(file) {}

  Result<File> read();

private:
  Status readTensor(const std::string &name, const Json &value);
  Status placeTensors();

  Bytes bytes, data;
  File file;
  std::vector<Extent> extents;
};

std::optional<uint64_t> countOf(const Json &value) {
  return value.is_number_unsigned() ? std::optional(value.get<uint64_t>()) : std::nullopt;
}

Status Reader::readTensor(const std::string &name, const Json &value) {
  auto bad = [&](std::string_view what) {
    return damaged(strCat("the tensor '", name, "' ", what));
  };
  auto member = [&](const char *key) -> const Json * {
    auto found = value.is_object() ? value.find(key) : value.end();
    return found == value.end() ? nullptr : &*found;
  };
  const Json *type = member("dtype"), *shape = member("shape"), *offsets = member("data_offsets");
  if (!type || !type->is_string() || !shape || !shape->is_array() || !offsets ||
      !offsets->is_array() || offsets->size() != 2) {
    return bad("has not a dtype, a shape and two data_offsets");
  }
  const std::string &typeName = type->get_ref<const std::string &>();
  const Row *row = std::ranges::find(kTypes, std::string_view(typeName), &Row::name);
  if (row == std::end(kTypes)) {
    return bad(strCat("is of type '", typeName, "', which the format does not define"));
  }
  weights::Tensor tensor{.name = name, .dims = {}, .bytes = {}};
  uint64_t bits = row->bits;
  for (const Json &dim : *shape) {
    std::optional<uint64_t> size = countOf(dim);
    if (!size || *size > uint64_t{1} << 40 || (*size && bits > (uint64_t{1} << 50) / *size) ||
        tensor.dims.size() == kMaxDims) {
      return bad("has a shape that no tensor has");
    }
    bits *= *size;
    tensor.dims.push_back(static_cast<int64_t>(*size));
  }
  std::optional<uint64_t> begin = countOf((*offsets)[0]), end = countOf((*offsets)[1]);
  if (!begin || !end || *begin > *end || *end > data.size()) {
    return bad(strCat("does not lie within the ", data.size(), " bytes of the file's data"));
  }
  if (bits % 8 != 0 || *end - *begin != bits / 8) {
    return bad(strCat("has ", *end - *begin, " bytes, and its shape asks for ", bits / 8));
  }
  extents.push_back({*begin, *end, name});
  if (row->id < 0) {
    file.others.emplace(name, typeName);
    return Status::ok();
  }
  tensor.type = weights::blockType(static_cast<uint32_t>(row->id));
  tensor.bytes = data.subspan(*begin, *end - *begin);
  file.tensors.emplace(name, std::move(tensor));
  return Status::ok();
}

Status Reader::placeTensors() {
  std::ranges::sort(extents, [](const Extent &a, const Extent &b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const Extent &extent : extents) {
    if (extent.begin != at) {
      return damaged(strCat("the tensor '", extent.name, "' begins at byte ", extent.begin,
                            " of the data, and the one before it ends at ", at));
    }
    at = extent.end;
  }
  return at == data.size() ? Status::ok()
                           : damaged(strCat("the tensors end at byte ", at, " of ", data.size(),
                                            " bytes of data"));
}

Result<File> Reader::read() {
  uint64_t size = 0;
  if (bytes.size() < sizeof size) {
    return damaged("it ends within the size of its header");
  }
  std::memcpy(&size, bytes.data(), sizeof size);
  if (size > kMaxHeader || size > bytes.size() - sizeof size) {
    return damaged(
        strCat("it states a header of ", size, " bytes, and has ", bytes.size(), " bytes in all"));
  }
  std::string_view text(reinterpret_cast<const char *>(bytes.data()) + sizeof size, size);
  Json header;
  std::optional<JsonFault> fault = parseStrict(
      text, {.maxDepth = kMaxDepth, .isObject = true, .acceptsByteOrderMark = false}, header);
  if (fault) {
    return damaged(strCat("its header is not valid JSON: ", fault->text));
  }
  data = bytes.subspan(sizeof size + size);
  for (auto &[name, value] : header.items()) {
    if (name != "__metadata__") {
      TENON_TRY(readTensor(name, value));
    }
  }
  TENON_TRY(placeTensors());
  return std::move(file);
}

} // namespace

Result<File> read(Bytes bytes) { return Reader(bytes).read(); }

} // namespace tenon::safetensors
