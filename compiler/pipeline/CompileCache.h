// The compile cache: a folder of entries named by the hash of what made them, bounded, and safe for
// several processes. A missing, damaged or half-written entry is a miss, never an error.
#pragma once

#include "support/Hash.h"
#include "support/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::pipeline {

class CompileCache {
public:
  /// Entries beyond this are dropped, the longest unused first.
  static constexpr uint64_t kMostBytes = uint64_t{4} << 30;

  /// An empty folder makes a cache that holds nothing. The folder is made if need be.
  explicit CompileCache(std::string cacheFolder, uint64_t mostBytes = kMostBytes);

  bool isEnabled() const { return !folder.empty(); }

  /// The payload stored under a key; checks it against its hash and removes a damaged entry.
  std::optional<std::string> find(const Hash128 &key) const;
  /// Best effort: a full disk or a lost race leaves no entry.
  void store(const Hash128 &key, std::string_view payload) const;

  /// A whole engine file, held by hard link or reflink where the file system can, else as a copy,
  /// with a note. It is valid as long as neither it nor a dependency (another file it was made
  /// from) changes.
  void storeFile(const Hash128 &key, const std::string &path,
                 const std::vector<std::string> &dependencies, std::string_view note) const;
  /// Gives `path` its own copy (or leaves it, if it is that file) and returns the note.
  std::optional<std::string> fetchFile(const Hash128 &key, const std::string &path) const;

  /// Removes what was unused longest until the folder is within its bound.
  void trim() const;

private:
  std::string pathOf(const Hash128 &key, std::string_view kind) const;

  std::string folder;
  uint64_t limit;
};

} // namespace tenon::pipeline
