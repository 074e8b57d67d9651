// State on a GPU whose size the session decides: sessions of one engine side by side. Runs on the
// stand-in and on NVIDIA's driver.

#include "test/unit/runtime/GpuFixture.h"

#include <gtest/gtest.h>

namespace tenon::runtime {
namespace {

/// y[cap] is twice the sum of all x so far, which two states hold. The session decides `cap`.
engine::Plan sessionSumPlan() {
  test::PlanBuilder builder;
  engine::ExprId cap = builder.sessionSymbol("cap", 2, 1000, 16);
  uint32_t x = builder.input("x", DType::F32, {cap});
  uint32_t y = builder.output("y", DType::F32, {cap});
  engine::ExprId bytes = builder.plan.exprs.mul(cap, builder.size(4));
  uint32_t sum = builder.stateOf(bytes), last = builder.stateOf(bytes);
  test::launchGpu(builder, test::GpuAdd, {x, sum}, {sum}, cap);
  builder.copy(sum, last, bytes);
  test::launchGpu(builder, test::GpuScale, {last}, {y}, cap);
  builder.finish();
  return builder.plan;
}

class GpuState : public test::OnGpu {};

TEST_F(GpuState, SessionsDecideTheSizeOfTheirState) {
  test::GpuEngine engine(sessionSumPlan());
  std::shared_ptr<const Engine> opened =
      *Engine::open(engine.writeTemporary("session-sum.tenon"), test::gpuOptions());
  std::vector<std::unique_ptr<Session>> sessions;
  const std::vector<int64_t> caps = {2, 1000, 16};
  for (int64_t cap : caps) {
    SessionOptions options;
    options.symbols = {{"cap", cap}};
    // The preset is what a session without values has.
    sessions.push_back(std::move(*Session::create(opened, cap == 16 ? SessionOptions() : options)));
    EXPECT_EQ(2u * ((static_cast<uint64_t>(cap) * 4 + 255) / 256 * 256),
              sessions.back()->memoryUse().stateBytes);
  }
  for (int round = 1; round <= 4; ++round) {
    for (size_t i = 0; i < caps.size(); ++i) {
      std::vector<float> input = test::ramp(caps[i]), expected;
      for (float value : input) {
        expected.push_back(2.0f * static_cast<float>(round) * value);
      }
      EXPECT_EQ(expected, *test::runOnHost(*sessions[i], input)) << round << " " << caps[i];
    }
  }
  EXPECT_EQ(ErrorId::RunInputMismatch, test::runOnHost(*sessions[0], test::ramp(3)).status().id());
  SessionOptions small;
  small.memoryLimit = 4096;
  small.symbols = {{"cap", 1000}};
  EXPECT_EQ(ErrorId::RunOutOfMemory, Session::create(opened, small).status().id());
}

} // namespace
} // namespace tenon::runtime
