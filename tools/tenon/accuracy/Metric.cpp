// Implements the table of metrics.

#include "tools/tenon/accuracy/Metric.h"

#include "support/text/NearestName.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

namespace tenon::tool {
namespace {

constexpr std::string_view kProgram = "cmd:";
constexpr std::string_view kTop = "top";

struct NamedKind {
  std::string_view name;
  MetricKind kind;
};
constexpr NamedKind kKinds[] = {
    {"f1", MetricKind::F1},         {"perplexity", MetricKind::Perplexity},
    {"cosine", MetricKind::Cosine}, {"relative", MetricKind::Relative},
    {"mse", MetricKind::Mse},       {"mae", MetricKind::Mae},
};

} // namespace

Status noMetric(std::string_view message, std::string_view hint) {
  return Status::error(ErrorId::NoMetric, message, hint);
}

std::optional<bool> MetricSpec::isHigherBetter() const {
  switch (kind) {
  case MetricKind::Top:
  case MetricKind::F1:
  case MetricKind::Cosine:
    return true;
  case MetricKind::Command:
    return std::nullopt;
  default:
    return false;
  }
}

bool MetricSpec::needsLabels() const {
  return kind == MetricKind::Top || kind == MetricKind::F1 || kind == MetricKind::Mse ||
         kind == MetricKind::Mae;
}

Result<MetricSpec> parseMetric(const std::string &text) {
  MetricSpec spec;
  spec.name = text;
  if (text.starts_with(kProgram) && text.size() > kProgram.size()) {
    spec.kind = MetricKind::Command;
    spec.program = text.substr(kProgram.size());
    return spec;
  }
  for (const NamedKind &row : kKinds) {
    if (text == row.name) {
      spec.kind = row.kind;
      return spec;
    }
  }
  const char *end = text.data() + text.size();
  if (text.starts_with(kTop)) {
    std::from_chars_result parsed = std::from_chars(text.data() + kTop.size(), end, spec.top);
    if (parsed.ec == std::errc() && parsed.ptr == end && spec.top > 0) {
      return spec;
    }
  }
  std::vector<std::string> names = {"top1", "top5"};
  for (const NamedKind &row : kKinds) {
    names.emplace_back(row.name);
  }
  std::string all = fmt::format("the metrics are {} and cmd:PROGRAM", fmt::join(names, ", "));
  return Status::error(ErrorId::BadArgument,
                       fmt::format("--metric {}: there is no such metric", text),
                       didYouMean(text, names, all));
}

Result<std::unique_ptr<Scorer>> makeScorer(const MetricSpec &spec, size_t output,
                                           const Tensor *labels) {
  if (spec.needsLabels() && !labels) {
    return noMetric(
        fmt::format("{} needs labels, but the data has none", spec.name),
        "add an array 'labels' with a row for each sample, or compare with another model: "
        "--metric cosine --reference model.onnx");
  }
  switch (spec.kind) {
  case MetricKind::Top:
  case MetricKind::F1:
    return makeClassScorer(spec, output, *labels);
  case MetricKind::Perplexity:
    return makePerplexity(output, labels);
  case MetricKind::Command:
    return makeCommand(spec, labels);
  default:
    return makeDistance(spec, output, labels);
  }
}

} // namespace tenon::tool
