// What `tenon profile` says of a GPU's kernels by the parts of their predictions, on numbers whose
// answer is known by hand.

#include "tools/tenon/profile/GpuModel.h"
#include "tools/tenon/profile/Profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

using namespace tenon;
using namespace tenon::tool;

namespace {

/// 100 GFLOP/s, a cache of 1 MB at 100 GB/s, memory at 10 GB/s, 1 us from kernel to kernel.
Profile gpuMachine() {
  Profile profile;
  profile.isGpu = true;
  profile.limits.multiprocessors = 132;
  profile.limits.compute = {{"tensor cores", Numbers::Bf16, 0, 100e9}};
  profile.limits.memory = {{"L2", 1e6, 100e9}, {"memory", HUGE_VAL, 10e9}};
  profile.limits.launchSeconds = 1e-6;
  return profile;
}

OperatorFigures gpuNode(const char *kind, size_t region) {
  OperatorFigures made;
  made.name = kind + std::to_string(region);
  made.kind = kind;
  made.region = region;
  made.flops = made.bytes = 1e5;
  return made;
}

RegionFigures gpuClassified(Profile profile, RegionFigures region) {
  profile.regions = {std::move(region)};
  classify(profile);
  return profile.regions.front();
}

/// A kernel on a GPU: 4 us of start, 3 of products and 1 of a wave that is not full.
RegionFigures gpuProduct(double seconds) {
  RegionFigures region;
  region.label = "product";
  region.kernel = "gemm";
  region.computes = "f16";
  region.instructions = {0};
  region.flops = region.bytes = 1e5;
  region.weightBytes = 5e4;
  region.seconds = seconds;
  region.candidates = parseJson(
      R"([{"kernel": "gemm", "verdict": "chosen", "us": 8.0, "time": {"parts": [{"part": "start", "us": 4.0},
          {"part": "products", "us": 3.0}, {"part": "idle", "us": 1.0}], "blocks": 99, "at_once": 132, "steps": 6}},
          {"kernel": "other", "verdict": "possible", "us": 6.0}])");
  readParts(region.candidates, region);
  return region;
}

/// One that takes a millisecond at its limit.
RegionFigures longOther() {
  RegionFigures region = gpuProduct(1e-3);
  region.parts.clear();
  region.candidates = Json::array();
  region.flops = 80e6;
  return region;
}

TEST(GpuProfileTest, PartsOfAKernelAreItsCauses) {
  Profile profile = gpuMachine();
  RegionFigures slower = gpuClassified(profile, gpuProduct(16e-6));
  EXPECT_EQ(slower.bound, Bound::Latency);
  ASSERT_GE(slower.causes.size(), 3u);
  EXPECT_EQ(slower.causes[0].part, "beyond-model");
  EXPECT_NEAR(slower.causes[0].seconds, 8e-6, 1e-12);
  EXPECT_EQ(slower.causes[1].part, "start");
  // What the floor of operations needs is no loss: 1 us of the 3 us of products.
  EXPECT_NEAR(slower.causes[2].seconds, 2e-6, 1e-12);
  EXPECT_NE(slower.cause.find("50 % beyond-model (8.00 us were predicted"), std::string::npos)
      << slower.cause;

  // A kernel that is faster than predicted has the same shares of less.
  RegionFigures faster = gpuClassified(profile, gpuProduct(4e-6));
  EXPECT_EQ(faster.causes[0].part, "start");
  EXPECT_NEAR(faster.causes[0].seconds, 2e-6, 1e-12);

  RegionFigures other = gpuProduct(8e-6);
  ASSERT_TRUE(fasterKernel(other));
  EXPECT_NEAR(fasterKernel(other)->seconds, 6e-6, 1e-12);
  other.candidates[1]["us"] = 9.0;
  EXPECT_FALSE(fasterKernel(other));

  // Parts that do not add up are of other sizes, or of a file that somebody changed.
  RegionFigures odd;
  Json candidates = gpuProduct(1).candidates;
  candidates[0]["us"] = 9.0;
  readParts(candidates, odd);
  EXPECT_TRUE(odd.parts.empty());
}

TEST(GpuProfileTest, KernelsWithoutPartsHaveCausesToo) {
  RegionFigures region = gpuProduct(10e-6);
  region.parts.clear();
  region.grid = 66;
  RegionFigures known = gpuClassified(gpuMachine(), region);
  EXPECT_EQ(known.bound, Bound::Latency);
  ASSERT_EQ(known.causes.size(), 3u);
  EXPECT_EQ(known.causes[0].part, "idle");
  EXPECT_NEAR(known.causes[0].seconds, 4.5e-6, 1e-12) << "half of what is not the launch";
  EXPECT_EQ(known.causes[1].part, "not-divided");
  EXPECT_EQ(known.causes[2].part, "start");
}

TEST(GpuProfileTest, MoreRowsTakeMoreWaves) {
  RegionFigures region = gpuProduct(8e-6);
  // 198 blocks are two waves of 132: the start stays, the rest takes twice as long.
  EXPECT_NEAR(*secondsWithRows(region, 2), 12e-6, 1e-12);
  // 129 blocks fit the first one.
  EXPECT_NEAR(*secondsWithRows(region, 1.3), 8e-6, 1e-12);
  region.parts.clear();
  EXPECT_FALSE(secondsWithRows(region, 2));
}

TEST(GpuProfileTest, WhatWouldHelpTooLittleIsSaid) {
  Profile profile = gpuMachine();
  profile.regions = {gpuProduct(8e-6), longOther()};
  profile.measured.timedSeconds = profile.measured.runSeconds = 1e-3;
  for (size_t i = 0; i < 2; ++i) {
    profile.regions[i].operators = {i};
    profile.operators.push_back(gpuNode(i == 0 ? "matmul" : "conv", i));
  }
  classify(profile);
  splitOperators(profile);
  advise(profile);
  EXPECT_TRUE(profile.advice.empty()) << "2 us of a millisecond";
  std::string text = profileText(profile, 2);
  EXPECT_NE(text.find("nothing gains 2 % of the run: other 6.00 us; twice the rows, half of it"),
            std::string::npos)
      << text;
}

TEST(GpuProfileTest, WhatStandsBehindAProductHasItsPart) {
  Profile profile = gpuMachine();
  RegionFigures region = gpuProduct(10e-6);
  region.parts = {{"products", 9e-6}, {"epilogue", 1e-6}};
  region.operators = {0, 1};
  profile.regions = {region};
  profile.operators = {gpuNode("matmul", 0), gpuNode("add", 0)};
  classify(profile);
  splitOperators(profile);
  EXPECT_NEAR(profile.operators[0].seconds, 9e-6, 1e-12);
  EXPECT_NEAR(profile.operators[1].seconds, 1e-6, 1e-12);
}

} // namespace
