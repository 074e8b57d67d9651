// One group after the other: each selection so far with each choice, sorted, and the beaten
// dropped.
#include "compiler/quant/Knapsack.h"

#include <algorithm>
#include <tuple>

namespace tenon::quant {
namespace {

/// A selection of the groups so far: that of the groups before, and a choice.
struct Partial {
  double error = 0, time = 0;
  uint32_t before = 0;
  uint8_t choice = 0;
};

/// Sorted by error, what is left gets faster from one to the next.
void dropBeaten(std::vector<Partial> &selections) {
  std::sort(selections.begin(), selections.end(), [](const Partial &a, const Partial &b) {
    return std::tie(a.error, a.time, a.choice, a.before) <
           std::tie(b.error, b.time, b.choice, b.before);
  });
  size_t kept = 0;
  for (const Partial &selection : selections) {
    if (kept == 0 || selection.time < selections[kept - 1].time) {
      selections[kept++] = selection;
    }
  }
  selections.resize(kept);
}

/// Leaves both ends, and between them as many as may stay.
void thinOut(std::vector<Partial> &selections, size_t most) {
  size_t count = selections.size();
  if (count <= most) {
    return;
  }
  for (size_t i = 0; i < most; ++i) {
    selections[i] = selections[i * (count - 1) / (most - 1)];
  }
  selections.resize(most);
}

} // namespace

std::vector<Selection> findFront(std::span<const std::vector<Choice>> groups,
                                 size_t mostSelections) {
  std::vector<std::vector<Partial>> stages = {{Partial{}}};
  for (const std::vector<Choice> &choices : groups) {
    std::vector<Partial> next;
    const std::vector<Partial> &before = stages.back();
    for (size_t i = 0; i < before.size(); ++i) {
      for (size_t choice = 0; choice < choices.size(); ++choice) {
        next.push_back({before[i].error + choices[choice].error,
                        before[i].time + choices[choice].time, static_cast<uint32_t>(i),
                        static_cast<uint8_t>(choice)});
      }
    }
    dropBeaten(next);
    thinOut(next, std::max<size_t>(mostSelections, 2));
    stages.push_back(std::move(next));
  }
  std::vector<Selection> front;
  for (const Partial &last : stages.back()) {
    Selection selection{last.time, last.error, std::vector<uint8_t>(groups.size())};
    const Partial *partial = &last;
    for (size_t group = groups.size(); group-- > 0;) {
      selection.choices[group] = partial->choice;
      partial = &stages[group][partial->before];
    }
    front.push_back(std::move(selection));
  }
  return front;
}

} // namespace tenon::quant
