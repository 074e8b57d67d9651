// A byte-level vocabulary of the 256 bytes and a few merges.
#pragma once

#include "generate/text/Utf8.h"
#include "generate/tokenizer/Tokenizer.h"

#include <string>
#include <string_view>

namespace tenon::generate {

/// Bytes as GPT-2's alphabet writes them.
inline std::string inAlphabet(std::string_view bytes) {
  auto prints = [](int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
  };
  std::string text;
  for (char c : bytes) {
    int byte = static_cast<unsigned char>(c);
    char32_t sign = 0x100;
    for (int before = 0; before < byte; ++before) {
      sign += prints(before) ? 0 : 1;
    }
    appendUtf8(text, prints(byte) ? static_cast<char32_t>(byte) : sign);
  }
  return text;
}

/// Token i is the byte i; then the merges' results, then "<|end|>" for control and "<user>".
inline Vocabulary smallVocabulary(std::vector<std::pair<std::string, std::string>> merges = {}) {
  Vocabulary made;
  for (int byte = 0; byte < 256; ++byte) {
    made.tokens.push_back(inAlphabet(std::string(1, static_cast<char>(byte))));
  }
  for (auto &[left, right] : merges) {
    left = inAlphabet(left);
    right = inAlphabet(right);
    made.tokens.push_back(left + right);
  }
  made.merges = std::move(merges);
  made.kinds.assign(made.tokens.size(), TokenKind::Normal);
  made.tokens.insert(made.tokens.end(), {"<|end|>", "<user>"});
  made.kinds.insert(made.kinds.end(), {TokenKind::Control, TokenKind::UserDefined});
  return made;
}

} // namespace tenon::generate
