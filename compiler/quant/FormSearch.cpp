// Both ends of the front first, then always the form half way in time; errors of forms stand far
// apart, times do not.
#include "compiler/quant/FormSearch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon::quant {

Choice FormSearch::predicted(const Form &form) const {
  Choice sum;
  for (size_t i = 0; i < form.size(); ++i) {
    sum.time += groups[i][form[i]].time;
    sum.error += groups[i][form[i]].error;
  }
  return sum;
}

namespace {

/// How often, along the order of the groups, wide meets narrow; before the first and behind the
/// last one all is wide.
double changesOf(const Form &form) {
  double changes = 0;
  bool wasNarrow = false;
  for (uint8_t choice : form) {
    changes += (choice != 0) != wasNarrow;
    wasNarrow = choice != 0;
  }
  return changes + wasNarrow;
}

} // namespace

double FormSearch::secondsOfChange() const {
  double together = 0, squares = 0;
  for (const auto &[form, cost] : costs) {
    double changes = changesOf(form);
    together += changes * (cost.time - widestTime - predicted(form).time);
    squares += changes * changes;
  }
  return squares > 0 ? std::max(together / squares, 0.0) : 0;
}

FormSearch::Rank FormSearch::rankOf(const Form &form) const {
  const FormCost &cost = costs.at(form);
  return limits.drop
             ? Rank(std::max(cost.drop - *limits.drop, 0.0), cost.time, 0)
             : Rank(std::max(cost.time / *limits.time - 1, 0.0), cost.drop, predicted(form).error);
}

std::vector<Form> FormSearch::ranked() const {
  std::vector<Form> forms;
  for (const auto &[form, cost] : costs) {
    forms.push_back(form);
  }
  std::sort(forms.begin(), forms.end(),
            [&](const Form &a, const Form &b) { return rankOf(a) < rankOf(b); });
  return forms;
}

std::optional<Form> FormSearch::best() const {
  std::optional<Form> first, chosen;
  auto depthOf = [](const Form &form) { return std::accumulate(form.begin(), form.end(), 0); };
  for (const Form &form : ranked()) {
    if (!fits(costs.at(form))) {
      continue;
    }
    first = first ? first : form;
    bool isEqual = limits.drop && costs.at(form).time <= (1 + kCloseness) * costs.at(*first).time;
    if (!chosen || (isEqual && depthOf(form) > depthOf(*chosen))) {
      chosen = form;
    }
  }
  return chosen;
}

Status FormSearch::visit(const Form &form) {
  if (!costs.contains(form)) {
    TENON_ASSIGN(costs[form], measure(form));
  }
  return Status::ok();
}

/// The last form of the front, from the most accurate on, that keeps the drop; or the first that
/// keeps the time.
Status FormSearch::bisect(const std::vector<Selection> &front) {
  size_t low = 0, high = front.size() - 1;
  TENON_TRY(visit(front[low].choices));
  if (hasTime()) {
    TENON_TRY(visit(front[high].choices));
  }
  while (high > low + 1 && hasTime() &&
         front[low].time - front[high].time > kCloseness / 2 * widestTime) {
    double half = (front[low].time + front[high].time) / 2;
    size_t middle = low + 1;
    while (middle + 1 < high && front[middle].time > half) {
      ++middle;
    }
    TENON_TRY(visit(front[middle].choices));
    const FormCost &cost = costs.at(front[middle].choices);
    bool isLow = limits.drop ? keepsDrop(cost) : !keepsTime(cost);
    (isLow ? low : high) = middle;
  }
  return Status::ok();
}

/// Forms with one or two choices changed that were not measured and may be better by what is
/// predicted, the most promising first. Two: where a layer alone has to convert on both sides, with
/// its neighbour it does not; and one can be narrow for another.
std::vector<Form> FormSearch::neighbours(const Form &form) const {
  bool wantsTime = limits.drop || !keepsTime(costs.at(form));
  double ofChange = secondsOfChange();
  auto predict = [&](const Form &of) {
    Choice sum = predicted(of);
    sum.time += ofChange * changesOf(of);
    return sum;
  };
  Choice own = predict(form);
  double slack = kCloseness * widestTime; // times can be off by as much as they were so far
  for (const auto &[other, cost] : costs) {
    slack = std::max(slack, std::abs(cost.time - widestTime - predict(other).time));
  }
  double dropOfError = own.error > 0 ? std::max(costs.at(form).drop, 0.0) / own.error : 0;
  std::vector<std::tuple<bool, double, Form>> found;
  auto consider = [&](const Form &other) {
    Choice changed = predict(other);
    double gain = changed.time - own.time, loss = changed.error - own.error;
    bool isPromising = wantsTime ? gain < slack : loss < 0;
    if (isPromising && !costs.contains(other)) {
      double drop = costs.at(form).drop + dropOfError * loss;
      bool isTooFar = wantsTime ? limits.drop && drop > *limits.drop
                                : costs.at(form).time + gain > *limits.time;
      found.emplace_back(isTooFar, wantsTime ? gain : loss, other);
    }
  };
  auto changeOne = [&](Form start, size_t first, auto next) {
    for (size_t i = first; i < start.size(); ++i) {
      uint8_t before = start[i];
      for (size_t choice = 0; choice < groups[i].size(); ++choice) {
        start[i] = static_cast<uint8_t>(choice);
        if (start[i] != before) {
          next(start, i);
        }
      }
      start[i] = before;
    }
  };
  changeOne(form, 0, [&](const Form &one, size_t place) {
    consider(one);
    changeOne(one, place + 1, [&](const Form &two, size_t) { consider(two); });
  });
  std::sort(found.begin(), found.end());
  std::vector<Form> forms;
  for (auto &[isTooFar, rank, other] : found) {
    forms.push_back(std::move(other));
  }
  return forms;
}

Status FormSearch::climb() {
  for (bool isBetter = true; isBetter && hasTime();) {
    isBetter = false;
    Form from = ranked().front();
    size_t left = kTrials * groups.size();
    for (const Form &form : neighbours(from)) {
      if (isBetter || left-- == 0 || !hasTime()) {
        break;
      }
      TENON_TRY(visit(form));
      isBetter = rankOf(form) < rankOf(from);
    }
  }
  return Status::ok();
}

Status FormSearch::run(const Form &guess) {
  TENON_TRY(bisect(findFront(groups)));
  if (hasTime()) {
    TENON_TRY(visit(guess));
  }
  TENON_TRY(climb());
  // What was measured by now tells what conversions cost, and with that the front is another one.
  if (double ofChange = secondsOfChange(); ofChange > 0 && hasTime()) {
    TENON_TRY(bisect(findFront(groups, ofChange)));
    TENON_TRY(climb());
  }
  return Status::ok();
}

} // namespace tenon::quant
