// Engines with ranks: each has its weights and its state, all meet at collectives, and one that
// fails ends the run of the others.

#include "runtime/core/Session.h"
#include "runtime/device/cpu/AddRanks.h"
#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tenon::runtime {
namespace {

using engine::ExprId;

/// The sum over ranks of x * (own weights), and what each rank has of it, and a state that each
/// adds its own to: y = reduce(own * x), all = gather(own * x).
engine::Plan sumPlan(uint32_t ranks) {
  test::PlanBuilder builder;
  builder.plan.ranks = ranks;
  ExprId one = builder.size(1), bytes = builder.size(4 * 3);
  uint32_t x = builder.input("x", DType::F32, {one, builder.size(2)});
  uint32_t y = builder.output("y", DType::F32, {one, builder.size(3)});
  uint32_t all = builder.output("all", DType::F32, {builder.size(ranks), builder.size(3)});
  uint32_t own = builder.weight(0, 4 * 6);
  uint32_t shared = builder.weight(1, 4 * 3);
  uint32_t part = builder.arena(bytes, 0, 2);
  uint32_t moved = builder.arena(bytes, 1, 3);
  builder.launch(test::Product, {x, own}, {part}, one, {builder.size(2), builder.size(3)});
  builder.launch(test::Add, {part, shared}, {moved}, builder.size(3));
  builder.collective(engine::CollectiveKind::AllReduce, part, y, builder.size(3));
  builder.collective(engine::CollectiveKind::AllGather, moved, all, builder.size(3));
  builder.finish();
  return builder.plan;
}

std::vector<float> ofRanks(uint32_t ranks) {
  std::vector<float> all;
  for (uint32_t i = 0; i < 6 * ranks; ++i) {
    all.push_back(static_cast<float>(i % 7) + 0.25F * static_cast<float>(i));
  }
  return all;
}

std::unique_ptr<Session> open(const engine::Plan &plan, std::vector<test::WeightData> weights,
                              unsigned threads, const std::string &name) {
  test::TestEngine engine(plan, std::move(weights));
  Result<std::shared_ptr<const Engine>> opened = Engine::open(engine.writeTemporary(name));
  EXPECT_TRUE(opened.isOk()) << opened.status().toString();
  Result<std::unique_ptr<Session>> session = Session::create(*opened, {.threads = threads});
  EXPECT_TRUE(session.isOk()) << session.status().toString();
  return std::move(*session);
}

TEST(Ranks, MeetAtCollectives) {
  for (uint32_t ranks : {2u, 3u, 8u}) {
    std::vector<float> own = ofRanks(ranks), shared = {100, 200, 300};
    std::unique_ptr<Session> session =
        open(sumPlan(ranks), {test::floats("own", own, ranks), test::floats("shared", shared)}, 4,
             "ranks" + std::to_string(ranks));
    EXPECT_EQ(std::max(ranks, 4 / ranks * ranks), session->threads());
    for (float factor : {1.0F, -2.5F}) {
      std::vector<float> x = {factor, 3};
      std::vector<float> y(3), all(3 * ranks), expected(3);
      std::vector<int64_t> dims = {1, 2};
      InputBinding in = {x.data(), dims};
      OutputBinding out[] = {{y.data(), 12}, {all.data(), all.size() * 4}};
      Status status = session->run({&in, 1}, out);
      ASSERT_TRUE(status.isOk()) << status.toString();
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        for (uint32_t i = 0; i < 3; ++i) {
          float product = x[0] * own[6 * rank + i] + x[1] * own[6 * rank + 3 + i];
          expected[i] = rank == 0 ? product : expected[i] + product;
          EXPECT_EQ(product + shared[i], all[3 * rank + i]);
        }
      }
      EXPECT_EQ(expected, y);
    }
    EXPECT_EQ(2u, session->info().collectives);
    EXPECT_GE(session->memoryUse().arenaBytes, ranks * 2 * 12);
  }
}

