// Rules of a gate and how measurements decide them: METRIC >= LIMIT or METRIC <= LIMIT, where a
// limit is a number, or the champion's or the parent's value with a change; and `loads`. Pure
// functions; whoever gates brings the measurements.

#pragma once

#include "support/Result.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::registry {

enum class MetricFamily {
  Share,     ///< 0 to 1, of samples: top1, top5, f1
  Number,    ///< of samples, without a unit: perplexity, mse, mae
  Speed,     ///< p50 and p99 in milliseconds, throughput in runs a second
  Bytes,     ///< memory, size
  Outputs,   ///< the largest difference from the champion's outputs, as a share of their largest
             ///< value
  Interface, ///< ports of the champion that the version has not, or has narrower
  Loads,     ///< 1 where the engine was loaded and run once on the machine, else 0
};

enum class GateOutcome { Passed, Refused, Undecided };
const char *nameOf(GateOutcome outcome);

/// How a limit is stated, and so what is measured.
enum class LimitKind {
  Value,      ///< of the metric itself
  Difference, ///< of the candidate's value minus the other version's
  Ratio,      ///< of the candidate's value to the other version's
};

/// The other version that a rule compares with.
enum class Baseline {
  None,
  Champion, ///< what the alias is at
  Parent,   ///< what the version was made from, as it was pushed
};

struct Rule {
  std::string metric;
  MetricFamily family = MetricFamily::Share;
  bool isAtLeast = false;  ///< >=, else <=
  bool isReversed = false; ///< a worse model keeps it: no rule of a gate
  LimitKind kind = LimitKind::Value;
  Baseline baseline = Baseline::None;
  double limit = 0;
  std::string text; ///< as it was given, with single spaces
};

/// TN1009 for an unknown metric, a limit that is no finite number, or a direction that makes a
/// worse model pass.
Result<Rule> parseRule(std::string_view text);
/// METRIC >= NUMBER or METRIC <= NUMBER, of what `search` looks for: in both directions, and the
/// spaces may be left out. TN1009.
Result<Rule> parseBound(std::string_view text);

/// A value with its 95 % interval, of what the rule's LimitKind says; low and high are the value
/// where it has no noise.
struct Measured {
  double value = 0;
  double low = 0;
  double high = 0;
  std::string what = ""; ///< what it is of, where a number does not say it
};

/// A rule with what was measured; none where there is nothing to compare with.
struct RuleResult {
  Rule rule;
  std::optional<Measured> measured;
  GateOutcome outcome = GateOutcome::Undecided;
  std::string reason; ///< "top1 is 0.81 (95 % between 0.79 and 0.83), the limit 0.85"
};

/// Passed where all of the interval is on the limit's side, or where there is no champion; refused
/// where none is, where a number is not finite, or where there is no parent.
RuleResult decide(const Rule &rule, const std::optional<Measured> &measured);
/// Refused where one is, else undecided where one is.
GateOutcome outcomeOf(std::span<const RuleResult> results);

} // namespace tenon::registry
