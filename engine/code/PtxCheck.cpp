// Reads PTX as words between blanks, with comments left out, and the header of a cubin; relies on
// nothing but the bytes.

#include "engine/code/PtxCheck.h"

#include "engine/CudaArch.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace tenon::engine {
namespace {

Status ptxError(std::string_view message) {
  return Status::error(ErrorId::EngineBadCode, message, "compile the model again");
}

constexpr std::string_view kBlanks = " \t\r\n";

/// Gives the words of PTX one by one; comments count as blanks.
class PtxWords {
public:
  explicit PtxWords(std::string_view ptx) : text(ptx) {}

  /// The next word; empty at the end.
  std::string_view next() {
    skipBlanks();
    // A comment may follow a word at once. What is searched is the word alone, so that all words
    // together take time in proportion to the text.
    size_t length = 0;
    while (length < text.size() && kBlanks.find(text[length]) == std::string_view::npos &&
           !startsComment(text.substr(length))) {
      ++length;
    }
    std::string_view word = text.substr(0, length);
    text.remove_prefix(length);
    return word;
  }

private:
  static bool startsComment(std::string_view rest) {
    return rest.starts_with("//") || rest.starts_with("/*");
  }

  void skipBlanks() {
    while (true) {
      text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
      if (!startsComment(text)) {
        return;
      }
      std::string_view end = text[1] == '/' ? "\n" : "*/";
      size_t at = text.find(end, 2);
      text.remove_prefix(at == std::string_view::npos ? text.size() : at + end.size());
    }
  }

  std::string_view text;
};

bool isText(char character) {
  return (character >= ' ' && character <= '~') ||
         (character != ' ' && kBlanks.find(character) != std::string_view::npos);
}

} // namespace

Status checkPtx(Bytes code, std::string_view target) {
  std::string_view text(reinterpret_cast<const char *>(code.data()), code.size());
  if (text.empty() || text.back() != '\0') {
    return ptxError("the PTX does not end with a zero byte");
  }
  text.remove_suffix(1);
  if (!std::ranges::all_of(text, isText)) {
    return ptxError("the PTX contains bytes that are not text");
  }
  PtxWords words(text);
  if (words.next() != ".version") {
    return ptxError("the PTX does not start with its version");
  }
  words.next();
  if (words.next() != ".target" || words.next() != target) {
    return ptxError(strCat("the PTX is not for the target ", target));
  }
  std::string_view previous;
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (previous == ".extern" && word.starts_with(".func")) {
      return ptxError("the PTX calls a function that it does not contain");
    }
    previous = word;
  }
  return Status::ok();
}

Status checkCubin(Bytes cubin, std::string_view target) {
  constexpr uint16_t nvidiaMachine = 190; // EM_CUDA
  Elf64_Ehdr header = {};
  bool isWhole = cubin.size() >= sizeof(header);
  if (isWhole) {
    std::memcpy(&header, cubin.data(), sizeof(header));
  }
  bool isCubin = isWhole && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                 header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == nvidiaMachine;
  if (!isCubin || !isCudaLevel(target)) {
    return ptxError(strCat("the section of the variant ", target, " is not a cubin"));
  }
  return Status::ok();
}

} // namespace tenon::engine
