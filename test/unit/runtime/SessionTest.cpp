// Sessions: static and dynamic shapes, threads, views, state, what is refused and why, and that a
// run with known shapes allocates nothing.

#include "runtime/core/Session.h"

#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <thread>

namespace {
std::atomic<int64_t> allocations = 0;
} // namespace

// Counted for the whole test program; the runtime is linked in statically. The thread sanitizer has
// these operators itself.
#if __has_feature(thread_sanitizer)
constexpr bool kCountsAllocations = false;
#else
constexpr bool kCountsAllocations = true;
void *operator new(size_t size) {
  ++allocations;
  if (void *memory = std::malloc(size)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
#endif

namespace tenon::runtime {
namespace {

using engine::ExprId;
using test::PlanBuilder;
using test::TestEngine;

std::unique_ptr<Session> makeSession(const engine::Plan &plan,
                                     const std::vector<test::WeightData> &weights = {},
                                     const SessionOptions &options = {.threads = 2}) {
  static int count = 0;
  TestEngine engine(plan, weights);
  std::string path = engine.writeTemporary("session" + std::to_string(++count) + ".tenon");
  Result<std::shared_ptr<const Engine>> opened = Engine::open(path);
  EXPECT_TRUE(opened.isOk()) << opened.status().toString();
  Result<std::unique_ptr<Session>> session = Session::create(*opened, options);
  EXPECT_TRUE(session.isOk()) << session.status().toString();
  return session.isOk() ? std::move(*session) : nullptr;
}

/// Runs an engine of one float input and one float output that the session keeps.
Result<std::vector<float>> run(Session &session, const std::vector<float> &input,
                               const std::vector<int64_t> &dims) {
  InputBinding in = {input.data(), dims};
  OutputBinding out;
  TENON_TRY(session.run({&in, 1}, {&out, 1}));
  const float *data = static_cast<const float *>(session.outputData(0));
  return std::vector<float>(data, data + session.outputBytes(0) / sizeof(float));
}

std::vector<float> ramp(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(i % 13) - 6);
  }
  return values;
}

TEST(Session, Static) {
  std::unique_ptr<Session> session = makeSession(test::staticPlan(), test::productWeights());
  EXPECT_TRUE(session->isPrepared());
  EXPECT_EQ(128u, session->memoryUse().arenaBytes);
  EXPECT_EQ(48u, session->outputBytes(0));
  EXPECT_EQ(test::expectedProduct(ramp(32)), *run(*session, ramp(32), {4, 8}));
}

TEST(Session, DynamicShapesAndThreads) {
  for (unsigned threads : {1u, 2u, 3u, 5u}) {
    std::unique_ptr<Session> session =
        makeSession(test::dynamicPlan(), test::productWeights(), {.threads = threads});
    EXPECT_EQ(threads, session->threads());
    EXPECT_FALSE(session->isPrepared());
    for (int64_t batch : {1, 64, 2, 7, 64, 1}) {
      EXPECT_EQ(test::expectedProduct(ramp(batch * 8)),
                *run(*session, ramp(batch * 8), {batch, 8}));
      std::span<const int64_t> dims = session->outputDims(0);
      EXPECT_EQ((std::vector<int64_t>{batch, 3}), std::vector<int64_t>(dims.begin(), dims.end()));
    }
    EXPECT_EQ(64u * 8 * 4, session->memoryUse().arenaBytes);
  }
}

TEST(Session, ARunOfNoItemsNeedsNoCodeForThem) {
  std::unique_ptr<Session> session = makeSession(test::dynamicPlan(), test::productWeights());
  for (int round = 0; round < 2; ++round) {
    Result<std::vector<float>> nothing = run(*session, {}, {0, 8});
    ASSERT_TRUE(nothing.isOk()) << nothing.status().toString();
    EXPECT_TRUE(nothing->empty());
    std::span<const int64_t> dims = session->outputDims(0);
    EXPECT_EQ((std::vector<int64_t>{0, 3}), std::vector<int64_t>(dims.begin(), dims.end()));
    EXPECT_EQ(test::expectedProduct(ramp(16)), *run(*session, ramp(16), {2, 8}));
  }
  EXPECT_EQ(ErrorId::RunInputDim, run(*session, {}, {0, 7}).status().id());
  // An output that is not empty by it, a size that divides by it, and a state would need code.
  for (int kind = 0; kind < 3; ++kind) {
    PlanBuilder builder;
    engine::ExprTable &exprs = builder.plan.exprs;
    ExprId n = builder.symbol("n", 1, 64, 0, 0);
    uint32_t x = builder.input("x", DType::F32, {n});
    ExprId size = kind == 0 ? exprs.add(n, builder.size(1)) : kind == 1 ? exprs.floorDiv(n, n) : n;
    uint32_t y = builder.output("y", DType::F32, {size});
    uint32_t from = kind == 2 ? builder.state(4 * 64) : x;
    builder.launch(test::Scale, {from}, {y}, builder.size(0));
    builder.finish();
    EXPECT_EQ(ErrorId::RunInputDim, run(*makeSession(builder.plan), {}, {0}).status().id()) << kind;
  }
}

/// y[k] = 2 * x[n] for k from the input "count", and z[k] = 4 * x. k is at least 1 where
/// `constrained`.
engine::Plan countedPlan(bool constrained = false) {
  PlanBuilder builder;
  ExprId n = builder.symbol("n", 0, 1000, 0, 0);
  ExprId k = builder.dataSymbol("k", n, 1000);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t count = builder.input("count", DType::I64, {});
  uint32_t y = builder.output("y", DType::F32, {k});
  uint32_t z = builder.output("z", DType::F32, {k});
  uint32_t kept = builder.arena(builder.plan.exprs.mul(k, builder.size(4)), 1, 3);
  builder.bindSize(count, 1);
  builder.launch(test::Scale, {x}, {kept}, k);
  builder.launch(test::Scale, {kept}, {z}, k);
  builder.copy(kept, y, builder.plan.exprs.mul(k, builder.size(4)));
  builder.finish();
  if (constrained) {
    builder.plan.constraints.push_back({engine::ConstraintKind::AtLeast, k, builder.size(1), "n"});
  }
  return builder.plan;
}

/// Runs a countedPlan; the first output, if both agree.
Result<std::vector<float>> runCounted(Session &session, const std::vector<float> &input,
                                      int64_t count) {
  int64_t size = static_cast<int64_t>(input.size());
  InputBinding in[] = {{input.data(), {&size, 1}}, {&count, {}}};
  OutputBinding out[2];
  TENON_TRY(session.run(in, out));
  const float *y = static_cast<const float *>(session.outputData(0));
  const float *z = static_cast<const float *>(session.outputData(1));
  size_t made = session.outputBytes(0) / sizeof(float);
  EXPECT_EQ(static_cast<size_t>(session.outputDims(0)[0]), made);
  for (size_t i = 0; i < made; ++i) {
    EXPECT_EQ(2 * y[i], z[i]);
  }
  return std::vector<float>(y, y + made);
}

TEST(Session, SizesThatDataDecides) {
  std::unique_ptr<Session> session = makeSession(countedPlan());
  EXPECT_FALSE(session->isPrepared());
  for (int64_t size : {5, 100, 5, 0}) {
    std::vector<float> input = ramp(size);
    for (int64_t count : {int64_t{0}, size / 2, size, int64_t{0}, size}) {
      Result<std::vector<float>> made = runCounted(*session, input, count);
      ASSERT_TRUE(made.isOk()) << made.status().toString();
      ASSERT_EQ(static_cast<size_t>(count), made->size());
      for (size_t i = 0; i < made->size(); ++i) {
        EXPECT_EQ(2 * input[i], (*made)[i]);
      }
    }
    // Before a run the outputs are as large as they can be.
    std::span<const int64_t> dims[] = {{&size, 1}, {}};
    ASSERT_TRUE(session->prepare(dims).isOk());
    EXPECT_EQ(size, session->outputDims(0)[0]);
    EXPECT_EQ(static_cast<uint64_t>(size) * sizeof(float), session->outputBytes(0));
    for (int64_t wrong : {size + 1, int64_t{-1}, INT64_MAX, INT64_MIN}) {
      EXPECT_EQ(ErrorId::RunBadSize, runCounted(*session, input, wrong).status().id());
    }
  }
}

TEST(Session, RoomForTheMostThatDataCanDecide) {
  std::unique_ptr<Session> session = makeSession(countedPlan());
  std::vector<float> input = ramp(6), first(6), second(6);
  int64_t size = 6, count = 2;
  InputBinding in[] = {{input.data(), {&size, 1}}, {&count, {}}};
  OutputBinding out[] = {{first.data(), 24}, {second.data(), 24}};
  for (count = 0; count <= size; ++count) {
    ASSERT_TRUE(session->run(in, out).isOk());
    EXPECT_EQ(count, session->outputDims(1)[0]);
  }
  count = 2;
  out[0].bytes = 20;
  EXPECT_EQ(ErrorId::RunBadBinding, session->run(in, out).id());
}

TEST(Session, BindingSizesAllocatesNothing) {
  std::unique_ptr<Session> session = makeSession(countedPlan());
  std::vector<float> input = ramp(6), first(6), second(6);
  int64_t size = 6, count = 2;
  InputBinding in[] = {{input.data(), {&size, 1}}, {&count, {}}};
  OutputBinding out[] = {{first.data(), 24}, {second.data(), 24}};
  ASSERT_TRUE(session->run(in, out).isOk());
  int64_t before = allocations;
  for (count = 0; count <= size; ++count) {
    ASSERT_TRUE(session->run(in, out).isOk());
  }
  EXPECT_EQ(before, allocations);
}

TEST(Session, ConstraintsOnWhatDataDecides) {
  std::unique_ptr<Session> session = makeSession(countedPlan(true));
  Status status = runCounted(*session, ramp(4), 0).status();
  EXPECT_EQ(ErrorId::RunConstraint, status.id());
  EXPECT_NE(std::string::npos, status.toString().find("k is at least 1, but k = 0"));
  EXPECT_TRUE(runCounted(*session, ramp(4), 1).isOk());
}

TEST(Session, RemembersABoundedNumberOfShapes) {
  PlanBuilder builder;
  ExprId n = builder.symbol("n", 0, 1000, 0, 0);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  builder.launch(test::Scale, {x}, {y}, n);
  builder.finish();
  std::unique_ptr<Session> session = makeSession(builder.plan);
  for (int round = 0; round < 2; ++round) {
    for (int64_t count = 0; count < 150; ++count) {
      std::vector<float> output = *run(*session, ramp(count), {count});
      ASSERT_EQ(static_cast<size_t>(count), output.size());
      for (size_t i = 0; i < output.size(); ++i) {
        ASSERT_EQ(2 * ramp(count)[i], output[i]);
      }
    }
  }
}

TEST(Session, HotRunsAllocateNothing) {
  if (!kCountsAllocations) {
    GTEST_SKIP() << "the thread sanitizer counts for itself";
  }
  std::unique_ptr<Session> session = makeSession(test::dynamicPlan(), test::productWeights());
  std::vector<float> input = ramp(64 * 8);
  std::vector<float> output(64 * 3);
  auto runBatch = [&](int64_t batch) {
    int64_t dims[] = {batch, 8};
    InputBinding in = {input.data(), dims};
    OutputBinding out = {output.data(), output.size() * sizeof(float)};
    ASSERT_TRUE(session->run({&in, 1}, {&out, 1}).isOk());
  };
  int64_t before = allocations;
  runBatch(8);
  EXPECT_GT(allocations, before) << "the counter sees a first run";
  runBatch(16);
  before = allocations;
  for (int round = 0; round < 100; ++round) {
    runBatch(8);
    runBatch(16);
  }
  EXPECT_EQ(before, allocations);
}

TEST(Session, ManyOnOneEngineAtOnce) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::shared_ptr<const Engine> opened = *Engine::open(engine.writeTemporary("many.tenon"));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> users;
  for (int64_t user = 0; user < 4; ++user) {
    users.emplace_back([&, user] {
      std::unique_ptr<Session> session = std::move(*Session::create(opened, {.threads = 2}));
      for (int64_t round = 0; round < 200; ++round) {
        int64_t batch = 1 + (user * 7 + round) % 9;
        Result<std::vector<float>> output = run(*session, ramp(batch * 8), {batch, 8});
        wrong += !output.isOk() || *output != test::expectedProduct(ramp(batch * 8));
      }
    });
  }
  for (std::thread &user : users) {
    user.join();
  }
  EXPECT_EQ(0, wrong);
}

TEST(Session, ViewsAndCopies) {
  // y[2n + 4] = concat(2 * x, zeros, x): views of the output, one written by a kernel, one by a
  // copy of state that nothing writes, one by a copy of the input.
  PlanBuilder builder;
  engine::ExprTable &exprs = builder.plan.exprs;
  ExprId n = builder.symbol("n", 1, 100, 0, 0);
  ExprId bytes = exprs.mul(n, builder.size(4));
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y =
      builder.output("y", DType::F32, {exprs.add(exprs.mul(n, builder.size(2)), builder.size(4))});
  uint32_t head = builder.view(y, builder.size(0), bytes);
  uint32_t rest = builder.view(y, bytes, exprs.add(bytes, builder.size(16)));
  uint32_t middle = builder.view(rest, builder.size(0), builder.size(16));
  uint32_t tail = builder.view(rest, builder.size(16), bytes);
  builder.launch(test::Scale, {x}, {head}, n);
  builder.copy(builder.state(16), middle, builder.size(16));
  builder.copy(x, tail, bytes);
  builder.finish();
  // The output's size was computed from its dims; it must equal the views' sum.
  std::unique_ptr<Session> session = makeSession(builder.plan);
  for (int64_t count : {1, 3, 100}) {
    std::vector<float> input = ramp(count);
    std::vector<float> expected;
    for (float value : input) {
      expected.push_back(2 * value);
    }
    expected.resize(expected.size() + 4);
    expected.insert(expected.end(), input.begin(), input.end());
    EXPECT_EQ(expected, *run(*session, input, {count}));
  }
}

TEST(Session, LargeCopies) {
  // y = concat(x, x): sizes around what one thread moves at once, and far above.
  PlanBuilder builder;
  engine::ExprTable &exprs = builder.plan.exprs;
  ExprId n = builder.symbol("n", 1, 1 << 22, 0, 0);
  uint32_t x = builder.input("x", DType::U8, {n});
  uint32_t y = builder.output("y", DType::U8, {exprs.mul(n, builder.size(2))});
  builder.copy(x, builder.view(y, builder.size(0), n), n);
  builder.plan.instructions.back().grid = exprs.floorDiv(n, builder.size(1 << 16));
  builder.copy(x, builder.view(y, n, n), n);
  builder.plan.instructions.back().grid = builder.size(7);
  builder.finish();
  std::unique_ptr<Session> session = makeSession(builder.plan, {}, {.threads = 3});
  for (int64_t count : {1, 65535, 65536, 65537, 524287, 524288, 524289, 1 << 22}) {
    std::vector<uint8_t> input(static_cast<size_t>(count));
    for (size_t i = 0; i < input.size(); ++i) {
      input[i] = static_cast<uint8_t>(i * 31 + i / 251);
    }
    int64_t dims[] = {count};
    InputBinding in = {input.data(), dims};
    OutputBinding out;
    ASSERT_TRUE(session->run({&in, 1}, {&out, 1}).isOk());
    const uint8_t *result = static_cast<const uint8_t *>(session->outputData(0));
    EXPECT_EQ(0, std::memcmp(input.data(), result, input.size())) << count;
    EXPECT_EQ(0, std::memcmp(input.data(), result + count, input.size())) << count;
  }
}

TEST(Session, StateOutlivesARun) {
  PlanBuilder builder;
  ExprId four = builder.size(4);
  uint32_t x = builder.input("x", DType::F32, {four});
  uint32_t y = builder.output("y", DType::F32, {four});
  uint32_t sum = builder.state(16);
  builder.launch(test::Add, {x, sum}, {sum}, four);
  builder.copy(sum, y, builder.size(16));
  builder.finish();
  std::unique_ptr<Session> session = makeSession(builder.plan);
  EXPECT_EQ((std::vector<float>{1, 2, 3, 4}), *run(*session, {1, 2, 3, 4}, {4}));
  EXPECT_EQ((std::vector<float>{2, 4, 6, 8}), *run(*session, {1, 2, 3, 4}, {4}));
  ASSERT_TRUE(session->resetState().isOk());
  EXPECT_EQ((std::vector<float>{1, 2, 3, 4}), *run(*session, {1, 2, 3, 4}, {4}));
  EXPECT_EQ(64u, session->memoryUse().stateBytes);
}

TEST(Session, ScratchBelongsToAThread) {
  PlanBuilder builder;
  ExprId n = builder.symbol("n", 1, 1000, 0, 0);
  ExprId bytes = builder.plan.exprs.mul(n, builder.size(8));
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  builder.launch(test::Scratch, {x}, {y}, n, {bytes}).scratch = bytes;
  builder.finish();
  std::unique_ptr<Session> session = makeSession(builder.plan, {}, {.threads = 3});
  for (int64_t count : {3, 1000, 10}) {
    Result<std::vector<float>> output = run(*session, ramp(count), {count});
    ASSERT_TRUE(output.isOk()) << output.status().toString();
    EXPECT_EQ(ramp(count)[2] + 1, (*output)[2]);
  }
  EXPECT_EQ(3u * 8192, session->memoryUse().scratchBytes);
}

TEST(Session, SmallLaunchesStayOnTheCaller) {
  for (bool isSmall : {true, false}) {
    PlanBuilder builder;
    ExprId n = builder.symbol("n", 1, 1000, 0, 0);
    uint32_t x = builder.input("x", DType::F32, {n});
    uint32_t y = builder.output("y", DType::F32, {n});
    engine::Instruction &launch = builder.launch(test::Who, {x}, {y}, n);
    launch.flops = builder.size(0);
    launch.bytesMoved = builder.size(isSmall ? 8000 : 8000000);
    builder.finish();
    std::unique_ptr<Session> session = makeSession(builder.plan, {}, {.threads = 3});
    // On a busy machine the caller may have done everything before another thread has a core.
    constexpr int kRuns = 1000;
    bool isShared = false;
    for (int i = 0; i < (isSmall ? 10 : kRuns) && !isShared; ++i) {
      Result<std::vector<float>> threads = run(*session, ramp(1000), {1000});
      ASSERT_TRUE(threads.isOk()) << threads.status().toString();
      isShared = std::count(threads->begin(), threads->end(), 0.0f) != 1000;
    }
    EXPECT_EQ(isSmall, !isShared);
  }
}

TEST(Session, SaysWhatIsWrongWithInputs) {
  PlanBuilder builder;
  ExprId batch = builder.symbol("batch", 1, 8, 0, 0);
  ExprId doubled = builder.plan.exprs.mul(batch, builder.size(2));
  uint32_t x = builder.input("x", DType::F32, {batch, builder.size(3)});
  builder.input("mask", DType::F32, {doubled});
  uint32_t y = builder.output("y", DType::F32, {batch, builder.size(3)});
  builder.launch(test::Scale, {x}, {y}, builder.plan.exprs.mul(batch, builder.size(3)));
  builder.finish();
  std::unique_ptr<Session> session = makeSession(builder.plan);
  auto prepare = [&](std::vector<int64_t> first, std::vector<int64_t> second) {
    std::span<const int64_t> dims[] = {first, second};
    return session->prepare(dims);
  };
  EXPECT_TRUE(prepare({4, 3}, {8}).isOk());
  Status status = prepare({9, 3}, {18});
  EXPECT_EQ(ErrorId::RunInputDim, status.id());
  EXPECT_EQ("input 'x' has 9 in dim 0 ('batch'), but the engine accepts 1 to 8", status.message());
  EXPECT_EQ(ErrorId::RunInputDim, prepare({-1, 3}, {8}).id());
  status = prepare({4, 5}, {8});
  EXPECT_EQ(ErrorId::RunInputDim, status.id());
  EXPECT_EQ("input 'x' has 5 in dim 1, but the engine accepts 3", status.message());
  status = prepare({4, 3}, {7});
  EXPECT_EQ(ErrorId::RunInputMismatch, status.id());
  EXPECT_EQ("input 'mask' has 7 in dim 0, but the other inputs make it 8 (batch * 2)",
            status.message());
  status = prepare({4, 3, 1}, {8});
  EXPECT_EQ(ErrorId::RunInputRank, status.id());
  EXPECT_EQ("input 'x' has dims 4x3x1 of rank 3, but the engine expects rank 2", status.message());
  EXPECT_EQ(ErrorId::RunInputCount, session->prepare({}).id());
  // A failed prepare leaves the last good one.
  EXPECT_EQ(48u, session->outputBytes(0));
}

TEST(Session, SaysWhatIsWrongWithBindings) {
  std::unique_ptr<Session> session = makeSession(test::dynamicPlan(), test::productWeights());
  std::vector<float> memory(200);
  int64_t dims[] = {4, 8};
  const char *bytes = reinterpret_cast<const char *>(memory.data());
  auto runWith = [&](const void *input, void *output, uint64_t room) {
    InputBinding in = {input, dims};
    OutputBinding out = {output, room};
    return session->run({&in, 1}, {&out, 1});
  };
  EXPECT_TRUE(runWith(memory.data(), memory.data() + 32, 48).isOk());
  Status status = runWith(memory.data(), memory.data() + 31, 48);
  EXPECT_EQ("TN0605: output 'y': its memory overlaps an input (pass a valid, aligned buffer of the "
            "tensor's size)",
            status.toString());
  EXPECT_EQ(ErrorId::RunBadBinding, runWith(nullptr, memory.data(), 48).id());
  EXPECT_EQ(ErrorId::RunBadBinding, runWith(bytes + 1, memory.data() + 100, 48).id());
  EXPECT_EQ(ErrorId::RunBadBinding,
            runWith(memory.data(), const_cast<char *>(bytes) + 401, 48).id());
  status = runWith(memory.data(), memory.data() + 100, 47);
  EXPECT_EQ(ErrorId::RunBadBinding, status.id());
  EXPECT_EQ("output 'y': it needs 48 bytes but has 47", status.message());
  EXPECT_EQ(ErrorId::RunInputCount, session->run({}, {}).id());
}

TEST(Session, ReportsKernelErrors) {
  PlanBuilder builder;
  ExprId one = builder.size(1);
  uint32_t x = builder.input("x", DType::F32, {one});
  uint32_t y = builder.output("y", DType::F32, {one});
  builder.launch(test::Fail, {x}, {y}, builder.size(4));
  builder.finish();
  std::unique_ptr<Session> session = makeSession(builder.plan);
  EXPECT_TRUE(run(*session, {0}, {1}).isOk());
  EXPECT_EQ(ErrorId::RunIndexOutOfRange, run(*session, {1}, {1}).status().id());
  EXPECT_EQ(ErrorId::RunBadArithmetic, run(*session, {2}, {1}).status().id());
  Status status = run(*session, {77}, {1}).takeStatus();
  EXPECT_EQ(ErrorId::RunKernelFailed, status.id());
  EXPECT_EQ("'test_fail' (instruction 0): the kernel returned 77", status.message());
  EXPECT_TRUE(run(*session, {0}, {1}).isOk()) << "a session survives a failed run";
}

TEST(Session, ChecksIndices) {
  PlanBuilder builder;
  ExprId n = builder.symbol("n", 1, 10, 0, 0);
  uint32_t index = builder.input("index", DType::I64, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  uint32_t table = builder.weight(0, 16);
  builder.launch(test::Gather, {table, index}, {y}, n, {builder.size(4)});
  builder.finish();
  std::unique_ptr<Session> session =
      makeSession(builder.plan, {test::floats("table", {10, 20, 30, 40})});
  std::vector<int64_t> indices = {3, 0, 2};
  int64_t dims[] = {3};
  InputBinding in = {indices.data(), dims};
  OutputBinding out;
  ASSERT_TRUE(session->run({&in, 1}, {&out, 1}).isOk());
  EXPECT_EQ(40, static_cast<const float *>(session->outputData(0))[0]);
  indices[2] = 4;
  EXPECT_EQ(ErrorId::RunIndexOutOfRange, session->run({&in, 1}, {&out, 1}).id());
}

TEST(Session, KeepsToItsMemoryLimit) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::shared_ptr<const Engine> opened = *Engine::open(engine.writeTemporary("limit.tenon"));
  std::unique_ptr<Session> session =
      std::move(*Session::create(opened, {.threads = 1, .memoryLimit = 1024}));
  EXPECT_TRUE(run(*session, ramp(32), {4, 8}).isOk());
  Status status = run(*session, ramp(64 * 8), {64, 8}).takeStatus();
  EXPECT_EQ(ErrorId::RunOutOfMemory, status.id());
  EXPECT_EQ(Code::Exhausted, status.code());
  EXPECT_TRUE(run(*session, ramp(32), {4, 8}).isOk());

  PlanBuilder builder;
  builder.plan = test::dynamicPlan();
  builder.state(4096);
  TestEngine stateful(builder.plan, test::productWeights());
  opened = *Engine::open(stateful.writeTemporary("state-limit.tenon"));
  EXPECT_EQ(ErrorId::RunOutOfMemory,
            Session::create(opened, {.threads = 1, .memoryLimit = 1024}).status().id());
}

/// A plan whose sizes are valid programs but impossible for some dims.
Status prepareBad(const std::function<void(PlanBuilder &, ExprId, uint32_t)> &breakIt,
                  int64_t dim) {
  PlanBuilder builder;
  ExprId n = builder.symbol("n", 0, INT64_MAX, 0, 0);
  uint32_t x = builder.input("x", DType::F32, {n});
  builder.launch(test::Nothing, {x}, {}, builder.size(1));
  breakIt(builder, n, x);
  builder.finish();
  std::unique_ptr<Session> session = makeSession(builder.plan);
  std::vector<int64_t> dims = {dim};
  std::span<const int64_t> all[] = {dims};
  return session->prepare(all);
}

TEST(Session, RefusesImpossibleSizes) {
  auto nothing = [](PlanBuilder &, ExprId, uint32_t) {};
  EXPECT_TRUE(prepareBad(nothing, 5).isOk());
  EXPECT_EQ(ErrorId::RunBadSize, prepareBad(nothing, INT64_MAX).id()) << "4 * n overflows";
  auto view = [](PlanBuilder &b, ExprId, uint32_t x) { b.view(x, b.size(8), b.size(8)); };
  EXPECT_TRUE(prepareBad(view, 4).isOk());
  EXPECT_EQ(ErrorId::RunBadSize, prepareBad(view, 3).id());
  auto divide = [](PlanBuilder &b, ExprId n, uint32_t) {
    b.arena(b.plan.exprs.floorDiv(b.size(64), n), 0, 0);
  };
  EXPECT_TRUE(prepareBad(divide, 4).isOk());
  EXPECT_EQ(ErrorId::RunBadSize, prepareBad(divide, 0).id());
  auto negative = [](PlanBuilder &b, ExprId n, uint32_t) {
    b.arena(b.plan.exprs.sub(n, b.size(3)), 0, 0);
  };
  EXPECT_TRUE(prepareBad(negative, 3).isOk());
  EXPECT_EQ(ErrorId::RunBadSize, prepareBad(negative, 2).id());
  auto copyPast = [](PlanBuilder &b, ExprId, uint32_t) {
    b.copy(b.state(16), b.state(8), b.size(9));
  };
  EXPECT_EQ(ErrorId::RunBadSize, prepareBad(copyPast, 1).id());
  auto copyOver = [](PlanBuilder &b, ExprId n, uint32_t) {
    uint32_t state = b.state(64);
    b.copy(b.view(state, b.size(0), b.size(32)), b.view(state, n, b.size(32)), b.size(16));
  };
  EXPECT_TRUE(prepareBad(copyOver, 16).isOk());
  EXPECT_EQ(ErrorId::RunBadSize, prepareBad(copyOver, 15).id());
  auto grid = [](PlanBuilder &b, ExprId n, uint32_t x) {
    b.launch(test::Nothing, {x}, {}, b.plan.exprs.sub(n, b.size(1)));
  };
  EXPECT_EQ(ErrorId::RunBadSize, prepareBad(grid, 0).id());
  auto huge = [](PlanBuilder &b, ExprId, uint32_t) {
    for (int i = 0; i < 4; ++i) {
      b.arena(b.size(INT64_MAX / 2), 0, 0);
    }
  };
  EXPECT_EQ(ErrorId::RunBadSize, prepareBad(huge, 1).id());
}

} // namespace
} // namespace tenon::runtime
