// Files by the hash of their bytes in S3: PREFIX/HASH. A file is put whole or not at all, as S3
// does it; what is read comes into a folder of this machine first, where its hash is checked each
// time, so that nothing has to be trusted. A transfer that broke goes on where it ended, also by
// another process: its file has the hash for its name.

#pragma once

#include "registry/BlobFolder.h"
#include "registry/CacheBudget.h"
#include "registry/S3Client.h"

namespace tenon::registry {

class ObjectStore final : public BlobStore {
public:
  /// Larger files are sent in parts of so many bytes.
  static constexpr uint64_t kPartBytes = uint64_t(64) << 20;
  /// Of the folder on this machine, by default.
  static constexpr uint64_t kMaxCached = uint64_t(64) << 30;

  /// `cache` is the folder for what was read.
  ObjectStore(S3Client client, const std::string &cache, uint64_t partBytes = kPartBytes)
      : client(std::move(client)), cache(cache), budget(cache, kMaxCached), partBytes(partBytes) {}

  bool isRemote() const override { return true; }
  void limitCache(uint64_t bytes) override { budget.setLimit(bytes); }
  CacheUse cacheUse() const override;
  void cancel() override { isEnding = true; }

  /// Makes the folder on this machine where it is missing.
  Status create() override;
  Result<Blob> put(const std::string &file, const FileStamp &stamp) override;
  std::string pathOf(const std::string &hash) const override { return cache.pathOf(hash); }
  Status provide(const Blob &blob) override;
  Status check(const Blob &blob) override;
  Result<std::vector<Blob>> all() override;
  Result<bool> has(const Blob &blob) override;
  Status remove(const std::vector<std::string> &hashes) override;
  Status removeUnfinished() override;
  const std::string &folder() const override { return cache.folder(); }

private:
  /// Brings a file into the cache.
  Status fetch(const Blob &blob);
  /// Completes the file `partial`, which this process alone writes to.
  Status download(const Blob &blob, const std::string &partial);

  const S3Client client;
  BlobFolder cache;
  CacheBudget budget;
  std::atomic<bool> isEnding = false;
  std::atomic<uint64_t> hits = 0, fetches = 0, failures = 0, fetchedBytes = 0;
  const uint64_t partBytes;
};

} // namespace tenon::registry
