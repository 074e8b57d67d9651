// Files by the hash of their bytes in S3: PREFIX/HASH. A file is put whole or not at all, as S3
// does it; what is read comes into a folder of this machine first, where its hash is checked each
// time, so that nothing has to be trusted.

#pragma once

#include "registry/BlobFolder.h"
#include "registry/S3Client.h"

namespace tenon::registry {

class ObjectStore final : public BlobStore {
public:
  /// Larger files are sent in parts of so many bytes.
  static constexpr uint64_t kPartBytes = uint64_t(64) << 20;
  /// Of the folder on this machine, by default.
  static constexpr uint64_t kMaxCached = uint64_t(64) << 30;

  /// `cache` is the folder for what was read. Files that were not used longest are removed from it
  /// when it holds more than so many bytes.
  ObjectStore(S3Client client, const std::string &cache, uint64_t maxCached = kMaxCached,
              uint64_t partBytes = kPartBytes)
      : client(std::move(client)), cache(cache), maxCached(maxCached), partBytes(partBytes) {}

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
  /// Brings a file into a new one of the cache, whose hash is right; gives its name, which is for
  /// the caller to remove.
  Result<std::string> download(const Blob &blob);
  Status trim(const std::string &newest);

  const S3Client client;
  BlobFolder cache;
  const uint64_t maxCached, partBytes;
};

} // namespace tenon::registry
