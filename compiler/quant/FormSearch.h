// The order in which whole forms of a model are measured, to find the best one within limits: the
// front of the knapsack by bisection, then one or two changes to the best; and the same again with
// what conversions cost, which by then is known. What is predicted of parts
// leads, what is measured of wholes decides: conversions between neighbours and errors that do not
// add up are in the latter only.
#pragma once

#include "compiler/quant/Knapsack.h"
#include "support/Result.h"

#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace tenon::quant {

/// The choice of each group.
using Form = std::vector<uint8_t>;

/// What was measured of a whole form.
struct FormCost {
  double drop = 0; ///< of accuracy
  double time = 0;
};

/// What was asked for, at least one of both.
struct Limits {
  std::optional<double> drop, time;
};

class FormSearch {
public:
  /// Measures a form that was not measured before.
  using Measure = std::function<Result<FormCost>(const Form &form)>;

  /// The first choice of each group is the widest, with time and error 0. `widestTime` is that of
  /// the whole form of these; times within kCloseness of it are equal.
  FormSearch(std::vector<std::vector<Choice>> groups, Limits limits, double widestTime,
             Measure measure, std::function<bool()> hasTime)
      : groups(std::move(groups)), limits(limits), widestTime(widestTime),
        measure(std::move(measure)), hasTime(std::move(hasTime)) {}

  /// Known before.
  void add(const Form &form, FormCost cost) { costs[form] = cost; }
  /// Ends early when there is no time left; one form is measured at least. `guess` is one more form
  /// to begin with.
  Status run(const Form &guess);

  /// All that were measured, the best first.
  std::vector<Form> ranked() const;
  /// The best that keeps the limits; of forms that take as long the one with the highest choices,
  /// whose file is the smallest, if a drop was asked for. None where none keeps them.
  std::optional<Form> best() const;
  bool fits(const FormCost &cost) const { return keepsDrop(cost) && keepsTime(cost); }

  static constexpr double kCloseness = 0.01;
  /// So many changes for each group are tried in vain before the best form stays that.
  static constexpr size_t kTrials = 2;

private:
  /// Less is better: with a drop to keep how far it is beyond that, and the time; else how far the
  /// time is beyond what was asked for, the drop, and the error behind it.
  using Rank = std::tuple<double, double, double>;
  Rank rankOf(const Form &form) const;
  Status visit(const Form &form);
  Status bisect(const std::vector<Selection> &front);
  Status climb();
  std::vector<Form> neighbours(const Form &form) const;
  Choice predicted(const Form &form) const;
  /// What conversions cost, by the forms that were measured: where wide meets narrow along the
  /// order of the groups, which is that of the model. 0 where times do not show it.
  double secondsOfChange() const;
  bool keepsDrop(const FormCost &cost) const { return !limits.drop || cost.drop <= *limits.drop; }
  bool keepsTime(const FormCost &cost) const { return !limits.time || cost.time <= *limits.time; }

  std::vector<std::vector<Choice>> groups;
  Limits limits;
  double widestTime;
  Measure measure;
  std::function<bool()> hasTime;
  std::map<Form, FormCost> costs;
};

} // namespace tenon::quant
