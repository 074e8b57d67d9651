// State whose size a session decides, through the whole way on the CPU: one engine, sessions with
// caches of 8 and of 1000 rows. Relies on a model in text form, as phases are dumped.
#include "TemporaryFolder.h"
#include "compiler/pipeline/Pipeline.h"
#include "engine/Reader.h"
#include "runtime/core/Engine.h"
#include "runtime/core/MemoryForecast.h"
#include "runtime/core/Session.h"

#include <fstream>
#include <gtest/gtest.h>
#include <numeric>

using namespace tenon;

namespace {

/// Row `i` of a cache of `cap` rows becomes `x`; the result is the sum of the rows, each times its
/// weight.
constexpr const char *kCacheModel = R"(
module attributes {tn.phase = "import", tn.symbols = [#tn.symbol<"n", 1, 16>, #tn.symbol<"cap", 2, 1000>]} {
  func.func @main(%x: tensor<?x4xf32, #tn.shape<()[s0] -> (s0, 4)>> {tn.name = "x"},
      %i: tensor<?x1xi64, #tn.shape<()[s0] -> (s0, 1)>> {tn.name = "i"},
      %w: tensor<?x1xf32, #tn.shape<()[s0, s1] -> (s1, 1)>> {tn.name = "w"},
      %cache: tensor<?x4xf32, #tn.shape<()[s0, s1] -> (s1, 4)>> {tn.name = "cache"}) ->
      (tensor<4xf32> {tn.name = "y"}, tensor<?x4xf32, #tn.shape<()[s0, s1] -> (s1, 4)>> {tn.name = "new"}) {
    %new = tn.scatter_nd <none> %cache, %i, %x : (tensor<?x4xf32, #tn.shape<()[s0, s1] -> (s1, 4)>>, tensor<?x1xi64, #tn.shape<()[s0] -> (s0, 1)>>, tensor<?x4xf32, #tn.shape<()[s0] -> (s0, 4)>>) -> tensor<?x4xf32, #tn.shape<()[s0, s1] -> (s1, 4)>>
    %weighted = tn.mul %new, %w : (tensor<?x4xf32, #tn.shape<()[s0, s1] -> (s1, 4)>>, tensor<?x1xf32, #tn.shape<()[s0, s1] -> (s1, 1)>>) -> tensor<?x4xf32, #tn.shape<()[s0, s1] -> (s1, 4)>>
    %y = tn.reduce <sum> %weighted {axes = array<i64: 0>, keepdims = false} : (tensor<?x4xf32, #tn.shape<()[s0, s1] -> (s1, 4)>>) -> tensor<4xf32>
    return %y, %new : tensor<4xf32>, tensor<?x4xf32, #tn.shape<()[s0, s1] -> (s1, 4)>>
  }
})";

class SessionSymbolTest : public testing::Test {
protected:
  std::shared_ptr<const runtime::Engine> compile(bool verify = true) {
    std::ofstream(folder.path("model.mlir")) << kCacheModel;
    pipeline::CompileOptions options;
    options.model = folder.path("model.mlir");
    options.output = folder.path("model.tenon");
    options.levels = {engine::CpuLevel::X86_64_V3};
    options.states = {{"cache", "new"}};
    options.verify = verify;
    Result<pipeline::CompileSummary> summary = pipeline::compile(options);
    EXPECT_TRUE(summary) << summary.status().toString();
    Result<std::shared_ptr<const runtime::Engine>> engine = runtime::Engine::open(options.output);
    EXPECT_TRUE(engine) << engine.status().toString();
    return *engine;
  }

  static Result<std::unique_ptr<runtime::Session>>
  session(std::shared_ptr<const runtime::Engine> engine, std::vector<runtime::SymbolValue> values,
          uint64_t limit = uint64_t(1) << 30) {
    return runtime::Session::create(
        std::move(engine), {.threads = 1, .memoryLimit = limit, .symbols = std::move(values)});
  }

  /// Rows `rows` of the cache get `value`; the sum with weights 1, 2, ... of `cap` rows.
  static Result<float> step(runtime::Session &session, std::vector<int64_t> rows, float value,
                            int64_t cap) {
    int64_t count = static_cast<int64_t>(rows.size());
    std::vector<float> x(rows.size() * 4, value), y(4), weights(static_cast<size_t>(cap));
    std::iota(weights.begin(), weights.end(), 1.0f);
    const int64_t xDims[] = {count, 4}, rowDims[] = {count, 1}, weightDims[] = {cap, 1};
    runtime::InputBinding inputs[] = {{.data = x.data(), .dims = xDims},
                                      {.data = rows.data(), .dims = rowDims},
                                      {.data = weights.data(), .dims = weightDims}};
    runtime::OutputBinding output{.data = y.data(), .bytes = 4 * sizeof(float)};
    TENON_TRY(session.run(inputs, {&output, 1}));
    EXPECT_EQ(y, std::vector<float>(4, y[0]));
    return y[0];
  }

  TemporaryFolder folder;
};

TEST_F(SessionSymbolTest, SessionsOfOneEngineDiffer) {
  std::shared_ptr<const runtime::Engine> engine = compile();
  const engine::Plan &plan = engine->plan();
  ASSERT_EQ(plan.sessionSymbols(), 1u);
  EXPECT_EQ(plan.symbols[0].name, "cap");
  EXPECT_EQ(plan.symbols[0].preset, 1000);
  std::unique_ptr<runtime::Session> small = std::move(*session(engine, {{"cap", 8}}));
  std::unique_ptr<runtime::Session> large = std::move(*session(engine, {{"cap", 1000}}));
  std::unique_ptr<runtime::Session> preset = std::move(*session(engine, {}));
  EXPECT_EQ(*step(*small, {0, 7}, 3, 8), 3 * 1 + 3 * 8);
  EXPECT_EQ(*step(*large, {999}, 2, 1000), 2 * 1000);
  EXPECT_EQ(*step(*small, {1}, 5, 8), 3 * 1 + 3 * 8 + 5 * 2);
  EXPECT_EQ(*step(*large, {1, 2, 3}, 1, 1000), 2 * 1000 + 2 + 3 + 4);
  EXPECT_EQ(*step(*preset, {500}, 1, 1000), 501);
  ASSERT_TRUE(small->resetState().isOk());
  EXPECT_EQ(*step(*small, {2}, 1, 8), 3);
  EXPECT_EQ(*step(*large, {5}, 1, 1000), 2 * 1000 + 2 + 3 + 4 + 6);
}

TEST_F(SessionSymbolTest, ASessionHoldsItsRunsToItsValue) {
  std::shared_ptr<const runtime::Engine> engine = compile(false);
  std::unique_ptr<runtime::Session> small = std::move(*session(engine, {{"cap", 8}}));
  EXPECT_EQ(step(*small, {8}, 1, 8).status().id(), ErrorId::RunIndexOutOfRange);
  Status wrong = step(*small, {0}, 1, 9).status();
  EXPECT_EQ(wrong.id(), ErrorId::RunInputMismatch);
  EXPECT_EQ(wrong.message(), "input 'w' has 9 in dim 0, but the session makes it 8 (cap)");
}

TEST_F(SessionSymbolTest, BadValuesAreRefused) {
  std::shared_ptr<const runtime::Engine> engine = compile(false);
  for (const auto &[values, message] :
       std::vector<std::pair<std::vector<runtime::SymbolValue>, std::string>>{
           {{{"pages", 8}}, "sessions of the engine have no symbol 'pages'"},
           {{{"n", 8}}, "sessions of the engine have no symbol 'n'"},
           {{{"cap", 1}}, "'cap' of the session is to be 1, but the engine accepts 2 to 1000"},
           {{{"cap", 8}, {"cap", 1001}},
            "'cap' of the session is to be 1001, but the engine accepts 2 to 1000"},
           {{{"cap", INT64_MIN}},
            "'cap' of the session is to be -9223372036854775808, but the "
            "engine accepts 2 to 1000"}}) {
    Status status = session(engine, values).status();
    EXPECT_EQ(status.id(), ErrorId::BadArgument);
    EXPECT_EQ(status.message(), message);
  }
  EXPECT_EQ(session(engine, {{"cap", 1000}}, 4096).status().id(), ErrorId::RunOutOfMemory);
  EXPECT_TRUE(session(engine, {{"cap", 8}}, 4096));
}

TEST_F(SessionSymbolTest, MemorySaidIsMemoryHeld) {
  std::shared_ptr<const runtime::Engine> engine = compile(false);
  for (int64_t cap : {2, 8, 1000}) {
    std::unique_ptr<runtime::Session> made = std::move(*session(engine, {{"cap", cap}}));
    ASSERT_TRUE(step(*made, {0, 1}, 1, cap));
    runtime::MemoryUse held = made->memoryUse();
    runtime::MemoryForecast forecast(engine->file(), 0, 1);
    std::vector<runtime::SymbolValue> values = {{"cap", cap}};
    Result<runtime::MemoryUse> said = forecast.of({2, 4, 2, 1, cap, 1}, values);
    ASSERT_TRUE(said) << said.status().toString();
    EXPECT_EQ(said->stateBytes, held.stateBytes);
    EXPECT_EQ(said->arenaBytes, held.arenaBytes);
    EXPECT_EQ(said->scratchBytes, held.scratchBytes);
    EXPECT_GE(held.stateBytes, static_cast<uint64_t>(cap) * 16);
    EXPECT_LT(held.stateBytes, static_cast<uint64_t>(cap) * 16 + engine::kBufferAlignment);
  }
}

} // namespace