/// Which rank fails, and how, is in its own weight.
TEST(Ranks, OneThatFailsEndsTheOthers) {
  test::PlanBuilder builder;
  builder.plan.ranks = 3;
  ExprId one = builder.size(1);
  uint32_t x = builder.input("x", DType::F32, {one});
  uint32_t y = builder.output("y", DType::F32, {one});
  uint32_t code = builder.weight(0, 4);
  builder.launch(test::Fail, {code}, {}, one);
  builder.collective(engine::CollectiveKind::AllReduce, x, y, one);
  builder.finish();
  std::vector<int64_t> dims = {1};
  float in = 1, out = 0;
  auto run = [&](std::vector<float> codes, const std::string &name) {
    std::unique_ptr<Session> session =
        open(builder.plan, {test::floats("codes", codes, 3)}, 3, name);
    InputBinding input = {&in, dims};
    OutputBinding output = {&out, 4};
    Status first = session->run({&input, 1}, {&output, 1});
    // A session is whole after it.
    EXPECT_EQ(first.toString(), session->run({&input, 1}, {&output, 1}).toString());
    return first;
  };
  EXPECT_TRUE(run({0, 0, 0}, "ranks-good").isOk());
  EXPECT_EQ(3, out);
  Status status = run({0, 0, 1}, "ranks-third");
  EXPECT_EQ(ErrorId::RunIndexOutOfRange, status.id());
  EXPECT_TRUE(status.message().starts_with("rank 2: ")) << status.toString();
  status = run({0, 2, 1}, "ranks-two");
  EXPECT_EQ(ErrorId::RunBadArithmetic, status.id()) << status.toString();
  EXPECT_TRUE(status.message().starts_with("rank 1: ")) << status.toString();
  status = run({1, 1, 1}, "ranks-all");
  EXPECT_TRUE(status.message().starts_with("'")) << status.toString();
}

TEST(Ranks, WhatTheCallerDidWrongIsSaidOnce) {
  std::unique_ptr<Session> session =
      open(sumPlan(2), {test::floats("own", ofRanks(2), 2), test::floats("shared", {1, 2, 3})}, 2,
           "ranks-wrong");
  std::vector<float> x = {1, 2, 3}, y(3), all(6);
  std::vector<int64_t> dims = {1, 3};
  InputBinding in = {x.data(), dims};
  OutputBinding out[] = {{y.data(), 12}, {all.data(), 24}};
  Status status = session->run({&in, 1}, out);
  EXPECT_EQ(ErrorId::RunInputDim, status.id()) << status.toString();
  EXPECT_FALSE(status.message().starts_with("rank")) << status.toString();
  dims = {1, 2};
  in = {x.data(), dims};
  RunOptions options = {.stream = &dims};
  EXPECT_EQ(ErrorId::BadArgument, session->run({&in, 1}, out, options).id());
}

/// Threads do not survive a fork: what needs them says so and does not wait for them.
TEST(Ranks, AForkHasNone) {
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "the thread sanitizer has lost the threads of the process that was forked";
#endif
  std::unique_ptr<Session> session =
      open(sumPlan(2), {test::floats("own", ofRanks(2), 2), test::floats("shared", {1, 2, 3})}, 2,
           "ranks-fork");
  pid_t child = fork();
  if (child == 0) {
    std::vector<float> x = {1, 2}, y(3), all(6);
    std::vector<int64_t> dims = {1, 2};
    InputBinding in = {x.data(), dims};
    OutputBinding out[] = {{y.data(), 12}, {all.data(), 24}};
    bool isSaid = session->run({&in, 1}, out).id() == ErrorId::BadArgument;
    session.reset();
    _exit(isSaid ? 0 : 1);
  }
  int state = -1;
  ASSERT_EQ(child, waitpid(child, &state, 0));
  EXPECT_EQ(0, state);
}

