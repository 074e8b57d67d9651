// Which instructions run beside others, by memory and by cost.
#include "compiler/plan/Branches.h"

#include <gtest/gtest.h>

namespace tenon::plan {
namespace {

using engine::Instruction;
using engine::InstructionKind;

constexpr int64_t kBytes = 256;

/// Buffer 0 is the input, 1 the output; an arena buffer is behind them in the order of `offsets`,
/// which count buffers.
class Graph {
public:
  explicit Graph(const std::vector<int64_t> &offsets) {
    addBuffer(engine::Space::Input, 0);
    addBuffer(engine::Space::Output, 0);
    for (int64_t offset : offsets) {
      addBuffer(engine::Space::Arena, offset * kBytes);
    }
  }
  Instruction &launch(std::vector<uint32_t> reads, uint32_t result) {
    Instruction instruction;
    instruction.kind = InstructionKind::Launch;
    instruction.device = engine::kGpu;
    instruction.reads = static_cast<uint32_t>(reads.size());
    instruction.buffers = std::move(reads);
    instruction.buffers.push_back(result);
    instruction.grid = plan.exprs.constant(1);
    instruction.bytesMoved =
        plan.exprs.constant(kBytes * static_cast<int64_t>(instruction.buffers.size()));
    plan.instructions.push_back(std::move(instruction));
    return plan.instructions.back();
  }
  engine::Plan finish() {
    Instruction end;
    end.device = engine::kGpu;
    plan.instructions.push_back(end);
    return plan;
  }

