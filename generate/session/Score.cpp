// Both models read the same tokens chunk by chunk, so that no more than a chunk's logits are held.
#include "generate/session/Score.h"

#include "generate/sampling/Sampler.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cmath>

namespace tenon::generate {
namespace {

constexpr size_t kChunk = 32;
constexpr int64_t kUsualWindow = 512;
/// Fewest tokens of a template that serves as text, and entries of a vocabulary that serve else.
constexpr size_t kTemplateTokens = 64, kEntries = 256;
/// Neighbours that count as one.
constexpr int64_t kNeighbours = 64;

/// Sums by blocks of neighbours.
class Sums {
public:
  void add(double value) {
    if (count % kNeighbours == 0) {
      blocks.push_back(0);
    }
    blocks.back() += value;
    ++count;
  }
  /// The ratio of two sums over blocks, the values and their number: the last block is shorter.
  Mean mean() const {
    double total = 0, spread = 0, blockCount = static_cast<double>(blocks.size());
    for (double block : blocks) {
      total += block;
    }
    double value = total / static_cast<double>(count);
    int64_t rest = count;
    for (double block : blocks) {
      double off = block - value * static_cast<double>(std::min(rest, kNeighbours));
      spread += off * off;
      rest -= kNeighbours;
    }
    double error = blocks.size() < 2 ? std::abs(value)
                                     : std::sqrt(spread * blockCount / (blockCount - 1)) /
                                           static_cast<double>(count);
    return {value, error};
  }

private:
  std::vector<double> blocks;
  int64_t count = 0;
};

/// Logarithms of probabilities.
std::vector<double> logSoftmax(std::span<const float> logits) {
  double sum = logSum(logits);
  std::vector<double> result;
  result.reserve(logits.size());
  for (float logit : logits) {
    result.push_back(static_cast<double>(logit) - sum);
  }
  return result;
}

double divergenceOf(std::span<const double> from, std::span<const double> to) {
  double sum = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    sum += std::exp(from[i]) * (from[i] - to[i]);
  }
  return sum;
}

auto topOf(std::span<const float> values) {
  return std::ranges::max_element(values) - values.begin();
}

class Scorer {
public:
  Status readWindow(Sequence &sequence, Sequence *other, std::span<const int32_t> window);
  TextScore result(int64_t tokens) const {
    TextScore score;
    score.tokens = tokens;
    score.surprise = surprise.mean();
    if (isCompared) {
      score.divergence = divergence.mean();
      score.sameTop = sameTop.mean();
      score.largestDifference = largestDifference;
      score.largestLogit = largestLogit;
    }
    return score;
  }

private:
  void compare(std::span<const float> wanted, std::span<const float> given);

  Sums surprise, divergence, sameTop;
  float largestDifference = 0, largestLogit = 0;
  bool isCompared = false;
};

void Scorer::compare(std::span<const float> wanted, std::span<const float> given) {
  divergence.add(divergenceOf(logSoftmax(wanted), logSoftmax(given)));
  sameTop.add(topOf(wanted) == topOf(given) ? 1 : 0);
  for (size_t i = 0; i < wanted.size(); ++i) {
    largestDifference = std::max(largestDifference, std::abs(given[i] - wanted[i]));
    largestLogit = std::max(largestLogit, std::abs(wanted[i]));
  }
}

Status Scorer::readWindow(Sequence &sequence, Sequence *other, std::span<const int32_t> window) {
  sequence.cut(0);
  if (other) {
    other->cut(0);
    isCompared = true;
  }
  for (size_t begin = 0; begin + 1 < window.size(); begin += kChunk) {
    std::span<const int32_t> chunk =
        window.subspan(begin, std::min(kChunk, window.size() - 1 - begin));
    std::vector<std::vector<float>> expected;
    if (other) {
      TENON_TRY(other->appendAll(chunk, [&](int64_t, std::span<const float> logits) {
        expected.emplace_back(logits.begin(), logits.end());
        return Status::ok();
      }));
    }
    TENON_TRY(sequence.appendAll(chunk, [&](int64_t position, std::span<const float> logits) {
      size_t next = static_cast<size_t>(window[static_cast<size_t>(position) + 1]);
      double value = logSum(logits) - static_cast<double>(logits[next]);
      if (!std::isfinite(value)) {
        return Status::error(ErrorId::LogitsNotFinite,
                             strCat("the logits at position ", position, " are not finite"),
                             "run the model without --precision and without --allow");
      }
      surprise.add(value);
      if (other) {
        compare(expected[static_cast<size_t>(position) - begin], logits);
      }
      return Status::ok();
    }));
  }
  return Status::ok();
}

Status refuse(std::string what, std::string_view hint) {
  return Status::error(ErrorId::BadArgument, what, hint);
}

} // namespace

