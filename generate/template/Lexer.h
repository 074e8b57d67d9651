// A template as text, prints and blocks, and the words of these. Relies on trim_blocks and
// lstrip_blocks being set.
#pragma once

#include "support/Result.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate::jinja {

struct Word {
  enum class Kind : uint8_t { Name, Integer, Float, String, Sign, End };
  Kind kind = Kind::End;
  std::string text; ///< of a string, without quotes and escapes
  int line = 0;
};

struct Part {
  enum class Kind : uint8_t { Text, Print, Block };
  Kind kind;
  int line;
  std::string text;        ///< of Text
  std::vector<Word> words; ///< of the others, ended by one of kind End
};

Result<std::vector<Part>> splitTemplate(std::string_view source);

Status templateError(int line, std::string_view what);

} // namespace tenon::generate::jinja
