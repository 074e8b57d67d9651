// State through the whole way on the CPU: what a run leaves is what the next one finds, in sessions
// of their own, until it is reset. Relies on a model in text form, as phases are dumped.
#include "TemporaryFolder.h"
#include "compiler/pipeline/Pipeline.h"
#include "engine/Reader.h"
#include "runtime/core/Engine.h"
#include "runtime/core/Session.h"

#include <fstream>
#include <gtest/gtest.h>

using namespace tenon;

namespace {

/// Row `i` of a cache of four rows becomes `x`, a count goes up by one, a shift register moves on;
/// the result is the sum of the cache's rows plus the count plus the register's last row.
constexpr const char *kStateModel = R"(
module attributes {tn.phase = "import"} {
  func.func @main(%cache: tensor<4x8xf32> {tn.name = "cache"}, %count: tensor<f32> {tn.name = "count"},
      %shifted: tensor<3x8xf32> {tn.name = "shifted"},
      %i: tensor<1xi64> {tn.name = "i"}, %x: tensor<1x8xf32> {tn.name = "x"}) ->
      (tensor<4x8xf32> {tn.name = "new_cache"}, tensor<f32> {tn.name = "new_count"},
       tensor<3x8xf32> {tn.name = "new_shifted"}, tensor<8xf32> {tn.name = "y"}) {
    %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
    %row = tn.reshape %i : (tensor<1xi64>) -> tensor<1x1xi64>
    %rows = tn.broadcast %row : (tensor<1x1xi64>) -> tensor<1x8xi64>
    %new = tn.scatter_elements <none> %cache, %rows, %x {axis = 0 : i64} : (tensor<4x8xf32>, tensor<1x8xi64>, tensor<1x8xf32>) -> tensor<4x8xf32>
    %more = tn.add %count, %one : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %tail = tn.slice %shifted {starts = affine_map<() -> (1, 0)>, steps = array<i64: 1, 1>} : (tensor<3x8xf32>) -> tensor<2x8xf32>
    %moved = tn.concat %tail, %x {axis = 0 : i64} : (tensor<2x8xf32>, tensor<1x8xf32>) -> tensor<3x8xf32>
    %first = tn.slice %moved {starts = affine_map<() -> (0, 0)>, steps = array<i64: 1, 1>} : (tensor<3x8xf32>) -> tensor<1x8xf32>
    %flat = tn.reshape %first : (tensor<1x8xf32>) -> tensor<8xf32>
    %sum = tn.reduce <sum> %new {axes = array<i64: 0>, keepdims = false} : (tensor<4x8xf32>) -> tensor<8xf32>
    %0 = tn.add %sum, %more : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %y = tn.add %0, %flat : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %new, %more, %moved, %y : tensor<4x8xf32>, tensor<f32>, tensor<3x8xf32>, tensor<8xf32>
  }
})";

class StateTest : public testing::Test {
protected:
  pipeline::CompileOptions options() {
    std::ofstream(folder.path("model.mlir")) << kStateModel;
    pipeline::CompileOptions options;
    options.model = folder.path("model.mlir");
    options.output = folder.path("model.tenon");
    options.levels = {engine::CpuLevel::X86_64_V3};
    options.states = {{"cache", "new_cache"}, {"count", "new_count"}, {"shifted", "new_shifted"}};
    return options;
  }

  /// A step with row `i` all `value`; the first element of the result.
  static float step(runtime::Session &session, int64_t i, float value) {
    std::vector<float> x(8, value), y(8);
    const int64_t one[] = {1}, row[] = {1, 8};
    runtime::InputBinding inputs[] = {{.data = &i, .dims = one}, {.data = x.data(), .dims = row}};
    runtime::OutputBinding output{.data = y.data(), .bytes = 8 * sizeof(float)};
    Status status = session.run(inputs, {&output, 1});
    EXPECT_TRUE(status.isOk()) << status.toString();
    EXPECT_EQ(y, std::vector<float>(8, y[0]));
    return y[0];
  }

  TemporaryFolder folder;
};

