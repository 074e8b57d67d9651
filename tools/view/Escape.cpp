// Implements the escapes on code points.

#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace tenon::view {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;

std::vector<uint32_t> codePoints(std::string_view text) {
  std::vector<uint32_t> points;
  for (size_t i = 0; i < text.size();) {
    unsigned char lead = static_cast<unsigned char>(text[i]);
    size_t length = lead < 0x80   ? 1
                    : lead < 0xC2 ? 0
                    : lead < 0xE0 ? 2
                    : lead < 0xF0 ? 3
                    : lead < 0xF5 ? 4
                                  : 0;
    uint32_t point = length <= 1 ? lead : lead & (0x7F >> length);
    size_t read = 1;
    while (read < length && i + read < text.size() &&
           (static_cast<unsigned char>(text[i + read]) & 0xC0) == 0x80) {
      point = point << 6 | (static_cast<unsigned char>(text[i + read]) & 0x3F);
      ++read;
    }
    constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    bool isWhole = length != 0 && read == length && point >= least[length] && point <= 0x10FFFF &&
                   (point < 0xD800 || point > 0xDFFF);
    points.push_back(isWhole ? point : kReplacement);
    i += read;
  }
  return points;
}

void append(std::string &text, uint32_t point) {
  if (point < 0x80) {
    text += static_cast<char>(point);
    return;
  }
  int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  constexpr unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(lead[more] | point >> (6 * more));
  while (more-- > 0) {
    text += static_cast<char>(0x80 | (point >> (6 * more) & 0x3F));
  }
}

/// Controls, line and paragraph separators, and the format characters that people cannot see.
bool isHidden(uint32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0xAD || point == 0x61C ||
         point == 0x180E || (point >= 0x200B && point <= 0x200F) ||
         (point >= 0x2028 && point <= 0x202E) || (point >= 0x2060 && point <= 0x206F) ||
         point == 0xFEFF || (point >= 0xFFF0 && point <= 0xFFFB) || point == 0xFFFE ||
         point == 0xFFFF || (point >= 0xE0000 && point <= 0xE0FFF);
}

} // namespace

std::string visible(std::string_view text) {
  std::string result;
  for (uint32_t point : codePoints(text)) {
    if (isHidden(point)) {
      result += fmt::format("\\u{:04X}", point);
    } else {
      append(result, point);
    }
  }
  return result;
}

void makeVisible(Json &json) {
  if (json.is_string()) {
    json = visible(json.get<std::string>());
    return;
  }
  if (json.is_structured()) {
    for (Json &part : json) {
      makeVisible(part);
    }
  }
}

std::string xml(std::string_view text) {
  std::string result;
  for (char character : visible(text)) {
    switch (character) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&#39;";
      break;
    default:
      result += character;
    }
  }
  return result;
}

std::string scriptJson(const Json &value) {
  std::string result;
  // Ends of scripts and comments need these characters, which JSON has only in strings.
  for (char character : dumpAscii(value)) {
    if (character == '<' || character == '>' || character == '&') {
      result += fmt::format("\\u{:04x}", character);
    } else {
      result += character;
    }
  }
  return result;
}

std::string shortened(std::string_view text, size_t most) {
  std::vector<uint32_t> points = codePoints(text);
  std::string result;
  for (size_t i = 0; i < points.size(); ++i) {
    if (points.size() > most && i == most / 2) {
      result += "…";
      i = points.size() - (most - most / 2 - 1);
    }
    append(result, points[i]);
  }
  return result;
}

std::string countText(const std::optional<int64_t> &count) {
  if (!count) {
    return "?";
  }
  if (*count < 1000) {
    return std::to_string(*count);
  }
  double value = static_cast<double>(*count);
  const char *unit = "";
  for (const char *next : {"k", "M", "G", "T", "P", "E"}) {
    if (value < 999.5) {
      break;
    }
    value /= 1000;
    unit = next;
  }
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, unit);
}

std::string countText(const Count &count) { return countText(count.typical); }

} // namespace tenon::view
