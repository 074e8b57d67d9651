// Joins strings and numbers into messages without a formatting library, which the small runtime
// does not carry. It relies on std::string only.

#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tenon {

/// A part of a message; text must live until the parts are joined.
class TextPart {
public:
  TextPart(std::string_view text) : start(text.data()), value(text.size()) {}
  TextPart(char character) : value(static_cast<unsigned char>(character)), kind(Kind::Character) {}
  TextPart(std::signed_integral auto number)
      : value(static_cast<uint64_t>(static_cast<int64_t>(number))), kind(Kind::Signed) {}
  TextPart(std::unsigned_integral auto number) : value(number), kind(Kind::Unsigned) {}

  void appendTo(std::string &out) const;

private:
  enum class Kind : uint8_t { Text, Character, Signed, Unsigned };

  const char *start = nullptr;
  uint64_t value; ///< the length of text, or what is to be written
  Kind kind = Kind::Text;
};

std::string joinParts(std::initializer_list<TextPart> parts);

/// strCat("input '", name, "' has rank ", 3). Inlined, so that a message is its parts and a call: a
/// function for each list of types made the runtime 11 KB larger.
template <typename... Parts>
[[gnu::always_inline]] inline std::string strCat(const Parts &...parts) {
  return joinParts({TextPart(parts)...});
}

} // namespace tenon
