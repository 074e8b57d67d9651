// What is done for each token of the vocabulary is done in lanes; what is drawn from is few of
// them, and is compared in double.
#include "generate/sampling/Sampler.h"

#include "generate/grammar/Automaton.h"
#include "generate/sampling/Exponentials.h"
#include "support/random/GumbelNoise.h"
#include "support/text/Text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

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

/// Of logits that nothing draws, in place of infinities that a temperature near 0 makes.
constexpr float kNever = -1e30f;

Status refuse(std::string_view what) { return Status::error(ErrorId::BadArgument, what); }

Status notFinite(uint64_t position) {
  return Status::error(ErrorId::LogitsNotFinite,
                       strCat("the logits at position ", position, " are not finite"),
                       "run the model without --precision and without --allow");
}

/// The difference of an infinity to itself is not a number, nor is any sum with that.
bool areFinite(std::span<const float> logits) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> lanes = {};
  size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += logits[i + lane] - logits[i + lane];
    }
  }
  auto isZero = [](float sum) { return sum == 0; };
  return std::ranges::all_of(lanes, isZero) &&
         std::ranges::all_of(logits.subspan(whole),
                             [](float logit) { return std::isfinite(logit); });
}

} // namespace

int32_t largestOf(std::span<const float> logits) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = std::max(lanes[lane], logits[i + lane]);
    }
  }
  float largest = *std::ranges::max_element(lanes);
  for (float logit : logits.subspan(whole)) {
    largest = std::max(largest, logit);
  }
  return static_cast<int32_t>(std::ranges::find(logits, largest) - logits.begin());
}

double logSum(std::span<const float> logits) {
  float largest = logits[largestOf(logits)];
  return static_cast<double>(largest) + std::log(sumOfExponentials(logits, largest));
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

/// With the temperature, without what no noise lifts above the largest, what min-p leaves out, and
/// what top-p does in any case.
Sampler::Candidates Sampler::candidates(std::span<const float> logits, float largest) const {
  float least = static_cast<float>(leastNoise() - mostNoise());
  if (options.minP > 0) {
    least = std::max(least, static_cast<float>(logarithm(options.minP)));
  }
  float scale = static_cast<float>(std::min(1 / options.temperature, double(-kNever)));
  std::vector<float> scaled(logits.size());
  std::ranges::transform(logits, scaled.begin(),
                         [&](float logit) { return std::max((logit - largest) * scale, kNever); });
  Candidates result;
  if (options.topP < 1 && options.topK == 0) {
    result.mass = sumOfShares(scaled, least);
    // All below it together are less than what top-p leaves out.
    double rest =
        (1 - options.topP) * result.mass / (kWholeShare * static_cast<double>(logits.size()));
    least = std::max(least, static_cast<float>(std::log(rest)) - 1);
  }
  for (size_t i = 0; i < scaled.size(); ++i) {
    if (scaled[i] >= least) {
      result.list.push_back({static_cast<double>(scaled[i]), static_cast<int32_t>(i), 0});
    }
  }
  return result;
}

/// Gives them their probabilities, of which the largest is 1.
void Sampler::weigh(std::vector<Candidate> &list) {
  std::vector<float> logits(list.size());
  std::ranges::transform(list, logits.begin(),
                         [](const Candidate &each) { return static_cast<float>(each.logit); });
  exponentials(logits, 0, logits);
  for (size_t i = 0; i < list.size(); ++i) {
    list[i].probability = logits[i];
  }
}

/// Top-k, then top-p of what is left. A flat distribution leaves a hundred thousand tokens, which
/// are halved until a few are left to be sorted.
void Sampler::keepProbable(Candidates &candidates) const {
  constexpr std::ptrdiff_t kSorted = 64;
  std::vector<Candidate> &list = candidates.list;
  auto before = [](const Candidate &a, const Candidate &b) {
    return isAbove(a.logit, a.token, b.logit, b.token);
  };
  auto massOf = [](std::span<const Candidate> some) {
    return std::accumulate(some.begin(), some.end(), 0.0, [](double sum, const Candidate &each) {
      return sum + shareOf(each.probability);
    });
  };
  if (options.topK > 0 && static_cast<size_t>(options.topK) < list.size()) {
    std::nth_element(list.begin(), list.begin() + options.topK, list.end(), before);
    list.resize(options.topK);
  }
  weigh(list);
  if (options.topP >= 1) {
    return;
  }
  double mass = options.topK > 0 ? massOf(list) : candidates.mass;
  double wanted = std::max(1.0, std::floor(options.topP * mass)), kept = 0;
  auto first = list.begin(), end = list.end();
  while (end - first > kSorted) {
    auto middle = first + (end - first) / 2;
    std::nth_element(first, middle, end, before);
    double mass = massOf({first, middle});
    if (kept + mass >= wanted) {
      end = middle;
    } else {
      kept += mass;
      first = middle;
    }
  }
  std::sort(first, end, before);
  while (first != end && kept < wanted) {
    kept += shareOf(first->probability);
    ++first;
  }
  list.erase(first, list.end());
}

/// The candidate that is the largest with its noise.
int32_t Sampler::drawn(std::span<const Candidate> list, uint64_t position) const {
  double best = -std::numeric_limits<double>::infinity(),
         scale = std::numeric_limits<double>::infinity();
  int32_t token = list.front().token;
  for (const Candidate &each : list) {
    double number = uniform(options.seed, position, static_cast<uint32_t>(each.token));
    // -log(u) is at least 1 - u: most are seen to be too small without a logarithm.
    if (1 - number > static_cast<double>(each.probability) * scale) {
      continue;
    }
    double value = each.logit + gumbel(number);
    if (isAbove(value, each.token, best, token)) {
      constexpr double kRounding = 1 + 1e-6; // of probabilities
      best = value;
      token = each.token;
      scale = std::exp(-best) * kRounding;
    }
  }
  return token;
}

bool Sampler::changesLogits() const {
  return !options.bias.empty() || options.repetition != 1 || options.frequency != 0 ||
         options.presence != 0;
}

DrawParameters Sampler::parameters(uint64_t position) const {
  return {.temperature = options.temperature,
          .topP = options.topP,
          .minP = options.minP,
          .topK = options.topK,
          .seed = options.seed,
          .position = position};
}

Result<Draw> Sampler::take(Draw drawn, uint64_t position) {
  if (drawn.token < 0) {
    return notFinite(position);
  }
  ++generated[drawn.token];
  return drawn;
}

Result<int32_t> Sampler::choose(std::span<const float> logits, uint64_t position,
                                const grammar::Mask *mask) const {
  if (!areFinite(logits)) {
    return notFinite(position);
  }
  std::vector<float> changed;
  std::span<const float> read = logits;
  if (changesLogits() || mask) {
    changed.assign(logits.begin(), logits.end());
    change(changed);
    if (mask) {
      mask->keep(changed, kNever);
    }
    read = changed;
  }
  int32_t largest = largestOf(read);
  if (options.temperature == 0) {
    return largest;
  }
  Candidates likely = candidates(read, read[largest]);
  keepProbable(likely);
  return drawn(likely.list, position);
}

Result<Draw> Sampler::draw(std::span<const float> logits, uint64_t position,
                           const grammar::Mask *mask) {
  TENON_ASSIGN(int32_t token, choose(logits, position, mask));
  return take({token, static_cast<double>(logits[token]) - logSum(logits)}, position);
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
