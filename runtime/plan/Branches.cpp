// Grows a section from each step until its groups have become one, and takes the end at which two
// streams gain most over one.

#include "runtime/plan/Branches.h"

#include "engine/LibraryAbi.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tenon::runtime {

using engine::Instruction;
using engine::InstructionKind;
using engine::Space;

namespace {

/// Most steps of a section.
constexpr uint32_t kWindow = 16;
/// Gains that differ by less are equal.
constexpr double kSameSeconds = 1e-9;
/// Of a kernel and of a library call without any work, in a graph: measured on an H200.
constexpr double kKernelSeconds = 0.7e-6;
constexpr double kCallSeconds = 4e-6;
constexpr double kBytesPerSecond = 4.2e12;
constexpr double kOperationsPerSecond = 6e14;

double product(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1.0,
                         [](double a, int64_t b) { return a * static_cast<double>(b); });
}

/// Floating-point operations of a library call.
double operationsOf(const Instruction &instruction, std::span<const int64_t> sizes) {
  if (instruction.call.empty()) {
    return 0;
  }
  switch (static_cast<engine::LibraryOp>(instruction.call[0])) {
  case engine::LibraryOp::Matmul:
    return sizes.size() < 4 ? 0 : 2 * product(sizes.first(4));
  case engine::LibraryOp::Conv: {
    if (sizes.size() < engine::kConvSizes || instruction.call.size() < sizeof(engine::ConvCall)) {
      return 0;
    }
    engine::ConvCall call;
    std::memcpy(&call, instruction.call.data(), sizeof(call));
    // {n, h, w, c, k, r, s, p, q}: every output adds c / groups · r · s products.
    double outputs = static_cast<double>(sizes[0]) * product(sizes.subspan(7, 2)) *
                     static_cast<double>(sizes[4]);
    return 2 * outputs * product(sizes.subspan(5, 2)) * static_cast<double>(sizes[3]) /
           std::max(call.groups, 1);
  }
  case engine::LibraryOp::Attention:
    // Both products of queries with keys, over batch and heads.
    return sizes.size() < 7 ? 0
                            : 2 * product(sizes.first(2)) * product(sizes.subspan(3, 2)) *
                                  static_cast<double>(sizes[5] + sizes[6]);
  }
  return 0;
}

/// Bytes that a step may touch: in the arena, or in a root of its own.
struct Range {
  uint32_t memory = 0;
  int64_t first = 0;
  int64_t end = 0;
};

Range rangeOf(const engine::Plan &plan, const BoundPlan &bound, const PointerSource &source) {
  bool isArena = plan.buffers[source.root].space == Space::Arena;
  int64_t start = source.offset + (isArena ? bound.arenaOffsets[source.root] : 0);
  return {isArena ? engine::kNone : source.root, start, start + source.bytes};
}

/// The groups of steps [first, first + size): each step's number is the least step of its group.
class Groups {
public:
  Groups(const engine::Plan &boundPlan, const BoundPlan &boundSteps, uint32_t firstStep)
      : plan(boundPlan), bound(boundSteps), first(firstStep) {}

  uint32_t size() const { return static_cast<uint32_t>(group.size()); }
  uint32_t groupOf(uint32_t index) const { return group[index]; }
  uint32_t count() const {
    std::vector<uint32_t> sorted = group;
    std::ranges::sort(sorted);
    return static_cast<uint32_t>(std::ranges::unique(sorted).begin() - sorted.begin());
  }

  /// Adds the step behind the last.
  void add() {
    uint32_t own = size();
    group.push_back(own);
    for (uint32_t other = 0; other < own; ++other) {
      bool isOne = group[other] == group[own];
      if (!isOne &&
          conflict(plan, bound, bound.steps[first + other], bound.steps[first + own])) {
        uint32_t from = std::max(group[other], group[own]);
        std::ranges::replace(group, from, std::min(group[other], group[own]));
      }
    }
  }

private:
  const engine::Plan &plan;
  const BoundPlan &bound;
  uint32_t first;
  std::vector<uint32_t> group;
};

