// Draws of tokens by blocks, beside the reference: rows that fill a list and that do not, ties at
// the cut, parameters of each kind. test/unit/reference/SampleTest.cpp has the reference beside the
// sampler of generate.
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "support/random/Random.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>

namespace tenon::codegen::cuda {
namespace {

const Emitter emitSample = byFamily({"token_draws"});

using reference::Tensor;

constexpr char kRows[] = R"(#tn.symbol<"s0", 1, 64>)";

std::string sampleText(int64_t vocabulary) {
  std::string logits =
      llvm::formatv("tensor<?x{0}xf32, #tn.shape<()[s0] -> (s0, {0})>>", vocabulary);
  std::string numbers = "tensor<?x3xf64, #tn.shape<()[s0] -> (s0, 3)>>";
  std::string integers = "tensor<?x3xi64, #tn.shape<()[s0] -> (s0, 3)>>";
  std::string ids = "tensor<?xi64, #tn.shape<()[s0] -> (s0)>>";
  std::string logprobs = "tensor<?xf32, #tn.shape<()[s0] -> (s0)>>";
  std::string results = "(" + ids + ", " + logprobs + ")";
  return regionText("single",
                    "(%x: " + logits + ", %r: " + numbers + ", %i: " + integers + ") -> " + results,
                    "%0:2 = tn.sample %x, %r, %i : (" + logits + ", " + numbers + ", " + integers +
                        ") -> " + results + "\nreturn %0#0, %0#1 : " + ids + ", " + logprobs,
                    kRows);
}

struct Parameters {
  double temperature = 1, topP = 1, minP = 0;
  int64_t topK = 0;
};

using LogitOf = float (*)(Random &random, int64_t row, int64_t token);

RunOptions sampleOptions(const std::vector<Parameters> &rows, LogitOf logitOf) {
  RunOptions options;
  options.symbols = {static_cast<int64_t>(rows.size())};
  options.edit = [=](llvm::MutableArrayRef<Tensor> inputs) {
    Random random(7);
    int64_t vocabulary = inputs[0].dims()[1];
    for (auto [row, own] : llvm::enumerate(rows)) {
      for (int64_t token = 0; token < vocabulary; ++token) {
        inputs[0].as<float>()[row * vocabulary + token] = logitOf(random, row, token);
      }
      const double numbers[] = {own.temperature, own.topP, own.minP};
      const int64_t integers[] = {own.topK, static_cast<int64_t>(random.next()),
                                  static_cast<int64_t>(row) + (int64_t{1} << 40)};
      std::copy_n(numbers, 3, inputs[1].as<double>() + row * 3);
      std::copy_n(integers, 3, inputs[2].as<int64_t>() + row * 3);
    }
  };
  return options;
}

const std::vector<Parameters> kEachKind = {
    {.temperature = 0},
    {},
    {.temperature = 0.7, .topP = 0.9},
    {.topK = 40},
    {.topP = 0.95, .topK = 50},
    {.minP = 0.05},
    {.temperature = 1.3, .topP = 0.999, .minP = 1e-9},
    {.topP = 1e-9},
    {.topK = 1},
    {.topP = 0.5, .topK = 1'000'000},
};

float normal(Random &random, int64_t, int64_t) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) {
    sum += random.unit();
  }
  return static_cast<float>(3 * (sum - 6));
}
/// Mostly equal to others: cuts go through ties.
float steps(Random &random, int64_t, int64_t) { return static_cast<float>(random.below(4)); }
float equal(Random &, int64_t, int64_t) { return -2; }

TEST(Sample, OfAnyNumberOfTokens) {
  for (int64_t vocabulary : {1, 31, 1025}) {
    EXPECT_TRUE(
        matchesReference(sampleText(vocabulary), emitSample, sampleOptions(kEachKind, normal)))
        << vocabulary;
  }
}

TEST(Sample, CutsThroughEqualLogits) {
  const std::vector<Parameters> rows = {{.topP = 0.3}, {.topK = 70}, {.topP = 0.6, .topK = 99}};
  for (LogitOf logits : {steps, equal}) {
    EXPECT_TRUE(matchesReference(sampleText(1500), emitSample, sampleOptions(rows, logits)));
  }
}

TEST(Sample, OfMoreTokensThanAList) {
  const std::vector<Parameters> rows = {
      {}, {.topP = 0.9}, {.topK = 30}, {.topP = 0.95, .topK = 7000}};
  RunOptions options = sampleOptions(rows, normal);
  options.reversed = true;
  EXPECT_TRUE(matchesReference(sampleText(20000), emitSample, options));
  EXPECT_TRUE(
      matchesReference(sampleText(8000), emitSample, sampleOptions({{.topP = 0.5}}, equal)));
}

TEST(Sample, LogitsThatAreNotFinite) {
  LogitOf strange = [](Random &, int64_t row, int64_t token) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float each[] = {std::nanf(""), kInfinity, -kInfinity, 1};
    return token == 3 + 600 * row ? each[row] : static_cast<float>(token % 7);
  };
  EXPECT_TRUE(matchesReference(sampleText(3000), emitSample,
                               sampleOptions({{}, {.topK = 3}, {.temperature = 0}, {}}, strange)));
}

} // namespace
} // namespace tenon::codegen::cuda
