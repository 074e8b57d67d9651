#include "registry/Rule.h"

#include "support/text/NearestName.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

namespace tenon::registry {
namespace {

struct Metric {
  std::string_view name;
  MetricFamily family;
  bool isHigherBetter;
};

constexpr Metric kMetrics[] = {
    {"top1", MetricFamily::Share, true},
    {"top5", MetricFamily::Share, true},
    {"f1", MetricFamily::Share, true},
    {"perplexity", MetricFamily::Number, false},
    {"mse", MetricFamily::Number, false},
    {"mae", MetricFamily::Number, false},
    {"p50", MetricFamily::Speed, false},
    {"p99", MetricFamily::Speed, false},
    {"throughput", MetricFamily::Speed, true},
    {"memory", MetricFamily::Bytes, false},
    {"size", MetricFamily::Bytes, false},
    {"outputs", MetricFamily::Outputs, false},
    {"interface", MetricFamily::Interface, true},
    {"loads", MetricFamily::Loads, true},
};

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kByteUnits[] = {{"B", 1},
                               {"KiB", 1024},
                               {"MiB", 1024.0 * 1024},
                               {"GiB", 1024.0 * 1024 * 1024},
                               {"KB", 1000},
                               {"MB", 1000.0 * 1000},
                               {"GB", 1e9}};
constexpr Unit kTimeUnits[] = {{"ms", 1}, {"us", 0.001}, {"s", 1000}};
constexpr std::string_view kChampion = "champion", kParent = "parent";

Status badRule(std::string_view text, std::string_view why, std::string_view hint) {
  return Status::error(ErrorId::BadGateRule,
                       fmt::format("rule '{}': {}", withoutControls(text.substr(0, 200)), why),
                       hint);
}

std::vector<std::string> wordsOf(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

/// "0.5%": the number and the unit behind it; none where it is not a finite number.
std::optional<std::pair<double, std::string>> parseAmount(const std::string &word) {
  // strtod takes hexadecimal numbers, infinity and nan too.
  size_t digits = word.find_first_not_of("0123456789.eE+-");
  std::string number = word.substr(0, digits);
  if (number.empty() || number.find_first_of("0123456789") == number.npos) {
    return std::nullopt;
  }
  if (digits == word.npos || word[digits] == '%' ||
      std::isalpha(static_cast<unsigned char>(word[digits]))) {
    char *end = nullptr;
    double value = std::strtod(number.c_str(), &end);
    if (*end == '\0' && std::isfinite(value) && value >= 0) {
      return std::pair(value, digits == word.npos ? "" : word.substr(digits));
    }
  }
  return std::nullopt;
}

template <size_t N> std::optional<double> factorOf(const Unit (&units)[N], std::string_view name) {
  const Unit *unit = std::find_if(std::begin(units), std::end(units),
                                  [&](const Unit &each) { return each.name == name; });
  return unit == std::end(units) ? std::nullopt : std::optional(unit->factor);
}

/// What the unit makes of a value of the metric itself; none where the metric has no such unit.
std::optional<double> factorOfValue(const Metric &metric, const std::string &unit) {
  if (unit.empty()) {
    return 1;
  }
  if (unit == "%" &&
      (metric.family == MetricFamily::Share || metric.family == MetricFamily::Outputs)) {
    return 0.01;
  }
  if (metric.family == MetricFamily::Bytes) {
    return factorOf(kByteUnits, unit);
  }
  bool isTime = metric.family == MetricFamily::Speed && !metric.isHigherBetter;
  return isTime ? factorOf(kTimeUnits, unit) : std::nullopt;
}

/// Fills the limit from the words behind the comparison.
Status parseLimit(const Metric &metric, const std::vector<std::string> &words,
                  std::string_view text, Rule &rule) {
  constexpr const char *kForms =
      "for example 'top1 >= 85%', 'p99 <= 5ms', 'p50 <= champion + 10%', 'top1 >= champion - 0.5%'";
  bool isRelative = words[2] == kChampion || words[2] == kParent;
  if (words.size() != 3 &&
      !(isRelative && words.size() == 5 && (words[3] == "+" || words[3] == "-"))) {
    return badRule(text, "the text after the comparison is not a limit", kForms);
  }
  if (metric.family == MetricFamily::Interface) {
    rule.baseline = Baseline::Champion;
    return words.size() == 3 && words[2] == kChampion
               ? Status::ok()
               : badRule(text, "an interface rule can only be compared with the champion's by >=",
                         "use interface >= champion");
  }
  if (isRelative && metric.family == MetricFamily::Outputs) {
    return badRule(text, "'outputs' already measures the distance to the champion",
                   "for example 'outputs <= 1e-3'");
  }
  bool isOfSamples = metric.family == MetricFamily::Share || metric.family == MetricFamily::Number;
  if (words[2] == kParent && !isOfSamples) {
    return badRule(text, "only metrics measured on samples can be compared with the parent",
                   "for example 'top1 >= parent - 1%'");
  }
  rule.baseline = words[2] == kParent                                    ? Baseline::Parent
                  : isRelative || metric.family == MetricFamily::Outputs ? Baseline::Champion
                                                                         : Baseline::None;
  bool hasAmount = !isRelative || words.size() == 5;
  std::optional<std::pair<double, std::string>> amount =
      hasAmount ? parseAmount(words.back()) : std::pair(0.0, std::string());
  if (!amount) {
    return badRule(text, fmt::format("'{}' is not a limit", withoutControls(words.back())), kForms);
  }
  auto &[number, unit] = *amount;
  if (!isRelative) {
    std::optional<double> factor = factorOfValue(metric, unit);
    if (!factor) {
      return badRule(text,
                     fmt::format("'{}' is not a unit of {}", withoutControls(unit), metric.name),
                     kForms);
    }
    rule.limit = number * *factor;
    bool isShare = metric.family == MetricFamily::Share;
    return isShare && rule.limit > 1
               ? badRule(text, fmt::format("{} cannot exceed 100%", metric.name), kForms)
               : Status::ok();
  }
  double change = hasAmount && words[3] == "-" ? -number : number;
  bool isPercent = unit == "%";
  if (isOfSamples) {
    if (!unit.empty() && !(isPercent && metric.family == MetricFamily::Share)) {
      return badRule(text,
                     fmt::format("'{}' is not a unit of a difference in {}", withoutControls(unit),
                                 metric.name),
                     kForms);
    }
    rule.kind = LimitKind::Difference;
    rule.limit = isPercent ? change / 100 : change;
    return Status::ok();
  }
  if (hasAmount && !isPercent) {
    return badRule(text, fmt::format("{} is compared with the champion's in percent", metric.name),
                   "for example 'p50 <= champion + 10%'");
  }
  rule.kind = LimitKind::Ratio;
  rule.limit = 1 + change / 100;
  return rule.limit > 0 ? Status::ok() : badRule(text, "the limit is below 0", kForms);
}

std::string amountText(const Rule &rule, double value) {
  if (rule.kind == LimitKind::Ratio) {
    return fmt::format("{:.4g} x", value);
  }
  switch (rule.family) {
  case MetricFamily::Share:
    return rule.kind == LimitKind::Difference ? fmt::format("{:+.2f} points", value * 100)
                                              : fmt::format("{:.2f} %", value * 100);
  case MetricFamily::Bytes:
    return fmt::format("{:.0f} bytes", value);
  case MetricFamily::Speed:
    return rule.metric == "throughput" ? fmt::format("{:.4g} runs/s", value)
                                       : fmt::format("{:.4g} ms", value);
  case MetricFamily::Number:
  case MetricFamily::Outputs:
  case MetricFamily::Interface:
  case MetricFamily::Loads:
    break;
  }
  return rule.kind == LimitKind::Difference ? fmt::format("{:+.4g}", value)
                                            : fmt::format("{:.4g}", value);
}

std::string describe(const Rule &rule, const Measured &measured) {
  if (rule.family == MetricFamily::Interface) {
    return measured.what.empty() ? "it takes and gives what the champion does" : measured.what;
  }
  if (rule.family == MetricFamily::Loads) {
    return measured.what;
  }
  std::string_view other = rule.baseline == Baseline::Parent ? kParent : kChampion;
  std::string subject =
      rule.kind == LimitKind::Ratio
          ? fmt::format("{} is {} the {}'s", rule.metric, amountText(rule, measured.value), other)
      : rule.kind == LimitKind::Difference
          ? fmt::format("{} differs by {} from the {}'s", rule.metric,
                        amountText(rule, measured.value), other)
          : fmt::format("{} is {}", rule.metric, amountText(rule, measured.value));
  std::string interval =
      measured.low == measured.high
          ? ""
          : fmt::format(" (95 % between {} and {})", amountText(rule, measured.low),
                        amountText(rule, measured.high));
  return fmt::format("{}{}, the limit is {}", subject, interval, amountText(rule, rule.limit));
}

} // namespace

const char *nameOf(GateOutcome outcome) {
  return outcome == GateOutcome::Passed    ? "passed"
         : outcome == GateOutcome::Refused ? "refused"
                                           : "undecided";
}

namespace {

/// A rule in any direction.
Result<Rule> parseComparison(std::string_view text) {
  constexpr size_t kMaxText = 200;
  std::vector<std::string> words = wordsOf(text);
  if (words == std::vector<std::string>{"loads"}) {
    Rule rule;
    rule.metric = rule.text = words[0];
    rule.family = MetricFamily::Loads;
    rule.isAtLeast = true;
    rule.limit = 1;
    return rule;
  }
  if (text.size() > kMaxText || words.size() < 3 || (words[1] != ">=" && words[1] != "<=")) {
    return badRule(
        text, "it is not METRIC >= LIMIT or METRIC <= LIMIT, with spaces around the comparison",
        "for example 'top1 >= 85%'");
  }
  const Metric *metric = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                      [&](const Metric &each) { return each.name == words[0]; });
  if (metric == std::end(kMetrics)) {
    std::vector<std::string> names;
    for (const Metric &each : kMetrics) {
      names.emplace_back(each.name);
    }
    return badRule(text, fmt::format("there is no metric '{}'", withoutControls(words[0])),
                   didYouMean(words[0], names, "docs/guides/registry.md lists the metrics"));
  }
  if (metric->family == MetricFamily::Loads) {
    return badRule(text, "an engine loads or it does not", "write the word alone: 'loads'");
  }
  Rule rule;
  rule.metric = words[0];
  rule.family = metric->family;
  rule.isAtLeast = words[1] == ">=";
  rule.isReversed = rule.isAtLeast != metric->isHigherBetter;
  TENON_TRY(parseLimit(*metric, words, text, rule));
  for (const std::string &word : words) {
    rule.text += (rule.text.empty() ? "" : " ") + word;
  }
  return rule;
}

} // namespace

Result<Rule> parseRule(std::string_view text) {
  TENON_ASSIGN(Rule rule, parseComparison(text));
  if (rule.isReversed) {
    bool isHigherBetter = !rule.isAtLeast;
    return badRule(
        text,
        fmt::format("for {}, better means {}", rule.metric, isHigherBetter ? "higher" : "lower"),
        fmt::format("write {} {} LIMIT", rule.metric, isHigherBetter ? ">=" : "<="));
  }
  return rule;
}

Result<Rule> parseBound(std::string_view text) {
  std::string spaced(text);
  size_t at = std::min(spaced.find(">="), spaced.find("<="));
  if (at != spaced.npos) {
    spaced.insert(at + 2, " ").insert(at, " ");
  }
  TENON_ASSIGN(Rule bound, parseComparison(spaced));
  return bound.baseline == Baseline::None && bound.kind == LimitKind::Value
             ? Result<Rule>(std::move(bound))
             : badRule(text, "a search compares with values, not with another version",
                       "for example 'top1 >= 85%'");
}

RuleResult decide(const Rule &rule, const std::optional<Measured> &measured) {
  RuleResult result = {rule, measured, GateOutcome::Passed, ""};
  if (!measured) {
    bool isOfParent = rule.baseline == Baseline::Parent;
    result.outcome = isOfParent ? GateOutcome::Refused : GateOutcome::Passed;
    result.reason = isOfParent ? "the version has no parent: push it with --parent"
                               : "there is no champion to compare with";
    return result;
  }
  if (!std::isfinite(measured->value)) {
    result.outcome = GateOutcome::Refused;
    result.reason = measured->what.empty() ? fmt::format("{} is not a finite number", rule.metric)
                                           : measured->what;
    return result;
  }
  result.reason = describe(rule, *measured);
  if (rule.family == MetricFamily::Interface || rule.family == MetricFamily::Loads) {
    result.outcome = measured->value == rule.limit ? GateOutcome::Passed : GateOutcome::Refused;
    return result;
  }
  // An end that is not a number is on no side.
  bool isLowRight = rule.isAtLeast ? measured->low >= rule.limit : measured->low <= rule.limit;
  bool isHighRight = rule.isAtLeast ? measured->high >= rule.limit : measured->high <= rule.limit;
  bool hasEnds = !std::isnan(measured->low) && !std::isnan(measured->high);
  result.outcome = !hasEnds || isLowRight != isHighRight ? GateOutcome::Undecided
                   : isLowRight                          ? GateOutcome::Passed
                                                         : GateOutcome::Refused;
  return result;
}

GateOutcome outcomeOf(std::span<const RuleResult> results) {
  auto has = [&](GateOutcome outcome) {
    return std::ranges::any_of(results,
                               [&](const RuleResult &each) { return each.outcome == outcome; });
  };
  return has(GateOutcome::Refused)     ? GateOutcome::Refused
         : has(GateOutcome::Undecided) ? GateOutcome::Undecided
                                       : GateOutcome::Passed;
}

} // namespace tenon::registry
