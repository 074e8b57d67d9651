// Implements the evaluation. Outputs of the model itself are computed anew beside those of a form
// where the metric needs them: kept, those of a language model would not fit in memory.

#include "tools/tenon/quant/Evaluator.h"

#include "tools/tenon/accuracy/BatchRunner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

constexpr size_t kBatch = 32;

/// Whether labels are numbers of classes, one for each sample.
bool areClasses(const Tensor &labels, size_t samples) {
  return isNumeric(labels.dtype) && !isFloating(labels.dtype) &&
         labels.elements() == static_cast<int64_t>(samples);
}

/// How a drop is counted.
bool isAbsolute(const MetricSpec &spec) { return spec.isPercent() || spec.needsReference(); }

} // namespace

Result<MetricSpec> chooseMetric(const std::string &metric, const Dataset &data) {
  const Tensor *labels = data.labels() ? &*data.labels() : nullptr;
  bool hasClasses = labels && areClasses(*labels, data.samples());
  TENON_ASSIGN(MetricSpec spec, parseMetric(!metric.empty() ? metric
                                            : hasClasses    ? "top1"
                                                            : "cosine"));
  TENON_TRY(makeScorer(spec, 0, labels).takeStatus());
  return spec;
}

Result<Evaluator> Evaluator::open(const MetricSpec &spec, const Form &model, const Dataset &data,
                                  const FormOptions &options) {
  Evaluator evaluator;
  evaluator.spec = spec;
  evaluator.model = &model;
  evaluator.data = &data;
  evaluator.options = options;
  TENON_TRY(evaluator.findOutput());
  TENON_ASSIGN(evaluator.own, evaluator.score(model));
  TENON_ASSIGN(evaluator.base, evaluator.own->value());
  if (!std::isfinite(evaluator.base)) {
    return noMetric(
        fmt::format("{} of the model itself is not a finite number", evaluator.spec.name),
        "tenon accuracy MODEL --data FILE shows the same");
  }
  return evaluator;
}

/// The first output of numbers, as `accuracy` takes it.
Status Evaluator::findOutput() {
  const std::vector<engine::Port> &ports = model->engine->plan().outputs;
  bool isAny = spec.kind == MetricKind::Command || (spec.isPercent() && spec.top == 1);
  auto fit = std::ranges::find_if(ports, [&](const engine::Port &port) {
    return isFloating(port.dtype) || (isAny && isNumeric(port.dtype));
  });
  if (fit == ports.end()) {
    return noMetric(fmt::format("the model has no numeric output to compute {} from", spec.name),
                    "tenon inspect lists the outputs");
  }
  output = static_cast<size_t>(fit - ports.begin());
  return Status::ok();
}

Result<std::unique_ptr<Scorer>> Evaluator::score(const Form &form) const {
  const Tensor *labels = data->labels() ? &*data->labels() : nullptr;
  TENON_ASSIGN(std::unique_ptr<Scorer> scorer, makeScorer(spec, output, labels));
  TENON_ASSIGN(BatchRunner runner,
               BatchRunner::create(form.engine, *data, kBatch, options.session()));
  std::optional<BatchRunner> reference;
  if (spec.needsReference()) {
    TENON_ASSIGN(BatchRunner right,
                 BatchRunner::create(model->engine, *data, kBatch, options.session()));
    reference.emplace(std::move(right));
  }
  for (size_t first = 0; first < data->samples(); first += kBatch) {
    size_t count = std::min(kBatch, data->samples() - first);
    std::vector<std::vector<Tensor>> right(count);
    if (reference) {
      TENON_ASSIGN(right, reference->outputsOf(first, count));
    }
    TENON_ASSIGN(std::vector<std::vector<Tensor>> said, runner.outputsOf(first, count));
    for (size_t i = 0; i < count; ++i) {
      std::vector<Tensor> inputs;
      if (spec.kind == MetricKind::Perplexity) {
        TENON_ASSIGN(inputs, runner.inputsOf(first + i));
      }
      TENON_TRY(scorer->add({first + i, inputs, said[i], reference ? &right[i][output] : nullptr}));
    }
  }
  return scorer;
}

double Evaluator::dropOf(double difference) const {
  double worse = spec.isHigherBetter().value_or(true) ? -difference : difference;
  return isAbsolute(spec) ? worse : worse / std::max(std::abs(base), 1e-30);
}

Result<AccuracyResult> Evaluator::evaluate(const Form &form) {
  TENON_ASSIGN(std::unique_ptr<Scorer> scorer, score(form));
  AccuracyResult result;
  TENON_ASSIGN(result.value, scorer->value());
  result.drop = std::isfinite(result.value) ? dropOf(result.value - base) : INFINITY;
  if (own->scores() && scorer->scores()) {
    Interval difference = intervalOfDifference(*own->scores(), *scorer->scores());
    double ends[] = {dropOf(difference.low), dropOf(difference.high)};
    result.interval = Interval{std::min(ends[0], ends[1]), std::max(ends[0], ends[1])};
  }
  return result;
}

std::string Evaluator::describeDrop(double drop) const {
  if (spec.isPercent()) {
    return fmt::format("{:.2f} points of {}", drop * 100, spec.name);
  }
  return fmt::format("{:.3g} % {} {}", drop * 100, isAbsolute(spec) ? "in" : "of", spec.name);
}

} // namespace tenon::tool
