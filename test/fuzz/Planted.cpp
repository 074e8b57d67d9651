// A reader with a fault that only feedback from its branches finds: the fuzzers must.
#include "test/fuzz/Fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text = tenon::fuzz::textOf(data, size);
  if (text.size() > 3 && text[0] == 'T' && text[1] == 'e' && text[2] == 'n') {
    const uint8_t *end = data + size;
    [[maybe_unused]] static volatile uint8_t seen;
    seen = *(end + (text[3] == 'o'));
  }
  return 0;
}
