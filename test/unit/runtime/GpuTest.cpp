// Sessions on a GPU: the same numbers from every way of running. All of it runs on the stand-in and
// on NVIDIA's driver.

#include "engine/LibraryAbi.h"
#include "runtime/library/Library.h"
#include "test/unit/runtime/GpuFixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace tenon::runtime {
namespace {

using engine::ExprId;
using test::PlanBuilder;
using test::ramp;

using Gpu = test::OnGpu;

TEST_F(Gpu, RunsDynamicShapes) {
  std::unique_ptr<Session> session = test::gpuSumSession();
  ASSERT_TRUE(session);
  EXPECT_EQ("sm_80", session->engine().variant().level);
  EXPECT_EQ(1u, session->threads());
  for (int round = 0; round < 3; ++round) {
    for (int64_t count : {1, 4096, 130, 7}) {
      Result<std::vector<float>> output = test::runOnHost(*session, ramp(count));
      ASSERT_TRUE(output.isOk()) << output.status().toString();
      EXPECT_EQ(test::gpuSumOf(ramp(count)), *output);
      EXPECT_EQ(round != 0, session->info().usedGraph) << session->info().graphRefusal;
    }
  }
  RunInfo info = session->info();
  EXPECT_EQ(2u, info.kernels);
  EXPECT_EQ(0u, info.calls + info.moves);
  MemoryUse use = session->memoryUse();
  EXPECT_EQ(4096u * 4, use.arenaBytes);
  EXPECT_EQ(4096u * 4, use.weightBytes) << "only the weights that the plan uses";
  EXPECT_EQ(2u * 4096 * 4, use.portBytes);
  EXPECT_EQ(2u * 4096 * 4, use.stagingBytes);
}

TEST_F(Gpu, TellsWhatAKernelReports) {
  std::unique_ptr<Session> session = test::gpuCheckedSession();
  ASSERT_TRUE(session);
  // As launches first, then as a graph; a failure of one run is none of the next.
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ((std::vector<float>{2, 4, 6}), *test::runOnHost(*session, {1, 2, 3}));
    Result<std::vector<float>> failed = test::runOnHost(*session, {1, -2, 3});
    ASSERT_FALSE(failed.isOk());
    EXPECT_EQ(ErrorId::RunIndexOutOfRange, failed.status().id());
    EXPECT_NE(std::string::npos, failed.status().message().find("'table'"));
  }
  EXPECT_EQ((std::vector<float>{2, 4, 6, 8}), *test::runOnHost(*session, {1, 2, 3, 4}));
}

TEST_F(Gpu, TakesEmptyTensors) {
  // What is empty still has an address: a kernel may read there and not use it.
  PlanBuilder builder;
  ExprId n = builder.symbol("n", 0, 64, 0, 0);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  uint32_t twice = builder.arena(builder.plan.exprs.mul(n, builder.size(4)), 0, 1);
  test::launchGpu(builder, test::GpuScale, {x}, {twice}, n).grid = builder.size(1);
  test::launchGpu(builder, test::GpuAdd, {twice, x}, {y}, n);
  builder.finish();
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(builder.plan));
  ASSERT_TRUE(session);
  for (int round = 0; round < 3; ++round) {
    Result<std::vector<float>> nothing = test::runOnHost(*session, {});
    ASSERT_TRUE(nothing.isOk()) << nothing.status().toString();
    EXPECT_TRUE(nothing->empty());
    EXPECT_EQ((std::vector<float>{3, 6}), *test::runOnHost(*session, {1, 2}));
  }
  int64_t dims[] = {0};
  InputBinding in = {nullptr, dims, Place::Gpu};
  OutputBinding out = {nullptr, 0, Place::Gpu};
  EXPECT_TRUE(session->run({&in, 1}, {&out, 1}).isOk());
}

