// Reads the container. Nothing in it is believed: every count and offset is compared with what the
// file has left before it is used.
#include "compiler/frontend/weights/gguf/Gguf.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tenon::gguf {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kDefaultAlignment = 32, kMaxAlignment = 1 << 20;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMaxName = 65535;
/// Entries that are read at all: the largest vocabularies have some hundred thousand.
constexpr uint64_t kMaxEntries = uint64_t{1} << 24;

enum Kind : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

class Reader {
public:
  explicit Reader(Bytes file) : bytes(file) {}

  Result<File> read();

private:
  template <typename T> Result<T> take() {
    if (left() < sizeof(T)) {
      return bad("it ends in the middle of a number");
    }
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
    return value;
  }
  template <typename T, typename Wide> Result<Value> taken() {
    TENON_ASSIGN(T value, take<T>());
    return Value(static_cast<Wide>(value));
  }
  uint64_t left() const { return bytes.size() - at; }
  Result<uint64_t> takeCount(std::string_view what, uint64_t bytesOfEach);
  Result<std::string_view> takeText();
  Result<Value> takeValue(uint32_t kind, std::string_view key);
  Result<Value> takeList(std::string_view key);
  Status readKeys(uint64_t count);
  Status readTensors(uint64_t count);
  Status placeTensors();
  Status bad(std::string_view what) const {
    return Status::error(ErrorId::GgufDamaged, strCat("at byte ", at, ": ", what),
                         "download or convert the model again, and compare its size");
  }

  Bytes bytes;
  uint64_t at = 0;
  File file;
  std::vector<std::pair<std::string, uint64_t>> order; ///< tensors and their stated offsets
};

Result<uint64_t> Reader::takeCount(std::string_view what, uint64_t bytesOfEach) {
  TENON_ASSIGN(uint64_t count, take<uint64_t>());
  if (count > kMaxEntries || count > left() / bytesOfEach) {
    return bad(strCat("it states ", count, " ", what, ", but only has ", left(), " bytes left"));
  }
  return count;
}

Result<std::string_view> Reader::takeText() {
  TENON_ASSIGN(uint64_t size, take<uint64_t>());
  if (size > left()) {
    return bad(strCat("a text of ", size, " bytes does not end in the file"));
  }
  std::string_view text(reinterpret_cast<const char *>(bytes.data() + at), size);
  at += size;
  return text;
}

Result<Value> Reader::takeList(std::string_view key) {
  TENON_ASSIGN(uint32_t kind, take<uint32_t>());
  TENON_ASSIGN(uint64_t count, takeCount("elements", 1));
  if (kind > kF64 || kind == kArray) {
    return bad(
        strCat("the key '", key, "' is an array of type ", kind, ", which GGUF does not allow"));
  }
  Value::List list;
  for (uint64_t i = 0; i < count; ++i) {
    TENON_ASSIGN(Value value, takeValue(kind, key));
    if (std::optional<std::string_view> text = value.text()) {
      list.texts.push_back(*text);
    } else if (std::optional<int64_t> integer = value.integer()) {
      list.integers.push_back(*integer);
    } else if (std::optional<double> number = value.number()) {
      list.numbers.push_back(*number);
    } else {
      list.integers.push_back(value.truth() == true ? 1 : 0);
    }
  }
  return Value(std::make_shared<const Value::List>(std::move(list)));
}

Result<Value> Reader::takeValue(uint32_t kind, std::string_view key) {
  switch (kind) {
  case kU8:
    return taken<uint8_t, uint64_t>();
  case kI8:
    return taken<int8_t, int64_t>();
  case kU16:
    return taken<uint16_t, uint64_t>();
  case kI16:
    return taken<int16_t, int64_t>();
  case kU32:
    return taken<uint32_t, uint64_t>();
  case kI32:
    return taken<int32_t, int64_t>();
  case kU64:
    return taken<uint64_t, uint64_t>();
  case kI64:
    return taken<int64_t, int64_t>();
  case kF32:
    return taken<float, double>();
  case kF64:
    return taken<double, double>();
  case kBool: {
    TENON_ASSIGN(uint8_t value, take<uint8_t>());
    return Value(value != 0);
  }
  case kString: {
    TENON_ASSIGN(std::string_view text, takeText());
    return Value(text);
  }
  case kArray:
    return takeList(key);
  default:
    return bad(
        strCat("the key '", key, "' has a value of type ", kind, ", which GGUF does not define"));
  }
}

