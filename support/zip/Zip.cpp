// Reads zip archives, with the 64-bit form; zlib inflates.
#include "support/zip/Zip.h"

#include "support/text/Text.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

namespace tenon::zip {
namespace {

constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kLocatorBytes = 20;
constexpr uint64_t kCentralBytes = 46;
constexpr uint64_t kLocalBytes = 30;
/// Deflate cannot shrink more than this.
constexpr uint64_t kMaxExpansion = 1032;

/// Little-endian number at `offset`; the caller has checked that it lies inside.
template <typename T> T number(Bytes bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

bool contains(Bytes bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

bool hasSignature(Bytes bytes, uint64_t offset, uint64_t size, uint32_t signature) {
  return contains(bytes, offset, size) && number<uint32_t>(bytes, offset) == signature;
}

/// Replaces 32-bit fields that are full by those of the zip64 extra field, in its fixed order.
void readZip64(Bytes extra, Entry &entry) {
  uint64_t at = 0;
  while (contains(extra, at, 4)) {
    uint16_t id = number<uint16_t>(extra, at);
    uint16_t size = number<uint16_t>(extra, at + 2);
    at += 4;
    if (id == 1 && contains(extra, at, size)) {
      Bytes fields = extra.subspan(at, size);
      uint64_t next = 0;
      for (uint64_t *field : {&entry.unpacked, &entry.packed, &entry.offset}) {
        if (*field == UINT32_MAX && contains(fields, next, 8)) {
          *field = number<uint64_t>(fields, next);
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
    if (number<uint32_t>(file, at) != kEnd) {
      continue;
    }
    Directory found{number<uint32_t>(file, at + 16), number<uint16_t>(file, at + 10)};
    if (at >= kLocatorBytes &&
        hasSignature(file, at - kLocatorBytes, kLocatorBytes, kEnd64Locator)) {
      uint64_t end64 = number<uint64_t>(file, at - kLocatorBytes + 8);
      if (!hasSignature(file, end64, kEnd64Bytes, kEnd64)) {
        return std::nullopt;
      }
      found = {number<uint64_t>(file, end64 + 48), number<uint64_t>(file, end64 + 32)};
    }
    return found;
  }
  return std::nullopt;
}

/// Whether two entries lie on the same bytes, as those of archives that unpack to far more than
/// they are do.
bool overlap(const std::vector<Entry> &entries) {
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const Entry &entry : entries) {
    places.emplace_back(entry.offset, entry.packed);
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) {
    uint64_t room = places[i].first - places[i - 1].first;
    if (room < kLocalBytes || room - kLocalBytes < places[i - 1].second) {
      return true;
    }
  }
  return false;
}

} // namespace

uint32_t crcOf(Bytes bytes, uint32_t before) {
  // Of no bytes there is no address, for which zlib would begin anew.
  return bytes.empty() ? before
                       : static_cast<uint32_t>(crc32_z(
                             before, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

//===--- Archive ---===//

Archive::Archive(Bytes bytes, std::string name, ErrorId number, std::string advice)
    : file(bytes), path(std::move(name)), error(number), hint(std::move(advice)) {}

Status Archive::bad(std::string_view what) const {
  return Status::error(error, path.empty() ? std::string(what) : strCat(path, ": ", what), hint);
}

Result<std::vector<Entry>> Archive::entries() const {
  std::optional<Directory> directory = findDirectory(file);
  if (!directory) {
    return bad("not a zip archive");
  }
  std::vector<Entry> list;
  std::set<std::string> names;
  uint64_t at = directory->offset;
  for (uint64_t i = 0; i < directory->count; ++i) {
    if (!hasSignature(file, at, kCentralBytes, kCentralHeader)) {
      return bad("the directory of the archive is damaged");
    }
    Entry entry{{},
                number<uint16_t>(file, at + 8),
                number<uint16_t>(file, at + 10),
                number<uint32_t>(file, at + 16),
                number<uint32_t>(file, at + 20),
                number<uint32_t>(file, at + 24),
                number<uint32_t>(file, at + 42)};
    uint64_t nameBytes = number<uint16_t>(file, at + 28);
    uint64_t extraBytes = number<uint16_t>(file, at + 30);
    uint64_t commentBytes = number<uint16_t>(file, at + 32);
    if (!contains(file, at + kCentralBytes, nameBytes + extraBytes + commentBytes)) {
      return bad("the directory of the archive is cut off");
    }
    entry.name.assign(reinterpret_cast<const char *>(file.data() + at + kCentralBytes), nameBytes);
    readZip64(file.subspan(at + kCentralBytes + nameBytes, extraBytes), entry);
    if (!names.insert(entry.name).second) {
      return bad(strCat("the entry '", entry.name, "' occurs twice"));
    }
    list.push_back(std::move(entry));
    at += kCentralBytes + nameBytes + extraBytes + commentBytes;
  }
  return overlap(list) ? Result<std::vector<Entry>>(bad("entries of the archive overlap")) : list;
}

Result<Bytes> Archive::packedBytes(const Entry &entry) const {
  if (!hasSignature(file, entry.offset, kLocalBytes, kLocalHeader)) {
    return bad(strCat("'", entry.name, "' is not where the directory says"));
  }
  uint64_t start = entry.offset + kLocalBytes + number<uint16_t>(file, entry.offset + 26) +
                   number<uint16_t>(file, entry.offset + 28);
  constexpr uint16_t kEncrypted = 1;
  if (!contains(file, start, entry.packed) || (entry.flags & kEncrypted)) {
    return bad(strCat("'", entry.name, "' is cut off or encrypted"));
  }
  bool isKnown = entry.method == kStored
                     ? entry.packed == entry.unpacked
                     : entry.method == kDeflated && entry.unpacked / kMaxExpansion <= entry.packed;
  return isKnown ? Result<Bytes>(file.subspan(start, entry.packed))
                 : bad(strCat("'", entry.name, "' uses an unknown compression method"));
}

Result<Bytes> Archive::read(const Entry &entry, std::vector<std::byte> &owned) const {
  TENON_ASSIGN(Bytes packed, packedBytes(entry));
  if (entry.method == kStored) {
    return crcOf(packed) == entry.crc ? Result<Bytes>(packed)
                                      : bad(strCat("'", entry.name, "' is damaged"));
  }
  Unpacker unpacker(packed, entry.method);
  owned.resize(entry.unpacked);
  if (!unpacker.read(owned) || !unpacker.isDone(entry.crc)) {
    return bad(strCat("'", entry.name, "' is damaged"));
  }
  return Bytes(owned);
}

//===--- Unpacker ---===//

Unpacker::Unpacker(Bytes packedBytes, uint16_t method)
    : packed(packedBytes), isStored(method == kStored) {
  if (!isStored) {
    z_stream *made = new z_stream{};
    stream = made;
    isGood = inflateInit2(made, -MAX_WBITS) == Z_OK;
  }
}

Unpacker::~Unpacker() {
  if (z_stream *owned = static_cast<z_stream *>(stream)) {
    inflateEnd(owned);
    delete owned;
  }
}

bool Unpacker::read(MutableBytes out) {
  size_t made = isStored ? copy(out) : unpack(out);
  sum = crcOf(out.first(made), sum);
  return isGood && made == out.size();
}

bool Unpacker::isDone(uint32_t crc) {
  std::byte more;
  size_t left = isStored ? packed.size() : unpack(MutableBytes(&more, 1));
  return left == 0 && (isStored || hasEnded) && sum == crc;
}

size_t Unpacker::copy(MutableBytes out) {
  size_t count = std::min(out.size(), packed.size());
  std::copy_n(packed.begin(), count, out.begin());
  packed = packed.subspan(count);
  return count;
}

size_t Unpacker::unpack(MutableBytes out) {
  constexpr size_t kChunk = size_t(1) << 30;
  z_stream &state = *static_cast<z_stream *>(stream);
  size_t made = 0;
  while (isGood && !hasEnded && made < out.size()) {
    size_t in = std::min(packed.size(), kChunk);
    size_t room = std::min(out.size() - made, kChunk);
    state.next_in = reinterpret_cast<Bytef *>(const_cast<std::byte *>(packed.data()));
    state.avail_in = static_cast<uInt>(in);
    state.next_out = reinterpret_cast<Bytef *>(out.data() + made);
    state.avail_out = static_cast<uInt>(room);
    int result = inflate(&state, Z_NO_FLUSH);
    packed = packed.subspan(in - state.avail_in);
    made += room - state.avail_out;
    hasEnded = result == Z_STREAM_END;
    isGood = hasEnded || result == Z_OK;
  }
  return made;
}

} // namespace tenon::zip
