// The restricted Damerau-Levenshtein distance, row by row.

#include "support/text/NearestName.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace tenon {
namespace {

/// Longer names are no slips of the hand, and the work grows with the square of their length.
constexpr size_t kLongest = 200;

std::string lowered(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return result;
}

size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> beforeLast, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    beforeLast = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      bool isSwapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (isSwapped) {
        row[j] = std::min(row[j], beforeLast[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

} // namespace

std::string nearestName(std::string_view word, std::span<const std::string> candidates) {
  std::string nearest, wanted = lowered(word);
  if (word.empty() || word.size() > kLongest) {
    return nearest;
  }
  size_t least = std::max<size_t>(1, (word.size() + 1) / 3) + 1;
  for (const std::string &candidate : candidates) {
    size_t changes = candidate.size() > kLongest ? least : distance(wanted, lowered(candidate));
    // All letters replaced is no resemblance.
    if (changes < least && changes < std::max(word.size(), candidate.size())) {
      least = changes;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string didYouMean(std::string_view word, std::span<const std::string> candidates,
                       std::string_view otherwise) {
  std::string nearest = nearestName(word, candidates);
  return nearest.empty() ? std::string(otherwise) : strCat("did you mean '", nearest, "'?");
}

} // namespace tenon
