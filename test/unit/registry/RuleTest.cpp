// Rules of a gate: what is a rule, and what an interval decides.

#include "registry/Rule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tenon::registry {
namespace {

Rule rule(std::string_view text) {
  Result<Rule> parsed = parseRule(text);
  EXPECT_TRUE(parsed.isOk()) << text << parsed.status().toString();
  return parsed.isOk() ? *parsed : Rule();
}

TEST(Rule, Limits) {
  EXPECT_DOUBLE_EQ(0.85, rule("top1 >= 85%").limit);
  EXPECT_DOUBLE_EQ(0.85, rule("top1  >=  0.85").limit);
  EXPECT_EQ("top1 >= 0.85", rule("top1  >=  0.85").text);
  EXPECT_DOUBLE_EQ(64.0 * 1024 * 1024, rule("memory <= 64MiB").limit);
  EXPECT_DOUBLE_EQ(2e6, rule("size <= 2MB").limit);
  EXPECT_DOUBLE_EQ(5, rule("p99 <= 5ms").limit);
  EXPECT_DOUBLE_EQ(0.25, rule("p50 <= 250us").limit);
  EXPECT_DOUBLE_EQ(1e-3, rule("outputs <= 1e-3").limit);
  EXPECT_DOUBLE_EQ(-0.005, rule("top1 >= champion - 0.5%").limit);
  EXPECT_DOUBLE_EQ(-0.005, rule("top1 >= champion - 0.005").limit);
  EXPECT_EQ(LimitKind::Difference, rule("mse <= champion + 0.1").kind);
  EXPECT_DOUBLE_EQ(1.1, rule("p50 <= champion + 10%").limit);
  EXPECT_DOUBLE_EQ(0.9, rule("throughput >= champion - 10%").limit);
  EXPECT_DOUBLE_EQ(1, rule("size <= champion").limit);
  EXPECT_EQ(Baseline::Champion, rule("outputs <= 0.1%").baseline);
  EXPECT_EQ(Baseline::Champion, rule("interface >= champion").baseline);
  EXPECT_EQ(Baseline::Parent, rule("top1 >= parent - 1%").baseline);
  EXPECT_EQ(Baseline::None, rule("p50 <= 3").baseline);
}

TEST(Rule, Refused) {
  for (std::string_view text : {"",
                                "top1",
                                "top1 >= ",
                                "top1 > 0.8",
                                "topp1 >= 0.8",
                                "top1 >= nan",
                                "top1 >= inf",
                                "top1 >= -1",
                                "top1 >= 0x1p-1",
                                "top1 >= 1.5",
                                "top1 >= 850%",
                                "top1 <= 0.5",
                                "p50 >= 3",
                                "p50 <= 3%",
                                "p50 <= champion + 3ms",
                                "p50 <= champion + 3",
                                "p50 <= champion - 100%",
                                "mse <= champion + 3%",
                                "size <= 3ms",
                                "throughput >= 3ms",
                                "outputs <= champion",
                                "top1 >= champion - ",
                                "p50 <= parent + 10%",
                                "interface >= 3",
                                "interface >= champion - 1%",
                                "interface <= champion",
                                "top1 >= champion * 0.9",
                                "top1 >= champion - 1% 2",
                                "top1 >= 1e400",
                                "top1>=0.8",
                                "p50 <= 1e",
                                "p50 <= --3"}) {
    Result<Rule> parsed = parseRule(text);
    EXPECT_FALSE(parsed.isOk()) << text;
    EXPECT_EQ(ErrorId::BadGateRule, parsed.status().id()) << text;
  }
  EXPECT_NE(std::string::npos,
            parseRule("topp1 >= 0.8").status().toString().find("did you mean 'top1'"));
  EXPECT_EQ(std::string::npos, parseRule("top1\x1b[31m >= 0.8").status().toString().find('\x1b'));
}

TEST(Rule, Decides) {
  auto outcome = [](std::string_view text, double value, double low, double high) {
    return decide(rule(text), Measured{value, low, high, ""}).outcome;
  };
  EXPECT_EQ(GateOutcome::Passed, outcome("top1 >= 0.85", 0.9, 0.86, 0.92));
  EXPECT_EQ(GateOutcome::Passed, outcome("top1 >= 0.85", 0.9, 0.85, 0.92));
  EXPECT_EQ(GateOutcome::Undecided, outcome("top1 >= 0.85", 0.9, 0.84, 0.92));
  EXPECT_EQ(GateOutcome::Undecided, outcome("top1 >= 0.85", 0.84, 0.8, 0.86));
  EXPECT_EQ(GateOutcome::Refused, outcome("top1 >= 0.85", 0.8, 0.78, 0.84));
  EXPECT_EQ(GateOutcome::Passed, outcome("p50 <= champion + 10%", 1.0, 0.95, 1.1));
  EXPECT_EQ(GateOutcome::Undecided, outcome("p50 <= champion + 10%", 1.0, 0.95, 1.11));
  EXPECT_EQ(GateOutcome::Refused, outcome("p50 <= champion + 10%", 1.2, 1.11, 1.3));
  double none = std::nan("");
  EXPECT_EQ(GateOutcome::Refused, outcome("top1 >= 0.85", none, 0.9, 0.9));
  EXPECT_EQ(GateOutcome::Refused, outcome("mse <= 1", HUGE_VAL, 0, 0));
  EXPECT_EQ(GateOutcome::Undecided, outcome("p99 <= 1", 0.5, none, none));
  EXPECT_EQ(GateOutcome::Passed, decide(rule("p50 <= champion"), std::nullopt).outcome);
  EXPECT_EQ(GateOutcome::Refused, decide(rule("top1 >= parent"), std::nullopt).outcome);
  EXPECT_EQ(GateOutcome::Refused, outcome("interface >= champion", 1, 1, 1));
  EXPECT_EQ(GateOutcome::Passed, outcome("interface >= champion", 0, 0, 0));
}

TEST(Rule, Together) {
  auto of = [](std::initializer_list<GateOutcome> outcomes) {
    std::vector<RuleResult> results;
    for (GateOutcome each : outcomes) {
      results.push_back({Rule(), std::nullopt, each, ""});
    }
    return outcomeOf(results);
  };
  EXPECT_EQ(GateOutcome::Passed, of({GateOutcome::Passed, GateOutcome::Passed}));
  EXPECT_EQ(GateOutcome::Undecided, of({GateOutcome::Passed, GateOutcome::Undecided}));
  EXPECT_EQ(GateOutcome::Refused,
            of({GateOutcome::Undecided, GateOutcome::Refused, GateOutcome::Passed}));
}

} // namespace
} // namespace tenon::registry
