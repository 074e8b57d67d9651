// Relies on every engine giving outputs for the same samples. One pass over the data: the steps
// share what is open.

#include "tools/tenon/accuracy/MeasureAccuracy.h"

#include "support/text/NearestName.h"
#include "tools/tenon/accuracy/BatchRunner.h"
#include "tools/tenon/accuracy/Costs.h"
#include "tools/tenon/accuracy/Intervals.h"
#include "tools/tenon/accuracy/Metric.h"
#include "tools/tenon/accuracy/Report.h"
#include "tools/tenon/data/Dataset.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/inputs/Inputs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

namespace tenon::tool {
namespace {

/// A model that is measured, or only referred to.
struct Entry {
  std::string path;
  std::optional<EngineSource> source;
  std::shared_ptr<const runtime::Engine> engine;
  std::shared_ptr<const Dataset> data;
  std::optional<BatchRunner> runner;
  std::vector<size_t> outputs; ///< for each metric the number of the output that is scored
  std::vector<std::unique_ptr<Scorer>> scorers;
  uint64_t peakMemory = 0;
  double calibrationShare = 0;
};

class AccuracyMeasurement {
public:
  AccuracyMeasurement(const AccuracyRequest &accuracyRequest, TaskListener &taskListener)
      : request(accuracyRequest), listener(taskListener) {}

  Result<Json> run();

private:
  Status prepare();
  Status prepareReference();
  Result<Entry> open(const std::string &path, bool isMeasured);
  Status matchData(Entry &entry);
  Result<size_t> outputOf(const MetricSpec &spec, const Entry &entry) const;
  void warnOfData() const;
  Status warnOfCalibration(Entry &entry) const;
  Status score();
  Status scoreChunk(size_t first, size_t count);
  Result<Json> describeMetric(size_t metric);
  Result<std::vector<Json>> describeCosts();
  const Dataset &data() const { return *entries.front().data; }
  const Tensor *labels() const { return data().labels() ? &*data().labels() : nullptr; }

  const AccuracyRequest &request;
  TaskListener &listener;
  std::vector<MetricSpec> specs;
  std::vector<Entry> entries;
  Entry reference; ///< its runner is there where a metric needs it
};

/// The first output that the metric can be computed of.
Result<size_t> AccuracyMeasurement::outputOf(const MetricSpec &spec, const Entry &entry) const {
  const std::vector<engine::Port> &ports = entry.engine->plan().outputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < ports.size(); ++i) {
    names.push_back(ports[i].name);
    bool isAny = spec.kind == MetricKind::Command ||
                 (spec.isPercent() && spec.top == 1 && isNumeric(ports[i].dtype));
    bool isFit = isAny || isFloating(ports[i].dtype);
    if (request.output.empty() ? isFit : request.output == ports[i].name) {
      return isFit ? Result<size_t>(i)
                   : noMetric(
                         fmt::format("output '{}' of {} is {}; {} cannot be computed from that",
                                     ports[i].name, entry.path, nameOf(ports[i].dtype), spec.name),
                         "tenon inspect lists the outputs");
    }
  }
  if (request.output.empty()) {
    return noMetric(
        fmt::format("{} has no numeric output to compute {} from", entry.path, spec.name),
        "tenon inspect lists the outputs");
  }
  return Status::error(
      ErrorId::BadArgument,
      fmt::format("--output {}: {} has no such output", request.output, entry.path),
      didYouMean(request.output, names, "tenon inspect lists the outputs"));
}

/// Models of the same inputs share the data set.
Status AccuracyMeasurement::matchData(Entry &entry) {
  std::vector<WantedInput> wanted = wantedInputs(entry.engine->plan());
  for (const Entry &other : entries) {
    if (std::ranges::equal(other.data->inputs(), wanted)) {
      entry.data = other.data;
      return Status::ok();
    }
  }
  std::map<std::string, std::string> metadata = metadataOf(entry.engine->file());
  ModelHints hints = {metadata["preprocessing"], metadata["classes"]};
  TENON_ASSIGN(Dataset opened, Dataset::open(request.data, std::move(wanted), hints));
  entry.data = std::make_shared<const Dataset>(std::move(opened));
  return Status::ok();
}

Result<Entry> AccuracyMeasurement::open(const std::string &path, bool isMeasured) {
  Entry entry;
  entry.path = path;
  OpenRequest opened = request.open;
  opened.path = path;
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(opened, listener));
  entry.source.emplace(std::move(source));
  TENON_ASSIGN(entry.engine, entry.source->open());
  TENON_TRY(matchData(entry));
  for (const MetricSpec &spec : specs) {
    TENON_ASSIGN(size_t output, outputOf(spec, entry));
    entry.outputs.push_back(output);
    if (isMeasured) {
      const std::optional<Tensor> &labelTensor = entry.data->labels();
      TENON_ASSIGN(std::unique_ptr<Scorer> scorer,
                   makeScorer(spec, output, labelTensor ? &*labelTensor : nullptr));
      entry.scorers.push_back(std::move(scorer));
    }
  }
  if (isMeasured && !entry.engine->gpu()) {
    TENON_ASSIGN(entry.peakMemory,
                 memoryOfFirstRun(path, *entry.source, *entry.data, request.session));
  }
  return entry;
}

