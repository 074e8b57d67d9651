// The compile cache: a folder of entries named by the hash of what made them, bounded, and safe for
// several processes. A missing, damaged or half-written entry is a miss, never an error. Code from
// it is run, so the folder and its entries must be the user's own and writable to nobody else.
#pragma once

#include "support/Hash.h"
#include "support/files/FileStamp.h"
#include "support/files/PrivateFolder.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::pipeline {

/// A file that a result was made from, as it was before it was read.
struct InputFile {
  std::string path;
  FileStamp stamp;
};

class CompileCache {
public:
  /// Entries beyond this are dropped, the longest unused first.
  static constexpr uint64_t kMaxBytes = uint64_t{4} << 30;
  /// Files that are being written belong to a process that was killed when they are as old as this.
  static constexpr std::chrono::hours kLongestWrite{1};

  /// An empty folder makes a cache that holds nothing. The folder is made if need be.
  explicit CompileCache(const std::string &cacheFolder, uint64_t mostBytes = kMaxBytes);

  bool isEnabled() const { return folder.has_value(); }
  /// Why a folder that was given is not used.
  const Status &problem() const { return failure; }

  /// The payload stored under a key; checks it against its hash and removes a damaged entry.
  std::optional<std::string> find(const Hash128 &key) const;
  /// Best effort: a full disk or a lost race leaves no entry.
  void store(const Hash128 &key, std::string_view payload) const;

  /// A whole engine file, held by hard link or reflink where the file system can, else as a copy,
  /// with a note. It is valid as long as neither it nor an input (another file it was made from)
  /// changes. The engine is on disk before the entry that names it.
  void storeFile(const Hash128 &key, const std::string &path, const std::vector<InputFile> &inputs,
                 std::string_view note) const;
  /// Gives `path` its own copy (or leaves it, if it is that file) and returns the note.
  std::optional<std::string> fetchFile(const Hash128 &key, const std::string &path) const;

  /// Removes what killed processes left, then what was unused longest until the cache's files are
  /// within their bound. Touches no other files.
  void trim() const;

private:
  bool linkWithin(const std::string &name, const std::string &path) const;
  bool holdFile(const std::string &path, const std::string &name) const;
  void remove(const std::string &name) const;

  std::optional<PrivateFolder> folder;
  Status failure;
  uint64_t limit;
};

} // namespace tenon::pipeline