Status Reader::readKeys(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    TENON_ASSIGN(std::string_view key, takeText());
    if (key.empty() || key.size() > kMaxName) {
      return bad(strCat("a key has ", key.size(), " bytes"));
    }
    uint64_t begin = at;
    TENON_ASSIGN(uint32_t kind, take<uint32_t>());
    TENON_ASSIGN(Value value, takeValue(kind, key));
    file.stored.push_back({key, bytes.subspan(begin, at - begin)});
    if (!file.keys.emplace(key, std::move(value)).second) {
      return bad(strCat("the key '", key, "' occurs twice"));
    }
  }
  return Status::ok();
}

Status Reader::readTensors(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    TENON_ASSIGN(std::string_view name, takeText());
    if (name.empty() || name.size() > kMaxName) {
      return bad(strCat("the name of a tensor has ", name.size(), " bytes"));
    }
    TENON_ASSIGN(uint32_t rank, take<uint32_t>());
    if (rank > kMaxDims) {
      return bad(strCat("the tensor '", name, "' has ", rank, " dimensions"));
    }
    Tensor tensor{.name = std::string(name), .dims = {}, .bytes = {}};
    uint64_t elements = 1;
    for (uint32_t dim = 0; dim < rank; ++dim) {
      TENON_ASSIGN(uint64_t size, take<uint64_t>());
      if (size == 0 || size > uint64_t{1} << 40 || elements > (uint64_t{1} << 44) / size) {
        return bad(strCat("a dimension of the tensor '", name, "' is ", size));
      }
      elements *= size;
      tensor.dims.insert(tensor.dims.begin(), static_cast<int64_t>(size));
    }
    TENON_ASSIGN(uint32_t type, take<uint32_t>());
    TENON_ASSIGN(uint64_t offset, take<uint64_t>());
    tensor.type = weights::blockType(type);
    if (!tensor.type) {
      return Status::error(
          ErrorId::GgufUnknownType,
          strCat("the tensor '", name, "' is of type ", type, ", which Tenon does not read"),
          strCat("quantize the model to one of ", weights::knownBlockTypes()));
    }
    int64_t row = tensor.dims.empty() ? 1 : tensor.dims.back();
    if (row % tensor.type->elements != 0) {
      return bad(strCat("the rows of the tensor '", name, "' have ", row,
                        " elements, which is not a multiple of its blocks of ",
                        tensor.type->elements));
    }
    order.emplace_back(tensor.name, offset);
    file.order.push_back(tensor.name);
    if (!file.tensors.emplace(tensor.name, std::move(tensor)).second) {
      return bad(strCat("the tensor '", name, "' occurs twice"));
    }
  }
  return placeTensors();
}

/// Tensors follow each other, each at the next multiple of the alignment.
Status Reader::placeTensors() {
  uint64_t alignment = kDefaultAlignment;
  if (const Value *stated = file.find("general.alignment")) {
    std::optional<int64_t> value = stated->integer();
    if (!value || *value <= 0 || static_cast<uint64_t>(*value) > kMaxAlignment ||
        (*value & (*value - 1)) != 0) {
      return bad("'general.alignment' is not a power of two");
    }
    alignment = static_cast<uint64_t>(*value);
  }
  uint64_t begin = (at + alignment - 1) / alignment * alignment, next = 0;
  if (begin > bytes.size() && !order.empty()) {
    return bad("it ends before its tensors begin");
  }
  for (const auto &[name, offset] : order) {
    Tensor &tensor = file.tensors.find(name)->second;
    uint64_t size = static_cast<uint64_t>(tensor.elements() / tensor.type->elements) *
                    static_cast<uint64_t>(tensor.type->bytes);
    if (offset != next) {
      return bad(strCat("the tensor '", name, "' begins at ", offset,
                        " of the data, but the one before ends at ", next));
    }
    if (size > bytes.size() - begin || offset > bytes.size() - begin - size) {
      return bad(strCat("the tensor '", name, "' of ", size, " bytes does not end in the file"));
    }
    tensor.bytes = bytes.subspan(begin + offset, size);
    next = offset + (size + alignment - 1) / alignment * alignment;
  }
  return Status::ok();
}

