// Sums are in double, in the order of tokens.
#include "generate/sampling/Sampler.h"

#include "generate/sampling/Noise.h"
#include "support/text/Text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace tenon::generate {
namespace {

bool isAbove(double left, int32_t leftToken, double right, int32_t rightToken) {
  return left > right || (left == right && leftToken < rightToken);
}

/// As short as it reads back.
std::string shown(double value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

Status refuse(std::string_view what) { return Status::error(ErrorId::BadArgument, what); }

} // namespace

int32_t largestOf(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

double logSum(std::span<const float> logits) {
  double largest = logits[largestOf(logits)], sum = 0;
  for (float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - largest);
  }
  return largest + std::log(sum);
}

Status checkSampling(const SamplingOptions &options, int64_t vocabulary) {
  auto isNumber = [](double value, double least, double most) {
    return value >= least && value <= most;
  };
  constexpr double kMost = 1e6;
  if (!isNumber(options.temperature, 0, kMost)) {
    return refuse(strCat("temperature ", shown(options.temperature), ": it is a number from 0"));
  }
  if (options.topK < 0 || options.topK > vocabulary) {
    return refuse(
        strCat("top-k ", options.topK, ": it is from 0 (all) to the vocabulary's ", vocabulary));
  }
  if (!isNumber(options.topP, std::numeric_limits<double>::min(), 1)) {
    return refuse(strCat("top-p ", shown(options.topP), ": it is above 0 and at most 1"));
  }
  if (!isNumber(options.minP, 0, 1)) {
    return refuse(strCat("min-p ", shown(options.minP), ": it is from 0 to 1"));
  }
  if (!isNumber(options.repetition, std::numeric_limits<double>::min(), kMost)) {
    return refuse(
        strCat("repetition penalty ", shown(options.repetition), ": it is a number above 0"));
  }
  for (double penalty : {options.frequency, options.presence}) {
    if (!isNumber(penalty, -kMost, kMost)) {
      return refuse(strCat("penalty ", shown(penalty), ": it is a finite number"));
    }
  }
  for (auto [token, bias] : options.bias) {
    if (token < 0 || token >= vocabulary || !isNumber(bias, -kMost, kMost)) {
      return refuse(strCat("logit bias ", token, '=', shown(bias), ": tokens are from 0 to ",
                           vocabulary - 1, ", and a bias is a finite number"));
    }
  }
  return Status::ok();
}

Sampler::Sampler(SamplingOptions theOptions, std::span<const int32_t> prompt)
    : options(std::move(theOptions)) {
  for (int32_t token : prompt) {
    generated.try_emplace(token, 0);
  }
}

void Sampler::change(std::vector<float> &logits) const {
  for (auto [token, bias] : options.bias) {
    logits[token] += static_cast<float>(bias);
  }
  for (auto [token, times] : generated) {
    if (static_cast<size_t>(token) >= logits.size()) {
      continue;
    }
    double logit = logits[token];
    logit = logit > 0 ? logit / options.repetition : logit * options.repetition;
    logit -= options.frequency * static_cast<double>(times) + (times > 0 ? options.presence : 0);
    logits[token] = static_cast<float>(logit);
  }
}

/// With the temperature, without what no noise lifts above the largest, and what min-p leaves out.
std::vector<Sampler::Candidate> Sampler::candidates(std::span<const float> logits,
                                                    double largest) const {
  // Probabilities of all count for top-p; where it takes all, only those that can be drawn do.
  double least =
      options.topP < 1 ? -std::numeric_limits<double>::infinity() : leastNoise() - mostNoise();
  if (options.minP > 0) {
    least = std::max(least, std::log(options.minP));
  }
  std::vector<Candidate> list;
  for (size_t i = 0; i < logits.size(); ++i) {
    double logit = (static_cast<double>(logits[i]) - largest) / options.temperature;
    if (logit >= least) {
      list.push_back({logit, static_cast<int32_t>(i)});
    }
  }
  return list;
}

/// Top-k, then top-p of what is left.
void Sampler::keepProbable(std::vector<Candidate> &list) const {
  auto before = [](const Candidate &a, const Candidate &b) {
    return isAbove(a.logit, a.token, b.logit, b.token);
  };
  if (options.topK > 0 && static_cast<size_t>(options.topK) < list.size()) {
    std::nth_element(list.begin(), list.begin() + options.topK, list.end(), before);
    list.resize(options.topK);
  }
  if (options.topP >= 1) {
    return;
  }
  std::ranges::sort(list, before);
  double sum = 0, kept = 0;
  for (const Candidate &candidate : list) {
    sum += std::exp(candidate.logit);
  }
  for (size_t i = 0; i < list.size(); ++i) {
    kept += std::exp(list[i].logit);
    if (kept >= options.topP * sum) {
      list.resize(i + 1);
      return;
    }
  }
}

Result<Draw> Sampler::draw(std::span<const float> logits, uint64_t position) {
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) {
    return Status::error(ErrorId::LogitsNotFinite,
                         strCat("the logits at position ", position, " are not finite"),
                         "run the model without --precision and without --allow");
  }
  double sum = logSum(logits);
  std::vector<float> changed(logits.begin(), logits.end());
  change(changed);
  Draw draw{.token = largestOf(changed)};
  if (options.temperature > 0) {
    std::vector<Candidate> list = candidates(changed, changed[draw.token]);
    keepProbable(list);
    double best = -std::numeric_limits<double>::infinity();
    for (const Candidate &candidate : list) {
      double value = candidate.logit + gumbel(uniform(options.seed, position,
                                                      static_cast<uint32_t>(candidate.token)));
      if (isAbove(value, candidate.token, best, draw.token)) {
        best = value;
        draw.token = candidate.token;
      }
    }
  }
  draw.logprob = static_cast<double>(logits[draw.token]) - sum;
  ++generated[draw.token];
  return draw;
}

std::vector<Draw> topTokens(std::span<const float> logits, size_t count) {
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<int32_t>(i);
  }
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](int32_t a, int32_t b) { return isAbove(logits[a], a, logits[b], b); });
  double sum = logits.empty() ? 0 : logSum(logits);
  std::vector<Draw> top;
  for (size_t i = 0; i < count; ++i) {
    top.push_back({order[i], static_cast<double>(logits[order[i]]) - sum});
  }
  return top;
}

} // namespace tenon::generate
