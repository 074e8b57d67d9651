// Implements the look at the chunks, segments or header of each format, without unpacking any.

#include "runtime/tensors/WholePicture.h"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace tenon {
namespace {

uint32_t bigEndian(Bytes bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < sizeof(value); ++i) {
    value = value << 8 | static_cast<uint32_t>(bytes[at + i]);
  }
  return value;
}

bool startsWith(Bytes bytes, std::string_view start) {
  return bytes.size() >= start.size() && std::memcmp(bytes.data(), start.data(), start.size()) == 0;
}

/// Whether every chunk has its checksum and the last one is there.
bool isWholePng(Bytes bytes) {
  constexpr size_t kSignature = 8;
  constexpr size_t kAround = 12; // length and name before the content, checksum behind it
  for (Bytes rest = bytes.subspan(kSignature); rest.size() >= kAround;) {
    uint32_t length = bigEndian(rest, 0);
    if (length > rest.size() - kAround) {
      return false;
    }
    const Bytef *named = reinterpret_cast<const Bytef *>(rest.data() + 4);
    if (crc32_z(0, named, size_t(length) + 4) != bigEndian(rest, size_t(length) + 8)) {
      return false;
    }
    if (std::memcmp(named, "IEND", 4) == 0) {
      return true;
    }
    rest = rest.subspan(length + kAround);
  }
  return false;
}

/// The Huffman tables of a JPEG that segments have defined so far: a bit for each class and number.
using HuffmanTables = unsigned;
constexpr HuffmanTables tableBit(bool isAc, unsigned number) {
  return 1u << (4 * unsigned(isAc) + (number & 3));
}

/// Whether the Huffman tables of a JPEG segment name no more symbols than a byte has values, for
/// which the decoder has room; adds them to `defined`.
bool areSoundTables(Bytes segment, HuffmanTables &defined) {
  constexpr size_t kLengths = 16;
  constexpr size_t kMaxSymbols = 256;
  while (segment.size() > kLengths) {
    size_t symbols = 0;
    for (std::byte count : segment.subspan(1, kLengths)) {
      symbols += static_cast<size_t>(count);
    }
    if (symbols > kMaxSymbols || symbols > segment.size() - 1 - kLengths) {
      return false;
    }
    unsigned place = static_cast<unsigned>(segment[0]);
    defined |= tableBit(place >> 4 != 0, place);
    segment = segment.subspan(1 + kLengths + symbols);
  }
  return segment.empty();
}

/// Whether a scan of a JPEG, by its header, uses none but defined tables: DC tables where it begins
/// with coefficient 0 and refines none, AC tables where it has others.
bool hasItsTables(Bytes header, HuffmanTables defined) {
  auto at = [&](size_t i) { return static_cast<unsigned>(header[i]); };
  size_t components = header.empty() ? 0 : at(0);
  if (header.size() < 4 + 2 * components) {
    return false;
  }
  unsigned first = at(1 + 2 * components), last = at(2 + 2 * components);
  bool isRefined = at(3 + 2 * components) >> 4 != 0;
  HuffmanTables used = 0;
  for (size_t i = 0; i < components; ++i) {
    unsigned tables = at(2 + 2 * i);
    used |= first == 0 && !isRefined ? tableBit(false, tables >> 4) : 0;
    used |= last > 0 ? tableBit(true, tables) : 0;
  }
  return (used & ~defined) == 0;
}

/// Whether segment follows segment to the end of the picture, and scans find their tables.
bool isWholeJpeg(Bytes bytes) {
  HuffmanTables defined = 0;
  constexpr unsigned kTables = 0xc4, kRestart = 0xd0, kEnd = 0xd9, kScan = 0xda, kMarker = 0xff;
  auto at = [&](size_t i) { return static_cast<unsigned>(bytes[i]); };
  auto isMarker = [&](size_t i) {
    return at(i) == kMarker && at(i + 1) != 0 && (at(i + 1) & ~7u) != kRestart;
  };
  for (size_t i = 2; i + 1 < bytes.size() && isMarker(i);) {
    unsigned kind = at(i + 1);
    if (kind == kEnd) {
      return true;
    }
    if (kind == kMarker) {
      ++i; // padding
      continue;
    }
    size_t length = i + 3 < bytes.size() ? at(i + 2) << 8 | at(i + 3) : 0;
    if (length < 2 || length > bytes.size() - i - 2 ||
        (kind == kTables && !areSoundTables(bytes.subspan(i + 4, length - 2), defined)) ||
        (kind == kScan && !hasItsTables(bytes.subspan(i + 4, length - 2), defined))) {
      return false;
    }
    i += 2 + length;
    while (kind == kScan && i + 1 < bytes.size() && !isMarker(i)) {
      ++i; // compressed pixels
    }
  }
  return false;
}

/// A number of a PNM's header, behind white space and comments; none where there is no number.
std::optional<uint64_t> takeNumber(std::string_view &text) {
  while (!text.empty() && (std::isspace(static_cast<unsigned char>(text[0])) || text[0] == '#')) {
    text.remove_prefix(text[0] == '#' ? std::min(text.find('\n'), text.size() - 1) + 1 : 1);
  }
  uint64_t number = 0;
  std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc()) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
  return number;
}

/// Whether a PPM or PGM of 8 bits has all pixels that its header speaks of.
bool isWholePnm(Bytes bytes) {
  constexpr uint64_t kMaxSide = 1 << 14;
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  uint64_t channels = text[1] == '6' ? 3 : 1;
  text.remove_prefix(2);
  std::optional<uint64_t> width = takeNumber(text), height = takeNumber(text);
  std::optional<uint64_t> highest = takeNumber(text);
  return width && height && *width > 0 && *height > 0 && highest == 255 && *width <= kMaxSide &&
         *height <= kMaxSide && text.size() > *width * *height * channels;
}

} // namespace

bool isWholePicture(Bytes bytes) {
  constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n";
  constexpr std::string_view kJpeg = "\xff\xd8";
  if (startsWith(bytes, "P5") || startsWith(bytes, "P6")) {
    return isWholePnm(bytes);
  }
  return startsWith(bytes, kPng) ? isWholePng(bytes)
                                 : startsWith(bytes, kJpeg) && isWholeJpeg(bytes);
}

} // namespace tenon
