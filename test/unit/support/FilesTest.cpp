// Files: read, mapped, written whole or not at all; and blocks of memory.

#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "support/memory/AlignedBuffer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

namespace tenon {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
protected:
  Files() {
    std::string pattern = "/tmp/tenon-files-XXXXXX";
    folder = mkdtemp(pattern.data());
  }
  ~Files() override { fs::remove_all(folder); }

  size_t entries() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }
  static Bytes bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }
  static std::string content(const fs::path &path) {
    std::ifstream stream(path);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }

  fs::path folder;
};

TEST_F(Files, AppearComplete) {
  std::string path = folder / "a";
  {
    AtomicFile file = std::move(*AtomicFile::create(path));
    ASSERT_TRUE(file.resize(4).isOk());
    ASSERT_TRUE(file.append(bytesOf("tail")).isOk());
    ASSERT_TRUE(file.write(0, bytesOf("head")).isOk());
    EXPECT_EQ(8u, file.size());
    EXPECT_FALSE(fs::exists(path));
    ASSERT_TRUE(file.commit().isOk());
  }
  EXPECT_EQ("headtail", content(path));
  EXPECT_EQ(1u, entries());
  mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(0666 & ~mask, static_cast<mode_t>(fs::status(path).permissions()));
}

TEST_F(Files, LeaveNothingWhenAbandoned) {
  std::string path = folder / "a";
  std::ofstream(path) << "old";
  {
    AtomicFile file = std::move(*AtomicFile::create(path));
    ASSERT_TRUE(file.append(bytesOf("new")).isOk());
  }
  EXPECT_EQ("old", content(path));
  EXPECT_EQ(1u, entries());
  EXPECT_EQ(ErrorId::FileWriteFailed, AtomicFile::create("/nowhere/a").status().id());
}

TEST_F(Files, ReplaceWhatALinkLeadsToAndKeepItsMode) {
  std::string target = folder / "target", link = folder / "link";
  std::ofstream(target) << "old";
  fs::permissions(target, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("target", link);
  AtomicFile file = std::move(*AtomicFile::create(link));
  ASSERT_TRUE(file.append(bytesOf("new")).isOk());
  ASSERT_TRUE(file.commit().isOk());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ("new", content(target));
  EXPECT_EQ(fs::perms::owner_read | fs::perms::owner_write, fs::status(target).permissions());
  EXPECT_EQ(2u, entries());
}

TEST_F(Files, HaveNoNameBeforeTheyAreComplete) {
  std::string path = folder / "a";
  AtomicFile file = std::move(*AtomicFile::create(path));
  ASSERT_TRUE(file.append(bytesOf("part")).isOk());
  // Where the file system has no files without names, there is one called *.tmp*.
  EXPECT_TRUE(entries() == 0 || !fs::exists(path));
}

TEST_F(Files, AreRead) {
  std::string path = folder / "a";
  std::ofstream(path) << "0123456789";
  FileReader file = std::move(*FileReader::open(path));
  EXPECT_EQ(10u, file.size());
  std::vector<std::byte> out(4);
  ASSERT_TRUE(file.read(6, out).isOk());
  EXPECT_EQ(0, std::memcmp("6789", out.data(), 4));
  EXPECT_EQ(ErrorId::FileReadFailed, file.read(7, out).id());
  MappedFile mapped = std::move(*MappedFile::open(path));
  ASSERT_EQ(10u, mapped.bytes().size());
  mapped.populate();
  EXPECT_EQ(0, std::memcmp("0123456789", mapped.bytes().data(), 10));
  MappedFile moved = std::move(mapped);
  EXPECT_TRUE(mapped.bytes().empty());
  EXPECT_EQ(10u, moved.bytes().size());
}

TEST_F(Files, OnlyRegularOnesAreOpened) {
  std::string fifo = folder / "fifo";
  ASSERT_EQ(0, mkfifo(fifo.c_str(), 0600));
  EXPECT_EQ(ErrorId::FileNotRegular, FileReader::open(fifo).status().id());
  EXPECT_EQ(ErrorId::FileNotRegular, FileReader::open(folder).status().id());
  EXPECT_EQ(ErrorId::FileNotFound, FileReader::open(folder / "none").status().id());
  std::ofstream(folder / "empty").flush();
  EXPECT_TRUE(MappedFile::open(folder / "empty")->bytes().empty());
}

TEST(AlignedBuffer, IsAlignedAndZero) {
  for (uint64_t size : {uint64_t(1), uint64_t(100), uint64_t(2) << 20, (uint64_t(5) << 20) + 3}) {
    AlignedBuffer buffer = std::move(*AlignedBuffer::create(size));
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(buffer.data()) % 64);
    EXPECT_EQ(size, buffer.size());
    EXPECT_EQ(std::byte(0), buffer.data()[0]);
    buffer.data()[size - 1] = std::byte(1);
  }
  EXPECT_EQ(nullptr, AlignedBuffer::create(0)->data());
  EXPECT_EQ(ErrorId::OutOfMemory, AlignedBuffer::create(uint64_t(1) << 60).status().id());
  EXPECT_EQ(ErrorId::OutOfMemory, AlignedBuffer::create(UINT64_MAX).status().id());
}

} // namespace
} // namespace tenon
