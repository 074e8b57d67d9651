// top-k and F1: which class the outputs choose, and which is right. A sample has one place or many
// (tokens, pixels), each with a label of its own; labels below 0, as PyTorch's -100, do not count.

#include "support/Shape.h"
#include "tools/tenon/accuracy/Metric.h"
#include "tools/tenon/accuracy/Rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

/// Of outputs that hold classes themselves.
constexpr int64_t kMaxClasses = 1 << 20;

/// Where the scores of the classes stand in the output of a sample.
struct Layout {
  int64_t places = 1;
  int64_t classes = 0;
  bool areChosen = false;    ///< the output holds the classes themselves, not their scores
  bool isOneHot = false;     ///< labels have a column for each class
  bool isClassFirst = false; ///< as in pictures of classes x height x width
};

std::vector<int64_t> withoutOnes(std::span<const int64_t> dims) {
  std::vector<int64_t> result;
  std::ranges::copy_if(dims, std::back_inserter(result), [](int64_t dim) { return dim != 1; });
  return result;
}

Result<Layout> layoutOf(const Tensor &output, const Tensor &labels) {
  std::vector<int64_t> scores = withoutOnes(output.dims);
  std::vector<int64_t> labelDims = withoutOnes(rowDims(labels));
  Layout layout;
  layout.places = productOf(labelDims);
  if (!isFloating(output.dtype) && scores == labelDims) {
    layout.areChosen = true;
    return layout;
  }
  if (scores.size() == 1 && scores == labelDims && isFloating(output.dtype)) {
    layout.isOneHot = true;
    layout.places = 1;
    layout.classes = scores[0];
    return layout;
  }
  std::span<const int64_t> dims = scores;
  if (dims.size() == labelDims.size() + 1) {
    bool isLast = std::ranges::equal(dims.first(labelDims.size()), labelDims);
    layout.isClassFirst = !isLast && std::ranges::equal(dims.subspan(1), labelDims);
    layout.classes = isLast ? dims.back() : dims.front();
    if (isLast || layout.isClassFirst) {
      return layout;
    }
  }
  bool isColumn = productOf(scores) == 1 && labelDims.empty();
  return noMetric(
      fmt::format("output '{}' is {} for a sample, but its label is {}", output.name,
                  formatDims(output.dims), formatDims(rowDims(labels))),
      isColumn ? "one column does not choose between classes; cmd:PROGRAM can apply a threshold"
               : "top1 and f1 need a score for each class; --output names another output");
}

class ClassScorer final : public Scorer {
public:
  ClassScorer(const MetricSpec &metric, size_t number, const Tensor &labelTensor)
      : spec(metric), output(number), labels(labelTensor),
        perSample(productOf(rowDims(labelTensor))) {}

  Status add(const Answer &answer) override;
  const Scores *scores() const override {
    return spec.kind == MetricKind::F1 ? static_cast<const Scores *>(&f1) : &shares;
  }

private:
  Result<int64_t> labelAt(const Layout &layout, size_t sample, int64_t place) const;

  MetricSpec spec;
  size_t output;
  const Tensor &labels;
  int64_t perSample;
  RatioScores shares{RatioKind::Share};
  F1Scores f1;
};

Result<int64_t> ClassScorer::labelAt(const Layout &layout, size_t sample, int64_t place) const {
  int64_t first = static_cast<int64_t>(sample) * perSample;
  if (layout.isOneHot) {
    std::vector<double> row(static_cast<size_t>(perSample));
    readElements(labels, first, 1, row);
    int64_t ones = std::ranges::count(row, 1.0), zeros = std::ranges::count(row, 0.0);
    if (ones != 1 || zeros != perSample - 1) {
      return noMetric(
          fmt::format(
              "the label of sample {} has a column for each class, but is not 1 in one and 0 in "
              "the others",
              sample),
          "give the class number");
    }
    return std::ranges::find(row, 1.0) - row.begin();
  }
  double value = elementAsDouble(labels, first + place);
  if (value != std::floor(value) || std::abs(value) > 1e15) {
    return noMetric(
        fmt::format("the label of sample {} is {:g}, which is not a class number", sample, value),
        "mse and mae are metrics for other numbers");
  }
  int64_t label = static_cast<int64_t>(value);
  int64_t classes = layout.areChosen ? kMaxClasses : layout.classes;
  if (label >= classes) {
    return noMetric(fmt::format("the label of sample {} is {}, but there are {}{} classes", sample,
                                label, layout.areChosen ? "at most " : "", classes),
                    fmt::format("labels count from 0 to {}", classes - 1));
  }
  return label;
}

/// How many classes stand before this one; the first of equal scores is before the others.
int64_t rankOf(std::span<const double> scores, size_t label) {
  int64_t before = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    before += scores[i] > scores[label] || (scores[i] == scores[label] && i < label) ? 1 : 0;
  }
  return before;
}

Status ClassScorer::add(const Answer &answer) {
  const Tensor &said = answer.outputs[output];
  TENON_ASSIGN(Layout layout, layoutOf(said, labels));
  if (layout.areChosen && spec.kind == MetricKind::Top && spec.top > 1) {
    return noMetric(fmt::format("output '{}' contains classes, not their scores", said.name),
                    "top1 and f1 can be computed from classes; --output names another output");
  }
  bool isF1 = spec.kind == MetricKind::F1;
  if (isF1) {
    f1.beginSample();
  }
  double right = 0, counted = 0;
  bool isFinite = true;
  std::vector<double> scores(static_cast<size_t>(layout.classes));
  for (int64_t place = 0; place < layout.places; ++place) {
    TENON_ASSIGN(int64_t label, labelAt(layout, answer.sample, place));
    if (label < 0) {
      continue;
    }
    int64_t chosen = -1, rank = spec.top;
    if (layout.areChosen) {
      double number = elementAsDouble(said, place);
      chosen = number >= 0 && number < static_cast<double>(kMaxClasses)
                   ? static_cast<int64_t>(number)
                   : -1;
      rank = chosen == label ? 0 : 1;
    } else {
      readElements(said, layout.isClassFirst ? place : place * layout.classes,
                   layout.isClassFirst ? layout.places : 1, scores);
      bool isNumber = std::ranges::none_of(scores, [](double score) { return std::isnan(score); });
      isFinite &= areFinite(scores);
      chosen = isNumber ? std::ranges::max_element(scores) - scores.begin() : -1;
      rank = isNumber ? rankOf(scores, static_cast<size_t>(label)) : spec.top;
    }
    right += rank < spec.top ? 1 : 0;
    counted += 1;
    if (isF1) {
      f1.add(label, chosen);
    }
  }
  if (!isF1) {
    shares.add(right, counted);
  }
  nonFinite += isFinite ? 0 : 1;
  return Status::ok();
}

} // namespace

std::unique_ptr<Scorer> makeClassScorer(const MetricSpec &spec, size_t output,
                                        const Tensor &labels) {
  return std::make_unique<ClassScorer>(spec, output, labels);
}

} // namespace tenon::tool
