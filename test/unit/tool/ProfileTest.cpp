// The classes and the splitting of `tenon profile` on numbers whose answer is known by hand.

#include "tools/tenon/profile/Profile.h"
#include "tools/tenon/profile/Commands.h"
#include "tools/tenon/profile/Outputs.h"

#include "engine/Level.h"
#include "runtime/device/cpu/CpuFeatures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>
#include <string>

using namespace tenon;
using namespace tenon::tool;

namespace {

/// Two threads: 100 GFLOP/s, caches of 1 MB at 100 GB/s, memory at 10 GB/s, 1 us to meet.
Profile machine() {
  Profile profile;
  profile.features = 1;
  profile.limits.threads = 2;
  profile.limits.compute = {{"FMA", Numbers::F32, 1, 100e9},
                            {"dot", Numbers::I8, 1, 400e9},
                            {"wide", Numbers::F32, 2, 200e9}};
  profile.limits.memory = {{"L2", 1e6, 100e9}, {"memory", HUGE_VAL, 10e9}};
  profile.limits.launchSeconds = 1e-6;
  return profile;
}

/// A product that takes `seconds`, with all threads busy.
RegionFigures product(double flops, double bytes, double weights, double seconds) {
  RegionFigures region;
  region.label = "product";
  region.computes = "f32";
  region.kernel = "gemm";
  region.instructions = {0};
  region.flops = flops;
  region.bytes = bytes;
  region.weightBytes = weights;
  region.seconds = seconds;
  region.busySeconds = 2 * seconds;
  return region;
}

OperatorFigures node(std::string name, std::string kind, size_t region, double flops,
                     double bytes) {
  OperatorFigures made;
  made.name = std::move(name);
  made.kind = std::move(kind);
  made.region = region;
  made.flops = flops;
  made.bytes = bytes;
  return made;
}

RegionFigures classified(Profile profile, RegionFigures region) {
  profile.regions = {std::move(region)};
  classify(profile);
  return profile.regions.front();
}

TEST(ProfileTest, NearestLimitIsTheClass) {
  RegionFigures compute = classified(machine(), product(80e6, 1e5, 5e4, 1e-3));
  EXPECT_EQ(compute.bound, Bound::Compute);
  EXPECT_NEAR(compute.limitShare, 0.8, 1e-6);
  EXPECT_EQ(compute.limit, "FMA") << "the unit of the code's own level, not the machine's best";

  RegionFigures memory = classified(machine(), product(1e6, 8e6, 8e6, 1e-3));
  EXPECT_EQ(memory.bound, Bound::Memory);
  EXPECT_EQ(memory.limit, "memory");
  EXPECT_NEAR(memory.limitShare, 0.8, 1e-6);

  // The same bytes out of a cache are ten times as fast: then they are no limit.
  RegionFigures cached = classified(machine(), product(1e6, 8e5, 8e5, 1e-5));
  EXPECT_EQ(cached.limit, "FMA");
}

TEST(ProfileTest, ThreadsThatIdle) {
  RegionFigures serial = product(10e6, 1e5, 0, 1e-3);
  serial.busySeconds = serial.seconds;
  EXPECT_EQ(classified(machine(), serial).bound, Bound::Serial);

  RegionFigures uneven = product(10e6, 1e5, 0, 1e-3);
  uneven.busySeconds = 1.4 * uneven.seconds;
  EXPECT_EQ(classified(machine(), uneven).bound, Bound::Imbalance);

  RegionFigures tiny = product(1e3, 1e3, 0, 2e-6);
  tiny.busySeconds = 1e-6;
  EXPECT_EQ(classified(machine(), tiny).bound, Bound::Launch);
}

TEST(ProfileTest, ExperimentsTellLatencyApart) {
  RegionFigures far = product(10e6, 1e6, 1e6, 1e-3);
  EXPECT_EQ(classified(machine(), far).bound, Bound::Latency);
  EXPECT_EQ(classified(machine(), far).cause.find("in caches"), std::string::npos)
      << "nobody tried";
  far.inARowSeconds = 0.98e-3;
  EXPECT_NE(classified(machine(), far).cause.find("also with its operands in caches"),
            std::string::npos);
  far.inARowSeconds = 0.3e-3;
  EXPECT_EQ(classified(machine(), far).bound, Bound::Memory)
      << "in caches it is three times as fast";
  far.inARowSeconds = 0.98e-3;
  far.oneThreadSeconds = 1.05e-3;
  EXPECT_NE(classified(machine(), far).cause.find("share a unit"), std::string::npos);
}

TEST(ProfileTest, ABusyMachineGivesNoWrongClass) {
  Profile busy = machine();
  busy.measured.isDisturbed = true;
  RegionFigures serial = product(10e6, 1e5, 0, 1e-3);
  serial.busySeconds = serial.seconds;
  EXPECT_EQ(classified(busy, serial).bound, Bound::Unknown);
  EXPECT_EQ(classified(busy, product(80e6, 1e5, 0, 1e-3)).bound, Bound::Compute)
      << "near to a limit is near";
  EXPECT_EQ(classified(machine(), product(1, 1, 0, 1e-8)).bound, Bound::Short);
}

TEST(ProfileTest, LimitsThatWereNotMeasuredGiveNoClass) {
  // 8 MB in 0.4 ms: twice what memory gives, as a cache that is no limit here holds them.
  RegionFigures cached = product(1e6, 8e6, 8e6, 0.4e-3);
  EXPECT_EQ(classified(machine(), cached).bound, Bound::Unknown);
  Profile busy = machine();
  busy.measured.isDisturbed = true;
  EXPECT_EQ(classified(busy, cached).bound, Bound::Unknown);

  Profile gpu = machine();
  gpu.isGpu = true;
  gpu.limits.compute = {{"tensor cores", Numbers::Bf16, 0, 100e9}};
  EXPECT_EQ(classified(gpu, product(80e6, 1e5, 5e4, 1e-3)).bound, Bound::Unknown)
      << "a product of FP32";
  EXPECT_EQ(classified(gpu, product(80e6, 8e6, 5e4, 1e-3)).bound, Bound::Memory);
  RegionFigures bf16 = product(80e6, 1e5, 5e4, 1e-3);
  bf16.computes = "bf16";
  EXPECT_EQ(classified(gpu, bf16).bound, Bound::Compute);
}

TEST(ProfileTest, OperatorsOfARegionShareItsTime) {
  Profile profile = machine();
  RegionFigures region = product(80e6, 1e5, 5e4, 1e-3);
  region.operators = {0, 1};
  profile.regions = {region};
  profile.operators = {node("layer.0/dense/MatMul", "matmul", 0, 80e6, 1e5),
                       node("layer.0/dense/Add", "add", 0, 1e5, 1e5)};
  classify(profile);
  splitOperators(profile);
  EXPECT_NEAR(profile.operators[0].seconds + profile.operators[1].seconds, 1e-3, 1e-12);
  EXPECT_GT(profile.operators[0].seconds, 0.9e-3);
  EXPECT_TRUE(profile.operators[0].isSplit);
}

TEST(ProfileTest, OperatorsThatAreAlikeAreOneRow) {
  Profile profile = machine();
  for (size_t i = 0; i < 3; ++i) {
    RegionFigures region = product(80e6, 1e5, 5e4, 1e-3);
    region.operators = {i};
    profile.regions.push_back(region);
    profile.operators.push_back(
        node("block1/layer." + std::to_string(i + 9) + "/MatMul", "matmul", i, 80e6, 1e5));
  }
  classify(profile);
  splitOperators(profile);
  ASSERT_EQ(profile.groups.size(), 1u);
  EXPECT_EQ(profile.groups[0].name, "block1/layer.*/MatMul") << "numbers that all share stay";
  EXPECT_NEAR(profile.groups[0].seconds, 3e-3, 1e-12);
}

TEST(ProfileTest, NamesMayHaveStars) {
  Profile profile = machine();
  for (const char *name : {"a1", "a*", "a2*", "a*7"}) {
    RegionFigures region = product(80e6, 1e5, 5e4, 1e-3);
    region.operators = {profile.operators.size()};
    profile.operators.push_back(node(name, "relu", profile.regions.size(), 1e5, 1e5));
    profile.regions.push_back(region);
  }
  classify(profile);
  splitOperators(profile);
  std::set<std::string> names;
  for (const OperatorGroup &group : profile.groups) {
    names.insert(group.name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"a1", "a*", "a2*", "a*7"})) << "a star is no number";
}

