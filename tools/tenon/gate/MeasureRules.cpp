// Relies on null for what is no finite number in the results of accuracy.

#include "tools/tenon/gate/MeasureRules.h"

#include "tools/tenon/accuracy/CompareModels.h"
#include "tools/tenon/accuracy/MeasureAccuracy.h"
#include "tools/tenon/bench/MeasureBench.h"
#include "tools/tenon/gate/CompareInterfaces.h"
#include "tools/tenon/gate/LoadOnce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

namespace tenon::tool {
namespace {

using registry::Baseline;
using registry::LimitKind;
using registry::Measured;
using registry::MetricFamily;
using registry::Rule;

double finiteOrNan(double value) { return std::isfinite(value) ? value : std::nan(""); }

double numberOf(const Json &value) {
  return value.is_number() ? finiteOrNan(value.get<double>()) : std::nan("");
}

Measured exact(double value, std::string what = "") {
  return {value, value, value, std::move(what)};
}

/// {"value": ..., "interval_95": [low, high]}; a value without an interval is as exact as one can
/// say.
Measured measuredOf(const Json &row) {
  double value = numberOf(row.value("value", Json()));
  Json interval = row.value("interval_95", Json());
  return interval.is_array() ? Measured{value, numberOf(interval[0]), numberOf(interval[1]), ""}
                             : exact(value);
}

class Measurement {
public:
  Measurement(std::span<const Rule> rules, const GateSubjects &subjects, TaskListener &listener)
      : rules(rules), subjects(subjects), listener(listener) {}

  Status run();
  std::optional<Measured> of(const Rule &rule) const;

private:
  bool needs(MetricFamily family) const {
    return std::ranges::any_of(rules, [&](const Rule &rule) { return rule.family == family; });
  }
  bool needs(Baseline baseline) const {
    return std::ranges::any_of(rules, [&](const Rule &rule) { return rule.baseline == baseline; });
  }
  bool needsMemory() const {
    return std::ranges::any_of(rules, [](const Rule &rule) { return rule.metric == "memory"; });
  }
  bool hasChampion() const { return !subjects.champion.empty(); }
  Result<Json> runAccuracy(const std::string &beside);
  Status runCompare();
  Status runBench();
  Measured ofScore(const Rule &rule) const;
  Measured ofSpeed(const Rule &rule) const;
  Measured ofBytes(const Rule &rule) const;

  std::span<const Rule> rules;
  const GateSubjects &subjects;
  TaskListener &listener;
  TaskListener silent; ///< of what is measured: the gate tells how far it is
  Json accuracy, besideParent, bench;
  std::optional<Measured> loaded;
  debug::LayerReport outputs;
  std::vector<std::string> interfaces;
};

/// The other one first, where there is one, so that differences are the candidate's.
Result<Json> Measurement::runAccuracy(const std::string &beside) {
  AccuracyRequest request;
  if (!beside.empty()) {
    request.models.push_back(beside);
  }
  request.models.push_back(subjects.candidate);
  request.data = subjects.data;
  request.budget.seconds = 0.1; // its own times are not used: `bench` has intervals
  for (const Rule &rule : rules) {
    bool isScore = rule.family == MetricFamily::Share || rule.family == MetricFamily::Number;
    if (isScore && std::ranges::find(request.metrics, rule.metric) == request.metrics.end()) {
      request.metrics.push_back(rule.metric);
    }
  }
  Result<Json> measured = measureAccuracy(request, silent);
  if (!measured.isOk()) {
    return measured.takeStatus().prefix("accuracy");
  }
  return measured;
}

Status Measurement::runCompare() {
  CompareModelsRequest request;
  request.a = subjects.candidate;
  request.b = subjects.champion;
  Result<debug::LayerReport> compared = compareModels(request, silent);
  TENON_TRY(compared.takeStatus().prefix("compare"));
  outputs = std::move(*compared);
  return Status::ok();
}

Status Measurement::runBench() {
  BenchRequest request;
  request.open.path = hasChampion() ? subjects.champion : subjects.candidate;
  request.other = hasChampion() ? subjects.candidate : "";
  request.budget.seconds = subjects.seconds;
  request.details.intervals = true;
  Result<Json> measured = measureBench(request, silent);
  TENON_TRY(measured.takeStatus().prefix("bench"));
  bench = std::move(*measured);
  return Status::ok();
}

Status Measurement::run() {
  if (needs(MetricFamily::Loads)) {
    listener.progress("gate: load", 0);
    loaded = loadOnce(subjects.candidate, subjects.data);
    if (loaded->value == 0) {
      listener.clearProgress();
      return Status::ok(); // refused, and nothing else can be measured of it
    }
  }
  if (needs(MetricFamily::Share) || needs(MetricFamily::Number) || needsMemory()) {
    listener.progress("gate: accuracy", 0);
    TENON_ASSIGN(accuracy, runAccuracy(subjects.champion));
  }
  if (needs(Baseline::Parent) && !subjects.parent.empty()) {
    TENON_ASSIGN(besideParent, runAccuracy(subjects.parent));
  }
  if (needs(MetricFamily::Interface) && hasChampion()) {
    TENON_ASSIGN(interfaces, compareInterfaces(subjects.champion, subjects.candidate));
  }
  if (needs(MetricFamily::Outputs) && hasChampion()) {
    listener.progress("gate: outputs", 0.4);
    TENON_TRY(runCompare());
  }
  if (needs(MetricFamily::Speed)) {
    listener.progress("gate: speed", 0.5);
    TENON_TRY(runBench());
  }
  listener.clearProgress();
  return Status::ok();
}

Measured Measurement::ofScore(const Rule &rule) const {
  const Json &figures = rule.baseline == Baseline::Parent ? besideParent : accuracy;
  for (const Json &metric : figures["metrics"]) {
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
  if (rule.family == MetricFamily::Loads) {
    return loaded;
  }
  bool hasBaseline = rule.baseline == Baseline::Champion ? hasChampion()
                     : rule.baseline == Baseline::Parent ? !subjects.parent.empty()
                                                         : true;
  if (!hasBaseline) {
    return std::nullopt;
  }
  if (loaded && loaded->value == 0) {
    return exact(std::nan(""), "the engine does not load");
  }
  switch (rule.family) {
  case MetricFamily::Share:
  case MetricFamily::Number:
    return ofScore(rule);
  case MetricFamily::Speed:
    return ofSpeed(rule);
  case MetricFamily::Bytes:
    return ofBytes(rule);
  case MetricFamily::Interface:
    return exact(static_cast<double>(interfaces.size()),
                 fmt::format("{}", fmt::join(interfaces, "; ")));
  case MetricFamily::Outputs:
  case MetricFamily::Loads:
    break;
  }
  double worst = 0;
  for (const debug::LayerError &layer : outputs.layers) {
    double largest = finiteOrNan(layer.largest), apart = finiteOrNan(layer.absolute);
    double share = !layer.mismatch.empty() ? std::nan("") : apart == 0 ? 0 : apart / largest;
    worst = std::isnan(share) || std::isnan(worst) ? std::nan("") : std::max(worst, share);
  }
  return exact(worst);
}

} // namespace

Result<std::vector<registry::RuleResult>>
measureRules(std::span<const Rule> rules, const GateSubjects &subjects, TaskListener &listener) {
  Measurement measurement(rules, subjects, listener);
  TENON_TRY(measurement.run());
  std::vector<registry::RuleResult> results;
  for (const Rule &rule : rules) {
    results.push_back(registry::decide(rule, measurement.of(rule)));
  }
  return results;
}

} // namespace tenon::tool
