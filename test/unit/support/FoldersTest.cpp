// Folders of the process's own: who may write to them, and what a killed process leaves.

#include "support/files/PrivateFolder.h"
#include "support/files/ScratchFolder.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon {
namespace {

namespace fs = std::filesystem;

class Folders : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = "/tmp/tenon-folders-XXXXXX";
    root = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(root); }

  static void makeOld(const std::string &path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(5));
  }

  std::string root;
};

TEST_F(Folders, ScratchGoesWithItsObject) {
  std::string path;
  {
    Result<ScratchFolder> folder = ScratchFolder::create(root, "work");
    ASSERT_TRUE(folder.isOk());
    path = folder->path();
    std::ofstream(path + "/file") << "bytes";
    EXPECT_EQ(fs::perms::owner_all, fs::status(path).permissions());
    ScratchFolder moved = std::move(*folder);
    EXPECT_TRUE(fs::exists(moved.path() + "/file"));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(ErrorId::FileWriteFailed, ScratchFolder::create(root + "/none", "x").status().id());
}

TEST_F(Folders, WhatAKilledProcessLeftGoesAndWhatIsInUseStays) {
  pid_t child = fork();
  if (child == 0) {
    Result<ScratchFolder> folder = ScratchFolder::create(root, "work");
    std::ofstream(folder->path() + "/large") << "bytes";
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  std::string left = fs::directory_iterator(root)->path().string();
  Result<ScratchFolder> live = ScratchFolder::create(root, "work");
  EXPECT_TRUE(fs::exists(left)) << "too young to tell";
  std::string other = root + "/other";
  fs::create_directory(other);
  for (const std::string &path : {left, live->path(), other}) {
    makeOld(path);
  }
  ASSERT_TRUE(ScratchFolder::create(root, "work").isOk());
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(live->path()));
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(Folders, PrivateStaysWhatWasOpened) {
  Result<PrivateFolder> folder = PrivateFolder::open(root + "/a/b");
  ASSERT_TRUE(folder.isOk());
  std::ofstream(root + "/a/b/file") << "mine";
  fs::permissions(root + "/a/b/file", fs::perms::owner_read | fs::perms::owner_write);
  fs::rename(root + "/a", root + "/away");
  fs::create_directories(root + "/a/b");
  int entry = folder->openEntry("file");
  EXPECT_GE(entry, 0);
  ::close(entry);
  EXPECT_EQ(-1, folder->openEntry("none"));
  EXPECT_FALSE(PrivateFolder::open("/proc/none").isOk());
  std::ofstream(root + "/plain") << "";
  EXPECT_FALSE(PrivateFolder::open(root + "/plain").isOk());
}

} // namespace
} // namespace tenon
