// Bounds what a folder of fetched files takes on the disk: those that were not used longest leave
// it. Several processes may share the folder. A file that somebody has open under a shared lock
// (flock), as a server does for a model that it has loaded, stays, and so does one that is being
// fetched.

#pragma once

#include "registry/BlobStore.h"

#include <atomic>
#include <string>

namespace tenon::registry {

class CacheBudget {
public:
  CacheBudget(std::string folder, uint64_t most) : folder(std::move(folder)), most(most) {}

  void setLimit(uint64_t bytes) { most = bytes; }
  uint64_t limit() const { return most; }
  /// What the files take, when that was last looked at.
  uint64_t used() const { return taken; }
  uint64_t evictions() const { return evicted; }

  /// Removes others until `file` may have so many bytes, and has the disk keep them for it, so that
  /// whoever looks next counts them. TN0103 where files in use leave too little room.
  Status reserve(const std::string &file, uint64_t bytes);

private:
  const std::string folder;
  std::atomic<uint64_t> most, taken = 0, evicted = 0;
};

/// Notes that a file is used now: it is not among those that leave first.
void noteUse(const std::string &file);

} // namespace tenon::registry