TEST_F(Gpu, TakesNoItemsWithoutCodeForThem) {
  std::unique_ptr<Session> session = test::gpuSumSession();
  ASSERT_TRUE(session);
  for (int round = 0; round < 3; ++round) {
    Result<std::vector<float>> nothing = test::runOnHost(*session, {});
    ASSERT_TRUE(nothing.isOk()) << nothing.status().toString();
    EXPECT_TRUE(nothing->empty());
    EXPECT_EQ(test::gpuSumOf({1, 2}), *test::runOnHost(*session, {1, 2}));
  }
}

TEST_F(Gpu, StartsKernelsEarlyThatWaitThemselves) {
  if (device->info().capability < 90) {
    GTEST_SKIP() << "needs a GPU of sm_90";
  }
  // A chain in which each kernel reads what the one before it wrote.
  PlanBuilder builder;
  ExprId n = builder.size(1 << 20);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  uint32_t a = builder.arena(builder.size(4 << 20), 0, 7);
  uint32_t b = builder.arena(builder.size(4 << 20), 0, 7);
  test::launchGpu(builder, test::GpuScale, {x}, {a}, n);
  for (int i = 0; i < 3; ++i) {
    test::launchGpu(builder, test::GpuAdd, {a, x}, {b}, n);
    test::launchGpu(builder, test::GpuAdd, {b, x}, {a}, n);
  }
  test::launchGpu(builder, test::GpuScale, {a}, {y}, n);
  builder.finish();
  test::GpuEngine engine(builder.plan);
  engine.addVariant("sm_90", builder.plan);
  std::unique_ptr<Session> session = test::gpuSession(engine);
  ASSERT_TRUE(session);
  EXPECT_EQ("sm_90", session->engine().variant().level);
  std::vector<float> expected = ramp(1 << 20);
  for (float &value : expected) {
    value *= 16;
  }
  for (int run = 0; run < 5; ++run) {
    EXPECT_EQ(expected, *test::runOnHost(*session, ramp(1 << 20)));
    EXPECT_EQ(run != 0, session->info().usedGraph) << session->info().graphRefusal;
  }
  if (test::FakeCuda *fake = test::fakeCuda()) {
    EXPECT_EQ(fake->calls("cuLaunchKernelEx"), fake->earlyLaunches());
  }
}

TEST_F(Gpu, ViewsCopiesAndState) {
  // y[2n + 4] = concat(2x + state, zeros, x); the state counts the runs' sums.
  PlanBuilder builder;
  engine::ExprTable &exprs = builder.plan.exprs;
  ExprId n = builder.symbol("n", 1, 64, 0, 0);
  ExprId bytes = exprs.mul(n, builder.size(4));
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y =
      builder.output("y", DType::F32, {exprs.add(exprs.mul(n, builder.size(2)), builder.size(4))});
  uint32_t head = builder.view(y, builder.size(0), bytes);
  uint32_t middle = builder.view(y, bytes, builder.size(16));
  uint32_t tail = builder.view(y, exprs.add(bytes, builder.size(16)), bytes);
  uint32_t state = builder.state(64 * 4);
  uint32_t twice = builder.arena(bytes, 0, 1);
  test::launchGpu(builder, test::GpuScale, {x}, {twice}, n);
  test::launchGpu(builder, test::GpuAdd, {twice, state}, {state}, n);
  builder.copy(state, head, bytes);
  builder.copy(builder.state(16), middle, builder.size(16));
  builder.copy(x, tail, bytes);
  builder.finish();
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(builder.plan));
  ASSERT_TRUE(session);
  for (int round = 1; round <= 6; ++round) {
    if (round == 4) {
      ASSERT_TRUE(session->resetState().isOk());
    }
    std::vector<float> expected;
    for (float value : ramp(10)) {
      expected.push_back(static_cast<float>((round - 1) % 3 + 1) * 2 * value);
    }
    expected.resize(14);
    expected.insert(expected.end(), {-6, -5, -4, -3, -2, -1, 0, 1, 2, 3});
    EXPECT_EQ(expected, *test::runOnHost(*session, ramp(10))) << round;
  }
  EXPECT_TRUE(session->info().usedGraph);
  EXPECT_EQ(3u, session->info().moves);
}