/// Puts whole groups on the stream that has less to do, longest first.
std::vector<uint32_t> splitGroups(const Groups &groups, uint32_t first,
                                  const std::vector<StepCost> &costs, double &longest) {
  std::vector<double> seconds(groups.size(), 0);
  for (uint32_t i = 0; i < groups.size(); ++i) {
    seconds[groups.groupOf(i)] += costs[first + i].alone;
  }
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < groups.size(); ++i) {
    if (groups.groupOf(i) == i) {
      order.push_back(i);
    }
  }
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    return seconds[a] != seconds[b] ? seconds[a] > seconds[b] : a < b;
  });
  std::vector<bool> isSide(groups.size(), false);
  double chain = 0;
  double side = 0;
  for (uint32_t index : order) {
    isSide[index] = side < chain;
    (isSide[index] ? side : chain) += seconds[index];
  }
  longest = std::max(chain, side);
  std::vector<uint32_t> steps;
  for (uint32_t i = 0; i < groups.size(); ++i) {
    if (isSide[groups.groupOf(i)]) {
      steps.push_back(first + i);
    }
  }
  return steps;
}

/// The best section that begins with step `first`, and the seconds that it saves.
BranchSection bestFrom(const engine::Plan &plan, const BoundPlan &bound,
                       const std::vector<StepCost> &costs, uint32_t first, double &gain) {
  BranchSection best;
  gain = 0;
  Groups groups(plan, bound, first);
  double chain = 0;
  double work = 0;
  bool hasParted = false;
  uint32_t limit = std::min<uint32_t>(kWindow, static_cast<uint32_t>(costs.size()) - first);
  while (groups.size() < limit) {
    groups.add();
    const StepCost &cost = costs[first + groups.size() - 1];
    chain += cost.alone;
    work += cost.work;
    bool isOne = groups.count() == 1;
    if (isOne && hasParted) {
      break;
    }
    hasParted |= !isOne;
    double longest = 0;
    std::vector<uint32_t> side = splitGroups(groups, first, costs, longest);
    double saved = chain - std::max(longest, work) - kPartAndMeetSeconds;
    // Of ends that gain the same, the last leaves the streams most time.
    if (!side.empty() && saved > gain - kSameSeconds) {
      gain = saved;
      best = {first, first + groups.size(), std::move(side)};
    }
  }
  return best;
}

} // namespace

bool BranchSection::isOnSide(uint32_t step) const { return std::ranges::binary_search(side, step); }

StepCost estimateCost(const engine::Plan &plan, const BoundPlan &bound, const BoundStep &step) {
  // A spare runs where the call in front of it, with which it shares memory, does not.
  bool isSkipped = step.kind == InstructionKind::Launch &&
                   (step.grid == 0 || plan.instructions[step.instruction].isSpare);
  if (isSkipped) {
    return {};
  }
  double bytes = 0;
  for (uint32_t i = 0; i < step.pointerCount; ++i) {
    bytes += static_cast<double>(bound.sources[step.firstPointer + i].bytes);
  }
  double operations =
      operationsOf(plan.instructions[step.instruction],
                   std::span(bound.sizes).subspan(step.firstSize, step.sizeCount));
  double work = std::max(bytes / kBytesPerSecond, operations / kOperationsPerSecond);
  double least = step.kind == InstructionKind::Call ? kCallSeconds : kKernelSeconds;
  return {least + work, work};
}

bool conflict(const engine::Plan &plan, const BoundPlan &bound, const BoundStep &a,
              const BoundStep &b) {
  uint32_t aReads = plan.instructions[a.instruction].reads;
  uint32_t bReads = plan.instructions[b.instruction].reads;
  for (uint32_t i = 0; i < a.pointerCount; ++i) {
    Range mine = rangeOf(plan, bound, bound.sources[a.firstPointer + i]);
    for (uint32_t k = 0; k < b.pointerCount; ++k) {
      bool areRead = i < aReads && k < bReads;
      Range other = rangeOf(plan, bound, bound.sources[b.firstPointer + k]);
      if (!areRead && mine.memory == other.memory && mine.first < other.end &&
          other.first < mine.end) {
        return true;
      }
    }
  }
  return false;
}

std::vector<BranchSection> findBranches(const engine::Plan &plan, const BoundPlan &bound,
                                        const std::vector<StepCost> &costs) {
  std::vector<BranchSection> sections;
  uint32_t step = 0;
  while (step < costs.size()) {
    double gain = 0;
    double later = 0;
    BranchSection section = bestFrom(plan, bound, costs, step, gain);
    if (gain >= kLeastGainSeconds) {
      (void)bestFrom(plan, bound, costs, step + 1, later);
    }
    if (gain >= kLeastGainSeconds && later <= gain + kSameSeconds) {
      step = section.end;
      sections.push_back(std::move(section));
    } else {
      ++step;
    }
  }
  return sections;
}

} // namespace tenon::runtime
