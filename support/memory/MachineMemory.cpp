// Limits of control groups of both versions, from the process's own group up.
#include "support/memory/MachineMemory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include <unistd.h>

namespace tenon {
namespace {

using Folder = std::filesystem::path;

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

/// The number that is all of a file; none where it is another text.
uint64_t numberIn(const Folder &file) {
  std::ifstream stream(file);
  uint64_t number = 0;
  return stream >> number ? number : kNone;
}

/// The number behind a word of a file with a word and a number in each line.
uint64_t numberBehind(const Folder &file, const std::string &word) {
  std::ifstream stream(file);
  std::string line;
  while (std::getline(stream, line)) {
    if (line.starts_with(word)) {
      return std::strtoull(line.c_str() + word.size(), nullptr, 10);
    }
  }
  return kNone;
}

/// Calls `visit` with the folder of each control group that limits memory, and whether it is of
/// version 2.
void visitGroups(const std::string &root, const std::function<void(const Folder &, bool)> &visit) {
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // "number:controllers:path"; version 2 has no controllers.
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    std::string controllers = line.substr(first + 1, second - first - 1);
    bool isUnified = controllers.empty();
    if (!isUnified && controllers != "memory") {
      continue;
    }
    Folder folder = root + (isUnified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    // In a container the path may be that of the host, and only its last parts exist.
    for (Folder group = line.substr(second + 1); !group.empty(); group = group.parent_path()) {
      visit(folder / group.relative_path(), isUnified);
      if (group == group.root_path()) {
        break;
      }
    }
  }
}

uint64_t limitOf(const Folder &group, bool isUnified) {
  return numberIn(group / (isUnified ? "memory.max" : "memory.limit_in_bytes"));
}

} // namespace

uint64_t usableMemory(const std::string &root) {
  uint64_t memory =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  visitGroups(root, [&](const Folder &group, bool isUnified) {
    memory = std::min(memory, limitOf(group, isUnified));
  });
  return memory;
}

uint64_t freeMemory(const std::string &root) {
  constexpr uint64_t kKibibyte = 1024;
  uint64_t available = numberBehind(root + "/proc/meminfo", "MemAvailable:");
  uint64_t memory = available == kNone ? usableMemory(root) : available * kKibibyte;
  visitGroups(root, [&](const Folder &group, bool isUnified) {
    uint64_t limit = limitOf(group, isUnified);
    uint64_t held = numberIn(group / (isUnified ? "memory.current" : "memory.usage_in_bytes"));
    uint64_t cached =
        numberBehind(group / "memory.stat", isUnified ? "inactive_file " : "total_inactive_file ");
    if (limit == kNone || held == kNone) {
      return;
    }
    held -= cached == kNone ? 0 : std::min(cached, held);
    memory = std::min(memory, limit - std::min(held, limit));
  });
  return memory;
}

} // namespace tenon