TEST_F(Gpu, GivesDynamicSharedMemory) {
  for (int64_t scratch : {512, 100 << 10}) {
    PlanBuilder builder;
    ExprId n = builder.size(256);
    uint32_t x = builder.input("x", DType::F32, {n});
    uint32_t y = builder.output("y", DType::F32, {n});
    engine::Instruction &launch =
        builder.launch(static_cast<test::Kernel>(test::GpuReverse), {x}, {y}, builder.size(2));
    launch.threads = 128;
    launch.scratch = builder.size(scratch);
    builder.finish();
    std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(builder.plan));
    ASSERT_TRUE(session);
    std::vector<float> input = ramp(256);
    std::vector<float> expected = input;
    std::reverse(expected.begin(), expected.begin() + 128);
    std::reverse(expected.begin() + 128, expected.end());
    Result<std::vector<float>> output = test::runOnHost(*session, input);
    ASSERT_TRUE(output.isOk()) << output.status().toString();
    EXPECT_EQ(expected, *output);
    EXPECT_FALSE(session->info().usedGraph) << "one launch needs none";
  }
}

using LargeClusters = test::WithFakeCuda;

TEST_F(LargeClusters, AreAllowed) {
  PlanBuilder builder;
  ExprId n = builder.size(256);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  engine::Instruction &launch =
      builder.launch(static_cast<test::Kernel>(test::GpuReverse), {x}, {y}, builder.size(1));
  launch.threads = 256;
  launch.scratch = builder.size(1024);
  launch.cluster = 16;
  builder.finish();
  test::GpuEngine engine(builder.plan);
  std::string &ptx = *engine.codes[0];
  ptx.insert(ptx.find("{", ptx.find(".entry test_reverse")), ".reqnctapercluster 16, 1, 1\n");
  engine.content.variants[0].code = std::as_bytes(std::span(ptx));
  std::unique_ptr<Session> session = test::gpuSession(engine);
  ASSERT_TRUE(session);
  std::vector<float> input = ramp(256);
  Result<std::vector<float>> output = test::runOnHost(*session, input);
  ASSERT_TRUE(output.isOk()) << output.status().toString();
  EXPECT_EQ(std::vector<float>(input.rbegin(), input.rend()), *output);
}

using WholeGrids = test::WithFakeCuda;

/// One block reverses 256 numbers; `blocks` is what the plan says of the grid.
test::GpuEngine wholeGrid(int64_t blocks) {
  PlanBuilder builder;
  ExprId n = builder.size(256);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  engine::Instruction &launch =
      builder.launch(static_cast<test::Kernel>(test::GpuReverse), {x}, {y}, builder.size(blocks));
  launch.label = "lstm";
  launch.threads = 256;
  launch.scratch = builder.size(1024);
  launch.cluster = engine::kWholeGrid;
  builder.finish();
  return test::GpuEngine(builder.plan);
}

TEST_F(WholeGrids, AreCooperativeLaunches) {
  std::unique_ptr<Session> session = test::gpuSession(wholeGrid(1));
  ASSERT_TRUE(session);
  std::vector<float> input = ramp(256);
  Result<std::vector<float>> output = test::runOnHost(*session, input);
  ASSERT_TRUE(output.isOk()) << output.status().toString();
  EXPECT_EQ(std::vector<float>(input.rbegin(), input.rend()), *output);
  EXPECT_LE(1, fake->cooperativeLaunches());
}

TEST_F(WholeGrids, OfMoreBlocksThanMultiprocessorsDoNotLoad) {
  std::string path = wholeGrid(133).writeTemporary("wide.tenon");
  Status status = Engine::open(path, test::gpuOptions()).takeStatus();
  EXPECT_EQ(ErrorId::EngineNoVariant, status.id());
  EXPECT_EQ("'lstm' runs 133 blocks at the same time; the GPU has 132 multiprocessors",
            status.message());
}

