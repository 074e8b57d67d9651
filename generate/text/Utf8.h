// UTF-8 as code points and back. Nothing that is not UTF-8 passes: overlong forms, surrogates and
// what lies beyond U+10FFFF are errors.
#pragma once

#include "support/Result.h"

#include <string>
#include <string_view>

namespace tenon::generate {

/// TN0248 with the offset of the first byte that is not UTF-8.
Result<std::u32string> decodeUtf8(std::string_view text);
void appendUtf8(std::string &text, char32_t point);
std::string encodeUtf8(std::u32string_view points);

/// In Unicode's normal form C, of text that is UTF-8.
Result<std::string> composed(std::string_view text);

/// The text with U+FFFD for each longest part that begins a code point and does not go on as one,
/// as Python's "replace" has it.
std::string wellFormed(std::string_view text);

/// How many bytes at the end of the text begin a code point that is not whole; 0 where it ends with
/// a whole one, or with bytes that no UTF-8 begins with.
size_t incompleteTail(std::string_view text);

} // namespace tenon::generate