std::string ownText(const LanguageModel &model) {
  const Tokenizer &tokenizer = model.tokenizer();
  const std::string &own = model.facts().chatTemplate;
  Result<std::vector<int32_t>> tokens = tokenizer.encode(own);
  if (tokens && tokens->size() >= kTemplateTokens) {
    return own;
  }
  std::string text;
  size_t step = std::max<size_t>(tokenizer.size() / kEntries, 1);
  for (size_t id = 0; id < tokenizer.size(); id += step) {
    int32_t token = static_cast<int32_t>(id);
    std::string piece = tokenizer.decode(std::span(&token, 1));
    bool isAscii = std::ranges::all_of(piece, [](char c) { return c >= ' ' && c <= '~'; });
    text += isAscii ? piece : "";
  }
  return text;
}

Result<TextScore> scoreText(const LanguageModel &model, const LanguageModel *reference,
                            std::string_view text, const ScoreOptions &options,
                            const std::function<bool(double)> &progress) {
  if (reference &&
      model.tokenizer().vocabulary().tokens != reference->tokenizer().vocabulary().tokens) {
    return refuse("the two models have other vocabularies",
                  "compare models of one family and tokenizer");
  }
  int64_t most = std::min(model.facts().positions,
                          reference ? reference->facts().positions : model.facts().positions);
  int64_t wanted = options.window == 0 ? std::min(most, kUsualWindow) : options.window;
  if (wanted < 2 || wanted > most) {
    return refuse(strCat("windows of ", wanted, " tokens: they have 2 to the engine's ", most),
                  "ask for a smaller window, or compile the model for more positions");
  }
  TENON_ASSIGN(std::vector<int32_t> tokens, model.tokenizer().encode(text));
  if (options.maxTokens >= 0) {
    tokens.resize(std::min(tokens.size(), static_cast<size_t>(options.maxTokens)));
  }
  if (tokens.size() < 2) {
    return refuse("the text has fewer than two tokens", "give a longer text");
  }
  TENON_ASSIGN(Sequence sequence, Sequence::create(model, options.threads));
  std::optional<Sequence> other;
  if (reference) {
    TENON_ASSIGN(other, Sequence::create(*reference, options.threads));
  }
  Scorer scorer;
  int64_t foreseen = 0;
  std::span<const int32_t> rest = tokens;
  size_t size = static_cast<size_t>(wanted);
  while (rest.size() >= 2 && (rest.size() * 2 >= size || foreseen == 0)) {
    std::span<const int32_t> window = rest.first(std::min(size, rest.size()));
    TENON_TRY(scorer.readWindow(sequence, other ? &*other : nullptr, window));
    foreseen += static_cast<int64_t>(window.size()) - 1;
    rest = rest.subspan(window.size());
    if (!progress(1 - static_cast<double>(rest.size()) / static_cast<double>(tokens.size()))) {
      return Status::error(ErrorId::Cancelled, "scoring was cancelled");
    }
  }
  return scorer.result(foreseen);
}

} // namespace tenon::generate
