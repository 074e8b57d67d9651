// The fusion record as JSON and back, and its refusal of what it does not know.
#include "compiler/dispatch/Records.h"

#include <gtest/gtest.h>

using tenon::dispatch::Records;

namespace {

Records sample() {
  Records records;
  records.profile = "test";
  records.launchMicroseconds = 1;
  records.sizes = {{"batch", 128}, {"tokens", 64}};
  records.regions.push_back({.label = "a+b",
                             .target = "cpu",
                             .strategy = "rows",
                             .reason = "because \"quoted\"",
                             .nodes = {"a", "b"},
                             .operations = {"add", "softmax"},
                             .cost = {.bytes = 12,
                                      .work = 34,
                                      .launches = 1,
                                      .microseconds = 1.25,
                                      .registers = 40,
                                      .occupancy = 75,
                                      .lostMicroseconds = 0.5,
                                      .bytesMicroseconds = 0.25,
                                      .workMicroseconds = 0.125}});
  records.edges.push_back({.producer = "a",
                           .consumer = "c",
                           .producerRegion = 0,
                           .consumerRegion = 1,
                           .verdict = "apart",
                           .rule = "cycle",
                           .why = "why",
                           .decided = "9 of 10",
                           .apart = {.bytes = 1, .work = 2, .launches = 2, .microseconds = 3},
                           .fused = {.bytes = 4, .work = 5, .launches = 1, .microseconds = 6.5}});
  return records;
}

TEST(RecordsTest, SurvivesJson) {
  std::string text = sample().toJson();
  llvm::Expected<Records> back = Records::fromJson(text);
  ASSERT_TRUE(static_cast<bool>(back)) << llvm::toString(back.takeError());
  EXPECT_EQ(back->toJson(), text);
  EXPECT_EQ(back->regions.front().reason, "because \"quoted\"");
  EXPECT_EQ(back->regions.front().cost.registers, 40);
  EXPECT_EQ(back->regions.front().cost.occupancy, 75);
  EXPECT_EQ(back->regions.front().cost.lostMicroseconds, 0.5);
  EXPECT_EQ(back->edges.front().fused.microseconds, 6.5);
  EXPECT_EQ(back->edges.front().decided, "9 of 10");
  EXPECT_EQ(back->regions.front().cost.workMicroseconds, 0.125);
  EXPECT_EQ(back->sizes, sample().sizes);
}

TEST(RecordsTest, AKernelsTimeIsThatOfItsRegionAndOfItsEdges) {
  Records records = sample();
  records.setKernelTime(0, 2.25);
  EXPECT_EQ(records.regions.front().cost.microseconds, 2.25);
  EXPECT_EQ(records.edges.front().apart.microseconds, 4);
  EXPECT_EQ(records.edges.front().fused.microseconds, 7.5) << "what one kernel would save stays";
}

TEST(RecordsTest, SeveralKernelsShowTheirTightest) {
  tenon::dispatch::Cost sum{.launches = 1, .registers = 40, .occupancy = 75};
  sum += {.launches = 1, .registers = 90, .occupancy = 25};
  sum += {.launches = 1}; // a library's call, of which nothing is known
  EXPECT_EQ(sum.launches, 3);
  EXPECT_EQ(sum.registers, 90);
  EXPECT_EQ(sum.occupancy, 25);
}

TEST(RecordsTest, RefusesWhatItDoesNotKnow) {
  for (const char *text : {"", "[]", "{}", R"({"schema":2,"profile":"","regions":[],"edges":[]})",
                           R"({"schema":1,"profile":"","regions":[{}],"edges":[]})"}) {
    llvm::Expected<Records> back = Records::fromJson(text);
    EXPECT_FALSE(static_cast<bool>(back)) << text;
    llvm::consumeError(back.takeError());
  }
}

} // namespace
