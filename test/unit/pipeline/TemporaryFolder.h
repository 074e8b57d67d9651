// A folder that is removed with everything in it at the end of a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "tenon-test-XXXXXX";
    folder = mkdtemp(name.data());
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
  }

  std::string path(const std::string &name = "") const { return folder + "/" + name; }

private:
  std::string folder;
};