/// y[m, 8] = relu(x[m, 16] · W[16, 8]) by a library.
engine::Plan productByLibrary() {
  PlanBuilder builder;
  engine::ExprTable &exprs = builder.plan.exprs;
  ExprId m = builder.symbol("m", 1, 64, 0, 0);
  ExprId k = builder.size(16);
  ExprId n = builder.size(8);
  uint32_t x = builder.input("x", DType::F32, {m, k});
  uint32_t y = builder.output("y", DType::F32, {m, n});
  uint32_t w = builder.weight(0, 16 * 8 * 4);
  uint32_t copy = builder.arena(exprs.mul(m, builder.size(64)), 0, 1);
  builder.copy(x, copy, exprs.mul(m, builder.size(64)));
  engine::MatmulCall matmul;
  matmul.activation = engine::LibraryActivation::Relu;
  engine::Instruction call;
  call.kind = engine::InstructionKind::Call;
  call.label = "dense";
  std::span<const std::byte> bytes = std::as_bytes(std::span(&matmul, 1));
  call.call.assign(bytes.begin(), bytes.end());
  call.buffers = {copy, w, y};
  call.reads = 2;
  ExprId zero = builder.size(0);
  call.sizes = {m, n, k, builder.size(1), k, n, n, zero, zero, zero};
  builder.plan.instructions.push_back(std::move(call));
  builder.finish();
  return builder.plan;
}

TEST_F(Gpu, SparesDoWhatNoLibraryCan) {
  PlanBuilder builder;
  ExprId n = builder.symbol("n", 1, 4096, 0, 0);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  engine::AttentionCall attention;
  attention.type = DType::F32; // which no library is asked for
  engine::Instruction call;
  call.kind = engine::InstructionKind::Call;
  std::span<const std::byte> bytes = std::as_bytes(std::span(&attention, 1));
  call.call.assign(bytes.begin(), bytes.end());
  call.buffers = {x, x, x, y};
  call.reads = 3;
  call.sizes.assign(engine::kAttentionSizes, n);
  builder.plan.instructions.push_back(std::move(call));
  test::launchGpu(builder, test::GpuScale, {x}, {y}, n).isFallback = true;
  builder.finish();
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(builder.plan));
  ASSERT_TRUE(session);
  for (int run = 0; run < 2; ++run) {
    Result<std::vector<float>> output = test::runOnHost(*session, ramp(100));
    ASSERT_TRUE(output.isOk()) << output.status().toString();
    EXPECT_EQ(2 * ramp(100)[99], (*output)[99]);
  }
}

TEST_F(Gpu, CallsLibraries) {
  // What is found would take the stand-in's streams for real ones.
  std::vector<library::FoundLibrary> found = library::findLibraries();
  bool isFound = std::ranges::any_of(
      found, [](const library::FoundLibrary &library) { return !library.path.empty(); });
  if (test::fakeCuda() && isFound) {
    GTEST_SKIP() << "libraries are installed, but the driver is a stand-in";
  }
  std::vector<float> weights;
  for (int i = 0; i < 16 * 8; ++i) {
    weights.push_back(static_cast<float>(i % 7) - 3);
  }
  test::GpuEngine engine(productByLibrary(), {test::floats("w", weights)});
  for (bool measures : {false, true}) {
    SessionOptions options;
    options.measureSeconds = measures ? 60 : 0;
    std::unique_ptr<Session> session = test::gpuSession(engine, options);
    ASSERT_TRUE(session);
    int64_t dims[] = {4, 16};
    std::vector<float> input = ramp(64);
    std::vector<float> output(32);
    InputBinding in = {input.data(), dims};
    OutputBinding out = {output.data(), 128};
    Status status = session->run({&in, 1}, {&out, 1});
    if (test::fakeCuda()) {
      // The stand-in has no libraries that could run on it.
      ASSERT_FALSE(status.isOk());
      EXPECT_EQ(0u, status.message().find("'dense': ")) << status.message();
      continue;
    }
    ASSERT_TRUE(status.isOk()) << status.toString();
    std::vector<float> expected;
    for (int i = 0; i < 32; ++i) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) {
        sum += input[static_cast<size_t>(i / 8 * 16 + k)] *
               weights[static_cast<size_t>(k * 8 + i % 8)];
      }
      expected.push_back(std::max(sum, 0.0f));
    }
    EXPECT_EQ(expected, output);
    std::fill(output.begin(), output.end(), -1.0f);
    ASSERT_TRUE(session->run({&in, 1}, {&out, 1}).isOk());
    EXPECT_EQ(expected, output);
    EXPECT_TRUE(session->info().usedGraph) << session->info().graphRefusal;
    EXPECT_EQ(1u, session->info().calls);
  }
}

