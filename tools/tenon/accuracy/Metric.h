// The metrics of `accuracy`: what each is called, what it needs, and the scorer that takes a
// model's outputs sample by sample. It relies on outputs of one sample having lost the dim of the
// batch.

#pragma once

#include "runtime/tensors/Tensor.h"
#include "support/Result.h"
#include "tools/tenon/accuracy/Scores.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tool {

enum class MetricKind : uint8_t { Top, F1, Perplexity, Cosine, Relative, Mse, Mae, Command };

struct MetricSpec {
  MetricKind kind = MetricKind::Top;
  std::string name;    ///< as it was asked for
  int64_t top = 1;     ///< of Top
  std::string program; ///< of Command, for a shell

  /// None for a program, of which only its user knows.
  std::optional<bool> isHigherBetter() const;
  bool isPercent() const { return kind == MetricKind::Top || kind == MetricKind::F1; }
  bool needsLabels() const;
  bool needsReference() const { return kind == MetricKind::Cosine || kind == MetricKind::Relative; }
};

/// "top1", "top5", "f1", "perplexity", "cosine", "relative", "mse", "mae" or "cmd:PROGRAM".
Result<MetricSpec> parseMetric(const std::string &text);

/// What a model said of one sample; the dim of the batch is gone from all tensors.
struct Answer {
  size_t sample = 0;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  const Tensor *reference = nullptr; ///< what the reference model says in the output that is scored
};

class Scorer {
public:
  virtual ~Scorer() = default;
  virtual Status add(const Answer &answer) = 0;
  /// After all samples: the metric.
  virtual Result<double> value() { return scores()->overall(); }
  /// None where only the whole has a score.
  virtual const Scores *scores() const = 0;
  /// Samples whose outputs were not finite.
  size_t notFinite() const { return nonFinite; }

protected:
  size_t nonFinite = 0;
};

/// `output` is the number of the output that is scored; `labels` may be null where none are needed.
Result<std::unique_ptr<Scorer>> makeScorer(const MetricSpec &spec, size_t output,
                                           const Tensor *labels);

/// Each family in a file of its own.
std::unique_ptr<Scorer> makeClassScorer(const MetricSpec &spec, size_t output,
                                        const Tensor &labels);
std::unique_ptr<Scorer> makePerplexity(size_t output, const Tensor *labels);
std::unique_ptr<Scorer> makeDistance(const MetricSpec &spec, size_t output, const Tensor *labels);
std::unique_ptr<Scorer> makeCommand(const MetricSpec &spec, const Tensor *labels);

Status noMetric(std::string_view message, std::string_view hint);

} // namespace tenon::tool
