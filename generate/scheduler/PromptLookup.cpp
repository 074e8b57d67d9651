// Looks for three tokens first, and for two where these are new.
#include "generate/scheduler/PromptLookup.h"

#include <algorithm>

namespace tenon::generate {

std::span<const int32_t> lookUp(std::span<const int32_t> text, int64_t count) {
  constexpr size_t kLongest = 3, kShortest = 2;
  for (size_t size = kLongest; size >= kShortest && count > 0; --size) {
    if (text.size() <= size) {
      continue;
    }
    // The one before the text's end.
    std::span<const int32_t> before = text.first(text.size() - 1), last = text.last(size);
    auto found = std::find_end(before.begin(), before.end(), last.begin(), last.end());
    if (found != before.end()) {
      std::span<const int32_t> behind = text.subspan(found - before.begin() + size);
      return behind.first(std::min(behind.size(), static_cast<size_t>(count)));
    }
  }
  return {};
}

} // namespace tenon::generate