Result<File> Reader::read() {
  at = kMagic.size();
  TENON_ASSIGN(uint32_t version, take<uint32_t>());
  bool isSwapped = (version & 0xffff) == 0;
  if (isSwapped || version < 2 || version > 3) {
    return Status::error(
        ErrorId::GgufUnknownType,
        isSwapped ? std::string("its numbers are big-endian")
                  : strCat("it has version ", version, " of GGUF, but Tenon reads 2 and 3"),
        "convert the model again with a current converter");
  }
  constexpr uint64_t kLeastTensor = 8 + 4 + 4 + 8, kLeastKey = 8 + 4 + 1;
  TENON_ASSIGN(uint64_t tensors, takeCount("tensors", kLeastTensor));
  TENON_ASSIGN(uint64_t keys, takeCount("keys", kLeastKey));
  TENON_TRY(readKeys(keys));
  TENON_TRY(readTensors(tensors));
  return std::move(file);
}

} // namespace

std::optional<int64_t> Value::integer() const {
  if (const uint64_t *value = std::get_if<uint64_t>(&content)) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    return *value <= kMost ? std::optional<int64_t>(static_cast<int64_t>(*value)) : std::nullopt;
  }
  const int64_t *value = std::get_if<int64_t>(&content);
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<double> Value::number() const {
  if (const double *value = std::get_if<double>(&content)) {
    return *value;
  }
  std::optional<int64_t> value = integer();
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

std::optional<bool> Value::truth() const {
  const bool *value = std::get_if<bool>(&content);
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<std::string_view> Value::text() const {
  const std::string_view *value = std::get_if<std::string_view>(&content);
  return value ? std::optional(*value) : std::nullopt;
}

const Value::List *Value::list() const {
  const std::shared_ptr<const List> *value = std::get_if<std::shared_ptr<const List>>(&content);
  return value ? value->get() : nullptr;
}

std::string Value::describe() const {
  if (const List *values = list()) {
    return strCat("an array of ", values->size());
  }
  if (std::optional<std::string_view> value = text()) {
    constexpr size_t kShown = 60;
    return strCat('"', value->substr(0, kShown), value->size() > kShown ? "..." : "", '"');
  }
  if (std::optional<bool> value = truth()) {
    return *value ? "true" : "false";
  }
  if (std::optional<int64_t> value = integer()) {
    return strCat(*value);
  }
  return std::to_string(number().value_or(0));
}

std::string File::nameOf(std::string_view key) const {
  auto found = names.find(key);
  return found == names.end() ? std::string(key) : found->second;
}

const Value *File::find(std::string_view key) const {
  auto found = keys.find(key);
  return found == keys.end() ? nullptr : &found->second;
}

const Tensor *File::tensor(std::string_view name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

bool looksLikeGguf(Bytes beginning) {
  return beginning.size() >= kMagic.size() &&
         std::memcmp(beginning.data(), kMagic.data(), kMagic.size()) == 0;
}

Result<File> read(Bytes bytes) {
  return looksLikeGguf(bytes)
             ? Reader(bytes).read()
             : Result<File>(Status::error(
                   ErrorId::GgufDamaged, "it does not begin like a GGUF file", "give a GGUF file"));
}

} // namespace tenon::gguf
