// `tenon accuracy`: how well models do on labelled data, how sure that is, and what they cost. All
// models see the same samples, so that differences are of pairs; latency is measured in turn.
// One file: the steps share what is open.

#include "support/text/NearestName.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/accuracy/BatchRunner.h"
#include "tools/tenon/accuracy/Costs.h"
#include "tools/tenon/accuracy/Intervals.h"
#include "tools/tenon/accuracy/Metric.h"
#include "tools/tenon/accuracy/Report.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/data/Dataset.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/inputs/Inputs.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

namespace tenon::tool {
namespace {

constexpr double kShortestAccuracyRun = 0.001;
constexpr uint64_t kMaxBatch = 1 << 16;
/// The key under which `quantize` leaves the fingerprint of its data in a model.

struct AccuracyFlags {
  OpenRequest open;
  std::vector<std::string> models;
  std::string reference;
  std::string data;
  std::vector<std::string> metrics;
  std::string output;
  runtime::SessionOptions session;
  size_t batch = 32;
  MeasureBudget budget{1, 0};
  bool noCache = false;
};

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

class Accuracy {
public:
  Accuracy(const AccuracyFlags &given, Terminal &out) : flags(given), terminal(out) {}

  Status run();

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

  const AccuracyFlags &flags;
  Terminal &terminal;
  std::vector<MetricSpec> specs;
  std::vector<Entry> entries;
  Entry reference; ///< its runner is there where a metric needs it
};

/// The first output that the metric can be computed of.
Result<size_t> Accuracy::outputOf(const MetricSpec &spec, const Entry &entry) const {
  const std::vector<engine::Port> &ports = entry.engine->plan().outputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < ports.size(); ++i) {
    names.push_back(ports[i].name);
    bool isAny = spec.kind == MetricKind::Command ||
                 (spec.isPercent() && spec.top == 1 && isNumeric(ports[i].dtype));
    bool isFit = isAny || isFloating(ports[i].dtype);
    if (flags.output.empty() ? isFit : flags.output == ports[i].name) {
      return isFit ? Result<size_t>(i)
                   : noMetric(fmt::format("output '{}' of {} is {}, of which {} cannot be computed",
                                          ports[i].name, entry.path, nameOf(ports[i].dtype),
                                          spec.name),
                              "tenon inspect lists the outputs");
    }
  }
  if (flags.output.empty()) {
    return noMetric(fmt::format("{} has no output of numbers that {} could be computed of",
                                entry.path, spec.name),
                    "tenon inspect lists the outputs");
  }
  return Status::error(ErrorId::BadArgument,
                       fmt::format("--output {}: {} has no such output", flags.output, entry.path),
                       didYouMean(flags.output, names, "tenon inspect lists the outputs"));
}

/// Models of the same inputs share the data set.
Status Accuracy::matchData(Entry &entry) {
  std::vector<WantedInput> wanted = wantedInputs(entry.engine->plan());
  for (const Entry &other : entries) {
    if (std::ranges::equal(other.data->inputs(), wanted)) {
      entry.data = other.data;
      return Status::ok();
    }
  }
  std::map<std::string, std::string> metadata = metadataOf(entry.engine->file());
  ModelHints hints = {metadata["preprocessing"], metadata["classes"]};
  TENON_ASSIGN(Dataset opened, Dataset::open(flags.data, std::move(wanted), hints));
  entry.data = std::make_shared<const Dataset>(std::move(opened));
  return Status::ok();
}

Result<Entry> Accuracy::open(const std::string &path, bool isMeasured) {
  Entry entry;
  entry.path = path;
  OpenRequest request = flags.open;
  request.path = path;
  request.useCache = !flags.noCache;
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(request, terminal));
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
                 memoryOfFirstRun(path, *entry.source, *entry.data, flags.session));
  }
  return entry;
}

