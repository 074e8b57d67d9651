// What would end the process becomes words, on the thread where it happens and on no other.
#include "compiler/pipeline/CrashGuard.h"
#include "TemporaryFolder.h"
#include "compiler/pipeline/Pipeline.h"
#include "support/Check.h"
#include "llvm/Support/ErrorHandling.h"

#include <csignal>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <thread>

using namespace tenon;

namespace {

/// Not a loop for the optimizer.
int deep(volatile int *depth) { // NOLINT(misc-no-recursion)
  volatile char frame[4096] = {};
  *depth += 1;
  return *depth < 0 ? 0 : deep(depth) + frame[*depth % 4096];
}

TEST(CrashGuardTest, ContainsEachEnd) {
  pipeline::containCrashes();
  EXPECT_EQ(std::nullopt, pipeline::crashOf([] {}));
  EXPECT_TRUE(pipeline::crashOf([] { TENON_CHECK(false, "planted"); }));
  EXPECT_TRUE(pipeline::crashOf([] { raise(SIGSEGV); }));
  EXPECT_TRUE(pipeline::crashOf([] { raise(SIGFPE); }));
  std::optional<std::string> fatal =
      pipeline::crashOf([] { llvm::report_fatal_error("planted reason", false); });
  ASSERT_TRUE(fatal);
  EXPECT_NE(std::string::npos, fatal->find("planted reason"));
  EXPECT_EQ(std::nullopt, pipeline::crashOf([] {}));
}

TEST(CrashGuardTest, ContainsAStackThatRunsOut) {
  pipeline::containCrashes();
  EXPECT_TRUE(pipeline::crashOf([] {
    volatile int depth = 0;
    deep(&depth);
  }));
}

TEST(CrashGuardTest, ContainsSeveralThreads) {
  pipeline::containCrashes();
  std::vector<std::thread> threads;
  std::atomic<int> contained = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { contained += pipeline::crashOf([] { abort(); }) ? 1 : 0; });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(4, contained);
}

/// A region that breaks a rule of its strategy: its product reads a constant of the region.
constexpr const char *kRegion = R"(
module {
  func.func @kernel(%x: tensor<4x1xf32>) -> tensor<4x1xf32> attributes {tn.strategy = "contraction"} {
    %w = tn.constant dense<2.0> : tensor<1x1xf32> : tensor<1x1xf32>
    %y = tn.matmul %x, %w : (tensor<4x1xf32>, tensor<1x1xf32>) -> tensor<4x1xf32>
    return %y : tensor<4x1xf32>
  }
})";

TEST(CrashGuardTest, AFaultLeavesAReproducerThatShowsItAgain) {
  TemporaryFolder folder;
  pipeline::CompileOptions options;
  options.model = folder.path("region.mlir");
  options.output = folder.path("region.tenon");
  options.reproducer = folder.path("again.mlir");
  std::ofstream(options.model) << kRegion;
  Result<pipeline::CompileSummary> first = pipeline::compile(options);
  ASSERT_FALSE(first);
  EXPECT_EQ(ErrorId::CodegenFailed, first.status().id());
  EXPECT_EQ(Code::Internal, first.status().code());
  EXPECT_NE(std::string::npos, first.status().message().find(options.reproducer));
  options.model = options.reproducer;
  options.reproducer = folder.path("third.mlir");
  Result<pipeline::CompileSummary> second = pipeline::compile(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(ErrorId::CodegenFailed, second.status().id());
}

/// A model whose module a test breaks behind a phase: the pass after it fails.
TEST(CrashGuardTest, ACrashInAPassLeavesTheModuleBeforeIt) {
  pipeline::containCrashes();
  TemporaryFolder folder;
  std::ofstream(folder.path("model.mlir")) << R"(
module attributes {tn.phase = "import"} {
  func.func @main(%x: tensor<4xf32> {tn.name = "x"}) -> (tensor<4xf32> {tn.name = "y"}) {
    %0 = tn.exp %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";
  pipeline::CompileOptions options;
  options.model = folder.path("model.mlir");
  options.output = folder.path("model.tenon");
  options.reproducer = folder.path("again.mlir");
  pipeline::CompileHooks hooks;
  hooks.afterPhase = [](pipeline::Phase phase, mlir::ModuleOp) {
    if (phase == pipeline::Phase::Dispatch) {
      raise(SIGSEGV);
    }
  };
  Result<pipeline::CompileSummary> summary = pipeline::compile(options, hooks);
  ASSERT_FALSE(summary);
  EXPECT_EQ(Code::Internal, summary.status().code());
  EXPECT_NE(std::string::npos, summary.status().message().find("phase 'dispatch'"));
  std::stringstream text;
  text << std::ifstream(options.reproducer).rdbuf();
  EXPECT_NE(std::string::npos, text.str().find("tn.exp"));
}

} // namespace
