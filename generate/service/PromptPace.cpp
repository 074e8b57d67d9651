// Implements the rule as a moving average of each time, which follows longer times sooner: a
// prompt's tokens take longer and longer.
#include "generate/service/PromptPace.h"

#include <algorithm>

namespace tenon::generate {
namespace {

/// What prompts may add to a step, as a share of its time without them. Less than one, so that the
/// whole is below twice that in spite of what the averages do not follow.
constexpr double kShare = 0.75;
/// A prompt has to end, whatever the times say.
constexpr int64_t kLeastTokens = 4;
/// Steps with prompts before the time of one without is measured again.
constexpr int64_t kMixed = 64;

constexpr double kWeight = 0.25, kWeightOfLonger = 0.5;

void follow(double &average, double value, double weight) {
  average = average < 0 ? value : average + weight * (value - average);
}

} // namespace

int64_t PromptPace::tokens(int64_t most) const {
  if (plain < 0 || mixed >= kMixed) {
    return 0;
  }
  if (perToken * static_cast<double>(most) <= kShare * plain) {
    return perToken < 0 ? std::min(most, kLeastTokens) : most;
  }
  int64_t fitting = static_cast<int64_t>(kShare * plain / perToken);
  return std::min(most, std::max(fitting, kLeastTokens));
}

void PromptPace::ran(double seconds, int64_t promptTokens, bool continues) {
  if (promptTokens == 0) {
    follow(plain, seconds, kWeight);
    mixed = 0;
    return;
  }
  double beside = continues ? std::max(seconds - plain, 0.0) : seconds;
  double each = beside / static_cast<double>(promptTokens);
  follow(perToken, each, each > perToken ? kWeightOfLonger : kWeight);
  mixed += continues ? 1 : 0;
}

} // namespace tenon::generate