/// In f32, rounded once, whatever the type: 2^24 and small ones in this order.
TEST(Ranks, AreAddedInTheirOrder) {
  float parts[] = {16777216, 1, 1, -16777216};
  std::vector<const void *> pointers;
  for (float &part : parts) {
    pointers.push_back(&part);
  }
  float sum = -1;
  addRanks(DType::F32, pointers, &sum, 0, 1);
  EXPECT_EQ(0, sum);
  uint16_t halves[] = {0x3c00, 0x1400, 0x1400}; // 1 and twice 2^-10: exact in f32
  pointers = {&halves[0], &halves[1], &halves[2]};
  uint16_t half = 0;
  addRanks(DType::F16, pointers, &half, 0, 1);
  EXPECT_EQ(0x3c02, half);
  uint16_t shorts[] = {0x3f80, 0x3b80, 0x3b80}; // 1 and twice 2^-8: 1 + 2^-7
  pointers = {&shorts[0], &shorts[1], &shorts[2]};
  addRanks(DType::BF16, pointers, &half, 0, 1);
  EXPECT_EQ(0x3f81, half);
}

/// A product, and that of its result, in a stage each of `ranks` ranks. The second fails where its
/// own weight says so.
engine::Plan stagesPlan(uint32_t ranks) {
  test::PlanBuilder builder;
  builder.plan.stages = 2;
  builder.plan.ranks = 2 * ranks;
  ExprId one = builder.size(1), two = builder.size(2), bytes = builder.size(4 * 2);
  ExprId rows = builder.symbol("rows", 1, 8, 0, 0);
  ExprId all = builder.plan.exprs.mul(rows, bytes);
  uint32_t x = builder.input("x", DType::F32, {rows, two});
  uint32_t seen = builder.output("seen", DType::F32, {rows, two});
  uint32_t y = builder.output("y", DType::F32, {rows, two});
  uint32_t first = builder.weight(0, 4 * 4), second = builder.weight(1, 4 * 4);
  uint32_t fails = builder.weight(2, 4);
  uint32_t sent = builder.arena(all, 1, 3), received = builder.arena(all, 3, 5);
  auto of = [&](uint64_t stages) { builder.plan.instructions.back().stages = stages; };
  builder.launch(test::Product, {x, first}, {seen}, rows, {two, two}), of(1);
  builder.copy(seen, sent, all), of(1);
  builder.launch(test::Fail, {fails}, {}, one), of(2);
  builder.collective(engine::CollectiveKind::SendReceive, sent, received,
                     builder.plan.exprs.mul(rows, two));
  of(3);
  builder.launch(test::Product, {received, second}, {y}, rows, {two, two}), of(2);
  builder.finish();
  return builder.plan;
}

std::vector<float> productOf(const std::vector<float> &x, const std::vector<float> &w) {
  std::vector<float> y;
  for (size_t row = 0; row < x.size() / 2; ++row) {
    for (size_t column = 0; column < 2; ++column) {
      y.push_back(x[2 * row] * w[column] + x[2 * row + 1] * w[2 + column]);
    }
  }
  return y;
}

struct StageRun {
  explicit StageRun(std::vector<float> values)
      : x(std::move(values)), seen(x.size()), y(x.size()),
        dims{static_cast<int64_t>(x.size() / 2), 2}, inputs{{x.data(), dims}},
        outputs{{seen.data(), seen.size() * 4}, {y.data(), y.size() * 4}} {}
  StageRun(const StageRun &) = delete;
  RunTensors tensors() const { return {inputs, outputs}; }

  std::vector<float> x, seen, y;
  std::vector<int64_t> dims;
  std::vector<InputBinding> inputs;
  std::vector<OutputBinding> outputs;
};

const std::vector<float> kFirst = {1, 2, 3, 4}, kSecond = {5, -6, 7, 8};

std::unique_ptr<Session> openStages(uint32_t ranks, float fails, const std::string &name) {
  return open(stagesPlan(ranks),
              {test::floats("first", kFirst), test::floats("second", kSecond),
               test::floats("fails", {fails})},
              4, name);
}

