// Scorers: how much memory they take for what they are given.

#include "tools/tenon/accuracy/Metric.h"
#include "tools/tenon/accuracy/Memory.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tenon::tool {
namespace {

TEST(Metric, AProgramsArrayDoesNotDoubleTheOutputs) {
  constexpr int64_t kFloats = int64_t(2) << 20;
  constexpr size_t kSamples = 16;
  Result<MetricSpec> spec = parseMetric("cmd:echo 3;:");
  ASSERT_TRUE(spec.isOk());
  Result<std::unique_ptr<Scorer>> scorer = makeScorer(*spec, 0, nullptr);
  ASSERT_TRUE(scorer.isOk());
  std::vector<Tensor> outputs;
  outputs.push_back(std::move(*Tensor::create("y", DType::F32, {kFloats})));
  std::ranges::fill(outputs[0].data.bytes(), std::byte(1));
  for (size_t sample = 0; sample < kSamples; ++sample) {
    ASSERT_TRUE((*scorer)->add({.sample = sample, .inputs = {}, .outputs = outputs}).isOk());
  }
  Result<double> value = 0;
  uint64_t peak = peakMemoryOf([&] { value = (*scorer)->value(); });
  ASSERT_TRUE(value.isOk()) << value.status().toString();
  EXPECT_EQ(*value, 3);
  EXPECT_LT(peak, kSamples * kFloats * sizeof(float) / 2);
}

} // namespace
} // namespace tenon::tool
