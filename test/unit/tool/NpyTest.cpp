// Reads and writes of npy and npz: what is written is read back, files of NumPy are read, and each
// kind of damage is refused. Relies on .venv's NumPy only through the bytes that are spelled out
// here.

#include "runtime/tensors/Npy.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace tenon::tool {
namespace {

Tensor makeTensor(const char *name, DType dtype, std::vector<int64_t> dims) {
  Result<Tensor> tensor = Tensor::create(name, dtype, std::move(dims));
  EXPECT_TRUE(tensor.isOk());
  for (int64_t i = 0; i < tensor->elements(); ++i) {
    setElement(*tensor, i, static_cast<double>(i % 2));
  }
  return std::move(*tensor);
}

std::string temporary(const char *name) { return ::testing::TempDir() + "/" + name; }

std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void writeText(const std::string &path, const std::string &text) {
  std::ofstream(path, std::ios::binary) << text;
}

Result<Tensor> parse(const std::string &text) {
  return parseNpy(std::as_bytes(std::span(text)), "test.npy");
}

std::string npyText(const std::string &header, const std::string &data) {
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  return text + header + data;
}

Result<std::vector<Tensor>> readAnyNpz(const std::string &path) {
  return readNpz(path, [](const std::string &, const NpyHeader &) { return Status::ok(); });
}

TEST(Npy, WritesWhatItReads) {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::I64,
                      DType::U16, DType::Bool, DType::U64}) {
    Tensor tensor = makeTensor("x", dtype, {3, 5});
    std::string path = temporary("one.npy");
    ASSERT_TRUE(writeNpy(path, tensor).isOk());
    Result<Tensor> back = readNpy(path);
    ASSERT_TRUE(back.isOk()) << back.status().toString();
    EXPECT_EQ(back->dtype, dtype);
    EXPECT_EQ(back->dims, tensor.dims);
    EXPECT_EQ(0, std::memcmp(back->data.data(), tensor.data.data(), tensor.data.size()));
  }
}

TEST(Npy, ReadsScalarsAndEmptyArrays) {
  Result<Tensor> scalar = parse(
      npyText("{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n", std::string(4, '\0')));
  ASSERT_TRUE(scalar.isOk());
  EXPECT_TRUE(scalar->dims.empty());
  Result<Tensor> empty =
      parse(npyText("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7), }\n", ""));
  ASSERT_TRUE(empty.isOk());
  EXPECT_EQ(empty->dims, (std::vector<int64_t>{0, 7}));
}

TEST(Npy, RefusesWhatItCannotRead) {
  const std::string four(4, '\0');
  for (const std::string &text :
       {std::string(), std::string("\x93NUMPY"), std::string("PK\x03\x04 not numpy at all"),
        npyText("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", four),
        npyText("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", four),
        npyText("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }\n", four),
        npyText("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", four),
        npyText("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", four),
        npyText("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }\n",
                four),
        npyText("{'descr': '<f4', 'fortran_order': False, 'shape': (1, }\n", four),
        npyText("{'fortran_order': False, 'shape': (1,), }\n", four)}) {
    Result<Tensor> tensor = parse(text);
    ASSERT_FALSE(tensor.isOk()) << text;
    EXPECT_EQ(tensor.status().id(), ErrorId::BadTensorFile);
  }
}

TEST(Npz, WritesWhatItReads) {
  std::vector<Tensor> tensors;
  tensors.push_back(makeTensor("first/x:0", DType::F32, {2, 3}));
  tensors.push_back(makeTensor("second", DType::I64, {}));
  std::string path = temporary("two.npz");
  ASSERT_TRUE(writeNpz(path, tensors).isOk());
  Result<std::vector<Tensor>> back = readAnyNpz(path);
  ASSERT_TRUE(back.isOk()) << back.status().toString();
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ((*back)[0].name, "first/x:0");
  EXPECT_EQ((*back)[0].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*back)[1].dtype, DType::I64);
}

