// Reads and writes npz: a zip archive of npy files, stored or deflated. Sizes in it are not trusted.

#include "support/AtomicFile.h"
#include "support/MappedFile.h"
#include "tools/tenon/Npy.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace tenon::tool {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kCentralHeader = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kLocatorBytes = 20;
constexpr uint64_t kCentralBytes = 46;
constexpr uint64_t kLocalBytes = 30;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
/// Deflate cannot shrink more than this.
constexpr uint64_t kMaxExpansion = 1032;

struct Entry {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0;
  uint64_t unpacked = 0;
  uint64_t offset = 0;
};

Status badArchive(const std::string &path, std::string_view what) {
  return Status::error(ErrorId::BadTensorFile, fmt::format("{}: {}", path, what),
                       "write it with numpy.savez or numpy.savez_compressed");
}

/// Little-endian number at `offset`; the caller has checked that it lies inside.
template <typename T> T read(Bytes bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

bool contains(Bytes bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

bool hasSignature(Bytes bytes, uint64_t offset, uint64_t size, uint32_t signature) {
  return contains(bytes, offset, size) && read<uint32_t>(bytes, offset) == signature;
}

/// Replaces 32-bit fields that are full by those of the zip64 extra field, in its fixed order.
void readZip64(Bytes extra, Entry &entry) {
  uint64_t at = 0;
  while (contains(extra, at, 4)) {
    uint16_t id = read<uint16_t>(extra, at);
    uint16_t size = read<uint16_t>(extra, at + 2);
    at += 4;
    if (id == 1 && contains(extra, at, size)) {
      Bytes fields = extra.subspan(at, size);
      uint64_t next = 0;
      for (uint64_t *field : {&entry.unpacked, &entry.packed, &entry.offset}) {
        if (*field == UINT32_MAX && contains(fields, next, 8)) {
          *field = read<uint64_t>(fields, next);
          next += 8;
        }
      }
      return;
    }
    at += size;
  }
}

struct Directory {
  uint64_t offset = 0;
  uint64_t count = 0;
};

std::optional<Directory> findDirectory(Bytes file) {
  constexpr uint64_t kMaxComment = 65535;
  if (file.size() < kEndBytes) {
    return std::nullopt;
  }
  uint64_t lowest = file.size() - std::min<uint64_t>(file.size(), kEndBytes + kMaxComment);
  for (uint64_t at = file.size() - kEndBytes + 1; at-- > lowest;) {
    if (read<uint32_t>(file, at) != kEnd) {
      continue;
    }
    Directory found{read<uint32_t>(file, at + 16), read<uint16_t>(file, at + 10)};
    if (at >= kLocatorBytes && hasSignature(file, at - kLocatorBytes, kLocatorBytes, kEnd64Locator)) {
      uint64_t end64 = read<uint64_t>(file, at - kLocatorBytes + 8);
      if (!hasSignature(file, end64, kEnd64Bytes, kEnd64)) {
        return std::nullopt;
      }
      found = {read<uint64_t>(file, end64 + 48), read<uint64_t>(file, end64 + 32)};
    }
    return found;
  }
  return std::nullopt;
}

Result<std::vector<Entry>> readDirectory(Bytes file, const std::string &path) {
  std::optional<Directory> directory = findDirectory(file);
  if (!directory) {
    return badArchive(path, "not a zip archive");
  }
  std::vector<Entry> entries;
  std::set<std::string> names;
  uint64_t at = directory->offset;
  for (uint64_t i = 0; i < directory->count; ++i) {
    if (!hasSignature(file, at, kCentralBytes, kCentralHeader)) {
      return badArchive(path, "the directory of the archive is damaged");
    }
    Entry entry{{},
                read<uint16_t>(file, at + 8),
                read<uint16_t>(file, at + 10),
                read<uint32_t>(file, at + 16),
                read<uint32_t>(file, at + 20),
                read<uint32_t>(file, at + 24),
                read<uint32_t>(file, at + 42)};
    uint64_t nameBytes = read<uint16_t>(file, at + 28);
    uint64_t extraBytes = read<uint16_t>(file, at + 30);
    uint64_t commentBytes = read<uint16_t>(file, at + 32);
    if (!contains(file, at + kCentralBytes, nameBytes + extraBytes + commentBytes)) {
      return badArchive(path, "the directory of the archive is cut off");
    }
    entry.name.assign(reinterpret_cast<const char *>(file.data() + at + kCentralBytes), nameBytes);
    readZip64(file.subspan(at + kCentralBytes + nameBytes, extraBytes), entry);
    if (!names.insert(entry.name).second) {
      return badArchive(path, fmt::format("the entry '{}' is there twice", entry.name));
    }
    entries.push_back(std::move(entry));
    at += kCentralBytes + nameBytes + extraBytes + commentBytes;
  }
  return entries;
}

/// The sum `before` extended by the bytes. Of an empty tensor there is no address, for which zlib
/// would begin anew.
uint32_t crcOf(Bytes bytes, uint32_t before = 0) {
  return bytes.empty() ? before
                       : static_cast<uint32_t>(crc32_z(
                             before, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

/// The bytes of an entry, unpacked one after the other and summed up on the way.
class Unpacker {
public:
  Unpacker(Bytes packedBytes, uint16_t method) : packed(packedBytes), isStored(method == kStored) {
    isGood = isStored || inflateInit2(&stream, -MAX_WBITS) == Z_OK;
  }
  Unpacker(const Unpacker &) = delete;
  Unpacker &operator=(const Unpacker &) = delete;
  ~Unpacker() {
    if (!isStored) {
      inflateEnd(&stream);
    }
  }

  /// Fills `out`; false when the entry ends before or is damaged.
  bool read(MutableBytes out) {
    size_t made = isStored ? copy(out) : unpack(out);
    sum = crcOf(out.first(made), sum);
    return isGood && made == out.size();
  }

  /// Whether everything has been read and had this sum.
  bool isDone(uint32_t crc) {
    std::byte more;
    size_t left = isStored ? packed.size() : unpack(MutableBytes(&more, 1));
    return left == 0 && (isStored || hasEnded) && sum == crc;
  }

private:
  size_t copy(MutableBytes out) {
    size_t count = std::min(out.size(), packed.size());
    std::copy_n(packed.begin(), count, out.begin());
    packed = packed.subspan(count);
    return count;
  }

  size_t unpack(MutableBytes out) {
    constexpr size_t kChunk = size_t(1) << 30;
    size_t made = 0;
    while (isGood && !hasEnded && made < out.size()) {
      size_t in = std::min(packed.size(), kChunk);
      size_t room = std::min(out.size() - made, kChunk);
      stream.next_in = reinterpret_cast<Bytef *>(const_cast<std::byte *>(packed.data()));
      stream.avail_in = static_cast<uInt>(in);
      stream.next_out = reinterpret_cast<Bytef *>(out.data() + made);
      stream.avail_out = static_cast<uInt>(room);
      int result = inflate(&stream, Z_NO_FLUSH);
      packed = packed.subspan(in - stream.avail_in);
      made += room - stream.avail_out;
      hasEnded = result == Z_STREAM_END;
      isGood = hasEnded || result == Z_OK;
    }
    return made;
  }

  Bytes packed;
  bool isStored;
  z_stream stream = {};
  bool isGood = true;
  bool hasEnded = false;
  uint32_t sum = 0;
};

/// The packed bytes of an entry, after the checks of what its two headers say.
Result<Bytes> packedBytes(Bytes file, const Entry &entry, const std::string &path) {
  if (!hasSignature(file, entry.offset, kLocalBytes, kLocalHeader)) {
    return badArchive(path, fmt::format("'{}' is not where the directory says", entry.name));
  }
  uint64_t start = entry.offset + kLocalBytes + read<uint16_t>(file, entry.offset + 26) +
                   read<uint16_t>(file, entry.offset + 28);
  constexpr uint16_t kEncrypted = 1;
  if (!contains(file, start, entry.packed) || (entry.flags & kEncrypted)) {
    return badArchive(path, fmt::format("'{}' is cut off or encrypted", entry.name));
  }
  bool isKnown = entry.method == kStored ? entry.packed == entry.unpacked
                                         : entry.method == kDeflated &&
                                               entry.unpacked / kMaxExpansion <= entry.packed;
  return isKnown ? Result<Bytes>(file.subspan(start, entry.packed))
                 : badArchive(path, fmt::format("'{}' is packed in an unknown way", entry.name));
}

/// The header first: the array's memory is taken only if that is wanted and agrees with the archive.
Result<Tensor> readEntry(Bytes file, const Entry &entry, const std::string &path,
                         const AcceptArray &accept) {
  TENON_ASSIGN(Bytes packed, packedBytes(file, entry, path));
  Unpacker unpacker(packed, entry.method);
  std::vector<std::byte> start(std::min<uint64_t>(entry.unpacked, NpyHeader::kMostBytes));
  Status damaged = badArchive(path, fmt::format("'{}' is damaged", entry.name));
  if (!unpacker.read(start)) {
    return damaged;
  }
  TENON_ASSIGN(NpyHeader header, parseNpyHeader(start, fmt::format("{}: {}", path, entry.name)));
  if (header.dataBytes != entry.unpacked - header.bytes) {
    return badArchive(path, fmt::format("{}: the size of its data does not fit its shape", entry.name));
  }
  constexpr std::string_view kSuffix = ".npy";
  std::string name = entry.name.substr(
      0, entry.name.size() - (entry.name.ends_with(kSuffix) ? kSuffix.size() : 0));
  TENON_TRY(accept(name, header));
  TENON_ASSIGN(Tensor tensor, Tensor::create(name, header.dtype, std::move(header.dims)));
  MutableBytes data = tensor.data.bytes();
  Bytes first = Bytes(start).subspan(header.bytes);
  std::ranges::copy(first, data.begin());
  if (!unpacker.read(data.subspan(first.size())) || !unpacker.isDone(entry.crc)) {
    return damaged;
  }
  return tensor;
}

template <typename T> void put(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

/// What local and central headers have in common: version to the length of the extra field.
void putCommon(std::string &out, const Entry &entry, uint16_t extraBytes) {
  constexpr uint16_t kZip64Version = 45;
  constexpr uint16_t kJanuaryFirst1980 = 0x21;
  put<uint16_t>(out, kZip64Version);
  put<uint16_t>(out, 0);
  put<uint16_t>(out, kStored);
  put<uint16_t>(out, 0);
  put<uint16_t>(out, kJanuaryFirst1980);
  put<uint32_t>(out, entry.crc);
  put<uint32_t>(out, UINT32_MAX);
  put<uint32_t>(out, UINT32_MAX);
  put<uint16_t>(out, static_cast<uint16_t>(entry.name.size()));
  put<uint16_t>(out, extraBytes);
}

std::string localHeader(const Entry &entry) {
  std::string out;
  put<uint32_t>(out, kLocalHeader);
  putCommon(out, entry, 20);
  out += entry.name;
  put<uint16_t>(out, 1);
  put<uint16_t>(out, 16);
  put<uint64_t>(out, entry.unpacked);
  put<uint64_t>(out, entry.packed);
  return out;
}

std::string centralHeader(const Entry &entry) {
  std::string out;
  put<uint32_t>(out, kCentralHeader);
  put<uint16_t>(out, 45);
  putCommon(out, entry, 28);
  out.append(10, '\0');
  put<uint32_t>(out, UINT32_MAX);
  out += entry.name;
  put<uint16_t>(out, 1);
  put<uint16_t>(out, 24);
  put<uint64_t>(out, entry.unpacked);
  put<uint64_t>(out, entry.packed);
  put<uint64_t>(out, entry.offset);
  return out;
}

/// Ends the archive; everything is in the 64-bit form, so large tensors need no second way.
std::string endOfDirectory(uint64_t count, uint64_t offset, uint64_t bytes) {
  std::string out;
  put<uint32_t>(out, kEnd64);
  put<uint64_t>(out, kEnd64Bytes - 12);
  put<uint16_t>(out, 45);
  put<uint16_t>(out, 45);
  put<uint64_t>(out, 0);
  put<uint64_t>(out, count);
  put<uint64_t>(out, count);
  put<uint64_t>(out, bytes);
  put<uint64_t>(out, offset);
  put<uint32_t>(out, kEnd64Locator);
  put<uint32_t>(out, 0);
  put<uint64_t>(out, offset + bytes);
  put<uint32_t>(out, 1);
  put<uint32_t>(out, kEnd);
  put<uint32_t>(out, 0);
  put<uint32_t>(out, UINT32_MAX);
  put<uint32_t>(out, UINT32_MAX);
  put<uint32_t>(out, UINT32_MAX);
  put<uint16_t>(out, 0);
  return out;
}

Status appendText(AtomicFile &file, const std::string &text) {
  return file.append(std::as_bytes(std::span(text)));
}

} // namespace

Result<std::vector<Tensor>> readNpz(const std::string &path, const AcceptArray &accept) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  TENON_ASSIGN(std::vector<Entry> entries, readDirectory(file.bytes(), path));
  std::vector<Tensor> tensors;
  for (const Entry &entry : entries) {
    TENON_ASSIGN(Tensor tensor, readEntry(file.bytes(), entry, path, accept));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Status writeNpz(const std::string &path, std::span<const Tensor> tensors) {
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
  std::string directory;
  for (const Tensor &tensor : tensors) {
    std::string header = npyHeader(tensor.dtype, tensor.dims);
    Bytes data = tensor.bytes();
    Entry entry;
    entry.name = tensor.name + ".npy";
    entry.packed = entry.unpacked = header.size() + data.size();
    entry.offset = file.size();
    entry.crc = crcOf(data, crcOf(std::as_bytes(std::span(header))));
    TENON_TRY(appendText(file, localHeader(entry)));
    TENON_TRY(appendText(file, header));
    TENON_TRY(file.append(data));
    directory += centralHeader(entry);
  }
  uint64_t offset = file.size();
  TENON_TRY(appendText(file, directory));
  TENON_TRY(appendText(file, endOfDirectory(tensors.size(), offset, directory.size())));
  return file.commit();
}

} // namespace tenon::tool
