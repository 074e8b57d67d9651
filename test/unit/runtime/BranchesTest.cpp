// Which steps overlap, and what the graph is made of then. The stand-in runs a graph in the last
// order that its edges allow, so that a missing edge shows in the numbers.

#include "engine/LibraryAbi.h"
#include "runtime/device/cuda/CudaGraph.h"
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaModule.h"
#include "runtime/plan/Branches.h"
#include "test/unit/runtime/GpuFixture.h"

#include <gtest/gtest.h>

#include <cstring>

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

std::vector<BranchSection> sectionsOf(const engine::Plan &plan) {
  OffsetPlanner planner;
  Result<BoundPlan> bound = BoundPlan::bind(plan, {kCount}, 256, planner);
  EXPECT_TRUE(bound.isOk()) << bound.status().toString();
  std::vector<StepCost> costs;
  for (const BoundStep &step : bound->steps) {
    costs.push_back(estimateCost(plan, *bound, step));
  }
  return findBranches(plan, *bound, costs);
}

TEST(Branches, PartWhereStepsShareNoMemory) {
  std::vector<BranchSection> sections = sectionsOf(branchPlan(kApart));
  ASSERT_EQ(1u, sections.size());
  EXPECT_EQ(1u, sections[0].first);
  EXPECT_EQ(7u, sections[0].end);
  // The additions read more, so they stay with what is in front of them.
  EXPECT_EQ((std::vector<uint32_t>{1, 2, 3}), sections[0].side);
}

TEST(Branches, MemoryUsedTwiceHoldsStepsInOrder) {
  // The first step of the second branch could run beside the last of the first: not worth it.
  EXPECT_TRUE(sectionsOf(branchPlan(kReused)).empty());
  OffsetPlanner planner;
  engine::Plan plan = branchPlan(kReused);
  Result<BoundPlan> bound = BoundPlan::bind(plan, {kCount}, 256, planner);
  ASSERT_TRUE(bound.isOk());
  std::vector<BranchSection> sections =
      findBranches(plan, *bound, std::vector<StepCost>(bound->steps.size(), {9e-6, 0}));
  ASSERT_EQ(1u, sections.size());
  EXPECT_EQ(3u, sections[0].first);
  EXPECT_EQ(5u, sections[0].end);
  // The last value of the first branch alone lies where the second begins.
  EXPECT_TRUE(sectionsOf(branchPlan({0, 1, 2, 3, 2, 5, 6})).empty());
}

TEST(Branches, AreNotWorthTinySteps) {
  engine::Plan plan = branchPlan(kApart);
  OffsetPlanner planner;
  Result<BoundPlan> bound = BoundPlan::bind(plan, {kCount}, 256, planner);
  ASSERT_TRUE(bound.isOk());
  std::vector<StepCost> costs(bound->steps.size(), {2e-7, 0});
  EXPECT_TRUE(findBranches(plan, *bound, costs).empty());
  // Steps that need the whole GPU gain nothing beside each other.
  costs.assign(bound->steps.size(), {5e-6, 5e-6});
  EXPECT_TRUE(findBranches(plan, *bound, costs).empty());
  costs.assign(bound->steps.size(), {5e-6, 1e-6});
  EXPECT_EQ(1u, findBranches(plan, *bound, costs).size());
}

TEST(Branches, CountTheWorkOfLibraryCalls) {
  PlanBuilder builder;
  ExprId n = builder.size(4096);
  uint32_t a = builder.input("a", DType::F16, {n, n});
  uint32_t y = builder.output("y", DType::F16, {n, n});
  engine::MatmulCall call;
  call.type = DType::F16;
  engine::Instruction &product = builder.launch(test::Scale, {a, a}, {y}, n);
  product.kind = engine::InstructionKind::Call;
  product.call.resize(sizeof(call));
  std::memcpy(product.call.data(), &call, sizeof(call));
  ExprId one = builder.size(1);
  ExprId none = builder.size(0);
  product.sizes = {n, n, n, one, n, n, n, none, none, none};
  builder.finish();
  OffsetPlanner planner;
  Result<BoundPlan> bound = BoundPlan::bind(builder.plan, {4096, 4096}, 256, planner);
  ASSERT_TRUE(bound.isOk()) << bound.status().toString();
  StepCost cost = estimateCost(builder.plan, *bound, bound->steps[0]);
  // 137 GFLOP take longer than 100 MB.
  EXPECT_NEAR(2 * 4096.0 * 4096 * 4096 / 6e14, cost.work, 1e-9);
  EXPECT_GT(cost.alone, cost.work);
}

TEST(Branches, CountNoSpares) {
  engine::Plan plan = branchPlan(kApart);
  plan.instructions[1].isSpare = true;
  OffsetPlanner planner;
  Result<BoundPlan> bound = BoundPlan::bind(plan, {kCount}, 256, planner);
  ASSERT_TRUE(bound.isOk());
  EXPECT_EQ(0, estimateCost(plan, *bound, bound->steps[1]).alone);
  EXPECT_LT(0, estimateCost(plan, *bound, bound->steps[2]).alone);
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
    std::vector<BranchSection> planted = {{0, 2, {1}}};
    cuda::CudaGraph graph(*device, 2, isFaulty ? planted : std::vector<BranchSection>());
    values[0] = 3;
    values[1] = values[2] = 0;
    ASSERT_TRUE(graph.update(bound, nullptr, stream.handle(), runner).isOk());
    ASSERT_TRUE(graph.launch(stream.handle()).isOk());
    EXPECT_EQ(isFaulty ? 0 : 12, values[2]);
  }
}

TEST_F(OverlapsBranches, PartsAndMeetsInTheGraph) {
  test::GpuEngine engine(branchPlan(kApart));
  engine.addVariant("sm_90", branchPlan(kApart));
  std::unique_ptr<Session> session = test::gpuSession(engine);
  ASSERT_TRUE(session);
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(expectedOf(ramp(kCount)), *test::runOnHost(*session, ramp(kCount)));
  }
  EXPECT_TRUE(session->facts().usedGraph) << session->facts().graphRefusal;
  EXPECT_EQ(3u, session->facts().overlapped);
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
  test::GpuEngine engine(branchPlan(kApart));
  std::unique_ptr<Session> session = test::gpuSession(engine, {.overlapBranches = false});
  ASSERT_TRUE(session);
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(expectedOf(ramp(kCount)), *test::runOnHost(*session, ramp(kCount)));
  }
  EXPECT_EQ(0u, session->facts().overlapped);
  EXPECT_EQ((std::vector<size_t>{3}), fake->lastGraph()[4].after);
}

TEST_F(OverlapsBranches, KeepsOrderWhereMemoryIsReused) {
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(branchPlan(kReused)));
  ASSERT_TRUE(session);
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(expectedOf(ramp(kCount)), *test::runOnHost(*session, ramp(kCount)));
  }
  EXPECT_EQ(0u, session->facts().overlapped);
}

} // namespace
} // namespace tenon::runtime
