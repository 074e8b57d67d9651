// How well a model foresees a text, and how far it is from another model on the same text.
#pragma once

#include "generate/session/LanguageModel.h"

#include <optional>

namespace tenon::generate {

/// A mean over tokens with the standard error of it, which counts neighbours as one: how well a
/// token is foreseen says much of how well the next is.
struct Mean {
  double value = 0, error = 0;

  /// The ends of a 95 % interval.
  double low() const { return value - kErrors * error; }
  double high() const { return value + kErrors * error; }

  static constexpr double kErrors = 1.96;
};

struct TextScore {
  int64_t tokens = 0; ///< that were foreseen
  Mean surprise;      ///< -log of the probability of each token; the perplexity is its exponential
  /// Beside the reference: its divergence from the reference's distribution (Kullback-Leibler, in
  /// nats), and the share of tokens for which both hold the same token for the most probable.
  std::optional<Mean> divergence, sameTop;
  /// The largest difference of a logit from the reference's, and the largest magnitude of those.
  float largestDifference = 0, largestLogit = 0;
};

struct ScoreOptions {
  /// Tokens that are read together; the first of each is not foreseen. 0 for 512, or as many as
  /// there are positions.
  int64_t window = 0;
  int64_t maxTokens = -1; ///< of the text; -1 for all
  unsigned threads = 0;
};

/// A text that the model's file carries: its chat template or, where that has fewer than 64 tokens,
/// up to 256 entries of its vocabulary that are ASCII.
std::string ownText(const LanguageModel &model);

/// The text is cut into windows; what is left over and shorter than half a window is left out,
/// unless it is all. TN0105 where the text has fewer than two tokens, the window does not fit, or
/// the two models have other vocabularies. `progress` is given the share that is done; where it
/// gives false, the call ends with TN0407.
Result<TextScore> scoreText(const LanguageModel &model, const LanguageModel *reference,
                            std::string_view text, const ScoreOptions &options,
                            const std::function<bool(double)> &progress);

} // namespace tenon::generate