TEST(ProfileTest, RowsWithoutTimeHaveNoRates) {
  Profile profile = machine();
  RegionFigures region = product(0, 0, 0, 0);
  region.operators = {0};
  profile.regions = {region};
  profile.operators = {node("elided", "reshape", 0, 0, 0)};
  classify(profile);
  splitOperators(profile);
  std::string text = profileText(profile, 5);
  EXPECT_NE(text.find("elided"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
  EXPECT_EQ(text.find("inf"), std::string::npos) << text;
}

TEST(ProfileTest, LayerTimesHaveMeanAndMedian) {
  Profile profile = machine();
  RegionFigures region = product(80e6, 1e5, 5e4, 1e-3);
  region.medianSeconds = 0.75e-3;
  profile.regions = {region};
  Json rows = parseJson(layerTimesOf(profile));
  EXPECT_EQ(rows[1]["averageMs"], 1.0);
  EXPECT_EQ(rows[1]["medianMs"], 0.75);
}

TEST(ProfileTest, CommandsKeepTheOptionsOfTheEngine) {
  Profile profile = machine();
  profile.model = "my model.onnx";
  profile.options = parseJson(
      R"({"levels": ["x86-64-v3"], "shapes": {"x": [[1, 8], 4, "keep"]}, "precision": "keep",
      "guard": true, "kernels": ["/a/MatMul=tiled"], "states": {"in": "out"}, "optimize_for": [8, {"x": [2, 4, "keep"]}], "max_weights": 1.5})");
  EXPECT_EQ(compileCommand(profile, {.without = {"guard", "kernels"}}),
            "tenon compile 'my model.onnx' -o faster.tenon --target cpu:x86-64-v3 --shape "
            "'x:[1..8]x4x?' --state in=out "
            "--optimize-for 8 --optimize-for 'x:2x4x?' --max-weights 1.5x");
  EXPECT_EQ(quoted("it's"), "'it'\\''s'");
}

/// The advice of a rule for a product that waits for its weights; null for none.
const Advice *adviceOf(Profile &profile, const std::string &rule) {
  RegionFigures region = product(1e6, 8e6, 8e6, 1e-3);
  region.operators = {0};
  profile.regions = {region};
  profile.operators = {node("m", "matmul", 0, 1e6, 8e6)};
  profile.measured.timedSeconds = profile.measured.runSeconds = 1e-3;
  classify(profile);
  splitOperators(profile);
  advise(profile);
  for (const Advice &advice : profile.advice) {
    if (advice.rule == rule) {
      return &advice;
    }
  }
  return nullptr;
}

TEST(ProfileTest, Bf16IsCompiledForTheUnitThatIsPromised) {
  std::optional<engine::CpuLevel> best = runtime::bestCpuLevel();
  if (!best) {
    GTEST_SKIP() << "the compiler has no level for this machine";
  }
  Profile profile = machine();
  profile.model = "m.onnx";
  profile.features = 0;
  profile.limits.compute = {{"FMA", Numbers::F32, 0, 100e9},
                            {"pairs", Numbers::Bf16, engine::rowOf(*best).features, 400e9}};
  profile.options = parseJson(R"({"levels": ["another"], "precision": "keep"})");
  const Advice *advice = adviceOf(profile, "bf16");
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->command, "tenon compile m.onnx -o faster.tenon --target cpu:" +
                                 std::string(engine::nameOf(*best)) + " --precision bf16");

  // Where no level was named, or the engine's has the unit, the target stays.
  profile.advice.clear();
  profile.features = engine::rowOf(*best).features;
  advice = adviceOf(profile, "bf16");
  ASSERT_TRUE(advice);
  EXPECT_NE(advice->command.find("--target cpu:another "), std::string::npos);

  // A unit that no level's code may use here is promised to nobody, nor one in place of nothing.
  profile.advice.clear();
  profile.limits.compute[1].features = ~0u;
  EXPECT_FALSE(adviceOf(profile, "bf16"));
  profile.limits.compute = {{"pairs", Numbers::Bf16, 0, 400e9}};
  EXPECT_FALSE(adviceOf(profile, "bf16"));
}

