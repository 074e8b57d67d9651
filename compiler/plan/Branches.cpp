// Grows a section from each instruction until its groups have become one, and takes the end at
// which two queues gain most over one.
#include "compiler/plan/Branches.h"

#include "compiler/plan/Arena.h"

#include <algorithm>

namespace tenon::plan {
namespace {

using engine::Instruction;
using engine::InstructionKind;

/// Most instructions of a section.
constexpr uint32_t kWindow = 16;
/// Gains that differ by less are equal.
constexpr double kSameSeconds = 1e-9;
/// Of a kernel and of a library call without any work, in a graph; what parting and meeting again
/// take in one (0.2 to 0.4 us, with a third queue 1.0): measured on an H200.
constexpr double kKernelSeconds = 0.7e-6;
constexpr double kCallSeconds = 4e-6;
constexpr double kPartAndMeetSeconds = 0.4e-6;

/// Bytes that an instruction may touch: in the arena, or in a root of its own.
struct Range {
  uint32_t memory = 0;
  int64_t first = 0;
  int64_t end = 0;
  bool isWritten = false;
};

/// A plan at one size of each symbol: what its instructions touch and what they cost.
class PlacedPlan {
public:
  explicit PlacedPlan(const engine::Plan &given) : plan(given), arena(layOutCommon(given)) {
    for (engine::ExprId id = 0; id < plan.exprs.size(); ++id) {
      values.push_back(engine::evaluate(plan.exprs.program(id), arena.symbols).value_or(0));
    }
  }

  int64_t value(engine::ExprId id) const { return id == engine::kNone ? 0 : values[id]; }

  std::vector<Range> rangesOf(const Instruction &instruction) const {
    std::vector<Range> ranges;
    for (size_t i = 0; i < instruction.buffers.size(); ++i) {
      uint32_t root = instruction.buffers[i];
      int64_t bytes = value(plan.buffers[root].size);
      int64_t start = 0;
      for (; plan.buffers[root].aliasOf != engine::kNone; root = plan.buffers[root].aliasOf) {
        start += value(plan.buffers[root].aliasOffset);
      }
      bool isArena = plan.buffers[root].space == engine::Space::Arena;
      start += isArena ? arena.offsets[root] : 0;
      ranges.push_back(
          {isArena ? engine::kNone : root, start, start + bytes, i >= instruction.reads});
    }
    return ranges;
  }

private:
  const engine::Plan &plan;
  ArenaSummary arena;
  std::vector<int64_t> values;
};

bool conflict(const std::vector<Range> &a, const std::vector<Range> &b) {
  return std::ranges::any_of(a, [&](const Range &mine) {
    return std::ranges::any_of(b, [&](const Range &other) {
      return (mine.isWritten || other.isWritten) && mine.memory == other.memory &&
             mine.first < other.end && other.first < mine.end;
    });
  });
}

using Ranges = std::vector<std::vector<Range>>;

/// The groups of instructions [first, first + size): the number of each is the least of its group.
class Groups {
public:
  Groups(const Ranges &all, uint32_t firstIndex) : ranges(all), first(firstIndex) {}

  uint32_t size() const { return static_cast<uint32_t>(group.size()); }
  uint32_t groupOf(uint32_t index) const { return group[index]; }
  uint32_t count() const {
    std::vector<uint32_t> sorted = group;
    std::ranges::sort(sorted);
    return static_cast<uint32_t>(std::ranges::unique(sorted).begin() - sorted.begin());
  }

  /// Adds the instruction behind the last.
  void add() {
    uint32_t own = size();
    group.push_back(own);
    for (uint32_t other = 0; other < own; ++other) {
      bool isOne = group[other] == group[own];
      if (!isOne && conflict(ranges[first + other], ranges[first + own])) {
        uint32_t from = std::max(group[other], group[own]);
        std::ranges::replace(group, from, std::min(group[other], group[own]));
      }
    }
  }

private:
  const Ranges &ranges;
  uint32_t first;
  std::vector<uint32_t> group;
};

struct Candidate {
  engine::Section section;
  std::vector<uint32_t> side; ///< the instructions of queue 1
  double gain = 0;            ///< seconds
};

/// Puts whole groups on the queue that has less to do, longest first.
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
  std::vector<uint32_t> instructions;
  for (uint32_t i = 0; i < groups.size(); ++i) {
    if (isSide[groups.groupOf(i)]) {
      instructions.push_back(first + i);
    }
  }
  return instructions;
}

/// The best section that begins with instruction `first`.
Candidate bestFrom(const Ranges &ranges, const std::vector<StepCost> &costs, uint32_t first) {
  Candidate best;
  Groups groups(ranges, first);
  double chain = 0;
  double work = 0;
  bool hasParted = false;
  uint32_t limit = std::min(kWindow, static_cast<uint32_t>(costs.size()) - first);
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
    // Of ends that gain the same, the last leaves the queues most time.
    if (!side.empty() && saved > best.gain - kSameSeconds) {
      best = {{first, first + groups.size()}, std::move(side), saved};
    }
  }
  return best;
}

} // namespace

std::vector<StepCost> estimateCosts(const engine::Plan &plan, const target::Target &gpu) {
  PlacedPlan placed(plan);
  std::vector<StepCost> costs;
  for (const Instruction &instruction : plan.instructions) {
    if (instruction.kind == InstructionKind::Size || instruction.kind == InstructionKind::Return) {
      break;
    }
    double work =
        std::max(static_cast<double>(placed.value(instruction.bytesMoved)) / gpu.memoryBandwidth,
                 static_cast<double>(placed.value(instruction.flops)) / gpu.halfPeak);
    bool isCall = instruction.kind == InstructionKind::Call;
    // A fallback runs where the call in front of it, with which it shares memory, does not.
    bool isSkipped = instruction.isFallback || (instruction.kind == InstructionKind::Launch &&
                                                placed.value(instruction.grid) == 0);
    costs.push_back(isSkipped ? StepCost()
                              : StepCost{(isCall ? kCallSeconds : kKernelSeconds) + work, work});
  }
  return costs;
}

void partBranches(engine::Plan &plan, const std::vector<StepCost> &costs) {
  PlacedPlan placed(plan);
  Ranges ranges;
  for (size_t i = 0; i < costs.size(); ++i) {
    ranges.push_back(placed.rangesOf(plan.instructions[i]));
  }
  uint32_t next = 0;
  while (next < costs.size()) {
    Candidate here = bestFrom(ranges, costs, next);
    bool isTaken = here.gain >= kMinGainSeconds &&
                   bestFrom(ranges, costs, next + 1).gain <= here.gain + kSameSeconds;
    if (!isTaken) {
      ++next;
      continue;
    }
    for (uint32_t index : here.side) {
      plan.instructions[index].queue = 1;
    }
    plan.sections.push_back(here.section);
    next = here.section.end;
  }
}

void partBranches(engine::Plan &plan, const target::Target &gpu) {
  partBranches(plan, estimateCosts(plan, gpu));
}

} // namespace tenon::plan
