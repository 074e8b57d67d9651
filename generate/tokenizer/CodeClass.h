// What a code point is to the patterns of tokenizers: its general category in Unicode, as far as
// patterns tell categories apart.
#pragma once

#include <cstdint>

namespace tenon::generate {

enum class CodeClass : uint8_t {
  Other,
  Space,
  Upper,
  Title,
  Lower,
  Modifier,
  Letter, ///< of scripts without cases
  Mark,
  Digit,
  Number, ///< but digits
  Punctuation,
  Symbol,
};

CodeClass classOf(char32_t point);

/// What regular expressions of Rust take as \w, by which tokens are told apart that count as single
/// words only.
bool isOfWord(char32_t point);

} // namespace tenon::generate