void AccuracyMeasurement::warnOfData() const {
  for (const std::string &note : data().warnings()) {
    listener.note(note);
  }
  bool areClasses =
      std::ranges::any_of(specs, [](const MetricSpec &spec) { return spec.isPercent(); });
  const Tensor *labelTensor = labels();
  if (!areClasses || !labelTensor || labelTensor->elements() < 2 ||
      !isNumeric(labelTensor->dtype)) {
    return;
  }
  double first = elementAsDouble(*labelTensor, 0);
  for (int64_t i = 1; i < labelTensor->elements(); ++i) {
    if (elementAsDouble(*labelTensor, i) != first) {
      return;
    }
  }
  listener.note(
      fmt::format("{}: every label is {:g}: a model that always answers this would seem perfect",
                  request.data, first));
}

/// Data that the ranges of a quantized model were chosen by say too much good of it.
Status AccuracyMeasurement::warnOfCalibration(Entry &entry) const {
  std::string fingerprint = metadataOf(entry.engine->file())[kCalibrationKey];
  TENON_ASSIGN(entry.calibrationShare, entry.data->shareOf(fingerprint));
  if (entry.calibrationShare > 0) {
    listener.note(fmt::format("{} was calibrated on data that contains {} of the samples of {}: "
                              "keep the test data separate",
                              entry.path,
                              entry.calibrationShare == 1
                                  ? "all"
                                  : fmt::format("about {:.0f} %", entry.calibrationShare * 100),
                              request.data));
  }
  return Status::ok();
}

/// The first model where none is named.
Status AccuracyMeasurement::prepareReference() {
  if (std::ranges::none_of(specs, &MetricSpec::needsReference)) {
    return Status::ok();
  }
  if (request.reference.empty() && entries.size() < 2) {
    return noMetric("cosine and relative need another model to compare with, but only one is given",
                    "name it with --reference, or give two models");
  }
  if (request.reference.empty()) {
    const Entry &first = entries.front();
    reference.engine = first.engine;
    reference.data = first.data;
    reference.outputs = first.outputs;
  } else {
    TENON_ASSIGN(reference, open(request.reference, false));
  }
  TENON_ASSIGN(BatchRunner runner, BatchRunner::create(reference.engine, *reference.data,
                                                       request.batch, request.session));
  reference.runner.emplace(std::move(runner));
  return Status::ok();
}

Status AccuracyMeasurement::prepare() {
  for (const std::string &metric :
       request.metrics.empty() ? std::vector<std::string>{"top1"} : request.metrics) {
    TENON_ASSIGN(MetricSpec spec, parseMetric(metric));
    specs.push_back(std::move(spec));
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(request.data, ignored)) {
    TENON_TRY(contentOf(request.data).status()); // a wrong path is said before models are compiled
  }
  for (const std::string &path : request.models) {
    TENON_ASSIGN(Entry entry, open(path, true));
    entries.push_back(std::move(entry));
  }
  warnOfData();
  TENON_TRY(prepareReference());
  for (Entry &entry : entries) {
    TENON_TRY(warnOfCalibration(entry));
    TENON_ASSIGN(BatchRunner runner,
                 BatchRunner::create(entry.engine, *entry.data, request.batch, request.session));
    entry.runner.emplace(std::move(runner));
  }
  const engine::Plan &plan = entries.front().engine->plan();
  if (plan.outputs.size() > 1 && request.output.empty() &&
      specs.front().kind != MetricKind::Command) {
    listener.note(fmt::format("of {} outputs, '{}' is scored; --output names another",
                              plan.outputs.size(),
                              plan.outputs[entries.front().outputs.front()].name));
  }
  return Status::ok();
}

