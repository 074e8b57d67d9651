#include "compiler/frontend/weights/gguf/Gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace tenon::gguf {
namespace {

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

/// Writes the format as its specification has it.
struct Writer {
  std::string bytes;

  template <typename T> Writer &number(T value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
    return *this;
  }
  Writer &text(std::string_view value) {
    number<uint64_t>(value.size());
    bytes += value;
    return *this;
  }
  Writer &header(uint32_t version, uint64_t tensors, uint64_t keys) {
    bytes += "GGUF";
    return number(version).number(tensors).number(keys);
  }
  Writer &key(std::string_view name, Kind kind) { return text(name).number<uint32_t>(kind); }
  Writer &tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type,
                 uint64_t offset) {
    text(name).number(static_cast<uint32_t>(dims.size()));
    for (uint64_t dim : dims) {
      number(dim);
    }
    return number(type).number(offset);
  }
  Writer &data(size_t size) {
    bytes.resize((bytes.size() + 31) / 32 * 32);
    bytes.append(size, '\x01');
    return *this;
  }
};

/// Two tensors, of F32 and Q8_0, and a key of every kind.
std::string smallFile(uint32_t version = 3) {
  Writer file;
  file.header(version, 2, 14);
  file.key("u8", kU8).number<uint8_t>(200).key("i8", kI8).number<int8_t>(-3);
  file.key("u16", kU16).number<uint16_t>(7).key("i16", kI16).number<int16_t>(-7);
  file.key("u32", kU32).number<uint32_t>(8).key("i32", kI32).number<int32_t>(-8);
  file.key("f32", kF32).number(1.5F).key("f64", kF64).number(2.5);
  file.key("u64", kU64).number<uint64_t>(9).key("i64", kI64).number<int64_t>(-9);
  file.key("truth", kBool).number<uint8_t>(1).key("text", kString).text("hello");
  file.key("list", kArray)
      .number<uint32_t>(kI32)
      .number<uint64_t>(2)
      .number<int32_t>(4)
      .number<int32_t>(5);
  file.key("texts", kArray).number<uint32_t>(kString).number<uint64_t>(2).text("a").text("");
  file.tensor("a", {4, 3}, 0, 0).tensor("b", {32, 2}, 8, 64);
  file.data(64 + 68);
  return file.bytes;
}

Result<File> readText(const std::string &text) {
  return read(Bytes(reinterpret_cast<const std::byte *>(text.data()), text.size()));
}

bool isRefused(const Result<File> &file) {
  return !file && (file.status().id() == ErrorId::GgufDamaged ||
                   file.status().id() == ErrorId::GgufUnknownType);
}

/// Touches all that a reader gave, which the sanitizer watches.
uint64_t touch(const File &file) {
  uint64_t sum = 0;
  for (const auto &[name, value] : file.keys) {
    sum += value.describe().size();
    for (size_t i = 0; value.list() && i < value.list()->texts.size(); ++i) {
      sum += value.list()->texts[i].size();
    }
  }
  for (const auto &[name, tensor] : file.tensors) {
    for (std::byte byte : tensor.bytes) {
      sum += static_cast<uint64_t>(byte);
    }
    EXPECT_EQ(tensor.bytes.size(), static_cast<uint64_t>(tensor.elements() / tensor.type->elements *
                                                         tensor.type->bytes));
  }
  return sum;
}

TEST(Gguf, ReadsEveryKindOfValue) {
  for (uint32_t version : {2u, 3u}) {
    std::string text = smallFile(version);
    Result<File> file = readText(text);
    ASSERT_TRUE(file) << file.status().message();
    EXPECT_EQ(file->find("u8")->integer(), 200);
    EXPECT_EQ(file->find("i64")->integer(), -9);
    EXPECT_EQ(file->find("f32")->number(), 1.5);
    EXPECT_EQ(file->find("u32")->number(), 8.0);
    EXPECT_EQ(file->find("truth")->truth(), true);
    EXPECT_EQ(file->find("text")->text(), "hello");
    EXPECT_EQ(file->find("text")->describe(), "\"hello\"");
    EXPECT_EQ(file->find("list")->list()->integers, (std::vector<int64_t>{4, 5}));
    EXPECT_EQ(file->find("texts")->list()->texts.size(), 2u);
    EXPECT_EQ(file->find("absent"), nullptr);
    EXPECT_EQ(file->tensor("a")->dims, (std::vector<int64_t>{3, 4}));
    EXPECT_EQ(file->tensor("b")->bytes.size(), 68u);
    EXPECT_GT(touch(*file), 0u);
  }
}

TEST(Gguf, CutAtAnyByteIsRefused) {
  std::string whole = smallFile();
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(isRefused(readText(whole.substr(0, size)))) << size;
  }
}

TEST(Gguf, FlippedBitsNeverLeaveTheFile) {
  std::string whole = smallFile();
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      Result<File> file = readText(changed);
      if (file) {
        touch(*file); // a name, a number or an element changed
      } else {
        ASSERT_TRUE(isRefused(file)) << i << ' ' << bit;
      }
    }
  }
  for (size_t i = 0; i + 8 <= whole.size() - 132; ++i) { // the largest and the sign, at every place
    for (uint64_t value :
         {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 62, (uint64_t{1} << 32) + 1}) {
      std::string changed = whole;
      std::memcpy(changed.data() + i, &value, sizeof value);
      Result<File> file = readText(changed);
      if (file) {
        touch(*file);
      } else {
        ASSERT_TRUE(isRefused(file)) << i;
      }
    }
  }
}

