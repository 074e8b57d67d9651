// Looks a code point up among runs of one class.
#include "generate/tokenizer/CodeClass.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace tenon::generate {
namespace {

struct Run {
  char32_t first;
  CodeClass kind;
};

constexpr Run kRuns[] = {
#include "generate/tokenizer/UnicodeClasses.inc"
};

CodeClass lookUp(char32_t point) {
  const Run *after = std::upper_bound(std::begin(kRuns), std::end(kRuns), point,
                                      [](char32_t at, const Run &run) { return at < run.first; });
  return std::prev(after)->kind;
}

} // namespace

CodeClass classOf(char32_t point) {
  constexpr size_t kAscii = 128;
  static const std::array<CodeClass, kAscii> kOfAscii = [] {
    std::array<CodeClass, kAscii> kinds;
    for (size_t i = 0; i < kAscii; ++i) {
      kinds[i] = lookUp(static_cast<char32_t>(i));
    }
    return kinds;
  }();
  return point < kAscii ? kOfAscii[point] : lookUp(point);
}

} // namespace tenon::generate