TEST(ProfileTest, WhatRoundsOtherwiseStandsBehindWhatDoesNot) {
  std::optional<engine::CpuLevel> best = runtime::bestCpuLevel();
  if (!best) {
    GTEST_SKIP() << "the compiler has no level for this machine";
  }
  Profile profile = machine();
  profile.model = "m.onnx";
  profile.features = engine::rowOf(*best).features;
  profile.limits.compute = {{"FMA", Numbers::F32, 0, 100e9}, {"pairs", Numbers::Bf16, 0, 1000e9}};
  profile.options = parseJson(R"({"precision": "keep", "guard": true})");
  profile.regions = {product(80e6, 1e5, 5e4, 1e-3)};
  profile.measured.timedSeconds = 1e-3;
  classify(profile);
  advise(profile);
  ASSERT_EQ(profile.advice.size(), 2U);
  EXPECT_EQ(profile.advice[0].rule, "guard");
  EXPECT_FALSE(profile.advice[0].changesNumbers);
  EXPECT_EQ(profile.advice[1].rule, "bf16");
  EXPECT_TRUE(profile.advice[1].changesNumbers);
  EXPECT_GT(profile.advice[1].gainSeconds, profile.advice[0].gainSeconds)
      << "or the order proves nothing";
  EXPECT_NE(profileText(profile, 1).find("besides"), std::string::npos)
      << "no operator is shown with it";
}

