// Files by the hash of their bytes. BlobFolder keeps them in a folder, ObjectStore in S3.

#pragma once

#include "support/Result.h"
#include "support/files/FileStamp.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::registry {

struct Blob {
  std::string hash; ///< SHA-256, 64 hexadecimal digits
  uint64_t bytes = 0;
};

/// Of the folder for files that came from elsewhere.
struct CacheUse {
  uint64_t limit = 0, used = 0;                 ///< bytes
  uint64_t hits = 0, fetches = 0, failures = 0; ///< files that were there, came, did not come
  uint64_t fetchedBytes = 0, evictions = 0;
};

class BlobStore {
public:
  virtual ~BlobStore() = default;
  /// Whether files come to this machine by `provide`, as far as there is room.
  virtual bool isRemote() const { return false; }
  /// What files of another machine may take on this one's disk.
  virtual void limitCache(uint64_t bytes) {}
  virtual CacheUse cacheUse() const { return {}; }
  /// Ends each `provide` that goes on, and those to come, with TN1013. By any thread.
  virtual void cancel() {}
  /// Makes what is missing, durably.
  virtual Status create() = 0;
  /// Copies a file in, which is durable when it returns. One that is there under the same hash is
  /// replaced by the same bytes, so that damage heals. TN1010 where the file is no longer the one
  /// of the stamp.
  virtual Result<Blob> put(const std::string &file, const FileStamp &stamp) = 0;
  /// Where the file is on this machine once `provide` has brought it.
  virtual std::string pathOf(const std::string &hash) const = 0;
  /// Brings the file to this machine where it is not, and reads all of it: TN1005 where it is
  /// missing or not what its name says. By any number of threads at once; what several ask for
  /// comes once.
  virtual Status provide(const Blob &blob) = 0;
  /// Reads the whole file where it is stored: TN1005.
  virtual Status check(const Blob &blob) = 0;
  /// All files that are there.
  virtual Result<std::vector<Blob>> all() = 0;
  /// Whether a file of this name and size is there, without reading it.
  virtual Result<bool> has(const Blob &blob) = 0;
  /// At most kMaxRemoved, in as few requests as it takes.
  virtual Status remove(const std::vector<std::string> &hashes) = 0;
  static constexpr size_t kMaxRemoved = 1000;
  /// Removes what killed processes left, while others put.
  virtual Status removeUnfinished() = 0;
  /// The folder on this machine that pathOf is in.
  virtual const std::string &folder() const = 0;
};

} // namespace tenon::registry
