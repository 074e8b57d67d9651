// The first sequence is short and the last long, so that a run meets both.
#include "support/LanguageStep.h"

#include <algorithm>

namespace tenon {
namespace {

/// Over pages.
class PagedStep {
public:
  explicit PagedStep(const StepSizes &theSizes)
      : sizes(theSizes), share(std::clamp<int64_t>(sizes.pages / sizes.sequences, 1, sizes.table)) {
  }

  int64_t start(int64_t sequence) const { return sequence * sizes.tokens / sizes.sequences; }
  int64_t length(int64_t sequence) const {
    int64_t own = start(sequence + 1) - start(sequence);
    int64_t longest = std::min(share * sizes.page, sizes.longest);
    return own + std::max<int64_t>(0, longest - own) * (sequence + 1) / sizes.sequences;
  }
  int64_t page(int64_t sequence, int64_t number) const {
    return (sequence * share + std::min(number, share - 1)) % sizes.pages;
  }
  int64_t position(int64_t token) const {
    int64_t sequence = sequenceOf(token);
    return length(sequence) - start(sequence + 1) + token;
  }
  int64_t slot(int64_t token) const {
    int64_t at = position(token);
    return page(sequenceOf(token), at / sizes.page) * sizes.page + at % sizes.page;
  }
  /// The last tokens of sequences, as far as there are rows.
  int64_t row(int64_t index) const {
    return std::max<int64_t>(0, start(index * sizes.sequences / sizes.rows + 1) - 1);
  }

private:
  int64_t sequenceOf(int64_t token) const {
    int64_t sequence = 0;
    while (start(sequence + 1) <= token) {
      ++sequence;
    }
    return sequence;
  }

  const StepSizes &sizes;
  int64_t share; ///< of the pages, for a sequence
};

template <typename Value> std::vector<int64_t> made(int64_t count, Value value) {
  std::vector<int64_t> numbers(static_cast<size_t>(std::max<int64_t>(count, 0)));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = value(static_cast<int64_t>(i));
  }
  return numbers;
}

} // namespace

std::optional<std::vector<int64_t>> stepInput(std::string_view role, const StepSizes &sizes) {
  if (sizes.page == 0) {
    int64_t start = std::max<int64_t>(0, sizes.context - sizes.tokens);
    int64_t row = std::max<int64_t>(0, sizes.tokens - sizes.rows);
    return role == "start"     ? std::optional(std::vector{start})
           : role == "context" ? std::optional(made(sizes.context, [](int64_t i) { return i; }))
           : role == "rows" && sizes.tokens > 0
               ? std::optional(
                     made(sizes.rows, [&](int64_t i) { return (row + i) % sizes.tokens; }))
               : std::nullopt;
  }
  if (sizes.sequences <= 0 || sizes.table <= 0 || sizes.pages <= 0) {
    return std::nullopt;
  }
  PagedStep step(sizes);
  auto of = [&](int64_t count, auto value) { return std::optional(made(count, value)); };
  if (role == "starts") {
    return of(sizes.sequences + 1, [&](int64_t i) { return step.start(i); });
  }
  if (role == "lengths") {
    return of(sizes.sequences, [&](int64_t i) { return step.length(i); });
  }
  if (role == "pages") {
    return of(sizes.sequences * sizes.table,
              [&](int64_t i) { return step.page(i / sizes.table, i % sizes.table); });
  }
  if (role == "positions") {
    return of(sizes.tokens, [&](int64_t i) { return step.position(i); });
  }
  if (role == "slots") {
    return of(sizes.tokens, [&](int64_t i) { return step.slot(i); });
  }
  if (role == "rows") {
    return of(sizes.rows, [&](int64_t i) { return step.row(i); });
  }
  return std::nullopt;
}

} // namespace tenon
