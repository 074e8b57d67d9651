// The accountant of requests: nothing is held beyond the bound, and nothing is charged for ever.

#include "server/protocol/MemoryBudget.h"
#include "server/http2/Progress.h"
#include "server/protocol/Compression.h"
#include "server/protocol/InferRequest.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <numeric>
#include <random>
#include <thread>

namespace tenon::server {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(MemoryBudget, HoldsNoMoreThanItsBound) {
  MemoryBudget budget(8 * kMiB);
  MemoryCharge first(&budget), second(&budget), small(&budget);
  ASSERT_TRUE(first.resize(5 * kMiB).isOk());
  EXPECT_EQ(second.resize(4 * kMiB).id(), ErrorId::QueueFull);
  EXPECT_EQ(second.size(), 0u);
  EXPECT_TRUE(second.resize(2 * kMiB).isOk());
  // The last part is for small ones, and the first bytes of each are free.
  EXPECT_FALSE(second.resize(2 * kMiB + 8192).isOk());
  EXPECT_TRUE(small.resize(kMiB).isOk());
  MemoryCharge probe(&budget);
  EXPECT_FALSE(probe.resize(8192).isOk());
  EXPECT_TRUE(probe.resize(1024).isOk());
  first.release();
  EXPECT_TRUE(probe.resize(4 * kMiB).isOk());
}

TEST(MemoryBudget, ChargesMoveAndEnd) {
  MemoryBudget budget(8 * kMiB);
  {
    MemoryCharge first(&budget);
    ASSERT_TRUE(first.resize(kMiB).isOk());
    uint64_t held = budget.held();
    MemoryCharge moved = std::move(first);
    EXPECT_EQ(budget.held(), held);
    MemoryCharge copy = moved;
    EXPECT_EQ(budget.held(), 2 * held);
    copy = std::move(moved);
    EXPECT_EQ(budget.held(), held);
    copy = MemoryCharge();
    EXPECT_EQ(budget.held(), 0u);
    ChargedString text(&budget);
    ASSERT_TRUE(text.append(std::string(9000, 'x')).isOk());
    EXPECT_FALSE(text.append(std::string(9 * kMiB, 'x')).isOk());
    EXPECT_EQ(text.text.size(), 9000u);
  }
  EXPECT_EQ(budget.held(), 0u);
}

TEST(MemoryBudget, AnyThreadsKeepTheSum) {
  MemoryBudget budget(4 * kMiB);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&budget, seed] {
      std::mt19937 random(seed);
      std::vector<MemoryCharge> charges(8);
      for (MemoryCharge &charge : charges) {
        charge = MemoryCharge(&budget);
      }
      for (int i = 0; i < 20'000; ++i) {
        static_cast<void>(charges[random() % charges.size()].resize(random() % (2 * kMiB)).isOk());
        ASSERT_LE(budget.held(), budget.limit());
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(budget.held(), 0u);
}

TEST(MemoryBudget, BoundsWhatASmallBodyBecomes) {
  MemoryBudget budget(2 * kMiB);
  std::string packed, zeros(16 * kMiB, '0');
  Compressor(Encoding::Gzip).append(zeros, true, packed);
  EXPECT_EQ(decompress(Encoding::Gzip, packed, 64 * kMiB, &budget).status().id(),
            ErrorId::QueueFull);
  // Nine bytes an element, of which the text has two.
  std::string list =
      "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[500000],\"data\":[0";
  for (int i = 1; i < 500'000; ++i) {
    list += ",0";
  }
  list += "]}]}";
  EXPECT_EQ(parseInferRequest(list, std::nullopt, &budget).status().id(), ErrorId::QueueFull);
  std::vector<std::byte> bytes(4 * kMiB);
  std::vector<ReplyOutput> outputs = {{"y", DType::F32, {kMiB}, bytes, false}};
  EXPECT_EQ(writeInferReply("m", "1", "", outputs, kMiB, &budget).status().id(),
            ErrorId::QueueFull);
  EXPECT_EQ(budget.held(), 0u);

  MemoryBudget enough(64 * kMiB);
  Result<InferRequest> request = parseInferRequest(list, std::nullopt, &enough);
  ASSERT_TRUE(request.isOk());
  EXPECT_GE(enough.held() + 1024, request->lists[0].bytes());
}

TEST(ChargedText, BlocksMakeOneText) {
  std::vector<float> numbers(400'000);
  std::iota(numbers.begin(), numbers.end(), 0.5f);
  MemoryBudget budget(64 * kMiB);
  std::vector<ReplyOutput> outputs = {
      {"y", DType::F32, {400'000}, std::as_bytes(std::span(numbers)), false},
      {"none", DType::F32, {0}, {}, false}};
  {
    Result<InferReply> reply = writeInferReply("m", "1", "id", outputs, 1 << 20, &budget);
    ASSERT_TRUE(reply.isOk());
    EXPECT_GT(reply->json.blocks().size(), 1u);
    std::string whole;
    for (const std::shared_ptr<ChargedString> &block : reply->json.blocks()) {
      whole += block->text;
    }
    EXPECT_EQ(whole.size(), reply->json.size());
    EXPECT_NEAR(static_cast<double>(budget.held()), static_cast<double>(whole.size()), 8192);
    Json value = parseJson(whole);
    ASSERT_TRUE(value.is_object());
    EXPECT_EQ(value["outputs"][0]["data"].get<std::vector<float>>(), numbers);
    EXPECT_TRUE(value["outputs"][1]["data"].empty());
  }
  EXPECT_EQ(budget.held(), 0u);
}

TEST(Progress, EndsWhatStandsAndWhatDrips) {
  using namespace std::chrono_literals;
  Progress progress;
  EXPECT_EQ(progress.deadline(10s), progress.start + 10s);
  progress.moved = 100 * kMinRate;
  progress.last = progress.start + 50s;
  EXPECT_EQ(progress.deadline(10s), progress.start + 60s); // nothing for 10 s
  progress.moved = kMinRate;
  EXPECT_EQ(progress.deadline(10s), progress.start + 11s); // a byte now and then
}

} // namespace
} // namespace tenon::server
