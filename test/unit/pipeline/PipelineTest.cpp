// The whole way on the small CNN: equal bytes however it is compiled, phases that stop and start
// again, the cache.
#include "compiler/pipeline/Pipeline.h"

#include "TemporaryFolder.h"
#include "compiler/pipeline/PhaseDump.h"
#include "engine/Reader.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace tenon;
using pipeline::CompileOptions;
using pipeline::CompileSummary;
using pipeline::Phase;

namespace {

std::string readFile(const std::string &path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

CompileOptions optionsOf(const std::string &output) {
  CompileOptions options;
  options.model = TENON_SOURCE_DIR "/models/fashion_cnn.onnx";
  options.output = output;
  return options;
}

CompileSummary compileOrFail(const CompileOptions &options) {
  Result<CompileSummary> summary = pipeline::compile(options);
  if (!summary) {
    ADD_FAILURE() << summary.status().toString();
    return {};
  }
  return *summary;
}

TEST(PipelineTest, BytesDoNotDependOnThreadsOrCache) {
  TemporaryFolder folder;
  CompileOptions one = optionsOf(folder.path("one"));
  one.threads = 1;
  CompileSummary summary = compileOrFail(one);
  EXPECT_GT(summary.regions, 0u);
  EXPECT_LE(summary.uniqueRegions, summary.regions);
  EXPECT_GE(summary.arenaBytes, summary.arenaLowerBoundBytes);
  EXPECT_EQ(summary.engineBytes, std::filesystem::file_size(one.output));

  CompileOptions three = optionsOf(folder.path("three"));
  three.threads = 3;
  three.cacheFolder = folder.path("cache");
  EXPECT_FALSE(compileOrFail(three).fromCache);
  EXPECT_TRUE(readFile(one.output) == readFile(three.output));

  // Regions from the cache, but not the engine: another output of another model path would be the
  // same.
  for (const std::filesystem::directory_entry &entry :
       std::filesystem::directory_iterator(three.cacheFolder)) {
    if (entry.path().extension() == ".engine") {
      std::filesystem::remove(entry.path());
    }
  }
  three.output = folder.path("again");
  EXPECT_FALSE(compileOrFail(three).fromCache);
  EXPECT_TRUE(readFile(one.output) == readFile(three.output));
}

TEST(PipelineTest, UnchangedModelComesFromTheCache) {
  TemporaryFolder folder;
  CompileOptions options = optionsOf(folder.path("engine"));
  options.cacheFolder = folder.path("cache");
  CompileSummary first = compileOrFail(options);
  options.output = folder.path("second");
  CompileSummary second = compileOrFail(options);
  EXPECT_TRUE(second.fromCache);
  EXPECT_EQ(second.regions, first.regions);
  EXPECT_EQ(second.arenaBytes, first.arenaBytes);
  EXPECT_EQ(second.engineBytes, first.engineBytes);
  EXPECT_TRUE(readFile(folder.path("engine")) == readFile(folder.path("second")));
  options.levels = {engine::CpuLevel::X86_64_V3};
  EXPECT_FALSE(compileOrFail(options).fromCache);
  options.shapes = {{"image", {{2, 2}, {0, 0, true}, {0, 0, true}, {0, 0, true}}}};
  EXPECT_FALSE(compileOrFail(options).fromCache);
}

/// Compiles the CNN, and writes to `changed` when half of the way is done.
ErrorId compileWhileWriting(CompileOptions options, const std::string &changed) {
  options.progress = [&](Phase phase, double fraction) {
    if (phase == Phase::Codegen && fraction == 0) {
      std::filesystem::last_write_time(changed, std::filesystem::file_time_type::clock::now() +
                                                    std::chrono::seconds(1));
    }
  };
  return pipeline::compile(options).status().id();
}

TEST(PipelineTest, AModelThatChangesOnTheWayMakesNoEngine) {
  TemporaryFolder folder;
  CompileOptions options = optionsOf(folder.path("engine"));
  options.levels = {engine::CpuLevel::X86_64_V3};
  options.model = folder.path("model.onnx");
  options.cacheFolder = folder.path("cache");
  std::filesystem::copy_file(optionsOf("").model, options.model);
  EXPECT_EQ(ErrorId::ModelChanged, compileWhileWriting(options, options.model));
  EXPECT_FALSE(std::filesystem::exists(options.output));
  EXPECT_FALSE(compileOrFail(options).fromCache);
  EXPECT_TRUE(compileOrFail(options).fromCache);
  // What was there before the compilation that fails stays.
  std::ofstream(options.output) << "mine";
  options.allowTanhGelu = true;
  EXPECT_EQ(ErrorId::ModelChanged, compileWhileWriting(options, options.model));
  EXPECT_EQ("mine", readFile(options.output));
}

TEST(PipelineTest, AnUnsafeCacheIsSaidOnceAndNotUsed) {
  TemporaryFolder folder;
  CompileOptions options = optionsOf(folder.path("engine"));
  options.levels = {engine::CpuLevel::X86_64_V3};
  options.stopAfter = Phase::Import;
  options.cacheFolder = folder.path("cache");
  std::filesystem::create_directory(options.cacheFolder);
  std::filesystem::permissions(options.cacheFolder, std::filesystem::perms::all);
  std::vector<std::string> said;
  options.notice = [&](std::string_view text) { said.emplace_back(text); };
  compileOrFail(options);
  ASSERT_EQ(1u, said.size());
  EXPECT_NE(std::string::npos, said[0].find(options.cacheFolder)) << said[0];
  EXPECT_TRUE(std::filesystem::is_empty(options.cacheFolder));
}

TEST(PipelineTest, PhasesStopAndStartAgain) {
  TemporaryFolder folder;
  CompileOptions whole = optionsOf(folder.path("engine"));
  whole.dumpPhases = folder.path("dump");
  CompileSummary expected = compileOrFail(whole);
  Result<std::unique_ptr<engine::EngineFile>> original = engine::EngineFile::open(whole.output);
  ASSERT_TRUE(original);
  for (const char *phase : {"0-import", "1-normalize", "2-optimize", "3-dispatch"}) {
    CompileOptions rest = optionsOf(folder.path("rest"));
    rest.model = folder.path("dump/") + phase + ".mlir";
    EXPECT_EQ(compileOrFail(rest).uniqueRegions, expected.uniqueRegions) << phase;
    Result<std::unique_ptr<engine::EngineFile>> engine = engine::EngineFile::open(rest.output);
    ASSERT_TRUE(engine) << engine.status().toString();
    ASSERT_EQ((*engine)->variants().size(), (*original)->variants().size());
    for (size_t i = 0; i < (*engine)->variants().size(); ++i) {
      EXPECT_TRUE(std::ranges::equal((*engine)->code(i), (*original)->code(i))) << phase;
    }
    EXPECT_TRUE(std::ranges::equal((*engine)->weightsSection(), (*original)->weightsSection()));
  }

  CompileOptions stopped = optionsOf(folder.path("stopped.mlir"));
  stopped.stopAfter = Phase::Optimize;
  compileOrFail(stopped);
  EXPECT_EQ(readFile(stopped.output), readFile(folder.path("dump/2-optimize.mlir")));
}

TEST(PipelineTest, DamagedDumpsAreRefused) {
  TemporaryFolder folder;
  CompileOptions options = optionsOf(folder.path("engine"));
  options.dumpPhases = folder.path("dump");
  options.stopAfter = Phase::Optimize;
  compileOrFail(options);
  CompileOptions rest = optionsOf(folder.path("rest"));
  rest.model = folder.path("dump/2-optimize.mlir");
  std::filesystem::remove_all(folder.path("dump/weights"));
  EXPECT_EQ(pipeline::compile(rest).status().id(), ErrorId::BadPhaseDump);
  std::ofstream(rest.model) << "module {";
  EXPECT_EQ(pipeline::compile(rest).status().id(), ErrorId::BadPhaseDump);
  std::ofstream(rest.model) << "module {}";
  EXPECT_EQ(pipeline::compile(rest).status().id(), ErrorId::BadPhaseDump);
  EXPECT_FALSE(std::filesystem::exists(rest.output));
}

TEST(PipelineTest, CanBeCancelledInEachPhase) {
  for (Phase last : {Phase::Import, Phase::Optimize, Phase::Codegen, Phase::Export}) {
    TemporaryFolder folder;
    CompileOptions options = optionsOf(folder.path("engine"));
    std::atomic<bool> cancel = false;
    options.cancel = &cancel;
    options.progress = [&](Phase phase, double) { cancel = cancel || phase == last; };
    EXPECT_EQ(ErrorId::Cancelled, pipeline::compile(options).status().id());
    EXPECT_TRUE(std::filesystem::is_empty(folder.path("")))
        << "of phase " << static_cast<int>(last);
  }
}

TEST(PipelineTest, MissingModelIsAUserError) {
  TemporaryFolder folder;
  CompileOptions options = optionsOf(folder.path("engine"));
  options.model = folder.path("no.onnx");
  EXPECT_EQ(pipeline::compile(options).status().id(), ErrorId::FileNotFound);
}

TEST(PipelineTest, VerifyPassesOnTheCnn) {
  TemporaryFolder folder;
  CompileOptions options = optionsOf(folder.path("engine"));
  options.verify = true;
  options.stopAfter = Phase::Dispatch;
  Result<CompileSummary> summary = pipeline::compile(options);
  EXPECT_TRUE(summary) << summary.status().toString();
}

} // namespace