void Accuracy::warnOfData() const {
  for (const std::string &note : data().warnings()) {
    terminal.note(note);
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
  terminal.note(
      fmt::format("{}: every label is {:g}: a model that always says so would seem perfect",
                  flags.data, first));
}

/// Data that the ranges of a quantized model were chosen by say too much good of it.
Status Accuracy::warnOfCalibration(Entry &entry) const {
  std::string fingerprint = metadataOf(entry.engine->file())[kCalibrationKey];
  TENON_ASSIGN(entry.calibrationShare, entry.data->shareOf(fingerprint));
  if (entry.calibrationShare > 0) {
    terminal.note(fmt::format("{} was calibrated on data of which {} is among the samples of {}: "
                              "keep data for the test apart",
                              entry.path,
                              entry.calibrationShare == 1
                                  ? "all"
                                  : fmt::format("about {:.0f} %", entry.calibrationShare * 100),
                              flags.data));
  }
  return Status::ok();
}

/// The first model where none is named.
Status Accuracy::prepareReference() {
  if (std::ranges::none_of(specs, &MetricSpec::needsReference)) {
    return Status::ok();
  }
  if (flags.reference.empty() && entries.size() < 2) {
    return noMetric("cosine and relative compare with another model, and there is but one",
                    "name it with --reference, or give two models");
  }
  if (flags.reference.empty()) {
    const Entry &first = entries.front();
    reference.engine = first.engine;
    reference.data = first.data;
    reference.outputs = first.outputs;
  } else {
    TENON_ASSIGN(reference, open(flags.reference, false));
  }
  TENON_ASSIGN(BatchRunner runner,
               BatchRunner::create(reference.engine, *reference.data, flags.batch, flags.session));
  reference.runner.emplace(std::move(runner));
  return Status::ok();
}

Status Accuracy::prepare() {
  for (const std::string &metric : flags.metrics) {
    TENON_ASSIGN(MetricSpec spec, parseMetric(metric));
    specs.push_back(std::move(spec));
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(flags.data, ignored)) {
    TENON_TRY(contentOf(flags.data).status()); // a wrong path is said before models are compiled
  }
  for (const std::string &path : flags.models) {
    TENON_ASSIGN(Entry entry, open(path, true));
    entries.push_back(std::move(entry));
  }
  warnOfData();
  TENON_TRY(prepareReference());
  for (Entry &entry : entries) {
    TENON_TRY(warnOfCalibration(entry));
    TENON_ASSIGN(BatchRunner runner,
                 BatchRunner::create(entry.engine, *entry.data, flags.batch, flags.session));
    entry.runner.emplace(std::move(runner));
  }
  const engine::Plan &plan = entries.front().engine->plan();
  if (plan.outputs.size() > 1 && flags.output.empty() &&
      specs.front().kind != MetricKind::Command) {
    terminal.note(fmt::format("of {} outputs '{}' is scored; --output names another",
                              plan.outputs.size(),
                              plan.outputs[entries.front().outputs.front()].name));
  }
  return Status::ok();
}

Status Accuracy::scoreChunk(size_t first, size_t count) {
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

Status Accuracy::score() {
  size_t samples = data().samples();
  for (size_t first = 0; first < samples; first += flags.batch) {
    TENON_TRY(scoreChunk(first, std::min(flags.batch, samples - first)));
    terminal.progress("accuracy", static_cast<double>(first) / static_cast<double>(samples));
  }
  terminal.clearProgress();
  for (Entry &entry : entries) {
    entry.runner.reset();
    size_t strange = entry.scorers.front()->notFinite();
    if (strange > 0) {
      terminal.note(fmt::format("{}: outputs of {} of {} samples are not finite", entry.path,
                                strange, samples));
    }
  }
  reference.runner.reset();
  return Status::ok();
}

Json pairOf(const Interval &interval) {
  return {finiteOrNull(interval.low), finiteOrNull(interval.high)};
}

Result<Json> Accuracy::describeMetric(size_t metric) {
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
Result<std::vector<Json>> Accuracy::describeCosts() {
  std::vector<CostSubject> subjects;
  for (Entry &entry : entries) {
    TENON_ASSIGN(Batch batch, entry.data->read(0, 1));
    subjects.push_back({entry.path, entry.source->path(), entry.engine, std::move(batch.inputs),
                        entry.peakMemory});
  }
  TENON_ASSIGN(std::vector<Json> costs,
               measureCosts(std::move(subjects), flags.session, flags.budget, terminal));
  for (size_t i = 0; i < entries.size(); ++i) {
    costs[i]["calibration_share"] = entries[i].calibrationShare;
  }
  return costs;
}

Status Accuracy::run() {
  TENON_TRY(prepare());
  TENON_TRY(score());
  Json metrics = Json::array();
  for (size_t metric = 0; metric < specs.size(); ++metric) {
    TENON_ASSIGN(Json described, describeMetric(metric));
    metrics.push_back(std::move(described));
  }
  TENON_ASSIGN(std::vector<Json> costs, describeCosts());
  TENON_ASSIGN(std::string fingerprint, data().fingerprint(data().samples()));
  Json result = {{"data", flags.data},
                 {"samples", data().samples()},
                 {"fingerprint", fingerprint},
                 {"metrics", std::move(metrics)},
                 {"models", std::move(costs)}};
  terminal.json() ? terminal.printJson("accuracy", std::move(result))
                  : terminal.print(accuracyText(result));
  return Status::ok();
}

} // namespace

Action declareAccuracy(CLI::App &command) {
  std::shared_ptr<AccuracyFlags> flags = std::make_shared<AccuracyFlags>();
  command
      .add_option("MODEL", flags->models,
                  "Engines, or models (ONNX, .pt2) to compile first; the others are compared with "
                  "the first")
      ->required();
  command
      .add_option("--data", flags->data,
                  "Samples and labels: an npz with an array for each input and 'labels', a .jsonl, "
                  "or a folder of "
                  "pictures; docs/accuracy.md")
      ->required();
  command
      .add_option("--metric", flags->metrics,
                  "top1, top5, f1, perplexity, mse, mae; cosine or relative (to --reference); "
                  "cmd:PROGRAM, which gets the "
                  "outputs as an npz and prints a number (repeat for more; top1 by default)")
      ->allow_extra_args(false);
  command.add_option("--reference", flags->reference,
                     "For cosine and relative: the model to be near to; the first by default");
  command.add_option("--output", flags->output, "The output that is scored; by default the first");
  addNumber(
      command, "--batch", {1, kMaxBatch}, [flags](uint64_t number) { flags->batch = number; },
      "Samples run at once where the model takes any number; 32 by default");
  command
      .add_option(
          "--shape", flags->open.shapes,
          "Dimensions of an input when a model is compiled: name:[1..32]x128 (repeat for more)")
      ->allow_extra_args(false);
  addSeconds(command, "--seconds", {kShortestAccuracyRun, kLongestSeconds}, flags->budget.seconds,
             "How long to measure latency");
  declareThreadsFlag(command, flags->session.threads, "Threads; all usable CPUs by default");
  declareOpenFlags(command, flags->open);
  declareTargetFlags(command, flags->open.target);
  command.add_flag("--no-cache", flags->noCache, "Compile a model without the cache");
  return [flags](Terminal &terminal) {
    if (flags->metrics.empty()) {
      flags->metrics = {"top1"};
    }
    return Accuracy(*flags, terminal).run();
  };
}

} // namespace tenon::tool
