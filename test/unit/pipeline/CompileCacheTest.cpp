// The compile cache against damage, changed files, races and its bound: each fault is planted.
#include "compiler/pipeline/CompileCache.h"

#include "TemporaryFolder.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;
using tenon::FileStamp;
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
  std::string weights = folder.path("weights.bin");
  cache.storeFile(kKey, folder.path("engine"), {{weights, FileStamp::of(weights)}}, "note");
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

TEST(CompileCacheTest, AnInputThatChangedBeforeItWasStoredIsAMiss) {
  TemporaryFolder folder;
  CompileCache cache(folder.path("cache"));
  writeText(folder.path("engine"), "bytes");
  std::string weights = folder.path("weights.bin");
  writeText(weights, "1234");
  FileStamp before = FileStamp::of(weights);
  writeText(weights, "12345");
  cache.storeFile(kKey, folder.path("engine"), {{weights, before}}, "note");
  EXPECT_FALSE(cache.fetchFile(kKey, folder.path("other")));
}

TEST(CompileCacheTest, AFolderThatOthersMayWriteToIsNotUsed) {
  TemporaryFolder folder;
  for (mode_t mode : {0770, 0707, 0777}) {
    fs::create_directory(folder.path("cache"));
    ASSERT_EQ(0, ::chmod(folder.path("cache").c_str(), mode));
    CompileCache cache(folder.path("cache"));
    EXPECT_FALSE(cache.isEnabled()) << std::oct << mode;
    EXPECT_NE(std::string::npos, cache.problem().message().find("others can write to it"));
    fs::remove(folder.path("cache"));
  }
  if (::geteuid() == 0) { // only root can make what is another user's
    fs::create_directory(folder.path("cache"));
    ASSERT_EQ(0, ::chown(folder.path("cache").c_str(), 12345, 12345));
    EXPECT_FALSE(CompileCache(folder.path("cache")).isEnabled());
  }
}

TEST(CompileCacheTest, TheFolderIsMadeForTheUserOnly) {
  TemporaryFolder folder;
  ::umask(0);
  CompileCache cache(folder.path("new/cache"));
  cache.store(kKey, "payload");
  ::umask(022);
  for (const char *path : {"new", "new/cache"}) {
    EXPECT_EQ(fs::perms::owner_all, fs::status(folder.path(path)).permissions());
  }
  EXPECT_EQ(fs::perms::owner_read | fs::perms::owner_write,
            fs::status(filesIn(folder.path("new/cache")).front()).permissions());
}

TEST(CompileCacheTest, EntriesThatOthersMayWriteToOrThatAreLinksAreMisses) {
  TemporaryFolder folder;
  CompileCache cache(folder.path("cache"));
  cache.store(kKey, "payload");
  fs::path entry = filesIn(folder.path("cache")).front();
  for (mode_t mode : {0620, 0602}) {
    ASSERT_EQ(0, ::chmod(entry.c_str(), mode));
    EXPECT_FALSE(cache.find(kKey)) << std::oct << mode;
  }
  ASSERT_EQ(0, ::chmod(entry.c_str(), 0600));
  EXPECT_TRUE(cache.find(kKey));
  fs::rename(entry, folder.path("elsewhere"));
  fs::create_symlink(folder.path("elsewhere"), entry);
  EXPECT_FALSE(cache.find(kKey));
  fs::remove(entry);
  ASSERT_EQ(0, ::mkfifo(entry.c_str(), 0600));
  EXPECT_FALSE(cache.find(kKey));
}

TEST(CompileCacheTest, AnEngineThatOthersMayWriteToIsHeldAsACopy) {
  TemporaryFolder folder;
  CompileCache cache(folder.path("cache"));
  writeText(folder.path("engine"), "bytes");
  ASSERT_EQ(0, ::chmod(folder.path("engine").c_str(), 0664));
  cache.storeFile(kKey, folder.path("engine"), {}, "note");
  EXPECT_EQ(1u, fs::hard_link_count(folder.path("engine")));
  writeText(folder.path("engine"), "BYTES");
  EXPECT_TRUE(cache.fetchFile(kKey, folder.path("other")));
  EXPECT_EQ(readText(folder.path("other")), "bytes");
  // Through a link to it, others may get the right to write later.
  ASSERT_EQ(0, ::chmod(folder.path("cache/" + kKey.hex() + ".engine").c_str(), 0666));
  EXPECT_FALSE(cache.fetchFile(kKey, folder.path("third")));
}

TEST(CompileCacheTest, WhatKilledProcessesLeftIsSweptAndOthersFilesAreNot) {
  TemporaryFolder folder;
  CompileCache cache(folder.path(), 100);
  std::string left = folder.path(kKey.hex() + ".engine.tmp.1.1");
  std::string inWork = folder.path(kKey.hex() + ".entry.tmp.2.2");
  std::string users = folder.path("thesis.txt");
  for (const std::string &path : {left, inWork}) {
    writeText(path, "half");
  }
  writeText(users, std::string(1000, 'x'));
  fs::file_time_type now = fs::file_time_type::clock::now();
  for (const std::string &path : {left, users}) {
    fs::last_write_time(path, now - CompileCache::kLongestWrite - std::chrono::minutes(1));
  }
  cache.trim();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(inWork));
  EXPECT_TRUE(fs::exists(users));
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
