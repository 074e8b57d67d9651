// Engine: the choice of a variant, loading code, several engines at once.

#include "runtime/core/Engine.h"
#include "runtime/core/Session.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

namespace tenon::runtime {
namespace {

using test::TestEngine;

std::shared_ptr<const Engine> open(const std::string &path, const EngineOptions &options = {}) {
  Result<std::shared_ptr<const Engine>> engine = Engine::open(path, options);
  EXPECT_TRUE(engine.isOk()) << engine.status().toString();
  return engine.isOk() ? *engine : nullptr;
}

/// First output of a run of the product engines on ones.
float runOnOnes(std::shared_ptr<const Engine> engine) {
  Result<std::unique_ptr<Session>> session = Session::create(std::move(engine), {.threads = 1});
  EXPECT_TRUE(session.isOk()) << session.status().toString();
  std::vector<float> input(4 * 8, 1.0f);
  std::vector<float> output(4 * 3);
  int64_t dims[] = {4, 8};
  InputBinding in = {input.data(), dims};
  OutputBinding out = {output.data(), output.size() * sizeof(float)};
  Status status = (*session)->run({&in, 1}, {&out, 1});
  EXPECT_TRUE(status.isOk()) << status.toString();
  return output[0];
}

TEST(Engine, LoadsTwoInTurn) {
  std::string two =
      TestEngine(test::dynamicPlan(), test::productWeights(), "two").writeTemporary("two.tenon");
  std::string three = TestEngine(test::dynamicPlan(), test::productWeights(), "three")
                          .writeTemporary("three.tenon");
  std::vector<float> ones(8, 1.0f);
  float byTwo = test::expectedProduct(ones, 2)[0];
  float byThree = test::expectedProduct(ones, 3)[0];
  ASSERT_NE(byTwo, byThree);
  // One after the other, each closed before the next opens: descriptor numbers are reused.
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(byTwo, runOnOnes(open(two)));
    EXPECT_EQ(byThree, runOnOnes(open(three)));
  }
  // And both at once.
  std::shared_ptr<const Engine> first = open(two);
  std::shared_ptr<const Engine> second = open(three);
  EXPECT_EQ(byTwo, runOnOnes(first));
  EXPECT_EQ(byThree, runOnOnes(second));
}

TEST(Engine, OpensFromMemory) {
  std::vector<std::byte> image = test::readFile(
      TestEngine(test::dynamicPlan(), test::productWeights()).writeTemporary("image.tenon"));
  Result<std::shared_ptr<const Engine>> engine = Engine::fromMemory(image);
  ASSERT_TRUE(engine.isOk()) << engine.status().toString();
  EXPECT_EQ(test::expectedProduct(std::vector<float>(8, 1.0f))[0], runOnOnes(*engine));
}

TEST(Engine, ChoosesTheBestVariantThatRuns) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  engine::VariantContent base = engine.content.variants[0];
  std::vector<std::byte> threeCode = test::codeObject("three");
  engine.content.variants.insert(
      engine.content.variants.begin(),
      {{"cuda:sm_90", base.variant.plan, base.variant.kernels}, base.code});
  engine.content.variants.push_back(
      {{"avx512-vnni-bf16", base.variant.plan, base.variant.kernels}, threeCode});
  engine.content.variants.push_back(
      {{"avx512", base.variant.plan, base.variant.kernels}, base.code});
  std::string path = engine.writeTemporary("variants.tenon");
  std::optional<engine::CpuLevel> best = bestCpuLevel();
  ASSERT_TRUE(best.has_value()) << "this test needs AVX2";
  std::string chosen;
  for (engine::CpuLevel level :
       {engine::CpuLevel::X86_64_V3, engine::CpuLevel::Avx512, engine::CpuLevel::Avx512VnniBf16}) {
    chosen = level <= *best ? nameOf(level) : chosen;
    EngineOptions options = {.variant = std::string(nameOf(level))};
    if (level <= *best) {
      EXPECT_EQ(options.variant, open(path, options)->variant().level);
    } else {
      EXPECT_EQ(ErrorId::EngineNoVariant, Engine::open(path, options).status().id());
    }
  }
  EXPECT_EQ(chosen, open(path)->variant().level);
  EXPECT_EQ(ErrorId::EngineNoVariant, Engine::open(path, {.variant = "cuda:sm_90"}).status().id());
  EXPECT_EQ(ErrorId::EngineUnknownVariant, Engine::open(path, {.variant = "sse2"}).status().id());
}

TEST(Engine, RefusesAMachineItWasNotCompiledFor) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  engine.content.variants[0].variant.level = "armv8";
  Status status = Engine::open(engine.writeTemporary("arm.tenon")).status();
  EXPECT_EQ(ErrorId::EngineNoVariant, status.id());
  EXPECT_NE(std::string_view::npos, status.message().find("armv8")) << status.message();
}

TEST(Engine, TakesAVariantOfThisArchitecture) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::vector<std::byte> arm = test::codeObject("arm");
  engine::VariantContent base = engine.content.variants[0];
  for (const char *level : {"armv8-a", "armv8.2-a+dotprod"}) {
    engine.content.variants.push_back({{level, base.variant.plan, base.variant.kernels}, arm});
  }
  std::string path = engine.writeTemporary("both.tenon");
  EXPECT_EQ("x86-64-v3", open(path)->variant().level);
  Status status = Engine::open(path, {.variant = "armv8-a"}).status();
  EXPECT_EQ(ErrorId::EngineNoVariant, status.id()) << status.toString();
}

TEST(Engine, KnowsTheFeaturesOfThisMachine) {
  const engine::Level *best = bestHostLevel();
  ASSERT_TRUE(best);
  EXPECT_EQ(kHostArchitecture, best->architecture);
  EXPECT_EQ(0u, best->features & ~hostFeatures());
}

TEST(Engine, RefusesMissingKernels) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  engine.content.variants[0].variant.kernels[6] = "test_missing";
  Status status = engine.write(test::temporaryPath("missing.tenon")).status();
  EXPECT_EQ(ErrorId::EngineBadCode, status.id());
  EXPECT_NE(std::string_view::npos, status.message().find("test_missing")) << status.message();
}

TEST(Engine, VerifiesWeightsUnlessTold) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::vector<std::byte> image = test::readFile(engine.writeTemporary("verify.tenon"));
  image.back() ^= std::byte(1);
  std::string path = test::temporaryPath("verify-damaged.tenon");
  test::writeFile(path, image);
  EXPECT_EQ(ErrorId::EngineWeightsHashMismatch, Engine::open(path).status().id());
  EXPECT_TRUE(Engine::open(path, {.variant = "", .verifyWeights = false}).isOk());
}

} // namespace
} // namespace tenon::runtime
