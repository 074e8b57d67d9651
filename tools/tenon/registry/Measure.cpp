#include "tools/tenon/registry/Measure.h"

#include "tools/tenon/Tool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

namespace tenon::tool {
namespace {

using registry::LimitKind;
using registry::Measured;
using registry::MetricFamily;
using registry::Rule;

/// Null, as JSON has numbers that are none, becomes one again.
double numberOf(const Json &value) {
  return value.is_number() ? value.get<double>() : std::nan("");
}

Measured exact(double value) { return {value, value, value}; }

/// {"value": ..., "interval_95": [low, high]}; a value without an interval is as exact as one can
/// say.
Measured measuredOf(const Json &row) {
  double value = numberOf(row.value("value", Json()));
  Json interval = row.value("interval_95", Json());
  return interval.is_array() ? Measured{value, numberOf(interval[0]), numberOf(interval[1])}
                             : exact(value);
}

/// What a verb prints with --json.
Result<Json> resultOf(std::vector<std::string> arguments, bool mayFail) {
  Listener heard;
  Terminal inner(true, heard);
  std::string verb = arguments.front();
  TENON_TRY(runVerb(std::move(arguments), inner).prefix(verb));
  TENON_TRY(inner.finish());
  Json result = parseJson(heard.results);
  bool isGood = result.is_object() && (mayFail || inner.verdict() == Code::Ok);
  return isGood ? Result<Json>(std::move(result))
                : Status::error(ErrorId::InternalError, fmt::format("{} gave no result", verb),
                                "please report it with the command line");
}

class Measurement {
public:
  Measurement(std::span<const Rule> rules, const GateSubjects &subjects, Terminal &terminal)
      : rules(rules), subjects(subjects), terminal(terminal) {}

  Status run();
  std::optional<Measured> of(const Rule &rule) const;

private:
  bool needs(MetricFamily family) const {
    return std::ranges::any_of(rules, [&](const Rule &rule) { return rule.family == family; });
  }
  bool needsMemory() const {
    return std::ranges::any_of(rules, [](const Rule &rule) { return rule.metric == "memory"; });
  }
  bool hasChampion() const { return !subjects.champion.empty(); }
  Status runAccuracy();
  Status runBench();
  Measured ofScore(const Rule &rule) const;
  Measured ofSpeed(const Rule &rule) const;
  Measured ofBytes(const Rule &rule) const;

