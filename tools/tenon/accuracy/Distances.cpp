// Metrics of numbers: how far an output is from the reference model's, or from the label.

#include "support/Shape.h"
#include "tools/tenon/accuracy/Metric.h"
#include "tools/tenon/accuracy/Rows.h"

#include <fmt/format.h>

#include <cmath>

namespace tenon::tool {
namespace {

/// Of the norms; two outputs of zeros are the same.
double cosine(std::span<const double> a, std::span<const double> b) {
  double product = 0, left = 0, right = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += a[i] * b[i];
    left += a[i] * a[i];
    right += b[i] * b[i];
  }
  return left == 0 && right == 0   ? 1
         : left == 0 || right == 0 ? 0
                                   : product / std::sqrt(left) / std::sqrt(right);
}

/// |a - b| / |b|.
double relativeError(std::span<const double> a, std::span<const double> b) {
  double apart = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    apart += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return apart == 0 ? 0 : std::sqrt(apart / size);
}

double meanError(std::span<const double> a, std::span<const double> b, bool isSquared) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double apart = std::abs(a[i] - b[i]);
    sum += isSquared ? apart * apart : apart;
  }
  return sum / static_cast<double>(a.size());
}

class DistanceScorer final : public Scorer {
public:
  DistanceScorer(const MetricSpec &metric, size_t number, const Tensor *labelTensor)
      : spec(metric), output(number), labels(labelTensor) {}

  Status add(const Answer &answer) override;
  const Scores *scores() const override { return &ratio; }

private:
  Result<std::vector<double>> wanted(const Answer &answer) const;

  MetricSpec spec;
  size_t output;
  const Tensor *labels;
  RatioScores ratio{RatioKind::Mean};
};

Result<std::vector<double>> DistanceScorer::wanted(const Answer &answer) const {
  const Tensor &said = answer.outputs[output];
  if (spec.needsReference()) {
    const Tensor &right = *answer.reference;
    if (right.dims == said.dims) {
      return allElements(right);
    }
    return noMetric(fmt::format("output '{}' of sample {} is {}, but the reference's is {}",
                                said.name, answer.sample, formatDims(said.dims),
                                formatDims(right.dims)),
                    "give a reference with the same outputs");
  }
  int64_t perSample = productOf(rowDims(*labels));
  if (perSample != said.elements()) {
    return noMetric(
        fmt::format("output '{}' is {} for a sample, but its label is {}", said.name,
                    formatDims(said.dims), formatDims(rowDims(*labels))),
        fmt::format(
            "{} needs a number for each element of the output; --output names another output",
            spec.name));
  }
  std::vector<double> row(static_cast<size_t>(perSample));
  readElements(*labels, static_cast<int64_t>(answer.sample) * perSample, 1, row);
  if (!areFinite(row)) {
    return noMetric(
        fmt::format("the label of sample {} has a value that is not finite", answer.sample),
        "numpy.isfinite finds such values");
  }
  return row;
}

Status DistanceScorer::add(const Answer &answer) {
  TENON_ASSIGN(std::vector<double> right, wanted(answer));
  std::vector<double> said = allElements(answer.outputs[output]);
  bool isFinite = areFinite(said);
  nonFinite += isFinite ? 0 : 1;
  double score = 0;
  switch (spec.kind) {
  case MetricKind::Cosine:
    score = isFinite ? cosine(said, right) : 0;
    break;
  case MetricKind::Relative:
    score = isFinite ? relativeError(said, right) : INFINITY;
    break;
  default:
    score = isFinite ? meanError(said, right, spec.kind == MetricKind::Mse) : INFINITY;
  }
  ratio.add(score, 1);
  return Status::ok();
}

} // namespace

std::unique_ptr<Scorer> makeDistance(const MetricSpec &spec, size_t output, const Tensor *labels) {
  return std::make_unique<DistanceScorer>(spec, output, labels);
}

} // namespace tenon::tool
