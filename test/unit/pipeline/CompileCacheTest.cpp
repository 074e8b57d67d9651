// The compile cache against damage, changed files, races and its bound: each fault is planted.
#include "compiler/pipeline/CompileCache.h"

#include "TemporaryFolder.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <thread>
#include <vector>

namespace fs = std::filesystem;
using tenon::Hash128;
using tenon::hashText;
using tenon::pipeline::CompileCache;

namespace {

void writeText(const std::string &path, const std::string &text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string readText(const std::string &path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::vector<fs::path> filesIn(const std::string &folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  return files;
}

const Hash128 kKey = hashText("key");

TEST(CompileCacheTest, KeepsWhatIsStored) {
  TemporaryFolder folder;
  CompileCache cache(folder.path("new/cache"));
  EXPECT_FALSE(cache.find(kKey));
  cache.store(kKey, std::string("pay\0load", 8));
  EXPECT_EQ(cache.find(kKey), std::string("pay\0load", 8));
  EXPECT_FALSE(cache.find(hashText("other")));
}

TEST(CompileCacheTest, WithoutAFolderItHoldsNothing) {
  CompileCache cache("");
  cache.store(kKey, "payload");
  EXPECT_FALSE(cache.find(kKey));
  CompileCache impossible("/proc/no-such-place");
  EXPECT_FALSE(impossible.isEnabled());
}

TEST(CompileCacheTest, EveryFlippedByteAndTruncationIsAMissAndRemoved) {
  TemporaryFolder folder;
  CompileCache cache(folder.path());
  cache.store(kKey, "payload");
  fs::path file = filesIn(folder.path()).front();
  std::string whole = readText(file);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 1;
    writeText(file, damaged);
    EXPECT_FALSE(cache.find(kKey)) << "byte " << i;
    EXPECT_FALSE(fs::exists(file));
    writeText(file, whole.substr(0, i));
    EXPECT_FALSE(cache.find(kKey)) << "cut at " << i;
  }
}

TEST(CompileCacheTest, EnginesAreCopiedOutNotLinked) {
  TemporaryFolder folder;
  CompileCache cache(folder.path("cache"));
  writeText(folder.path("engine"), "bytes");
  cache.storeFile(kKey, folder.path("engine"), {}, "note\nof two lines");
  EXPECT_EQ(cache.fetchFile(kKey, folder.path("other")), "note\nof two lines");
  EXPECT_EQ(readText(folder.path("other")), "bytes");
  writeText(folder.path("other"), "changed");
  EXPECT_EQ(cache.fetchFile(kKey, folder.path("third")), "note\nof two lines");
  EXPECT_EQ(readText(folder.path("third")), "bytes");
}

TEST(CompileCacheTest, AnEngineOutlivesItsOutput) {
  TemporaryFolder folder;
  CompileCache cache(folder.path("cache"));
  writeText(folder.path("engine"), "bytes");
  cache.storeFile(kKey, folder.path("engine"), {}, "note");
  fs::remove(folder.path("engine"));
  EXPECT_TRUE(cache.fetchFile(kKey, folder.path("engine")));
  EXPECT_EQ(readText(folder.path("engine")), "bytes");
}

TEST(CompileCacheTest, AnEngineChangedThroughItsOtherNameIsAMiss) {
  TemporaryFolder folder;
  CompileCache cache(folder.path("cache"));
  writeText(folder.path("engine"), "bytes");
  cache.storeFile(kKey, folder.path("engine"), {}, "note");
  std::fstream(folder.path("engine"), std::ios::in | std::ios::out) << "BYTES and more";
  EXPECT_FALSE(cache.fetchFile(kKey, folder.path("other")));
  EXPECT_FALSE(fs::exists(folder.path("other")));
}

TEST(CompileCacheTest, AChangedDependencyIsAMiss) {
  TemporaryFolder folder;
  CompileCache cache(folder.path("cache"));
  writeText(folder.path("engine"), "bytes");
  writeText(folder.path("weights.bin"), "1234");
  cache.storeFile(kKey, folder.path("engine"), {folder.path("weights.bin")}, "note");
  EXPECT_TRUE(cache.fetchFile(kKey, folder.path("other")));
  writeText(folder.path("weights.bin"), "12345");
  EXPECT_FALSE(cache.fetchFile(kKey, folder.path("other")));
}

TEST(CompileCacheTest, TheLongestUnusedGoFirst) {
  TemporaryFolder folder;
  CompileCache cache(folder.path(), 2500);
  std::string payload(968, 'x'); // 1000 bytes with its checksum
  for (const char *key : {"old", "middle", "new"}) {
    cache.store(hashText(key), payload);
  }
  fs::file_time_type now = fs::file_time_type::clock::now();
  int age = 0;
  for (const char *key : {"middle", "new", "old"}) {
    fs::path file = folder.path(hashText(key).hex() + ".entry");
    fs::last_write_time(file, now - std::chrono::hours(++age));
  }
  EXPECT_TRUE(cache.find(hashText("old"))); // used now, so the youngest
  cache.trim();
  EXPECT_TRUE(cache.find(hashText("old")));
  EXPECT_TRUE(cache.find(hashText("middle")));
  EXPECT_FALSE(cache.find(hashText("new")));
}

TEST(CompileCacheTest, WritersAndReadersOfOneKeySeeWholeEntries) {
  TemporaryFolder folder;
  CompileCache cache(folder.path());
  std::vector<std::thread> threads;
  std::atomic<int> torn = 0;
  for (char letter : {'a', 'b', 'c'}) {
    threads.emplace_back([&, letter] {
      for (int i = 0; i < 200; ++i) {
        cache.store(kKey, std::string(5000, letter));
        std::optional<std::string> found = cache.find(kKey);
        bool isWhole = found && *found == std::string(5000, (*found)[0]);
        torn += isWhole ? 0 : 1;
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(filesIn(folder.path()).size(), 1u);
}

} // namespace