TEST(ProfileTest, TensorCoresAreAdvisedForProductsOfFp32) {
  Profile profile = machine();
  profile.isGpu = true;
  profile.model = "m.onnx";
  profile.options = parseJson(R"({"levels": ["sm_90a"], "precision": "keep"})");
  profile.limits.compute = {{"FP32 cores", Numbers::F32, 0, 100e9},
                            {"tensor cores", Numbers::Bf16, 0, 1000e9},
                            {"tensor cores", Numbers::Tf32, 0, 500e9}};
  profile.measured.timedSeconds = 1e-3;
  profile.regions = {product(80e6, 1e5, 5e4, 1e-3)};
  classify(profile);
  EXPECT_EQ(profile.regions[0].bound, Bound::Compute);
  advise(profile);
  ASSERT_EQ(profile.advice.size(), 2U);
  EXPECT_EQ(profile.advice[0].command,
            "tenon compile m.onnx -o faster.tenon --target cuda:sm_90a --precision fp16");
  // 0.8 ms of FP32 cores become 0.08 ms, of which 40 % are reached.
  EXPECT_NEAR(profile.advice[0].gainSeconds, 0.8e-3, 1e-6);
  EXPECT_EQ(profile.advice[1].command,
            "tenon compile m.onnx -o faster.tenon --target cuda:sm_90a --allow tf32");
  EXPECT_NEAR(profile.advice[1].gainSeconds, 0.6e-3, 1e-6);

  // Products that tensor cores do already gain nothing.
  profile.advice.clear();
  profile.regions[0].computes = "bf16";
  classify(profile);
  advise(profile);
  EXPECT_TRUE(profile.advice.empty());
}

TEST(ProfileTest, BatchIsWhatTheEngineTakes) {
  Profile profile = machine();
  profile.engine = "e.tenon";
  profile.sizes = "batch=1, length=16";
  profile.inputs = {{"x", {1, 16}}, {"mask", {1, 16}}};
  profile.batch = 2;
  profile.batchInputs = {{"x", {2, 16}}, {"mask", {2, 16}}};
  const Advice *advice = adviceOf(profile, "batch");
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->command, "tenon bench e.tenon --shape x:2x16 --shape mask:2x16");
  EXPECT_NEAR(advice->gainSeconds, 0.5e-3, 0.01e-3)
      << "half of the weights for each of two samples";
}

TEST(ProfileTest, TapsKeepNeighboursApart) {
  Profile profile = machine();
  profile.options = parseJson(R"({"taps": ["v"]})");
  profile.extraOutputs = {"mm"};
  profile.measured.timedSeconds = 2e-3;
  profile.regions = {product(1e6, 8e6, 8e6, 1e-3), product(1e6, 8e6, 0, 1e-3)};
  auto apart = [](const char *producer) {
    return Json::array({{{"producer", producer},
                         {"consumer", "gelu"},
                         {"rule", "second-result"},
                         {"apart_us", 10.0},
                         {"fused_us", 4.0}}});
  };
  auto gainOfExtraOutputs = [](Profile of) {
    classify(of);
    advise(of);
    for (const Advice &advice : of.advice) {
      if (advice.rule == "taps") {
        return advice.gainSeconds;
      }
    }
    return 0.0;
  };
  profile.regions[0].apart = apart("mm");
  EXPECT_NEAR(gainOfExtraOutputs(profile), 0.3e-3, 1e-9) << "half of what the two save";
  profile.regions[0].apart = apart("branches");
  EXPECT_EQ(gainOfExtraOutputs(profile), 0) << "the model itself uses that value twice";
  profile.regions[1].extraOutputBytes = 2e6;
  EXPECT_NEAR(gainOfExtraOutputs(profile), 0.25e-3, 1e-9) << "a quarter of what it moves is a tap";
}

TEST(ProfileTest, AdviceNamesWhatTheEngineWasCompiledWith) {
  Profile profile = machine();
  RegionFigures region = product(10e6, 1e5, 5e4, 1e-3);
  region.operators = {0};
  region.candidates = parseJson(
      R"([{"kernel": "fast", "us": 100, "verdict": "disabled"}, {"kernel": "slow", "us": 1000, "verdict": "chosen"},
                                      {"kernel": "none", "us": 0, "verdict": "refused"}])");
  profile.regions = {region};
  profile.operators = {node("m", "matmul", 0, 10e6, 1e5)};
  profile.measured.timedSeconds = profile.measured.runSeconds = 1e-3;
  profile.options = parseJson(R"({"disabled_families": ["fast"], "precision": "keep"})");
  classify(profile);
  splitOperators(profile);
  advise(profile);
  ASSERT_FALSE(profile.advice.empty());
  EXPECT_EQ(profile.advice.front().rule, "forbidden-kernels");
  // A tenth by the predictions, but no kernel is above 80 % of the unit, which takes 0.1 ms.
  EXPECT_NEAR(profile.advice.front().gainSeconds, 0.875e-3, 1e-9);
}

} // namespace
