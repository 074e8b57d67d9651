// The order is magic, counts, keys, tensors' descriptions, and their data at multiples of the
// alignment.
#include "compiler/frontend/weights/gguf/Writer.h"

#include "support/Check.h"

#include <algorithm>
#include <cstring>

namespace tenon::gguf {
namespace {

constexpr uint32_t kVersion = 3;

/// Types of values, as GGUF counts them.
enum ValueKind : uint32_t {
  kNumber = 4,
  kInteger = 5,
  kFloat = 6,
  kTruth = 7,
  kText = 8,
  kList = 9,
};

uint64_t sizeOf(const Tensor &tensor) {
  return static_cast<uint64_t>(tensor.elements() / tensor.type->elements) *
         static_cast<uint64_t>(tensor.type->bytes);
}

uint64_t alignedTo(uint64_t size, uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

Bytes bytesOf(const std::string &text) { return std::as_bytes(std::span(text)); }

} // namespace

template <typename T> void Writer::append(std::string &to, T value) const {
  to.append(reinterpret_cast<const char *>(&value), sizeof value);
}

void Writer::appendText(std::string &to, std::string_view text) const {
  append<uint64_t>(to, text.size());
  to += text;
}

void Writer::begin(std::string_view key, uint32_t kind) {
  ++keyCount;
  appendText(keys, key);
  append(keys, kind);
}

template <typename T>
void Writer::putList(std::string_view key, uint32_t kind, std::span<const T> values) {
  begin(key, kList);
  append(keys, kind);
  append<uint64_t>(keys, values.size());
  for (T value : values) {
    append(keys, value);
  }
}

void Writer::put(std::string_view key, Bytes value) {
  ++keyCount;
  appendText(keys, key);
  keys.append(reinterpret_cast<const char *>(value.data()), value.size());
}

void Writer::putText(std::string_view key, std::string_view value) {
  begin(key, kText);
  appendText(keys, value);
}

void Writer::putNumber(std::string_view key, uint32_t value) {
  begin(key, kNumber);
  append(keys, value);
}

void Writer::putFloat(std::string_view key, float value) {
  begin(key, kFloat);
  append(keys, value);
}

void Writer::putTruth(std::string_view key, bool value) {
  begin(key, kTruth);
  append<uint8_t>(keys, value ? 1 : 0);
}

void Writer::putTexts(std::string_view key, std::span<const std::string> values) {
  begin(key, kList);
  append<uint32_t>(keys, kText);
  append<uint64_t>(keys, values.size());
  for (const std::string &value : values) {
    appendText(keys, value);
  }
}

void Writer::putIntegers(std::string_view key, std::span<const int32_t> values) {
  putList(key, kInteger, values);
}

void Writer::putTruths(std::string_view key, std::span<const int64_t> values) {
  std::vector<uint8_t> truths;
  for (int64_t value : values) {
    truths.push_back(value != 0 ? 1 : 0);
  }
  putList(key, kTruth, std::span<const uint8_t>(truths));
}

void Writer::add(const Tensor &tensor) { tensors.push_back(tensor); }

Status Writer::write(AtomicFile &file, uint64_t alignment,
                     const std::function<Status(size_t, const Append &)> &write) const {
  std::string head = "GGUF";
  append(head, kVersion);
  append<uint64_t>(head, tensors.size());
  append(head, keyCount);
  head += keys;
  uint64_t offset = 0;
  for (const Tensor &tensor : tensors) {
    appendText(head, tensor.name);
    append(head, static_cast<uint32_t>(tensor.dims.size()));
    for (size_t dim = tensor.dims.size(); dim > 0; --dim) {
      append(head, static_cast<uint64_t>(tensor.dims[dim - 1])); // innermost first
    }
    append(head, tensor.type->id);
    append(head, offset);
    offset += alignedTo(sizeOf(tensor), alignment);
  }
  head.resize(alignedTo(head.size(), alignment), '\0');
  TENON_TRY(file.append(bytesOf(head)));
  for (size_t i = 0; i < tensors.size(); ++i) {
    uint64_t before = file.size();
    TENON_TRY(write(i, [&](Bytes bytes) { return file.append(bytes); }));
    uint64_t written = file.size() - before;
    TENON_CHECK(written == sizeOf(tensors[i]), "a tensor has the size that was announced");
    TENON_TRY(file.append(bytesOf(std::string(alignedTo(written, alignment) - written, '\0'))));
  }
  return Status::ok();
}

} // namespace tenon::gguf
