// Tests the weight store: unique ids, views, and bytes made on demand once.
// Relies on nothing beyond the store.
#include "compiler/graph/WeightStore.h"

#include <gtest/gtest.h>
#include <thread>

using namespace tenon::tn;

TEST(WeightStore, MakesIdsUnique) {
  WeightStore store;
  EXPECT_EQ(store.addOwned("w", {1}, "a"), "w");
  EXPECT_EQ(store.addOwned("w", {2}, "b"), "w.1");
  EXPECT_EQ(store.addOwned("w.1", {3}, "c"), "w.1.1");
  EXPECT_EQ(store.addOwned("", {4}, "d"), "weight");
  EXPECT_EQ(store.bytes("w")[0], 1);
  EXPECT_EQ(store.bytes("w.1")[0], 2);
  EXPECT_EQ(store.find("w.1")->origin, "b");
  EXPECT_EQ(store.find("missing"), nullptr);
  EXPECT_TRUE(store.bytes("missing").empty());
}

TEST(WeightStore, KeepsViewsWhereTheyAre) {
  WeightStore store;
  const char data[] = {1, 2, 3};
  std::string id = store.addView("view", data, "file");
  EXPECT_EQ(store.bytes(id).data(), data);
  EXPECT_EQ(store.find(id)->size, 3u);
}

TEST(WeightStore, GeneratesOnceForAllThreads) {
  WeightStore store;
  int calls = 0;
  std::string id = store.addGenerated(
      "made", 4,
      [&](uint64_t, uint64_t, char *out) {
        ++calls;
        std::fill(out, out + 4, 7);
      },
      "seed");
  EXPECT_TRUE(store.find(id)->bytes.empty());
  std::thread other([&] { EXPECT_EQ(store.bytes(id)[3], 7); });
  EXPECT_EQ(store.bytes(id)[0], 7);
  other.join();
  EXPECT_EQ(calls, 1);
}
