// Free memory out of files as kernels write them.
#include "support/memory/MachineMemory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace {

using tenon::freeMemory;

class MachineMemory : public testing::Test {
protected:
  void write(const std::string &name, const std::string &text) {
    std::filesystem::path path = root + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void SetUp() override {
    std::filesystem::remove_all(root);
    write("/proc/meminfo", "MemTotal:  4000 kB\nMemAvailable:    3000 kB\nCached: 7 kB\n");
  }

  std::string root = testing::TempDir() + "/machine_memory";
};

TEST_F(MachineMemory, OfTheMachine) { EXPECT_EQ(freeMemory(root), 3000 * 1024); }

TEST_F(MachineMemory, OfTheNearestControlGroup) {
  write("/proc/self/cgroup", "0::/outer/inner\n");
  write("/sys/fs/cgroup/outer/memory.max", "2000000\n");
  write("/sys/fs/cgroup/outer/memory.current", "1500000\n");
  write("/sys/fs/cgroup/outer/memory.stat", "anon 9\nactive_file 3\ninactive_file 100000\n");
  write("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("/sys/fs/cgroup/outer/inner/memory.current", "5\n");
  EXPECT_EQ(freeMemory(root), 600000);
}

TEST_F(MachineMemory, OfTheFirstVersion) {
  write("/proc/self/cgroup", "4:cpu:/a\n3:memory:/a\n");
  write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n");
  write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1500\n");
  EXPECT_EQ(freeMemory(root), 0);
}

} // namespace
