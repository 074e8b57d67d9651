// Files by the hash of their bytes, in a folder: DIR/ab/abcdef... for the hash abcdef... A file has
// its name only when all of it is on the disk, and its name is on the disk when put returns. It
// relies on rename(2) within a file system.

#pragma once

#include "registry/BlobStore.h"

#include <chrono>

namespace tenon::registry {

class BlobFolder final : public BlobStore {
public:
  explicit BlobFolder(std::string path) : path(std::move(path)) {}

  Status create() override;
  Result<Blob> put(const std::string &file, const FileStamp &stamp) override;
  std::string pathOf(const std::string &hash) const override;
  Status provide(const Blob &blob) override { return check(blob); }
  Status check(const Blob &blob) override;
  Result<std::vector<Blob>> all() override;
  Result<bool> has(const Blob &blob) override;
  Status remove(const std::vector<std::string> &hashes) override;
  Status removeUnfinished() override;
  const std::string &folder() const override { return path; }

  /// The one that `create` makes last.
  std::string lastFolder() const;
  /// The name of a new file that `adopt` takes; nobody else has it.
  std::string unfinishedName() const;
  /// The same for one that goes on where another process ended.
  std::string partialName(const std::string &hash) const;
  /// Removes those that nobody wrote to for so long.
  void removeAbandoned(std::chrono::hours age) const;
  /// Gives such a file the name of its hash.
  Status adopt(const std::string &unfinished, const std::string &hash);

private:
  std::string path;
};

/// What is wrong with a file that should be the blob: "its bytes have the hash ..."; empty where
/// nothing is.
Result<std::string> differenceOf(const std::string &file, const Blob &blob);

/// Flushes a folder's names to the disk.
Status syncFolder(const std::string &path);

} // namespace tenon::registry