TEST(Npz, RefusesEveryTruncationAndFindsEveryFlippedByteOfData) {
  std::vector<Tensor> tensors;
  tensors.push_back(makeTensor("x", DType::F32, {4}));
  std::string path = temporary("damaged.npz");
  ASSERT_TRUE(writeNpz(path, tensors).isOk());
  const std::string whole = readText(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    writeText(path, whole.substr(0, size));
    EXPECT_FALSE(readAnyNpz(path).isOk()) << "cut to " << size;
  }
  constexpr size_t kLocalHeaderAndName = 30 + 5 + 20;
  constexpr size_t kNpyBytes = 128 + 16;
  for (size_t at = kLocalHeaderAndName; at < kLocalHeaderAndName + kNpyBytes; ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    writeText(path, flipped);
    EXPECT_FALSE(readAnyNpz(path).isOk()) << "flipped " << at;
  }
}

TEST(Npz, SurvivesAnyFlippedByteOfItsDirectory) {
  std::vector<Tensor> tensors;
  tensors.push_back(makeTensor("x", DType::F32, {4}));
  std::string path = temporary("directory.npz");
  ASSERT_TRUE(writeNpz(path, tensors).isOk());
  const std::string whole = readText(path);
  int refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int mask : {0x01, 0x80, 0xff}) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ mask);
      writeText(path, flipped);
      refused += readAnyNpz(path).isOk() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 300);
}

/// A zip of one deflated entry "x.npy" of `unpacked` bytes, the header of which is `header` and the
/// rest zeros.
std::string deflatedNpz(const std::string &header, uint64_t unpacked) {
  std::string content = header;
  content.resize(unpacked, '\0');
  z_stream stream = {};
  EXPECT_EQ(Z_OK, deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY));
  std::string packed(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef *>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef *>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(Z_STREAM_END, deflate(&stream, Z_FINISH));
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  uint32_t crc = static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef *>(content.data()), content.size()));
  auto number = [](uint64_t value, size_t bytes) {
    std::string text(reinterpret_cast<const char *>(&value), sizeof(value));
    text.resize(bytes, '\0');
    return text;
  };
  std::string common = number(20, 2) + number(0, 2) + number(8, 2) + number(0, 4) + number(crc, 4) +
                       number(packed.size(), 4) + number(unpacked, 4) + number(5, 2) + number(0, 2);
  std::string local = "PK\x03\x04" + common + "x.npy" + packed;
  std::string central =
      "PK\x01\x02" + number(20, 2) + common + number(0, 10) + number(0, 4) + "x.npy";
  return local + central + "PK\x05\x06" + number(0, 4) + number(1, 2) + number(1, 2) +
         number(central.size(), 4) + number(local.size(), 4) + number(0, 2);
}

TEST(Npz, TakesNoMemoryForWhatIsNotWanted) {
  constexpr uint64_t bytes = uint64_t(32) << 20;
  std::string header =
      npyText("{'descr': '|u1', 'fortran_order': False, 'shape': (33554432,), }\n", "");
  std::string path = temporary("bomb.npz");
  writeText(path, deflatedNpz(header, header.size() + bytes));
  Status refused = readNpz(path, [bytes](const std::string &name, const NpyHeader &seen) {
                     EXPECT_EQ("x", name);
                     EXPECT_EQ(bytes, seen.dataBytes);
                     return Status::error(ErrorId::RunInputDim, "too large");
                   }).status();
  EXPECT_EQ(ErrorId::RunInputDim, refused.id());
  Result<std::vector<Tensor>> taken = readAnyNpz(path);
  ASSERT_TRUE(taken.isOk()) << taken.status().toString();
  EXPECT_EQ(bytes, (*taken)[0].data.size());
  // What the archive says and what its header says must agree.
  writeText(path, deflatedNpz(header, header.size() + 1000));
  EXPECT_EQ(ErrorId::BadTensorFile, readAnyNpz(path).status().id());
}

} // namespace
} // namespace tenon::tool
