// Files by the hash of their bytes, in a folder: DIR/ab/abcdef... for the hash abcdef... A file has its name only when
// all of it is on the disk, and its name is on the disk when put returns. It relies on rename(2) within a file system.

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

class BlobStore {
public:
  explicit BlobStore(std::string path) : folder(std::move(path)) {}

  /// Makes the folders that are missing, durably.
  Status create() const;
  /// Copies a file in. One that is there under the same hash is replaced by the same bytes, so that damage heals.
  /// TN1010 where the file is no longer the one of the stamp.
  Result<Blob> put(const std::string &file, const FileStamp &stamp) const;
  std::string pathOf(const std::string &hash) const;
  /// Reads the whole file; TN1005 where it is missing or not what its name says.
  Status check(const Blob &blob) const;
  /// The hashes of all files that are there.
  Result<std::vector<std::string>> all() const;
  Status remove(const std::string &hash) const;
  /// Removes what killed processes left. Nobody puts meanwhile.
  Status removeUnfinished() const;

private:
  std::string folder;
};

/// Flushes a folder's names to the disk.
Status syncFolder(const std::string &path);

} // namespace tenon::registry
