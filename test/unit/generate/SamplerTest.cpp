#include "generate/sampling/Sampler.h"
#include "generate/sampling/Exponentials.h"

#include "support/random/GumbelNoise.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace tenon::generate {
namespace {

int32_t drawOnce(SamplingOptions options, std::vector<float> logits, uint64_t position = 0,
                 std::vector<int32_t> prompt = {}) {
  return Sampler(std::move(options), prompt).draw(logits, position)->token;
}

// The known answers of Random123, kat_vectors.
/// Of a logprob, as Sampler.h has it.
constexpr double kLogprobError = 3e-7;

TEST(Exponentials, AreWithinTheirBound) {
  std::vector<float> logits, results;
  for (float x = 0; x > -100; x -= 0.00917f) {
    logits.push_back(x + 3);
  }
  results.resize(logits.size());
  exponentials(logits, 3, results);
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    double exact = std::exp(static_cast<double>(logits[i] - 3));
    EXPECT_NEAR(results[i], exact, 3e-7 * exact + 2e-38) << logits[i];
    sum += exact;
  }
  EXPECT_NEAR(sumOfExponentials(logits, 3), sum, 3e-7 * sum);
  EXPECT_EQ(results[0], 1);
  float never = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(sumOfExponentials(std::span(&never, 1), 3), 0);
}

TEST(Noise, IsPhilox) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Noise, IsWithinItsBounds) {
  for (uint64_t i = 0; i < 100000; ++i) {
    double value = uniform(i, i * i, static_cast<uint32_t>(i * 7));
    ASSERT_GT(value, 0);
    ASSERT_LT(value, 1);
    ASSERT_LE(gumbel(value), mostNoise());
    ASSERT_GE(gumbel(value), leastNoise());
  }
}

TEST(Sampler, TakesTheLargestAndOfEqualsTheLower) {
  EXPECT_EQ(drawOnce({}, {1, 3, 2}), 1);
  EXPECT_EQ(drawOnce({}, {1, 3, 3, 3}), 1);
  EXPECT_EQ(drawOnce({.bias = {{2, 1.5}}}, {1, 3, 2}), 2);
  std::vector<float> logits = {0, 2, 2, 1, 2};
  std::vector<Draw> top = topTokens(logits, 4);
  ASSERT_EQ(top.size(), 4u);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_EQ(top[1].token, 2);
  EXPECT_EQ(top[2].token, 4);
  EXPECT_EQ(top[3].token, 3);
  EXPECT_EQ(topTokens(logits, 99).size(), 5u);
}

TEST(Sampler, LogprobsAreTheModelsOwn) {
  std::vector<float> logits = {0, 1, 2};
  double sum = std::log(std::exp(0.0) + std::exp(1.0) + std::exp(2.0));
  Result<Draw> draw = Sampler({.bias = {{0, 100}}}, {}).draw(logits, 0);
  EXPECT_EQ(draw->token, 0);
  EXPECT_NEAR(draw->logprob, 0 - sum, kLogprobError);
  EXPECT_NEAR(topTokens(logits, 1)[0].logprob, 2 - sum, kLogprobError);
}

TEST(Sampler, PenaltiesCountWhatWasSeen) {
  // Repetition takes the prompt in; frequency and presence only what was generated.
  EXPECT_EQ(drawOnce({.repetition = 2}, {3, 2}, 0, {0}), 1);
  EXPECT_EQ(drawOnce({.repetition = 2}, {-1, -1.5}, 0, {0}), 1);
  EXPECT_EQ(drawOnce({.frequency = 9, .presence = 9}, {3, 2}, 0, {0}), 0);
  Sampler frequent({.frequency = 0.6}, {});
  std::vector<float> logits = {3, 2};
  EXPECT_EQ(frequent.draw(logits, 0)->token, 0);
  EXPECT_EQ(frequent.draw(logits, 1)->token, 0);
  EXPECT_EQ(frequent.draw(logits, 2)->token, 1);
  Sampler present({.presence = 1.5}, {});
  EXPECT_EQ(present.draw(logits, 0)->token, 0);
  EXPECT_EQ(present.draw(logits, 1)->token, 1);
  EXPECT_EQ(drawOnce({.repetition = 2}, {3, 2}, 0, {-1, 99, 0}), 1);
}

TEST(Sampler, RefusesEachNumberOutOfRange) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInf = std::numeric_limits<double>::infinity();
  auto holds = [](const SamplingOptions &options) {
    Status status = checkSampling(options, 10);
    return status.isOk() || status.id() != ErrorId::BadArgument;
  };
  EXPECT_TRUE(holds({}));
  EXPECT_TRUE(holds({.temperature = 1e6,
                     .topK = 10,
                     .topP = 1e-9,
                     .minP = 1,
                     .repetition = 1e-9,
                     .frequency = -2,
                     .presence = 2,
                     .bias = {{9, -100}}}));
  for (double bad : {-0.1, 2e6, kNan, kInf, -kInf}) {
    EXPECT_FALSE(holds({.temperature = bad}));
    EXPECT_FALSE(holds({.topP = bad}));
    EXPECT_FALSE(holds({.minP = bad}));
    EXPECT_FALSE(holds({.repetition = bad}));
  }
  for (double bad : {-2e6, 2e6, kNan, kInf}) {
    EXPECT_FALSE(holds({.frequency = bad}));
    EXPECT_FALSE(holds({.presence = bad}));
    EXPECT_FALSE(holds({.bias = {{0, bad}}}));
  }
  EXPECT_NE(checkSampling({.temperature = -0.25}, 10).message().find("-0.25"),
            std::string_view::npos);
  EXPECT_NE(checkSampling({.bias = {{11, 1.5}}}, 10).message().find("11=1.5"),
            std::string_view::npos);
  EXPECT_FALSE(holds({.topK = -1}));
  EXPECT_FALSE(holds({.topK = 11}));
  EXPECT_FALSE(holds({.topP = 0}));
  EXPECT_FALSE(holds({.topP = 1.01}));
  EXPECT_FALSE(holds({.minP = 1.01}));
  EXPECT_FALSE(holds({.repetition = 0}));
  EXPECT_FALSE(holds({.bias = {{-1, 0}}}));
  EXPECT_FALSE(holds({.bias = {{10, 0}}}));
}

