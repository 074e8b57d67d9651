// Looks a code point up among runs of one class.
#include "generate/tokenizer/CodeClass.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

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

bool isOfWord(char32_t point) {
  // Of those that no class holds: connecting punctuation, joiners, numbers that are letters, and
  // letters in circles and squares.
  static constexpr std::pair<char32_t, char32_t> kMore[] = {
      {'_', '_'},         {0x16ee, 0x16f0},   {0x200c, 0x200d},   {0x203f, 0x2040},
      {0x2054, 0x2054},   {0x2160, 0x2188},   {0x24b6, 0x24e9},   {0x3007, 0x3007},
      {0x3021, 0x3029},   {0x3038, 0x303a},   {0xa6e6, 0xa6ef},   {0xfe33, 0xfe34},
      {0xfe4d, 0xfe4f},   {0xff3f, 0xff3f},   {0x10140, 0x10174}, {0x10341, 0x10341},
      {0x1034a, 0x1034a}, {0x103d1, 0x103d5}, {0x12400, 0x1246e}, {0x1f130, 0x1f149},
      {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
  CodeClass kind = classOf(point);
  return (kind >= CodeClass::Upper && kind <= CodeClass::Digit) ||
         std::ranges::any_of(kMore, [&](const auto &range) {
           return point >= range.first && point <= range.second;
         });
}

} // namespace tenon::generate
