// From logits to a token. The order is fixed: bias, penalties, temperature, min-p, top-k, top-p;
// of equal logits the token of the lower number counts as the larger.
#pragma once

#include "support/Result.h"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon::generate {

namespace grammar {
struct Mask;
}

struct SamplingOptions {
  double temperature = 0; ///< 0 takes the largest logit
  int64_t topK = 0;       ///< tokens that are drawn from; 0 for all
  double topP = 1;        ///< the fewest tokens whose probabilities sum up to it
  double minP = 0;        ///< tokens at least so probable, as a share of the most probable
  double repetition = 1;  ///< divides logits above 0 of tokens seen, and multiplies those below
  double frequency = 0;   ///< taken off a token's logit for each time that it was generated
  double presence = 0;    ///< taken off where it was generated at all
  uint64_t seed = 0;
  std::vector<std::pair<int32_t, double>> bias = {}; ///< added to logits of tokens
};

/// TN0105 for what is out of range.
Status checkSampling(const SamplingOptions &options, int64_t vocabulary);

/// What an engine that draws tokens itself is told of a row; they are the sampler's.
struct DrawParameters {
  double temperature = 0, topP = 1, minP = 0;
  int64_t topK = 0;
  uint64_t seed = 0, position = 0;
};

struct Draw {
  int32_t token = 0;
  /// Of the model's own distribution, before bias and all else, to within 3e-7.
  double logprob = 0;
};

/// One sequence's. The draw at a position depends on the logits, the seed, the position and the
/// tokens before: not on what else runs, nor how often it was drawn.
class Sampler {
public:
  Sampler(SamplingOptions theOptions, std::span<const int32_t> prompt);

  /// TN0617 where a logit is not finite. `position` is that of the token that is drawn; it is one
  /// of the mask's, where there is one.
  Result<Draw> draw(std::span<const float> logits, uint64_t position,
                    const grammar::Mask *mask = nullptr);
  /// The token that `draw` would draw, which is not remembered. With logits of a smaller model it
  /// is a guess of what the larger one draws: both have the same noise.
  Result<int32_t> choose(std::span<const float> logits, uint64_t position,
                         const grammar::Mask *mask = nullptr) const;
  /// Whether the tokens before, or a bias, change the logits: `draw` alone does that.
  bool changesLogits() const;
  /// What an engine needs to draw at a position as `draw` would, where nothing changes the logits.
  DrawParameters parameters(uint64_t position) const;
  /// Takes what an engine drew, by these, in place of `draw`. TN0617 for a token of -1.
  Result<Draw> take(Draw drawn, uint64_t position);

private:
  struct Candidate {
    double logit;
    int32_t token;
    float probability;
  };
  struct Candidates {
    std::vector<Candidate> list;
    double mass = 0; ///< the probabilities of all that top-p counts, in shares (GumbelNoise.h)
  };
  void change(std::vector<float> &logits) const;
  Candidates candidates(std::span<const float> logits, float largest) const;
  static void weigh(std::vector<Candidate> &list);
  void keepProbable(Candidates &candidates) const;
  int32_t drawn(std::span<const Candidate> list, uint64_t position) const;

  SamplingOptions options;
  /// How often each token of prompt and answer was generated.
  std::unordered_map<int32_t, int64_t> generated;
};

/// The number of the largest logit, the first of equal ones.
int32_t largestOf(std::span<const float> logits);
/// The logarithm of the sum of all exponentials, to within 3e-7.
double logSum(std::span<const float> logits);

/// The tokens with the largest logits and their logprobs, the largest first.
std::vector<Draw> topTokens(std::span<const float> logits, size_t count);

} // namespace tenon::generate
