// Inputs that are empty at run time, of sizes that vary: their data may be a null pointer, and
// nothing of it is read. Relies on a model in text form, as phases are dumped.
#include "TemporaryFolder.h"
#include "compiler/pipeline/Pipeline.h"
#include "runtime/core/Engine.h"
#include "runtime/core/Session.h"

#include <fstream>
#include <gtest/gtest.h>

using namespace tenon;

namespace {

constexpr const char *kEmptyModel = R"(
module attributes {tn.phase = "import", tn.symbols = [#tn.symbol<"past", 0, 8>]} {
  func.func @main(%past: tensor<?x4xf32, #tn.shape<()[s0] -> (s0, 4)>> {tn.name = "past"},
      %x: tensor<1x4xf32> {tn.name = "x"}) ->
      (tensor<?x4xf32, #tn.shape<()[s0] -> (s0 + 1, 4)>> {tn.name = "all"}) {
    %0 = tn.exp %past : tensor<?x4xf32, #tn.shape<()[s0] -> (s0, 4)>>
    %1 = tn.concat %0, %x {axis = 0 : i64} : (tensor<?x4xf32, #tn.shape<()[s0] -> (s0, 4)>>, tensor<1x4xf32>) -> tensor<?x4xf32, #tn.shape<()[s0] -> (s0 + 1, 4)>>
    return %1 : tensor<?x4xf32, #tn.shape<()[s0] -> (s0 + 1, 4)>>
  }
})";

TEST(EmptyInputTest, ConcatenatesToNothing) {
  TemporaryFolder folder;
  std::ofstream(folder.path("model.mlir")) << kEmptyModel;
  pipeline::CompileOptions options;
  options.model = folder.path("model.mlir");
  options.output = folder.path("model.tenon");
  options.levels = {engine::CpuLevel::X86_64_V3};
  Result<pipeline::CompileSummary> summary = pipeline::compile(options);
  ASSERT_TRUE(summary) << summary.status().toString();
  std::unique_ptr<runtime::Session> session =
      std::move(*runtime::Session::create(*runtime::Engine::open(options.output)));
  for (int64_t count : {0, 2, 0}) {
    std::vector<float> past(count * 4), x = {1, 2, 3, 4}, y((count + 1) * 4);
    const int64_t pastDims[] = {count, 4}, row[] = {1, 4};
    runtime::InputBinding inputs[] = {
        {.data = count == 0 ? nullptr : past.data(), .dims = pastDims},
        {.data = x.data(), .dims = row}};
    runtime::OutputBinding output{.data = y.data(), .bytes = y.size() * sizeof(float)};
    Status status = session->run(inputs, {&output, 1});
    ASSERT_TRUE(status.isOk()) << status.toString();
    std::vector<float> expected(count * 4, 1);
    expected.insert(expected.end(), x.begin(), x.end());
    EXPECT_EQ(y, expected) << count;
  }
}

} // namespace
