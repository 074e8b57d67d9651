// tn.sample beside the sampler of generate: the same token of each row, whatever the logits. Relies
// on the reference's own loops, which share with the sampler only the operations of GumbelNoise.h.
#include "generate/sampling/Sampler.h"
#include "support/random/Random.h"
#include "test/unit/reference/ReferenceFixture.h"

#include <cmath>
#include <numbers>

namespace tenon::reference {
namespace {

using generate::Sampler;
using generate::SamplingOptions;

/// How a row's logits lie.
enum class Kind { Normal, Peaked, Flat, Equal, FewValues, Huge, Tiny, Descending };
constexpr Kind kKinds[] = {Kind::Normal,    Kind::Peaked, Kind::Flat, Kind::Equal,
                           Kind::FewValues, Kind::Huge,   Kind::Tiny, Kind::Descending};

float logitOf(Kind kind, Random &random, int64_t token) {
  double normal =
      std::sqrt(-2 * std::log(1 - random.unit())) * std::cos(2 * std::numbers::pi * random.unit());
  switch (kind) {
  case Kind::Normal:
    return static_cast<float>(3 * normal);
  case Kind::Peaked:
    return static_cast<float>(12 * normal);
  case Kind::Flat:
    return static_cast<float>(1e-3 * normal);
  case Kind::Equal:
    return 1.5f;
  case Kind::FewValues:
    return static_cast<float>(random.below(3));
  case Kind::Huge:
    return static_cast<float>(1e38 * normal / 2);
  case Kind::Tiny:
    return static_cast<float>(1e-40 * normal);
  case Kind::Descending:
    return -static_cast<float>(token) / 64;
  }
  return 0;
}

SamplingOptions randomOptions(Random &random, int64_t vocabulary) {
  SamplingOptions options;
  options.temperature = random.one({0.0, 1.0, 0.7, 1e-6, 30.0});
  options.topK = random.one<int64_t>({0, 0, 1, 2, 40, vocabulary, vocabulary / 2});
  options.topK = std::min(options.topK, vocabulary);
  options.topP = random.one({1.0, 0.9, 0.5, 1e-9, 0.999999, random.unit() + 1e-9});
  options.topP = std::min(options.topP, 1.0);
  options.minP = random.one({0.0, 0.0, 0.05, 1.0, 1e-12});
  options.seed = random.next();
  return options;
}

struct SampleTest : ReferenceTest {
  /// Rows of one kind, each with parameters of its own.
  void compare(Kind kind, int64_t rows, int64_t vocabulary, uint64_t seed);
  /// Ids and logprobs.
  std::vector<Tensor> sample(const Tensor &logits, const Tensor &numbers, const Tensor &integers);
};

std::vector<Tensor> SampleTest::sample(const Tensor &logits, const Tensor &numbers,
                                       const Tensor &integers) {
  std::string rows = std::to_string(logits.dims()[0]);
  std::string in = "tensor<" + rows + "x" + std::to_string(logits.dims()[1]) + "xf32>";
  std::string reals = "tensor<" + rows + "x3xf64>", whole = "tensor<" + rows + "x3xi64>";
  std::string out = "(tensor<" + rows + "xi64>, tensor<" + rows + "xf32>)";
  mlir::OwningOpRef<mlir::ModuleOp> module =
      parse("func.func @f(%0: " + in + ", %1: " + reals + ", %2: " + whole + ") -> " + out +
            " {\n%3:2 = tn.sample %0, %1, %2 : (" + in + ", " + reals + ", " + whole + ") -> " +
            out + "\nreturn %3#0, %3#1 : tensor<" + rows + "xi64>, tensor<" + rows + "xf32>\n}");
  EXPECT_TRUE(module) << message;
  Result<std::vector<Tensor>> results = run(*module, {logits, numbers, integers});
  EXPECT_TRUE(results) << results.status().message();
  return std::move(*results);
}

void SampleTest::compare(Kind kind, int64_t rows, int64_t vocabulary, uint64_t seed) {
  Random random(seed);
  Tensor logits = *Tensor::create(DType::F32, {rows, vocabulary});
  Tensor numbers = *Tensor::create(DType::F64, {rows, 3});
  Tensor integers = *Tensor::create(DType::I64, {rows, 3});
  std::vector<SamplingOptions> options;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t token = 0; token < vocabulary; ++token) {
      logits.as<float>()[row * vocabulary + token] = logitOf(kind, random, token);
    }
    const SamplingOptions &own = options.emplace_back(randomOptions(random, vocabulary));
    const double reals[] = {own.temperature, own.topP, own.minP};
    const int64_t whole[] = {own.topK, static_cast<int64_t>(own.seed), row * 1000003};
    std::copy_n(reals, 3, numbers.as<double>() + row * 3);
    std::copy_n(whole, 3, integers.as<int64_t>() + row * 3);
  }
  std::vector<Tensor> drawn = sample(logits, numbers, integers);
  for (int64_t row = 0; row < rows; ++row) {
    std::span<const float> own(logits.as<float>() + row * vocabulary, vocabulary);
    Result<generate::Draw> draw =
        Sampler(options[row], {}).draw(own, static_cast<uint64_t>(row * 1000003));
    ASSERT_TRUE(draw);
    const SamplingOptions &o = options[row];
    EXPECT_EQ(drawn[0].as<int64_t>()[row], draw->token)
        << "kind " << static_cast<int>(kind) << ", " << vocabulary << " tokens, temperature "
        << o.temperature << ", top-k " << o.topK << ", top-p " << o.topP << ", min-p " << o.minP;
    double error = 1e-6 * std::max(1.0, std::abs(draw->logprob));
    EXPECT_NEAR(drawn[1].as<float>()[row], draw->logprob, error);
  }
}

TEST_F(SampleTest, DrawsWhatTheSamplerDraws) {
  uint64_t seed = 1;
  for (Kind kind : kKinds) {
    for (int64_t vocabulary : {1, 2, 63, 64, 65, 1000}) {
      compare(kind, 100, vocabulary, ++seed);
    }
    compare(kind, 4, 32768, ++seed);
  }
}

TEST_F(SampleTest, DrawsWhatTheSamplerDrawsOfManyTokens) {
  compare(Kind::Normal, 4, 262144, 91);
  compare(Kind::Flat, 2, 262144, 92);
  compare(Kind::Equal, 2, 262144, 93);
}

TEST_F(SampleTest, RefusesLogitsThatAreNotFinite) {
  Tensor logits = floats({4, 3}, {0, kNan, 1, kInf, 0, 0, 0, -kInf, 0, 0, 1, 0});
  Tensor numbers = make(DType::F64, {4, 3}, {0, 1, 0, 1, 1, 0, 1, 0.5, 0, 0, 1, 0});
  Tensor integers = make(DType::I64, {4, 3}, std::vector<double>(12, 0));
  std::vector<Tensor> drawn = sample(logits, numbers, integers);
  expectTensor(drawn[0], {4}, {-1, -1, -1, 1});
  EXPECT_TRUE(std::isnan(drawn[1].as<float>()[0]) && std::isnan(drawn[1].as<float>()[2]));
}

} // namespace
} // namespace tenon::reference