  std::span<const Rule> rules;
  const GateSubjects &subjects;
  Terminal &terminal;
  Json accuracy, bench, outputs;
};

/// The champion first, so that differences are the candidate's.
Status Measurement::runAccuracy() {
  if (subjects.data.empty()) {
    return Status::error(
        ErrorId::BadGateRule,
        "the rules ask for accuracy or memory, which are measured on data, and none is given",
        "--data FILE, or --data registry:NAME:VERSION");
  }
  std::vector<std::string> arguments = {"accuracy"};
  if (hasChampion()) {
    arguments.push_back(subjects.champion);
  }
  for (const std::string &word : {subjects.candidate, std::string("--data"), subjects.data,
                                  std::string("--seconds"), std::string("0.1")}) {
    arguments.push_back(word); // its own times are not used: `bench` has intervals
  }
  std::vector<std::string> asked;
  for (const Rule &rule : rules) {
    bool isScore = rule.family == MetricFamily::Share || rule.family == MetricFamily::Number;
    if (isScore && std::ranges::find(asked, rule.metric) == asked.end()) {
      asked.push_back(rule.metric);
      arguments.insert(arguments.end(), {"--metric", rule.metric});
    }
  }
  if (asked.empty()) {
    arguments.insert(arguments.end(), {"--metric", "top1"}); // for the memory alone, any
  }
  TENON_ASSIGN(accuracy, resultOf(std::move(arguments), false));
  return Status::ok();
}

Status Measurement::runBench() {
  std::vector<std::string> arguments = {"bench",
                                        hasChampion() ? subjects.champion : subjects.candidate,
                                        "--seconds", subjects.seconds, "--intervals"};
  if (hasChampion()) {
    arguments.insert(arguments.end(), {"--ab", subjects.candidate});
  }
  TENON_ASSIGN(bench, resultOf(std::move(arguments), false));
  return Status::ok();
}

Status Measurement::run() {
  if (needs(MetricFamily::Share) || needs(MetricFamily::Number) || needsMemory()) {
    terminal.progress("gate: accuracy", 0);
    TENON_TRY(runAccuracy());
  }
  if (needs(MetricFamily::Outputs) && hasChampion()) {
    terminal.progress("gate: outputs", 0.4);
    TENON_ASSIGN(outputs, resultOf({"compare", subjects.candidate, subjects.champion}, true));
  }
  if (needs(MetricFamily::Speed)) {
    terminal.progress("gate: speed", 0.5);
    TENON_TRY(runBench());
  }
  terminal.clearProgress();
  return Status::ok();
}

Measured Measurement::ofScore(const Rule &rule) const {
  for (const Json &metric : accuracy["metrics"]) {
    if (metric["metric"] == rule.metric) {
      const Json &row = metric["models"].back();
      Measured found = measuredOf(rule.kind == LimitKind::Difference ? row["difference"] : row);
      // A candidate without a finite value has a difference that is none, too.
      found.value = std::isfinite(numberOf(row["value"])) ? found.value : std::nan("");
      return found;
    }
  }
  return exact(std::nan(""));
}

Measured Measurement::ofSpeed(const Rule &rule) const {
  if (rule.kind == LimitKind::Ratio) {
    const char *name = rule.metric == "p50"   ? "median"
                       : rule.metric == "p99" ? "p99"
                                              : "throughput";
    return measuredOf(bench["ab"]["ratios"][name]);
  }
  const Json &intervals = hasChampion() ? bench["ab"]["other"]["intervals"] : bench["intervals"];
  const char *name = rule.metric == "p50"   ? "median_ms"
                     : rule.metric == "p99" ? "p99_ms"
                                            : "throughput_per_s";
  return measuredOf(intervals[name]);
}

Measured Measurement::ofBytes(const Rule &rule) const {
  auto bytesOf = [&](size_t index, const std::string &path) {
    std::error_code error;
    return rule.metric == "memory" ? numberOf(accuracy["models"][index]["peak_memory_bytes"])
                                   : static_cast<double>(std::filesystem::file_size(path, error));
  };
  double own = bytesOf(hasChampion() ? 1 : 0, subjects.candidate);
  return exact(rule.kind == LimitKind::Ratio ? own / bytesOf(0, subjects.champion) : own);
}

std::optional<Measured> Measurement::of(const Rule &rule) const {
  if (rule.isRelative() && !hasChampion()) {
    return std::nullopt;
  }
  switch (rule.family) {
  case MetricFamily::Share:
  case MetricFamily::Number:
    return ofScore(rule);
  case MetricFamily::Speed:
    return ofSpeed(rule);
  case MetricFamily::Bytes:
    return ofBytes(rule);
  case MetricFamily::Outputs:
    break;
  }
  double worst = 0;
  for (const Json &layer : outputs["layers"]) {
    double largest = numberOf(layer["largest"]), apart = numberOf(layer["max_abs"]);
    double share = layer["mismatch"] != "" ? std::nan("") : apart == 0 ? 0 : apart / largest;
    worst = std::isnan(share) || std::isnan(worst) ? std::nan("") : std::max(worst, share);
  }
  return exact(worst);
}

} // namespace

Result<std::vector<registry::RuleResult>>
measureRules(std::span<const Rule> rules, const GateSubjects &subjects, Terminal &terminal) {
  Measurement measurement(rules, subjects, terminal);
  TENON_TRY(measurement.run());
  std::vector<registry::RuleResult> results;
  for (const Rule &rule : rules) {
    results.push_back(registry::decide(rule, measurement.of(rule)));
  }
  return results;
}

} // namespace tenon::tool
