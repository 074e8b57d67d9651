// What may become an output, and what each errno is told as.

#include "support/files/OutputPath.h"
#include "support/files/AtomicFile.h"
#include "support/files/FileError.h"
#include "support/files/MappedFile.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>

namespace tenon {
namespace {

namespace fs = std::filesystem;

class OutputPath : public testing::Test {
protected:
  OutputPath() {
    std::string pattern = "/tmp/tenon-output-XXXXXX";
    folder = mkdtemp(pattern.data());
    std::ofstream(folder / "input") << "precious";
    fs::create_symlink("input", folder / "link");
    fs::create_symlink("link", folder / "chain");
    fs::create_hard_link(folder / "input", folder / "hard");
    fs::create_symlink("new", folder / "dangling");
    fs::create_symlink("loop", folder / "loop");
    fs::create_directory(folder / "folder");
    mkfifo((folder / "fifo").c_str(), 0600);
  }
  ~OutputPath() override { fs::remove_all(folder); }

  ErrorId decide(const std::string &name, std::vector<std::string> inputs = {}) const {
    std::string path = name.empty() ? "" : (folder / name).string();
    ErrorId early = resolveOutput(path, inputs).status().id();
    // Who writes asks again, and is told the same.
    EXPECT_EQ(early, AtomicFile::create(path, inputs).status().id()) << name;
    return early;
  }

  fs::path folder;
};

TEST_F(OutputPath, IsNoInputUnderAnyName) {
  std::vector<std::string> inputs = {"/nowhere", folder / "input"};
  for (const char *name : {"input", "./input", "folder/../input", "link", "chain", "hard"}) {
    EXPECT_EQ(ErrorId::OutputIsInput, decide(name, inputs)) << name;
    EXPECT_EQ(ErrorId::None, decide(name)) << name;
  }
  EXPECT_EQ(ErrorId::OutputIsInput, decide("input", {folder / "chain"}));
  EXPECT_EQ(ErrorId::None, decide("new", inputs));
}

TEST_F(OutputPath, IsAFile) {
  for (const char *name : {"folder", "fifo", ".", "folder/", "new/", "input/../fifo"}) {
    ErrorId id = decide(name);
    EXPECT_TRUE(id == ErrorId::OutputNotRegular || id == ErrorId::FileWriteFailed) << name;
  }
  EXPECT_EQ(ErrorId::OutputNotRegular, decide("fifo"));
  for (const char *name : {"", "none/a", "input/a", "loop"}) {
    EXPECT_EQ(ErrorId::FileWriteFailed, decide(name)) << name;
  }
  EXPECT_EQ(ErrorId::FileWriteFailed, decide(std::string(300, 'n')));
  EXPECT_EQ(ErrorId::None, checkOutputFolder(folder / "folder").id());
  EXPECT_EQ(ErrorId::None, checkOutputFolder(folder / "new").id());
  EXPECT_EQ(ErrorId::OutputNotRegular, checkOutputFolder(folder / "input").id());
}

TEST_F(OutputPath, FollowsLinks) {
  EXPECT_EQ(fs::canonical(folder) / "input", *resolveOutput(folder / "chain"));
  EXPECT_EQ(folder / "new", *resolveOutput(folder / "dangling"));
  EXPECT_EQ(folder / "new", *resolveOutput(folder / "new"));
}

TEST(FileError, KeepsTheMeaningOfErrno) {
  struct Case {
    int error;
    ErrorId opening;
    ErrorId writing;
  };
  for (Case c : {Case{ENOENT, ErrorId::FileNotFound, ErrorId::FileWriteFailed},
                 Case{ENOTDIR, ErrorId::FileNotFound, ErrorId::FileWriteFailed},
                 Case{ENAMETOOLONG, ErrorId::FileNotFound, ErrorId::FileWriteFailed},
                 Case{EACCES, ErrorId::FileNotPermitted, ErrorId::FileNotPermitted},
                 Case{EPERM, ErrorId::FileNotPermitted, ErrorId::FileNotPermitted},
                 Case{EROFS, ErrorId::FileNotPermitted, ErrorId::FileNotPermitted},
                 Case{EMFILE, ErrorId::TooManyFiles, ErrorId::TooManyFiles},
                 Case{ENFILE, ErrorId::TooManyFiles, ErrorId::TooManyFiles},
                 Case{ENOMEM, ErrorId::OutOfMemory, ErrorId::OutOfMemory},
                 Case{ENXIO, ErrorId::FileNotRegular, ErrorId::FileWriteFailed},
                 Case{EIO, ErrorId::FileReadFailed, ErrorId::FileWriteFailed},
                 Case{ENOSPC, ErrorId::FileReadFailed, ErrorId::FileWriteFailed},
                 Case{EDQUOT, ErrorId::FileReadFailed, ErrorId::FileWriteFailed}}) {
    EXPECT_EQ(c.opening, openError(c.error, "a").id()) << std::strerror(c.error);
    EXPECT_EQ(c.writing, writeError(c.error, "write", "a").id()) << std::strerror(c.error);
    EXPECT_NE(std::string::npos, openError(c.error, "a").message().find(std::strerror(c.error)));
  }
  EXPECT_EQ(Code::Exhausted, codeOf(ErrorId::TooManyFiles));
  EXPECT_EQ(Code::Usage, codeOf(ErrorId::FileNotPermitted));
}

TEST_F(OutputPath, TooManyFilesAreToldSo) {
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = {0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  ErrorId reading = FileReader::open(folder / "input").status().id();
  ErrorId writing = AtomicFile::create(folder / "new").status().id();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(ErrorId::TooManyFiles, reading);
  EXPECT_EQ(ErrorId::TooManyFiles, writing);
}

} // namespace
} // namespace tenon