TEST(Sampler, NamesLogitsThatAreNotFinite) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits = {0, bad};
    Result<Draw> draw = Sampler({}, {}).draw(logits, 41);
    ASSERT_FALSE(draw);
    EXPECT_EQ(draw.status().id(), ErrorId::LogitsNotFinite);
    EXPECT_NE(draw.status().message().find("41"), std::string_view::npos);
  }
}

/// Of each token, how often it is drawn.
std::vector<int> countDraws(const SamplingOptions &options, const std::vector<float> &logits,
                            int draws) {
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    ++counts[drawOnce(options, logits, static_cast<uint64_t>(i))];
  }
  return counts;
}

double chiSquare(const std::vector<int> &counts, const std::vector<double> &weights, int draws) {
  double sum = 0, total = 0;
  for (double weight : weights) {
    total += weight;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    double expected = draws * weights[i] / total;
    if (weights[i] == 0) {
      EXPECT_EQ(counts[i], 0) << i;
    } else {
      sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  return sum;
}

TEST(Sampler, DrawsWithTheSoftmaxsProbabilities) {
  constexpr int kDraws = 20000;
  std::vector<float> logits = {0, 1, -1, 2, 0.5, 1.5, -2, 0};
  for (double temperature : {0.5, 1.0, 2.0}) {
    std::vector<double> weights;
    for (float logit : logits) {
      weights.push_back(std::exp(logit / temperature));
    }
    // Seven degrees of freedom: 24.3 is exceeded once in a thousand.
    EXPECT_LT(chiSquare(countDraws({.temperature = temperature, .seed = 3}, logits, kDraws),
                        weights, kDraws),
              24.3);
  }
}

TEST(Sampler, LeavesOutWhatTheBoundsLeaveOut) {
  constexpr int kDraws = 4000;
  std::vector<float> logits = {std::log(0.1F), std::log(0.4F), std::log(0.3F), std::log(0.2F)};
  SamplingOptions options{.temperature = 1, .seed = 5};
  auto check = [&](std::vector<double> weights) {
    EXPECT_LT(chiSquare(countDraws(options, logits, kDraws), weights, kDraws), 16.3);
  };
  options.topK = 2;
  check({0, 0.4, 0.3, 0});
  options.topK = 0;
  options.topP = 0.6; // 0.4 + 0.3
  check({0, 0.4, 0.3, 0});
  options.topP = 0.75;
  check({0, 0.4, 0.3, 0.2});
  options.topP = 1e-9;
  check({0, 1, 0, 0});
  options.topP = 1;
  options.minP = 0.6; // of 0.4: 0.24
  check({0, 0.4, 0.3, 0});
  options.minP = 1;
  check({0, 1, 0, 0});
  // min-p comes before top-k, and top-p counts what these left.
  options.minP = 0.4;
  options.topK = 3;
  options.topP = 0.5; // of 0.9: 0.4 is less, 0.7 is enough
  check({0, 0.4, 0.3, 0});
  // Of equals, the first K.
  options = {.temperature = 1, .topK = 2};
  logits = {1, 1, 1, 1};
  check({1, 1, 0, 0});
}

TEST(Sampler, ADrawDependsOnSeedAndPositionAlone) {
  std::vector<float> logits(50);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(i % 7) * 0.3F;
  }
  SamplingOptions options{.temperature = 1, .seed = 9};
  Sampler together(options, {});
  std::vector<int32_t> tokens;
  for (uint64_t position = 0; position < 40; ++position) {
    tokens.push_back(together.draw(logits, position)->token);
  }
  bool differs = false;
  for (uint64_t position = 40; position-- > 0;) { // alone, and from the end
    EXPECT_EQ(drawOnce(options, logits, position), tokens[position]);
    SamplingOptions other = options;
    other.seed = 10;
    differs = differs || drawOnce(other, logits, position) != tokens[position];
  }
  EXPECT_TRUE(differs);
  // A vocabulary that is longer by what is never drawn changes no draw.
  std::vector<float> longer = logits;
  longer.resize(80, -1000);
  for (uint64_t position = 0; position < 40; ++position) {
    EXPECT_EQ(drawOnce(options, longer, position), tokens[position]);
  }
}

TEST(Sampler, TakesTheLargestWhereNumbersAreExtreme) {
  EXPECT_EQ(drawOnce({.temperature = 1e-300}, {1, 3, 2}), 1);
  EXPECT_EQ(drawOnce({.temperature = 1e-300, .topP = 0.5}, {1, 3, 2}), 1);
  EXPECT_EQ(drawOnce({.temperature = 1, .minP = 1}, {-1e38F, 3e38F}), 1);
}

} // namespace
} // namespace tenon::generate
