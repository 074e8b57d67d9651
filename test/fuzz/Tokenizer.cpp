// Patterns of pre-tokenizers: the first line is one, and is matched at each place of the rest; then
// the record of a vocabulary.
#include "generate/tokenizer/Tokenizer.h"

#include "generate/text/Utf8.h"
#include "generate/tokenizer/VocabularyJson.h"
#include "test/fuzz/Fuzz.h"

#include <nlohmann/json.hpp>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace tenon::generate;
  std::string_view text(reinterpret_cast<const char *>(data), size);
  size_t line = std::min(text.find('\n'), size);
  std::string_view rest = text.substr(std::min(line + 1, size));
  tenon::Result<Pattern> pattern = Pattern::parse(text.substr(0, line));
  tenon::Result<std::u32string> points = decodeUtf8(rest);
  uint64_t steps = 1'000'000;
  for (size_t at = 0; pattern && points && at < points->size() && steps > 0; ++at) {
    (void)pattern->match(*points, at, steps).status().isOk();
  }
  tenon::Json record = tenon::Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!record.is_discarded()) {
    if (tenon::Result<Vocabulary> vocabulary = vocabularyOf(record)) {
      if (tenon::Result<Tokenizer> tokenizer = Tokenizer::create(*vocabulary)) {
        (void)tokenizer->encode("a b\xc3\xa9").status().isOk();
      }
    }
  }
  return 0;
}
