// Sizes that data decides, on a GPU: what is in front of them is one graph, what follows is
// launched for the count of the run.

#include "engine/LibraryAbi.h"
#include "test/unit/runtime/GpuFixture.h"

namespace tenon::runtime {
namespace {

using engine::ExprId;
using test::PlanBuilder;
using test::ramp;

constexpr int64_t kMax = 4096;

/// y[k] = 8 * x[n] for k from the input "count": two doublings of all of x, the size, and a copy of
/// k rows of 32 by a tensor map in front of the last doubling. `checked` has numbers below zero
/// reported before the size is read.
engine::Plan countedPlan(bool checked = false) {
  PlanBuilder builder;
  engine::ExprTable &exprs = builder.plan.exprs;
  ExprId n = builder.symbol("n", 32, kMax, 0, 0);
  ExprId k = builder.dataSymbol("k", exprs.floorDiv(n, builder.size(32)), kMax / 32);
  ExprId elements = exprs.mul(k, builder.size(32));
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t count = builder.input("count", DType::I64, {});
  uint32_t y = builder.output("y", DType::F32, {elements});
  uint32_t doubled = builder.arena(exprs.mul(n, builder.size(4)), 0, 1);
  uint32_t fourfold = builder.arena(exprs.mul(n, builder.size(4)), 1, 3);
  uint32_t mapped = builder.arena(exprs.mul(k, builder.size(128)), 3, 4);
  test::launchGpu(builder, test::GpuScale, {x}, {doubled}, n);
  engine::Instruction &second = test::launchGpu(
      builder, checked ? test::GpuChecked : test::GpuScale, {doubled}, {fourfold}, n);
  second.canFail = checked;
  second.label = "second";
  builder.bindSize(count, 1);
  engine::Instruction &copy =
      test::launchGpu(builder, test::GpuMapped, {fourfold}, {mapped}, elements);
  copy.tensorMaps = {{0, 2, k, builder.size(64), builder.size(128), 64, 64}};
  test::launchGpu(builder, test::GpuScale, {mapped}, {y}, elements);
  builder.finish();
  return builder.plan;
}

Result<std::vector<float>> runCounted(Session &session, const std::vector<float> &x,
                                      int64_t count) {
  int64_t size = static_cast<int64_t>(x.size());
  InputBinding in[] = {{x.data(), {&size, 1}}, {&count, {}}};
  OutputBinding out;
  TENON_TRY(session.run(in, {&out, 1}));
  const float *y = static_cast<const float *>(session.outputData(0));
  EXPECT_EQ(static_cast<uint64_t>(session.outputDims(0)[0]) * sizeof(float),
            session.outputBytes(0));
  return std::vector<float>(y, y + session.outputBytes(0) / sizeof(float));
}

std::vector<float> expected(const std::vector<float> &x, int64_t count) {
  std::vector<float> y;
  for (int64_t i = 0; i < 32 * count; ++i) {
    y.push_back(8 * x[static_cast<size_t>(i)]);
  }
  return y;
}

class GpuSizes : public test::WithFakeCuda {};

TEST_F(GpuSizes, AreBoundInEachRun) {
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(countedPlan()));
  ASSERT_TRUE(session);
  for (int round = 0; round < 2; ++round) {
    for (int64_t rows : {1, 128, 5}) {
      std::vector<float> x = ramp(32 * rows);
      for (int64_t count : {rows, int64_t{0}, rows / 2, rows}) {
        Result<std::vector<float>> y = runCounted(*session, x, count);
        ASSERT_TRUE(y.isOk()) << y.status().toString();
        EXPECT_EQ(expected(x, count), *y);
      }
      EXPECT_TRUE(session->info().usedGraph) << session->info().graphRefusal;
      EXPECT_EQ(ErrorId::RunBadSize, runCounted(*session, x, rows + 1).status().id());
      EXPECT_EQ(ErrorId::RunBadSize, runCounted(*session, x, -1).status().id());
    }
  }
  EXPECT_EQ(3, fake->calls("cuGraphInstantiateWithFlags")) << "one for each shape of the inputs";
}

TEST_F(GpuSizes, AreNotReadBehindAKernelThatFailed) {
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(countedPlan(true)));
  ASSERT_TRUE(session);
  std::vector<float> x(64, -1.0f);
  for (int round = 0; round < 3; ++round) {
    Status status = runCounted(*session, x, 1000).status();
    EXPECT_EQ(ErrorId::RunIndexOutOfRange, status.id());
    EXPECT_NE(std::string::npos, status.message().find("'second'"));
  }
}

TEST_F(GpuSizes, StandStillWhileStepsAreTimed) {
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(countedPlan()));
  ASSERT_TRUE(session);
  ASSERT_TRUE(runCounted(*session, ramp(320), 3).isOk());
  EXPECT_TRUE(session->timeRuns(2).isOk());
  Result<std::vector<StepTime>> times = session->timeSteps(2);
  ASSERT_TRUE(times.isOk());
  EXPECT_EQ(4u, times->size());
  EXPECT_EQ(96 * sizeof(float), session->outputBytes(0));
}

/// A call behind the size; libraries have no attention of F32, so its fallback does it. Behind a
/// call with an empty result nothing is left to do.
TEST_F(GpuSizes, PrepareTheCallsBehindThem) {
  PlanBuilder builder;
  ExprId n = builder.symbol("n", 1, kMax, 0, 0);
  ExprId k = builder.dataSymbol("k", n, kMax);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t count = builder.input("count", DType::I64, {});
  uint32_t y = builder.output("y", DType::F32, {k});
  builder.bindSize(count, 1);
  engine::AttentionCall attention;
  attention.type = DType::F32;
  engine::Instruction call;
  call.kind = engine::InstructionKind::Call;
  std::span<const std::byte> bytes = std::as_bytes(std::span(&attention, 1));
  call.call.assign(bytes.begin(), bytes.end());
  call.buffers = {x, x, x, y};
  call.reads = 3;
  call.sizes.assign(engine::kAttentionSizes, k);
  builder.plan.instructions.push_back(std::move(call));
  test::launchGpu(builder, test::GpuScale, {x}, {y}, k).isFallback = true;
  builder.finish();
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(builder.plan));
  ASSERT_TRUE(session);
  for (int64_t size : {3, 0, 100, 3, 0}) {
    Result<std::vector<float>> made = runCounted(*session, ramp(100), size);
    ASSERT_TRUE(made.isOk()) << made.status().toString();
    ASSERT_EQ(static_cast<size_t>(size), made->size());
    for (size_t i = 0; i < made->size(); ++i) {
      EXPECT_EQ(2 * ramp(100)[i], (*made)[i]);
    }
    EXPECT_EQ(size == 0 ? 0u : 1u, session->info().kernels);
  }
}

} // namespace
} // namespace tenon::runtime
