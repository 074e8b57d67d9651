// The conformance runner's own detectors: comparison, expected failures, and children that crash or
// hang.

#include "test/conformance/Compare.h"
#include "test/conformance/Expected.h"
#include "test/conformance/PlantedFaults.h"
#include "test/conformance/Pool.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstdlib>

namespace tenon::conformance {
namespace {

Tensor makeTensor(DType dtype, std::vector<double> values) {
  Result<Tensor> tensor = Tensor::create("t", dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    setElement(*tensor, static_cast<int64_t>(i), values[i]);
  }
  return std::move(*tensor);
}

bool agree(double got, double want) {
  return firstDifference(makeTensor(DType::F64, {got}), makeTensor(DType::F64, {want}), {}).empty();
}

TEST(Compare, KeepsOnnxTolerances) {
  EXPECT_TRUE(agree(1.0009, 1));
  EXPECT_FALSE(agree(1.0011, 1));
  EXPECT_TRUE(agree(0.9e-7, 0));
  EXPECT_FALSE(agree(1.1e-7, 0));
  EXPECT_TRUE(agree(NAN, NAN));
  EXPECT_FALSE(agree(NAN, 0));
  EXPECT_FALSE(agree(0, NAN));
  EXPECT_TRUE(agree(INFINITY, INFINITY));
  EXPECT_FALSE(agree(INFINITY, -INFINITY));
  EXPECT_FALSE(agree(1e308, INFINITY));
}

TEST(Compare, FindsOtherTypesAndDims) {
  Tensor want = makeTensor(DType::F32, {1, 2});
  EXPECT_NE(firstDifference(makeTensor(DType::F64, {1, 2}), want, {}), "");
  EXPECT_NE(firstDifference(makeTensor(DType::F32, {1, 2, 3}), want, {}), "");
  EXPECT_EQ(firstDifference(makeTensor(DType::F32, {1, 3}), want, {}),
            "element 1 is 3 instead of 2 (1 of 2 differ)");
}

TEST(Expected, IsReadAndWritten) {
  std::vector<std::string> faults;
  ExpectedFailures expected =
      parseExpected("# comment\n# at most 2\na reason of a\nb  other\n", faults);
  EXPECT_TRUE(faults.empty());
  EXPECT_EQ(expected.limit, 2u);
  EXPECT_EQ(expected.reasons["a"], "reason of a");
  ExpectedFailures again = parseExpected(formatExpected(expected), faults);
  EXPECT_EQ(again.reasons, expected.reasons);
  EXPECT_EQ(again.limit, 2u);
}

TEST(Expected, RefusesGrowthAndMissingReasons) {
  std::vector<std::string> faults;
  parseExpected("# at most 1\na x\nb y\n", faults);
  EXPECT_EQ(faults.size(), 1u);
  faults.clear();
  parseExpected("# at most 5\na\nb \nc x\nc y\n", faults);
  EXPECT_EQ(faults.size(), 3u);
}

TEST(Expected, FindsEveryContradiction) {
  ExpectedFailures expected{3, {{"listed-passes", "r"}, {"listed-fails", "r"}, {"gone", "r"}}};
  std::vector<Case> cases = {
      {"listed-passes", ""}, {"listed-fails", ""}, {"new-failure", ""}, {"fine", ""}};
  std::vector<Outcome> outcomes = {{Verdict::Pass, ""},
                                   {Verdict::Unsupported, "u"},
                                   {Verdict::Fail, "wrong"},
                                   {Verdict::Pass, ""}};
  EXPECT_EQ(contradictions(expected, cases, outcomes),
            (std::vector<std::string>{"listed-passes passes now: take it off the list",
                                      "new-failure does not pass: wrong",
                                      "gone is listed, but there is no such case"}));
}

TEST(Pool, SurvivesCrashesHangsAndSilence) {
  std::vector<Case> cases = {
      {"pass", ""}, {"crash", ""}, {"hang", ""}, {"silent", ""}, {"fail", ""}};
  CaseFunction function = [](const Case &one, const std::string &scratch) -> Outcome {
    if (one.name == "crash") {
      std::abort();
    }
    if (one.name == "hang") {
      pause();
    }
    if (one.name == "silent") {
      _exit(7);
    }
    return one.name == "pass" ? Outcome{Verdict::Pass, ""}
                              : Outcome{Verdict::Fail, "in " + scratch};
  };
  size_t last = 0;
  std::vector<Outcome> outcomes =
      runInChildren(cases, {2, 1}, function, [&](size_t done) { last = done; });
  EXPECT_EQ(last, 5u);
  EXPECT_EQ(outcomes[0].verdict, Verdict::Pass);
  EXPECT_EQ(outcomes[1].reason, "crashed: Aborted");
  EXPECT_EQ(outcomes[2].reason, "did not end in time");
  EXPECT_EQ(outcomes[3].reason, "ended with 7");
  EXPECT_EQ(outcomes[4].verdict, Verdict::Fail);
  EXPECT_TRUE(outcomes[4].reason.starts_with("in /dev/shm/"));
}

TEST(Pool, DoesSeveralCasesInAChild) {
  std::vector<Case> cases = {{"a", ""},    {"b", ""},     {"crash", ""}, {"behind", ""},
                             {"fail", ""}, {"third", ""}, {"next", ""},  {"last", ""}};
  CaseFunction function = [](const Case &one, const std::string &) -> Outcome {
    if (one.name == "crash") {
      std::abort();
    }
    Verdict verdict = one.name == "b"      ? Verdict::Unsupported
                      : one.name == "fail" ? Verdict::Fail
                                           : Verdict::Pass;
    return {verdict, fmt::format("{} of process {}", one.name, getpid())};
  };
  std::vector<Outcome> outcomes =
      runInChildren(cases, {.jobs = 2, .secondsPerCase = 20, .batch = 7}, function, [](size_t) {});
  auto processOf = [&](size_t index) {
    return outcomes[index].reason.substr(outcomes[index].reason.find(" of process"));
  };
  EXPECT_TRUE(outcomes[0].reason.starts_with("a of"));
  EXPECT_EQ(outcomes[1].verdict, Verdict::Unsupported);
  EXPECT_EQ(processOf(0), processOf(1));
  EXPECT_EQ(outcomes[2].reason, "crashed: Aborted");
  EXPECT_TRUE(outcomes[3].reason.starts_with("behind of"));
  EXPECT_NE(processOf(1), processOf(3)) << "its child is gone";
  EXPECT_TRUE(outcomes[4].reason.starts_with("fail of"));
  EXPECT_EQ(processOf(3), processOf(4));
  EXPECT_NE(processOf(4), processOf(5)) << "a child does nothing after a failure";
  EXPECT_EQ(processOf(5), processOf(6));
  EXPECT_TRUE(outcomes[7].reason.starts_with("last of"));
}

TEST(Pool, BeginsNothingWhenTheTimeIsOver) {
  std::vector<Case> cases(6, Case{"slow", ""});
  CaseFunction function = [](const Case &, const std::string &) -> Outcome {
    usleep(700'000);
    return {Verdict::Pass, ""};
  };
  std::vector<Outcome> outcomes = runInChildren(
      cases, {.jobs = 1, .secondsPerCase = 20, .batch = 3, .seconds = 1}, function, [](size_t) {});
  EXPECT_EQ(outcomes[0].verdict, Verdict::Pass);
  EXPECT_EQ(outcomes[2].verdict, Verdict::NotRun);
  EXPECT_EQ(outcomes[5].verdict, Verdict::NotRun);
  std::vector<std::string> faults = contradictions({}, cases, outcomes);
  EXPECT_TRUE(faults.empty());
}

TEST(PlantedFaults, AreEnginesThatTheRuntimeTakes) {
  std::vector<Case> faults = plantedFaults();
  EXPECT_EQ(4u, faults.size());
  CaseOptions options;
  options.targets.gpus = {target::targetOf("sm_90")};
  options.scratchFolder = ::testing::TempDir();
  options.compileOnly = true;
  for (const Case &fault : faults) {
    EXPECT_EQ(Verdict::Pass, runPlantedFault(fault, options).verdict) << fault.name;
  }
  EXPECT_EQ(Verdict::Fail, runPlantedFault({"none", ""}, options).verdict);
}

} // namespace
} // namespace tenon::conformance
