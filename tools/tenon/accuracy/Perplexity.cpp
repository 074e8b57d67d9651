// Perplexity of a language model: the exponential of the mean negative logarithm of the probability
// of what is right. Right is the next token of the input ids, or what the labels say.

#include "support/Shape.h"
#include "tools/tenon/accuracy/Metric.h"
#include "tools/tenon/accuracy/Rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

constexpr double kProbabilityError = 1e-3;
constexpr double kMaxTokens = 1e15;

/// -log of the probability of `target`. Rows that are probabilities already are taken as such: a
/// softmax of them would be near uniform.
double surprise(std::span<const double> scores, size_t target) {
  double highest = *std::ranges::max_element(scores), lowest = *std::ranges::min_element(scores);
  double plain = 0, sum = 0;
  for (double score : scores) {
    plain += score;
    sum += std::exp(score - highest);
  }
  bool areProbabilities = lowest >= 0 && std::abs(plain - 1) < kProbabilityError;
  return areProbabilities ? -std::log(scores[target]) : std::log(sum) + highest - scores[target];
}

bool isMask(const Tensor &input) { return input.name.find("mask") != std::string::npos; }

/// Inputs of integers with one for each place.
std::vector<const Tensor *> integersOf(std::span<const Tensor> inputs, int64_t places) {
  std::vector<const Tensor *> found;
  for (const Tensor &input : inputs) {
    if (!isFloating(input.dtype) && isNumeric(input.dtype) && input.elements() == places) {
      found.push_back(&input);
    }
  }
  return found;
}

/// What could be the ids of the tokens that are scored: by the names that exporters give them (of
/// an encoder and a decoder the latter's), else any integers but a mask.
std::vector<const Tensor *> idsAmong(std::span<const Tensor *const> integers) {
  for (std::string_view name : {"decoder_input_ids", "input_ids"}) {
    for (const Tensor *input : integers) {
      if (input->name == name) {
        return {input};
      }
    }
  }
  std::vector<const Tensor *> found;
  std::ranges::copy_if(integers, std::back_inserter(found),
                       [](const Tensor *input) { return !isMask(*input); });
  return found;
}

/// Whether labels are the tokens themselves, less those that do not count.
bool repeats(std::span<const double> labels, const Tensor &ids) {
  std::vector<double> tokens = allElements(ids);
  return std::ranges::equal(labels, tokens,
                            [](double label, double token) { return label < 0 || label == token; });
}

class PerplexityScorer final : public Scorer {
public:
  PerplexityScorer(size_t number, const Tensor *labelTensor)
      : output(number), labels(labelTensor), ratio(RatioKind::Exponential) {}

  Status add(const Answer &answer) override;
  const Scores *scores() const override { return &ratio; }

private:
  Result<std::vector<int64_t>> targets(const Answer &answer, int64_t places) const;

  size_t output;
  const Tensor *labels;
  RatioScores ratio;
};

/// What is right at each place, below 0 where nothing counts. Labels that repeat the ids are those
/// of Hugging Face, which are moved by one like the ids; others stand where they belong.
Result<std::vector<int64_t>> PerplexityScorer::targets(const Answer &answer, int64_t places) const {
  std::vector<const Tensor *> integers = integersOf(answer.inputs, places);
  std::vector<const Tensor *> ids = idsAmong(integers);
  std::vector<double> labelIds;
  bool isMoved = true;
  if (labels) {
    int64_t perSample = productOf(rowDims(*labels));
    if (perSample != places) {
      return noMetric(
          fmt::format("there are {} labels for a sample, but output '{}' has {} positions",
                      perSample, answer.outputs[output].name, places),
          "give a label for each position");
    }
    labelIds.resize(static_cast<size_t>(places));
    readElements(*labels, static_cast<int64_t>(answer.sample) * perSample, 1, labelIds);
    isMoved = places > 1 && std::ranges::any_of(ids, [&](const Tensor *input) {
                return repeats(labelIds, *input);
              });
  } else if (ids.empty() || places < 2) {
    return noMetric(
        fmt::format("output '{}' is {} for a sample, and no input has the ids of its {} tokens",
                    answer.outputs[output].name, formatDims(answer.outputs[output].dims), places),
        "add an array 'labels' with the right token for each position");
  } else if (ids.size() > 1) {
    return noMetric(fmt::format("'{}' and '{}' could both be the ids of the tokens", ids[0]->name,
                                ids[1]->name),
                    "name the right one input_ids, or add an array 'labels' that repeats the ids");
  } else {
    labelIds = allElements(*ids[0]);
  }
  std::vector<const Tensor *>::const_iterator mask =
      isMoved ? std::ranges::find_if(integers, [](const Tensor *input) { return isMask(*input); })
              : integers.end();
  std::vector<int64_t> result(static_cast<size_t>(places), -1);
  int64_t ahead = isMoved ? 1 : 0;
  for (int64_t i = ahead; i < places; ++i) {
    bool isPadding = mask != integers.end() && elementAsDouble(**mask, i) == 0;
    double token = labelIds[static_cast<size_t>(i)];
    bool counts = !isPadding && token >= 0 && token < kMaxTokens;
    result[static_cast<size_t>(i - ahead)] = counts ? static_cast<int64_t>(token) : -1;
  }
  return result;
}

Status PerplexityScorer::add(const Answer &answer) {
  const Tensor &said = answer.outputs[output];
  int64_t vocabulary = said.dims.empty() ? 1 : said.dims.back();
  if (!isFloating(said.dtype) || vocabulary < 2) {
    return noMetric(fmt::format("output '{}' is {} {}, not a score for each token of a vocabulary",
                                said.name, nameOf(said.dtype), formatDims(said.dims)),
                    "--output names another output");
  }
  int64_t places = said.elements() / vocabulary;
  TENON_ASSIGN(std::vector<int64_t> right, targets(answer, places));
  double sum = 0, counted = 0;
  std::vector<double> scores(static_cast<size_t>(vocabulary));
  for (int64_t place = 0; place < places; ++place) {
    int64_t target = right[static_cast<size_t>(place)];
    if (target < 0) {
      continue;
    }
    if (target >= vocabulary) {
      return noMetric(fmt::format("sample {} has the token {}, but the model has {}", answer.sample,
                                  target, vocabulary),
                      "give ids from the model's own vocabulary");
    }
    readElements(said, place * vocabulary, 1, scores);
    sum += surprise(scores, static_cast<size_t>(target));
    counted += 1;
  }
  nonFinite += std::isfinite(sum) ? 0 : 1;
  ratio.add(sum, counted);
  return Status::ok();
}

} // namespace

std::unique_ptr<Scorer> makePerplexity(size_t output, const Tensor *labels) {
  return std::make_unique<PerplexityScorer>(output, labels);
}

} // namespace tenon::tool
