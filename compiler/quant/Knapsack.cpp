// One group after the other: each selection so far with each choice, sorted, and the beaten
// dropped.
#include "compiler/quant/Knapsack.h"

#include <algorithm>
#include <array>
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

std::vector<Selection> findFront(std::span<const std::vector<Choice>> groups, double changeTime,
                                 size_t mostSelections) {
  std::vector<std::vector<Partial>> stages = {{Partial{}}};
  for (const std::vector<Choice> &choices : groups) {
    // What the next group adds depends on whether this one is the widest: where that counts, one is
    // not beaten by the other.
    std::array<std::vector<Partial>, 2> next;
    const std::vector<Partial> &before = stages.back();
    for (size_t i = 0; i < before.size(); ++i) {
      for (size_t choice = 0; choice < choices.size(); ++choice) {
        bool isChange = (choice != 0) != (before[i].choice != 0);
        next[changeTime > 0 && choice != 0].push_back(
            {before[i].error + choices[choice].error,
             before[i].time + choices[choice].time + (isChange ? changeTime : 0),
             static_cast<uint32_t>(i), static_cast<uint8_t>(choice)});
      }
    }
    for (std::vector<Partial> &part : next) {
      dropBeaten(part);
      thinOut(part, std::max<size_t>(mostSelections, 2));
    }
    next[0].insert(next[0].end(), next[1].begin(), next[1].end());
    stages.push_back(std::move(next[0]));
  }
  for (Partial &last : stages.back()) {
    last.time += last.choice != 0 ? changeTime : 0;
  }
  dropBeaten(stages.back());
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