  engine::Plan plan;

private:
  void addBuffer(engine::Space space, int64_t offset) {
    engine::Buffer buffer;
    buffer.space = space;
    buffer.device = engine::kGpu;
    buffer.size = plan.exprs.constant(kBytes);
    buffer.offset = space == engine::Space::Arena ? offset : engine::kPlannedAtRunTime;
    plan.buffers.push_back(buffer);
  }
};

/// y = 8a + (a + 3x), a = 2x: a branch of three doublings, one of three additions.
engine::Plan branchPlan(const std::vector<int64_t> &offsets) {
  Graph graph(offsets);
  graph.launch({0}, 2);
  graph.launch({2}, 3);
  graph.launch({3}, 4);
  graph.launch({4}, 5);
  graph.launch({2, 0}, 6);
  graph.launch({6, 0}, 7);
  graph.launch({7, 0}, 8);
  graph.launch({5, 8}, 1);
  return graph.finish();
}

const std::vector<int64_t> kApart = {0, 1, 2, 3, 4, 5, 6};
/// The second branch begins in memory that the first has left.
const std::vector<int64_t> kReused = {0, 1, 2, 3, 1, 2, 4};

const target::Target &h200() { return *target::findPart("cuda", "h200"); }

std::vector<uint32_t> sideOf(const engine::Plan &plan) {
  std::vector<uint32_t> side;
  for (uint32_t i = 0; i < plan.instructions.size(); ++i) {
    if (plan.instructions[i].queue == 1) {
      side.push_back(i);
    }
  }
  return side;
}

size_t sectionsAt(engine::Plan plan, StepCost each) {
  partBranches(plan, std::vector<StepCost>(plan.instructions.size() - 1, each));
  return plan.sections.size();
}

TEST(PlanBranches, PartWhereInstructionsShareNoMemory) {
  engine::Plan plan = branchPlan(kApart);
  partBranches(plan, h200());
  ASSERT_EQ(1u, plan.sections.size());
  EXPECT_EQ(1u, plan.sections[0].first);
  EXPECT_EQ(7u, plan.sections[0].end);
  // The additions read more, so they stay with what is in front of them.
  EXPECT_EQ((std::vector<uint32_t>{1, 2, 3}), sideOf(plan));
}

TEST(PlanBranches, MemoryUsedTwiceHoldsInstructionsInOrder) {
  engine::Plan plan = branchPlan(kReused);
  // The first of the second branch could run beside the last of the first: not worth it.
  partBranches(plan, h200());
  EXPECT_TRUE(plan.sections.empty());
  partBranches(plan, std::vector<StepCost>(8, {9e-6, 0}));
  ASSERT_EQ(1u, plan.sections.size());
  EXPECT_EQ(3u, plan.sections[0].first);
  EXPECT_EQ(5u, plan.sections[0].end);
  // The last value of the first branch alone lies where the second begins.
  engine::Plan last = branchPlan({0, 1, 2, 3, 2, 5, 6});
  partBranches(last, h200());
  EXPECT_TRUE(last.sections.empty());
}

TEST(PlanBranches, AViewLiesInWhatItViews) {
  engine::Plan plan = branchPlan(kApart);
  // What the second branch begins with is a part of what the first ends with.
  plan.buffers[5].size = plan.exprs.constant(2 * kBytes);
  plan.buffers[6].aliasOf = 5;
  plan.buffers[6].aliasOffset = plan.exprs.constant(kBytes);
  plan.buffers[6].offset = engine::kPlannedAtRunTime;
  partBranches(plan, h200());
  EXPECT_TRUE(plan.sections.empty());
}

TEST(PlanBranches, AreNotWorthTinyKernels) {
  engine::Plan plan = branchPlan(kApart);
  EXPECT_EQ(0u, sectionsAt(plan, {2e-7, 0}));
  EXPECT_EQ(0u, sectionsAt(plan, {5e-6, 5e-6})) << "each needs the whole GPU";
  EXPECT_EQ(1u, sectionsAt(plan, {5e-6, 1e-6}));
}

TEST(PlanBranches, CountOperationsAndBytesOfThePart) {
  engine::Plan plan = branchPlan(kApart);
  plan.instructions[1].kind = InstructionKind::Call;
  plan.instructions[1].flops = plan.exprs.constant(137'438'953'472);
  plan.instructions[2].isFallback = true;
  plan.instructions[3].grid = plan.exprs.constant(0);
  std::vector<StepCost> costs = estimateCosts(plan, h200());
  ASSERT_EQ(8u, costs.size());
  EXPECT_NEAR(137'438'953'472 / h200().halfPeak, costs[1].work, 1e-9);
  EXPECT_GT(costs[1].alone, costs[1].work + costs[0].alone) << "a call takes longer to begin";
  EXPECT_EQ(0, costs[2].alone) << "a fallback";
  EXPECT_EQ(0, costs[3].alone) << "skipped";
  EXPECT_NEAR(3 * kBytes / h200().memoryBandwidth, costs[4].work, 1e-15);
  const target::Target &slower = *target::findPart("cuda", "l40s");
  EXPECT_GT(estimateCosts(plan, slower)[4].work, costs[4].work);
}

TEST(PlanBranches, EndBeforeDataDecidesASize) {
  engine::Plan plan = branchPlan(kApart);
  plan.instructions[2].kind = InstructionKind::Size;
  EXPECT_EQ(2u, estimateCosts(plan, h200()).size());
}

TEST(PlanBranches, ArenasOfVaryingSizeLieAsTheRuntimeWouldLayThem) {
  engine::Plan plan = branchPlan(kApart);
  plan.symbols.push_back({"n", 1, 4096, 0, 0});
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    engine::Buffer &buffer = plan.buffers[i];
    buffer.size = plan.exprs.mul(plan.exprs.symbol(0), plan.exprs.constant(4));
    buffer.offset = engine::kPlannedAtRunTime;
  }
  const std::pair<uint32_t, uint32_t> lives[] = {{0, 4}, {1, 2}, {2, 3}, {3, 7},
                                                 {4, 5}, {5, 6}, {6, 7}};
  for (size_t i = 0; i < 7; ++i) {
    plan.buffers[i + 2].firstUse = lives[i].first;
    plan.buffers[i + 2].lastUse = lives[i].second;
  }
  // Three places are enough for all: then memory orders more than the values do.
  auto longest = [&] {
    engine::Plan parted = plan;
    partBranches(parted, std::vector<StepCost>(8, {9e-6, 0}));
    return sideOf(parted).size();
  };
  size_t close = longest();
  for (size_t i = 2; i < plan.buffers.size(); ++i) {
    plan.buffers[i].firstUse = 0;
    plan.buffers[i].lastUse = 7;
  }
  EXPECT_LT(close, longest());
  EXPECT_EQ(3u, longest());
}

} // namespace
} // namespace tenon::plan
