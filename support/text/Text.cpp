// Keeps what every message needs out of the places that make one. It relies on the parts being
// alive until the call returns.

#include "support/text/Text.h"

#include <charconv>
#include <iterator>

namespace tenon {

void TextPart::appendTo(std::string &out) const {
  if (kind == Kind::Text) {
    out.append(start, value);
    return;
  }
  if (kind == Kind::Character) {
    out += static_cast<char>(value);
    return;
  }
  char digits[20]; // as many as the longest number has, with its sign
  char *end = kind == Kind::Signed
                  ? std::to_chars(digits, std::end(digits), static_cast<int64_t>(value)).ptr
                  : std::to_chars(digits, std::end(digits), value).ptr;
  out.append(digits, end);
}

std::string joinParts(std::initializer_list<TextPart> parts) {
  std::string joined;
  for (const TextPart &part : parts) {
    part.appendTo(joined);
  }
  return joined;
}

} // namespace tenon