std::string withTensors(const std::function<void(Writer &)> &write, uint64_t count,
                        size_t data = 256) {
  Writer file;
  file.header(3, count, 0);
  write(file);
  return file.data(data).bytes;
}

TEST(Gguf, TensorsThatDoNotFitAreRefused) {
  auto one = [](std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    return withTensors([&](Writer &file) { file.tensor("t", dims, type, offset); }, 1);
  };
  ASSERT_TRUE(readText(one({64}, 0, 0)));
  for (uint64_t dim :
       {uint64_t{0}, uint64_t{65}, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}}) {
    EXPECT_TRUE(isRefused(readText(one({dim}, 0, 0)))) << dim;
    EXPECT_TRUE(isRefused(readText(one({1, dim}, 0, 0)))) << dim;
  }
  EXPECT_TRUE(isRefused(readText(one({1u << 31, 1u << 31, 1u << 31, 1u << 31}, 0, 0))));
  EXPECT_TRUE(isRefused(readText(one({1, 1, 1, 1, 1}, 0, 0))));
  EXPECT_TRUE(isRefused(readText(one({33}, 8, 0)))); // no multiple of the block
  EXPECT_TRUE(isRefused(readText(one({}, 8, 0))));   // a scalar of blocks
  for (uint64_t offset : {uint64_t{1}, uint64_t{32}, uint64_t{1} << 63, ~uint64_t{31}}) {
    EXPECT_TRUE(isRefused(readText(one({4}, 0, offset)))) << offset;
  }
  for (uint32_t type : {4u, 5u, 31u, 99u, 0xffffffffu}) {
    Result<File> file = readText(one({4}, type, 0));
    ASSERT_FALSE(file);
    EXPECT_EQ(file.status().id(), ErrorId::GgufUnknownType);
  }
  auto two = [](std::string_view second, uint64_t offset) {
    return withTensors(
        [&](Writer &file) { file.tensor("t", {8}, 0, 0).tensor(second, {8}, 0, offset); }, 2);
  };
  ASSERT_TRUE(readText(two("u", 32)));
  for (uint64_t offset :
       {uint64_t{0}, uint64_t{16}, uint64_t{64}}) { // on each other, and with a gap
    EXPECT_TRUE(isRefused(readText(two("u", offset))));
  }
  EXPECT_TRUE(isRefused(readText(two("t", 32)))); // there twice
  EXPECT_TRUE(isRefused(readText(two("", 32))));
}

TEST(Gguf, KeysThatAreNoneAreRefused) {
  auto keys = [](const std::function<void(Writer &)> &write, uint64_t count) {
    Writer file;
    file.header(3, 0, count);
    write(file);
    return readText(file.data(32).bytes);
  };
  EXPECT_TRUE(isRefused(keys(
      [](Writer &f) { f.key("a", kU8).number<uint8_t>(1).key("a", kU8).number<uint8_t>(1); }, 2)));
  EXPECT_TRUE(isRefused(keys([](Writer &f) { f.key("", kU8).number<uint8_t>(1); }, 1)));
  EXPECT_TRUE(
      isRefused(keys([](Writer &f) { f.text("a").number<uint32_t>(13).number<uint64_t>(1); }, 1)));
  for (uint32_t kind :
       {uint32_t{kArray}, 13u, 0xffffffffu}) { // arrays of arrays, and of no kind, also empty ones
    for (uint64_t count : {0u, 1u}) {
      Result<File> file = keys(
          [&](Writer &f) { f.key("a", kArray).number(kind).number(count).number<uint64_t>(0); }, 1);
      EXPECT_TRUE(isRefused(file)) << kind << ' ' << count;
    }
  }
  for (uint64_t count : {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{1} << 30}) {
    EXPECT_TRUE(isRefused(
        keys([&](Writer &f) { f.key("a", kArray).number<uint32_t>(kU8).number(count); }, 1)));
    EXPECT_TRUE(isRefused(keys([](Writer &) {}, count)));
    Writer file;
    EXPECT_TRUE(isRefused(readText(file.header(3, count, 0).data(64).bytes)));
  }
  for (int64_t alignment : {int64_t{0}, int64_t{-32}, int64_t{33}, int64_t{1} << 40, INT64_MIN}) {
    EXPECT_TRUE(
        isRefused(keys([&](Writer &f) { f.key("general.alignment", kI64).number(alignment); }, 1)));
  }
  EXPECT_TRUE(
      isRefused(keys([](Writer &f) { f.key("general.alignment", kString).text("32"); }, 1)));
}

TEST(Gguf, NamesVersionsThatItDoesNotRead) {
  for (uint32_t version : {0u, 1u, 4u, 0x03000000u, 0x02000000u, 0xffffffffu}) {
    std::string text = smallFile(version);
    Result<File> file = readText(text);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.status().id(), ErrorId::GgufUnknownType);
  }
  EXPECT_EQ(readText("GGML\3").status().id(), ErrorId::GgufDamaged);
  EXPECT_EQ(readText("").status().id(), ErrorId::GgufDamaged);
}

} // namespace
} // namespace tenon::gguf
