// Which sections of a plan are taken, and what the graph is made of then. The stand-in runs a graph
// in the last order that its edges allow, so that a missing edge shows in the numbers.

#include "runtime/plan/Branches.h"
#include "runtime/device/cuda/CudaGraph.h"
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaModule.h"
#include "test/unit/runtime/GpuFixture.h"

#include <gtest/gtest.h>

namespace tenon::runtime {
namespace {

using engine::ExprId;
using test::PlanBuilder;
using test::ramp;

constexpr int64_t kCount = 64;

/// y = 8a + (a + 3x), a = 2x: a branch of three doublings, one of three additions. `offsets` places
/// a, the values of the first branch and those of the second in the arena.
engine::Plan branchPlan(const std::vector<int64_t> &offsets) {
  PlanBuilder builder;
  ExprId n = builder.size(kCount);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  std::vector<uint32_t> values;
  const std::pair<uint32_t, uint32_t> lives[] = {{0, 4}, {1, 2}, {2, 3}, {3, 7},
                                                 {4, 5}, {5, 6}, {6, 7}};
  for (size_t i = 0; i < offsets.size(); ++i) {
    values.push_back(builder.arena(builder.size(kCount * 4), lives[i].first, lives[i].second,
                                   offsets[i] * kCount * 4));
    builder.plan.arenaBytes = std::max(builder.plan.arenaBytes, (offsets[i] + 1) * kCount * 4);
  }
  test::launchGpu(builder, test::GpuScale, {x}, {values[0]}, n);
  for (size_t i = 0; i < 3; ++i) {
    test::launchGpu(builder, test::GpuScale, {values[i]}, {values[i + 1]}, n);
  }
  test::launchGpu(builder, test::GpuAdd, {values[0], x}, {values[4]}, n);
  test::launchGpu(builder, test::GpuAdd, {values[4], x}, {values[5]}, n);
  test::launchGpu(builder, test::GpuAdd, {values[5], x}, {values[6]}, n);
  test::launchGpu(builder, test::GpuAdd, {values[3], values[6]}, {y}, n);
  builder.finish();
  return test::onGpu(builder.plan);
}

const std::vector<int64_t> kApart = {0, 1, 2, 3, 4, 5, 6};
/// The second branch begins in memory that the first has left.
const std::vector<int64_t> kReused = {0, 1, 2, 3, 1, 2, 4};

std::vector<float> expectedOf(const std::vector<float> &input) {
  std::vector<float> values = input;
  for (float &value : values) {
    value *= 16 + 2 + 3;
  }
  return values;
}

/// The first branch beside the second.
engine::Plan partedPlan(const std::vector<int64_t> &offsets) {
  engine::Plan plan = branchPlan(offsets);
  plan.sections = {{1, 7}};
  for (size_t i = 1; i < 4; ++i) {
    plan.instructions[i].queue = 1;
  }
  return plan;
}

size_t sectionsTaken(const engine::Plan &plan) {
  OffsetPlanner planner;
  Result<BoundPlan> bound = BoundPlan::bind(plan, {}, {kCount}, 256, planner);
  EXPECT_TRUE(bound.isOk()) << bound.status().toString();
  return sectionsOf(plan, *bound).size();
}

TEST(Branches, AreTakenWhereQueuesShareNoMemory) {
  EXPECT_EQ(0u, sectionsTaken(branchPlan(kApart))) << "the plan has none";
  EXPECT_EQ(1u, sectionsTaken(partedPlan(kApart)));
  EXPECT_EQ(0u, sectionsTaken(partedPlan(kReused)));
  // Both may read the same.
  engine::Plan shorter = partedPlan(kReused);
  shorter.sections = {{3, 5}};
  shorter.instructions[1].queue = shorter.instructions[2].queue = 0;
  EXPECT_EQ(1u, sectionsTaken(shorter));
}

TEST(Branches, AreTakenWhereBothQueuesHaveSomethingToDo) {
  for (bool isSide : {false, true}) {
    engine::Plan plan = partedPlan(kApart);
    ExprId nothing = plan.exprs.constant(0);
    for (size_t i = 1; i < 7; ++i) {
      engine::Instruction &instruction = plan.instructions[i];
      instruction.grid = (instruction.queue != 0) == isSide ? nothing : instruction.grid;
    }
    EXPECT_EQ(0u, sectionsTaken(plan)) << isSide;
  }
}

/// Puts the steps of a plan of scalings on a stream.
class Scalings : public cuda::StepRunner {
public:
  Scalings(const cuda::CudaDevice &gpu, const cuda::CudaModule &module, const BoundPlan &plan)
      : driver(gpu.driver()), code(module), bound(plan) {}

