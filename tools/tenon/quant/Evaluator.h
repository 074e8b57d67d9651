// What a form of a model loses beside the model itself, on a whole data set: by a metric where
// there are labels, else by the nearness of outputs. Relies on the scorers of `accuracy`.

#pragma once

#include "tools/tenon/accuracy/Intervals.h"
#include "tools/tenon/accuracy/Metric.h"
#include "tools/tenon/quant/Form.h"

#include <optional>
#include <string>

namespace tenon::tool {

/// Accuracy of a form, and its loss: points of a share (0.005 is half a point), of a cosine or a
/// relative error as they are, of other metrics relative to the model's own value. Above 0 it is
/// worse.
struct AccuracyResult {
  double value = 0;
  double drop = 0;
  std::optional<Interval> interval; ///< of the drop, 95 %, by pairs; none of `cmd:`
};

/// `metric` may be empty: top1 where the data have whole numbers as labels, one for each sample,
/// else cosine. An error for one that these data do not support.
Result<MetricSpec> chooseMetric(const std::string &metric, const Dataset &data);

class Evaluator {
public:
  /// Runs the model over all samples. `data` and `model` live as long as this.
  static Result<Evaluator> open(const MetricSpec &spec, const Form &model, const Dataset &data,
                                const FormOptions &options);

  Result<AccuracyResult> evaluate(const Form &form);
  const MetricSpec &metric() const { return spec; }
  double baseline() const { return base; }
  /// What a drop is, for people: "0.50 points of top1".
  std::string describeDrop(double drop) const;

private:
  Result<std::unique_ptr<Scorer>> score(const Form &form) const;
  double dropOf(double difference) const;
  Status findOutput();

  MetricSpec spec;
  const Form *model = nullptr;
  const Dataset *data = nullptr;
  FormOptions options;
  size_t output = 0;
  std::unique_ptr<Scorer> own;
  double base = 0;
};

} // namespace tenon::tool
