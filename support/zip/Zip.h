// Zip archives in memory: their directory, and the bytes of entries, stored or deflated. Nothing in
// an archive is trusted: offsets and sizes are checked against the file, sums when all is read.
#pragma once

#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::zip {

inline constexpr uint32_t kLocalHeader = 0x04034b50;
inline constexpr uint32_t kCentralHeader = 0x02014b50;
inline constexpr uint32_t kEnd = 0x06054b50;
inline constexpr uint32_t kEnd64 = 0x06064b50;
inline constexpr uint32_t kEnd64Locator = 0x07064b50;
inline constexpr uint64_t kEnd64Bytes = 56;
inline constexpr uint16_t kStored = 0;
inline constexpr uint16_t kDeflated = 8;

struct Entry {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0;
  uint64_t unpacked = 0;
  uint64_t offset = 0; ///< of its local header
};

/// The sum `before` extended by the bytes.
uint32_t crcOf(Bytes bytes, uint32_t before = 0);

/// An archive that lies at `file` as long as this is used. Its errors have one number and one hint,
/// and begin with `path`.
class Archive {
public:
  Archive(Bytes file, std::string path, ErrorId error, std::string hint);

  /// The entries in the order of the directory; no name is there twice.
  Result<std::vector<Entry>> entries() const;
  /// The packed bytes of an entry, after the checks of what its two headers say.
  Result<Bytes> packedBytes(const Entry &entry) const;
  /// All bytes of an entry, whose sum holds: a view of the file where it is stored, else in
  /// `owned`.
  Result<Bytes> read(const Entry &entry, std::vector<std::byte> &owned) const;
  /// An error of this archive.
  Status bad(std::string_view what) const;

private:
  Bytes file;
  std::string path;
  ErrorId error;
  std::string hint;
};

/// The bytes of an entry, unpacked one after the other and summed up on the way.
class Unpacker {
public:
  Unpacker(Bytes packedBytes, uint16_t method);
  Unpacker(const Unpacker &) = delete;
  Unpacker &operator=(const Unpacker &) = delete;
  ~Unpacker();

  /// Fills `out`; false when the entry ends before or is damaged.
  bool read(MutableBytes out);
  /// Whether everything has been read and had this sum.
  bool isDone(uint32_t crc);

private:
  size_t copy(MutableBytes out);
  size_t unpack(MutableBytes out);

  Bytes packed;
  bool isStored;
  void *stream = nullptr; ///< zlib's
  bool isGood = true;
  bool hasEnded = false;
  uint32_t sum = 0;
};

} // namespace tenon::zip
