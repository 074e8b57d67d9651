// Relies on the table of well-formed sequences of the Unicode Standard.
#include "generate/text/Utf8.h"

#include "support/text/Text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

namespace tenon::generate {
namespace {

uint8_t byteAt(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

/// Bytes of the sequence that begins with this one; 0 for none.
size_t lengthOf(uint8_t first) {
  return first < 0x80                     ? 1
         : first >= 0xc2 && first <= 0xdf ? 2
         : (first & 0xf0) == 0xe0         ? 3
         : first >= 0xf0 && first <= 0xf4 ? 4
                                          : 0;
}

/// Whether a byte may stand second, behind this first one.
bool mayFollow(uint8_t first, uint8_t second) {
  uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return second >= least && second <= most;
}

std::optional<char32_t> pointAt(std::string_view text, size_t at, size_t &length) {
  uint8_t first = byteAt(text, at);
  length = lengthOf(first);
  if (length <= 1) {
    return length == 1 ? std::optional<char32_t>(first) : std::nullopt;
  }
  if (at + length > text.size() || !mayFollow(first, byteAt(text, at + 1))) {
    return std::nullopt;
  }
  char32_t point = first & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    uint8_t byte = byteAt(text, at + i);
    if ((byte & 0xc0) != 0x80) {
      return std::nullopt;
    }
    point = point << 6 | (byte & 0x3f);
  }
  return point;
}

} // namespace

Result<std::u32string> decodeUtf8(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  size_t length = 0;
  for (size_t at = 0; at < text.size(); at += length) {
    std::optional<char32_t> point = pointAt(text, at, length);
    if (!point) {
      return Status::error(ErrorId::TextNotUtf8,
                           strCat("the text is not UTF-8 from byte ", at, " on"),
                           "convert it to UTF-8");
    }
    points.push_back(*point);
  }
  return points;
}

void appendUtf8(std::string &text, char32_t point) {
  if (point < 0x80) {
    text.push_back(static_cast<char>(point));
    return;
  }
  int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  constexpr uint8_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  text.push_back(static_cast<char>(kFirst[more] | (point >> (6 * more))));
  for (int i = more - 1; i >= 0; --i) {
    text.push_back(static_cast<char>(0x80 | ((point >> (6 * i)) & 0x3f)));
  }
}

std::string encodeUtf8(std::u32string_view points) {
  std::string text;
  for (char32_t point : points) {
    appendUtf8(text, point);
  }
  return text;
}

Result<std::string> composed(std::string_view text) {
  bool isAscii = std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; });
  if (isAscii) {
    return std::string(text);
  }
  utf8proc_uint8_t *made = nullptr;
  utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &made,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (size < 0) {
    return Status::error(ErrorId::TextNotUtf8, utf8proc_errmsg(size), "convert it to UTF-8");
  }
  return std::string(reinterpret_cast<const char *>(made), static_cast<size_t>(size));
}

std::string wellFormed(std::string_view text) {
  std::string result;
  size_t length = 0;
  for (size_t at = 0; at < text.size(); at += length) {
    if (pointAt(text, at, length)) {
      result += text.substr(at, length);
      continue;
    }
    size_t whole = length;
    length = 1;
    while (length < whole && at + length < text.size() &&
           (length == 1 ? mayFollow(byteAt(text, at), byteAt(text, at + 1))
                        : (byteAt(text, at + length) & 0xc0) == 0x80)) {
      ++length;
    }
    appendUtf8(result, U'\ufffd');
  }
  return result;
}

size_t incompleteTail(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    size_t at = text.size() - back;
    uint8_t byte = byteAt(text, at);
    if ((byte & 0xc0) == 0x80) {
      continue;
    }
    bool isBegun = lengthOf(byte) > back && (back == 1 || mayFollow(byte, byteAt(text, at + 1)));
    return isBegun ? back : 0;
  }
  return 0;
}

} // namespace tenon::generate