Status AccuracyMeasurement::scoreChunk(size_t first, size_t count) {
  using Rows = std::vector<std::vector<Tensor>>;
  Rows right(count);
  if (reference.runner) {
    TENON_ASSIGN(right, reference.runner->outputsOf(first, count));
  }
  bool needsInputs = std::ranges::any_of(
      specs, [](const MetricSpec &spec) { return spec.kind == MetricKind::Perplexity; });
  for (Entry &entry : entries) {
    TENON_ASSIGN(Rows said, entry.runner->outputsOf(first, count));
    for (size_t i = 0; i < count; ++i) {
      std::vector<Tensor> inputs;
      if (needsInputs) {
        TENON_ASSIGN(inputs, entry.runner->inputsOf(first + i));
      }
      for (size_t metric = 0; metric < specs.size(); ++metric) {
        const Tensor *wanted = reference.runner ? &right[i][reference.outputs[metric]] : nullptr;
        Status added = entry.scorers[metric]->add({first + i, inputs, said[i], wanted});
        TENON_TRY(added.prefix(entry.path));
      }
    }
  }
  return Status::ok();
}

Status AccuracyMeasurement::score() {
  size_t samples = data().samples();
  for (size_t first = 0; first < samples; first += request.batch) {
    TENON_TRY(scoreChunk(first, std::min(request.batch, samples - first)));
    listener.progress("accuracy", static_cast<double>(first) / static_cast<double>(samples));
  }
  listener.clearProgress();
  for (Entry &entry : entries) {
    entry.runner.reset();
    size_t strange = entry.scorers.front()->notFinite();
    if (strange > 0) {
      listener.note(fmt::format("{}: outputs of {} of {} samples are not finite", entry.path,
                                strange, samples));
    }
  }
  reference.runner.reset();
  return Status::ok();
}

Json pairOf(const Interval &interval) {
  return {finiteOrNull(interval.low), finiteOrNull(interval.high)};
}

Result<Json> AccuracyMeasurement::describeMetric(size_t metric) {
  const MetricSpec &spec = specs[metric];
  std::optional<bool> better = spec.isHigherBetter();
  Json models = Json::array();
  double firstValue = 0;
  for (const Entry &entry : entries) {
    Scorer &scorer = *entry.scorers[metric];
    TENON_ASSIGN(double value, scorer.value());
    const Scores *scores = scorer.scores();
    Json row = {{"model", entry.path},
                {"value", finiteOrNull(value)},
                {"interval_95", scores ? pairOf(intervalOf(*scores)) : Json()},
                {"not_finite_samples", scorer.notFinite()}};
    if (models.empty()) {
      firstValue = value;
    } else {
      Json difference = {{"value", finiteOrNull(value - firstValue)},
                         {"interval_95", Json()},
                         {"differs", Json()}};
      if (scores) {
        Interval interval =
            intervalOfDifference(*entries.front().scorers[metric]->scores(), *scores);
        difference["interval_95"] = pairOf(interval);
        std::optional<bool> isOther = differ(firstValue, value, interval);
        difference["differs"] = isOther ? Json(*isOther) : Json();
      }
      row["difference"] = std::move(difference);
    }
    models.push_back(std::move(row));
  }
  return Json{
      {"metric", spec.name},
      {"unit", spec.isPercent() ? Json("share") : Json()},
      {"better", better ? Json(*better ? "higher" : "lower") : Json()},
      {"output",
       spec.kind == MetricKind::Command
           ? Json()
           : Json(entries.front().engine->plan().outputs[entries.front().outputs[metric]].name)},
      {"models", std::move(models)}};
}

/// Latency of one sample, in turn, and the sizes.
Result<std::vector<Json>> AccuracyMeasurement::describeCosts() {
  std::vector<CostSubject> subjects;
  for (Entry &entry : entries) {
    TENON_ASSIGN(Batch batch, entry.data->read(0, 1));
    subjects.push_back({entry.path, entry.source->path(), entry.engine, std::move(batch.inputs),
                        entry.peakMemory});
  }
  TENON_ASSIGN(std::vector<Json> costs,
               measureCosts(std::move(subjects), request.session, request.budget, listener));
  for (size_t i = 0; i < entries.size(); ++i) {
    costs[i]["calibration_share"] = entries[i].calibrationShare;
  }
  return costs;
}

Result<Json> AccuracyMeasurement::run() {
  TENON_TRY(prepare());
  TENON_TRY(score());
  Json metrics = Json::array();
  for (size_t metric = 0; metric < specs.size(); ++metric) {
    TENON_ASSIGN(Json described, describeMetric(metric));
    metrics.push_back(std::move(described));
  }
  TENON_ASSIGN(std::vector<Json> costs, describeCosts());
  TENON_ASSIGN(std::string fingerprint, data().fingerprint(data().samples()));
  return Json{{"data", request.data},
              {"samples", data().samples()},
              {"fingerprint", fingerprint},
              {"metrics", std::move(metrics)},
              {"models", std::move(costs)}};
}

} // namespace

Result<Json> measureAccuracy(const AccuracyRequest &request, TaskListener &listener) {
  return AccuracyMeasurement(request, listener).run();
}

} // namespace tenon::tool