  Status run(const BoundStep &step, cuda::StreamHandle stream, bool) override {
    cuda::LaunchConfig config;
    config.blockX = step.threads;
    config.stream = stream;
    return driver.check(driver.launchKernel(&config, function(step), params(step), nullptr), "run");
  }
  cuda::FunctionHandle function(const BoundStep &) const override {
    return code.kernel(test::GpuScale);
  }
  void **params(const BoundStep &step) override {
    void *const *pointers = bound.pointers.data() + step.firstPointer;
    arguments = {const_cast<void **>(pointers), const_cast<void **>(pointers + 1),
                 const_cast<int64_t *>(&bound.sizes[step.firstSize])};
    return arguments.data();
  }

private:
  const cuda::CudaDriver &driver;
  const cuda::CudaModule &code;
  const BoundPlan &bound;
  std::vector<void *> arguments;
};

using OverlapsBranches = test::WithFakeCuda;

TEST_F(OverlapsBranches, ASectionWithADependencyShowsInTheNumbers) {
  Result<std::shared_ptr<const cuda::CudaDevice>> device =
      cuda::CudaDevice::open(test::driverLibrary(), 0);
  ASSERT_TRUE(device.isOk());
  cuda::ContextScope scope(**device);
  std::string ptx = test::kernelsPtx();
  engine::Variant variant{.level = "sm_80", .plan = {}, .kernels = {"test_scale"}};
  Result<std::unique_ptr<cuda::CudaModule>> module = cuda::CudaModule::load(
      *device, {std::as_bytes(std::span(ptx)), {}, engine::kCudaArchs[0]}, variant);
  ASSERT_TRUE(module.isOk()) << module.status().toString();
  cuda::CudaBuffer memory(*device, cuda::MemoryKind::Device);
  ASSERT_TRUE(memory.reserve(3 * sizeof(float), "a test").isOk());
  float *values = reinterpret_cast<float *>(memory.data());
  BoundPlan bound;
  for (uint32_t i = 0; i < 2; ++i) {
    BoundStep step = {engine::InstructionKind::Launch};
    step.queue = static_cast<uint16_t>(i);
    step.grid = 1;
    step.threads = 1;
    step.firstPointer = 2 * i;
    step.pointerCount = 2;
    step.firstSize = i;
    step.sizeCount = 1;
    bound.steps.push_back(step);
    bound.pointers.push_back(values + i);
    bound.pointers.push_back(values + i + 1);
    bound.sizes.push_back(1);
  }
  Scalings runner(**device, **module, bound);
  cuda::CudaStream stream(*device);
  ASSERT_TRUE(stream.open().isOk());
  for (bool isFaulty : {false, true}) {
    std::vector<engine::Section> planted = {{0, 2}};
    cuda::CudaGraph graph(*device, 0, 2, isFaulty ? planted : std::vector<engine::Section>());
    values[0] = 3;
    values[1] = values[2] = 0;
    ASSERT_TRUE(graph.update(bound, nullptr, stream.handle(), runner).isOk());
    ASSERT_TRUE(graph.launch(stream.handle()).isOk());
    EXPECT_EQ(isFaulty ? 0 : 12, values[2]);
  }
}

TEST_F(OverlapsBranches, PartsAndMeetsInTheGraph) {
  test::GpuEngine engine(partedPlan(kApart));
  engine.addVariant("sm_90", partedPlan(kApart));
  std::unique_ptr<Session> session = test::gpuSession(engine);
  ASSERT_TRUE(session);
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(expectedOf(ramp(kCount)), *test::runOnHost(*session, ramp(kCount)));
  }
  EXPECT_TRUE(session->info().usedGraph) << session->info().graphRefusal;
  EXPECT_EQ(3u, session->info().overlapped);
  std::vector<test::FakeNode> nodes = fake->lastGraph();
  ASSERT_EQ(8u, nodes.size());
  const std::vector<size_t> after[] = {{}, {0}, {1}, {2}, {0}, {4}, {5}, {6, 3}};
  for (size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(after[i], nodes[i].after) << i;
    // What follows another stream waits for the end of what it follows.
    EXPECT_EQ(i != 1 && i != 7, nodes[i].isEarly) << i;
  }
}

TEST_F(OverlapsBranches, NotWhereTheCallerSaysSo) {
  test::GpuEngine engine(partedPlan(kApart));
  std::unique_ptr<Session> session = test::gpuSession(engine, {.overlapBranches = false});
  ASSERT_TRUE(session);
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(expectedOf(ramp(kCount)), *test::runOnHost(*session, ramp(kCount)));
  }
  EXPECT_EQ(0u, session->info().overlapped);
  EXPECT_EQ((std::vector<size_t>{3}), fake->lastGraph()[4].after);
}

TEST_F(OverlapsBranches, KeepsOrderWhereMemoryIsReused) {
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(partedPlan(kReused)));
  ASSERT_TRUE(session);
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(expectedOf(ramp(kCount)), *test::runOnHost(*session, ramp(kCount)));
  }
  EXPECT_EQ(0u, session->info().overlapped);
}

} // namespace
} // namespace tenon::runtime
