// Text out of tokens as it becomes certain: whole code points, and nothing that may yet be part of
// a stop string. What it gives in parts is what it would give whole.
#pragma once

#include "generate/tokenizer/Tokenizer.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate {

class TextStream {
public:
  /// The tokenizer outlives the stream. Empty stop strings are left out. Control tokens are no text
  /// unless they are among `shown`.
  TextStream(const Tokenizer &tokenizer, std::vector<std::string> stops,
             std::vector<int32_t> shown = {});

  /// The text that has become certain with one more token. Nothing comes after a stop string, which
  /// is no part of the text.
  std::string add(int32_t token);
  bool isStopped() const { return stopped; }
  /// What was held back. Bytes that are no UTF-8 are U+FFFD here too.
  std::string finish();

private:
  std::string_view bytesOf(int32_t token) const;
  std::string take(size_t bytes);
  size_t heldBack() const;

  const Tokenizer *tokenizer;
  std::vector<std::string> stops;
  std::vector<int32_t> shown;
  std::string pending;
  bool stopped = false;
};

} // namespace tenon::generate