TEST_F(Gpu, TimesRuns) {
  std::unique_ptr<Session> session = test::gpuSumSession();
  ASSERT_TRUE(session);
  EXPECT_EQ(ErrorId::BadArgument, session->timeRuns(10).status().id());
  ASSERT_TRUE(test::runOnHost(*session, ramp(4096)).isOk());
  EXPECT_EQ(0, session->info().gpuSeconds);
  session->setTiming(true);
  ASSERT_TRUE(test::runOnHost(*session, ramp(4096)).isOk());
  EXPECT_GT(session->info().gpuSeconds, 0);
  Result<double> seconds = session->timeRuns(100);
  ASSERT_TRUE(seconds.isOk()) << seconds.status().toString();
  EXPECT_GT(*seconds, 0);
  EXPECT_LT(*seconds, 1);
  Result<std::vector<StepTime>> steps = session->timeSteps(10);
  ASSERT_TRUE(steps.isOk()) << steps.status().toString();
  EXPECT_EQ(session->engine().plan().instructions.size() - 1, steps->size());
  for (const StepTime &step : *steps) {
    EXPECT_GT(step.seconds, 0) << step.instruction;
  }
}

TEST_F(Gpu, LargeWeightsArriveWhole) {
  // By two threads; the last piece is not whole.
  constexpr int64_t count = (16 << 20) + 12345;
  std::unique_ptr<Session> session =
      test::gpuSession(test::GpuEngine(test::gpuSumPlan(count), test::gpuSumWeights(count)));
  ASSERT_TRUE(session);
  std::vector<float> input = ramp(count);
  EXPECT_EQ(test::gpuSumOf(input), *test::runOnHost(*session, input));
}

TEST_F(Gpu, SessionsShareWeights) {
  test::GpuEngine engine(test::gpuSumPlan(), test::gpuSumWeights());
  std::shared_ptr<const Engine> opened =
      *Engine::open(engine.writeTemporary("shared.tenon"), test::gpuOptions());
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 3; ++i) {
    sessions.push_back(std::move(*Session::create(opened)));
    EXPECT_EQ(test::gpuSumOf(ramp(9)), *test::runOnHost(*sessions.back(), ramp(9)));
  }
  if (test::FakeCuda *fake = test::fakeCuda()) {
    // Weights once; for each session an arena and two ports, 256 bytes at least. Blocks have slack.
    EXPECT_EQ(4096u * 4 + 256 + 3 * (256 + 256 + 2 * 256), fake->deviceBytes());
    EXPECT_EQ(1, fake->contextsRetained());
  }
}

TEST_F(Gpu, SessionsRunAtOnce) {
  test::GpuEngine engine(test::gpuSumPlan(), test::gpuSumWeights());
  std::shared_ptr<const Engine> opened =
      *Engine::open(engine.writeTemporary("at-once.tenon"), test::gpuOptions());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> users;
  for (int64_t user = 0; user < 4; ++user) {
    users.emplace_back([&, user] {
      std::unique_ptr<Session> session = std::move(*Session::create(opened));
      for (int64_t round = 0; round < 100; ++round) {
        std::vector<float> input = ramp(1 + (user * 7 + round) % 9 * 400);
        Result<std::vector<float>> output = test::runOnHost(*session, input);
        wrong += !output.isOk() || *output != test::gpuSumOf(input);
      }
      wrong += !session->info().usedGraph;
    });
  }
  for (std::thread &user : users) {
    user.join();
  }
  EXPECT_EQ(0, wrong);
}

} // namespace
} // namespace tenon::runtime