TEST(Stages, PassValuesOn) {
  for (uint32_t ranks : {1u, 2u}) {
    std::unique_ptr<Session> session = openStages(ranks, 0, "stages" + std::to_string(ranks));
    EXPECT_EQ(4u, session->threads());
    for (size_t rows : {1, 3, 1}) {
      StageRun run(std::vector<float>(2 * rows, 1.5F));
      Status status = session->run(run.inputs, run.outputs);
      ASSERT_TRUE(status.isOk()) << status.toString();
      EXPECT_EQ(productOf(run.x, kFirst), run.seen);
      EXPECT_EQ(productOf(run.seen, kSecond), run.y);
    }
    EXPECT_EQ(2u, session->info().collectives) << "of the one that sends, and the one that gets";
    // What a stage makes is kept by it.
    StageRun run({1, 2});
    std::vector<OutputBinding> kept(2);
    ASSERT_TRUE(session->run(run.inputs, kept).isOk());
    std::vector<float> seen = productOf(run.x, kFirst);
    EXPECT_EQ(seen[1], static_cast<const float *>(session->outputData(0))[1]);
    EXPECT_EQ(productOf(seen, kSecond)[1], static_cast<const float *>(session->outputData(1))[1]);
  }
}

/// Several runs of other sizes, each with its own result.
TEST(Stages, RunsFollowEachOther) {
  std::unique_ptr<Session> session = openStages(1, 0, "stages-order");
  std::vector<std::unique_ptr<StageRun>> runs;
  std::vector<RunTensors> tensors;
  for (size_t i = 0; i < 50; ++i) {
    runs.push_back(
        std::make_unique<StageRun>(std::vector<float>(2 * (1 + i % 3), static_cast<float>(i))));
    tensors.push_back(runs.back()->tensors());
  }
  Status status = session->runInOrder(tensors);
  ASSERT_TRUE(status.isOk()) << status.toString();
  for (const std::unique_ptr<StageRun> &run : runs) {
    EXPECT_EQ(productOf(productOf(run->x, kFirst), kSecond), run->y);
  }
  EXPECT_TRUE(session->runInOrder({}).isOk());
  // One that is not possible is said before any begins.
  std::vector<float> before = runs[0]->y;
  runs[0]->x = {9, 9};
  runs[1]->dims[0] = 9;
  EXPECT_EQ(ErrorId::RunInputDim, session->runInOrder(tensors).id());
  EXPECT_EQ(before, runs[0]->y);
}

TEST(Stages, OneThatFailsEndsTheOthers) {
  for (uint32_t ranks : {1u, 2u}) {
    std::unique_ptr<Session> session = openStages(ranks, 1, "stages-fail" + std::to_string(ranks));
    StageRun run({1, 2});
    std::vector<RunTensors> twice = {run.tensors(), run.tensors()};
    Status status = session->runInOrder(twice);
    EXPECT_EQ(ErrorId::RunIndexOutOfRange, status.id());
    EXPECT_TRUE(status.message().starts_with("stage 1, rank 0: ")) << status.toString();
    EXPECT_EQ(status.toString(), session->run(run.inputs, run.outputs).toString());
  }
}

/// The bytes of a stage are what its instructions touch: the other has no address of them.
TEST(Stages, HaveTheirOwnBuffers) {
  engine::Plan plan = stagesPlan(1);
  for (uint32_t stage : {0u, 1u}) {
    std::vector<bool> own = engine::buffersOfStage(plan, stage);
    for (size_t i = 0; i < plan.buffers.size(); ++i) {
      uint32_t weight = plan.buffers[i].weight;
      if (weight != engine::kNone) {
        EXPECT_EQ(stage == 0 ? weight == 0 : weight != 0, own[i]);
      }
    }
    EXPECT_EQ(stage, engine::stageOfOutput(plan, stage));
  }
}

TEST(Ranks, AGroupMeetsManyTimes) {
  constexpr uint32_t kRanks = 4;
  RankGroup group(kRanks);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (uint64_t i = 0; i < 20000; ++i) {
        uint64_t mine = i * kRanks + rank;
        std::optional<std::span<const void *const>> all = group.meet(rank, &mine);
        for (uint64_t other = 0; all && other < kRanks; ++other) {
          wrong += *static_cast<const uint64_t *>((*all)[other]) != i * kRanks + other;
        }
        wrong += !all || !group.meet(rank);
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(0, wrong);
}

} // namespace
} // namespace tenon::runtime