TEST_F(StateTest, OutlivesRunsAndBelongsToASession) {
  for (std::optional<opt::Precision> precision :
       {std::optional<opt::Precision>(), std::optional(opt::Precision::Fp16)}) {
    pipeline::CompileOptions compile = options();
    compile.precision = precision;
    compile.verify = true;
    Result<pipeline::CompileSummary> summary = pipeline::compile(compile);
    ASSERT_TRUE(summary) << summary.status().toString();
    Result<std::shared_ptr<const runtime::Engine>> engine = runtime::Engine::open(compile.output);
    ASSERT_TRUE(engine) << engine.status().toString();
    EXPECT_EQ((*engine)->plan().inputs.size(), 2u);
    EXPECT_EQ((*engine)->plan().outputs.size(), 1u);
    std::unique_ptr<runtime::Session> first = std::move(*runtime::Session::create(*engine));
    std::unique_ptr<runtime::Session> second = std::move(*runtime::Session::create(*engine));
    EXPECT_EQ(step(*first, 0, 10), 10 + 1 + 0);
    EXPECT_EQ(step(*first, 1, 20), 30 + 2 + 0);
    EXPECT_EQ(step(*second, 3, 5), 5 + 1 + 0);
    EXPECT_EQ(step(*first, 0, 40), 60 + 3 + 10); // row 0 is replaced, the first value comes out
    EXPECT_EQ(step(*first, 2, 1), 61 + 4 + 20);
    ASSERT_TRUE(first->resetState().isOk());
    EXPECT_EQ(step(*first, 1, 7), 7 + 1 + 0);
    EXPECT_EQ(step(*second, 3, 6), 6 + 2 + 0);
  }
}

TEST_F(StateTest, AStarPairsAllThatFit) {
  pipeline::CompileOptions compile = options();
  compile.states = {{"*", "new_*"}};
  EXPECT_FALSE(pipeline::compile(compile)); // there is no output new_i
  compile.states = {{"c*", "new_c*"}};
  Result<pipeline::CompileSummary> summary = pipeline::compile(compile);
  ASSERT_TRUE(summary) << summary.status().toString();
  Result<std::shared_ptr<const runtime::Engine>> engine = runtime::Engine::open(compile.output);
  ASSERT_TRUE(engine) << engine.status().toString();
  ASSERT_EQ((*engine)->plan().inputs.size(), 3u);
  EXPECT_EQ((*engine)->plan().inputs[0].name, "shifted");
}

TEST_F(StateTest, OnAGpuOnlyTheNewRowIsWritten) {
  pipeline::CompileOptions compile = options();
  compile.levels.clear();
  compile.gpus = {target::targetOf("sm_90")};
  Result<pipeline::CompileSummary> summary = pipeline::compile(compile);
  ASSERT_TRUE(summary) << summary.status().toString();
  Result<std::unique_ptr<engine::EngineFile>> file = engine::EngineFile::open(compile.output);
  ASSERT_TRUE(file) << file.status().toString();
  const engine::Plan &plan = (*file)->variants().front().plan;
  constexpr int64_t kCacheBytes = 4 * 8 * sizeof(float);
  int writes = 0;
  for (const engine::Instruction &instruction : plan.instructions) {
    for (size_t i = instruction.reads; i < instruction.buffers.size(); ++i) {
      const engine::Buffer &buffer = plan.buffers[instruction.buffers[i]];
      writes += buffer.space == engine::Space::State &&
                plan.exprs.constantValue(buffer.size) == kCacheBytes;
    }
  }
  EXPECT_EQ(writes, 1); // the scatter without the copy that it starts with elsewhere
}

TEST_F(StateTest, WhatCannotBeAStateIsRefused) {
  for (const auto &[states, why] :
       std::vector<std::pair<std::vector<pipeline::StateOption>, std::string>>{
           {{{"cash", "new_cache"}}, "no such input"},
           {{{"cache", "cache"}}, "no such output"},
           {{{"cache", "new_count"}}, "different shapes"},
           {{{"cache", "new_cache"}, {"cache", "new_cache"}}, "part of another state"}}) {
    pipeline::CompileOptions compile = options();
    compile.states = states;
    Result<pipeline::CompileSummary> summary = pipeline::compile(compile);
    ASSERT_FALSE(summary);
    EXPECT_EQ(summary.status().id(), ErrorId::BadArgument);
    EXPECT_NE(summary.status().toString().find(why), std::string::npos)
        << summary.status().toString();
  }
}

} // namespace
