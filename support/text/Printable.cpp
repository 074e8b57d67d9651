// Implements the escapes byte by byte: what is no UTF-8 stays as it is.

#include "support/text/Printable.h"

namespace tenon {

std::string withoutControls(std::string_view text, std::string_view kept) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char point = static_cast<unsigned char>(text[i]);
    // Those from 0x80 on are two bytes in UTF-8.
    unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    bool isUpper = point == 0xC2 && next >= 0x80 && next < 0xA0;
    bool isControl = point < 0x20 || point == 0x7F || isUpper;
    if (!isControl || kept.find(text[i]) != std::string_view::npos) {
      result += text[i];
      continue;
    }
    unsigned char control = isUpper ? next : point;
    i += isUpper ? 1 : 0;
    result += "\\u00";
    result += kDigits[control >> 4];
    result += kDigits[control & 15];
  }
  return result;
}

} // namespace tenon
