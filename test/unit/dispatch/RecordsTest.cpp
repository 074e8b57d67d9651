// The fusion record as JSON, and its sums.
#include "compiler/dispatch/Records.h"
#include "llvm/Support/JSON.h"

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

TEST(RecordsTest, SaysAllAsJson) {
  std::string text = sample().toJson();
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  ASSERT_TRUE(static_cast<bool>(parsed)) << llvm::toString(parsed.takeError());
  const llvm::json::Object &record = *parsed->getAsObject();
  EXPECT_EQ(record.getInteger("schema"), 1);
  const llvm::json::Object &size = *record.getArray("sizes")->front().getAsObject();
  EXPECT_EQ(size.getString("name"), "batch");
  EXPECT_EQ(size.getInteger("size"), 128);
  const llvm::json::Object &region = *record.getArray("regions")->front().getAsObject();
  EXPECT_EQ(region.getString("reason"), "because \"quoted\"");
  const llvm::json::Object &cost = *region.getObject("cost");
  EXPECT_EQ(cost.getInteger("registers"), 40);
  EXPECT_EQ(cost.getInteger("occupancy"), 75);
  EXPECT_EQ(cost.getNumber("lost_us"), 0.5);
  EXPECT_EQ(cost.getNumber("work_us"), 0.125);
  const llvm::json::Object &edge = *record.getArray("edges")->front().getAsObject();
  EXPECT_EQ(edge.getString("decided"), "9 of 10");
  EXPECT_EQ(edge.getObject("fused")->getNumber("us"), 6.5);
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

} // namespace
