#include "compiler/codegen/edge/PrintText.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cctype>

namespace tenon::codegen::edge {

std::string upper(std::string_view name) {
  std::string text(name);
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string commentText(std::string_view text) {
  std::string plain;
  for (unsigned char c : text) {
    plain += c < ' ' || c > '~' || c == '*' || c == '\\' || c == '?' ? '_' : static_cast<char>(c);
  }
  return plain;
}

std::string beginText(std::string_view name, std::string_view what) {
  return strCat("/* ", name, ": ", what, " Written by tenon compile. */\n");
}

std::string placesText(std::string_view name, int tensor) {
  return strCat(name, "_places_", tensor);
}

std::string rowText(const Program &program, std::string_view name, int tensor) {
  const Tensor &whole = program.tensors[static_cast<size_t>(tensor)];
  if (!whole.places.empty()) {
    return strCat("bytes + ", kPlaceUnit, " * ", placesText(name, tensor), "[row]");
  }
  return whole.rows == 1 ? strCat("bytes + ", whole.offset)
                         : strCat("bytes + ", whole.offset, " + row * ", whole.bytes / whole.rows);
}

} // namespace tenon::codegen::edge
