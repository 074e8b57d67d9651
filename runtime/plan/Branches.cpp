// Compares each step of one queue with each of the other.

#include "runtime/plan/Branches.h"

namespace tenon::runtime {

using engine::Section;
using engine::Space;

namespace {

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

bool hasConflict(const engine::Plan &plan, const BoundPlan &bound, const Section &section) {
  for (uint32_t i = section.first; i < section.end; ++i) {
    for (uint32_t k = section.first; k < i; ++k) {
      if (bound.steps[i].queue != bound.steps[k].queue &&
          conflict(plan, bound, bound.steps[i], bound.steps[k])) {
        return true;
      }
    }
  }
  return false;
}

/// Whether a step does nothing at the bound sizes: of a call the first size says it.
bool isIdle(const BoundPlan &bound, const BoundStep &step) {
  bool isLaunch = step.kind == engine::InstructionKind::Launch;
  return isLaunch ? step.grid == 0 : step.sizeCount > 0 && bound.sizes[step.firstSize] == 0;
}

/// Whether both queues have something to do at the bound sizes: for one alone, parting and meeting
/// only keep kernels from starting early.
bool hasTwoQueues(const BoundPlan &bound, const Section &section) {
  bool isBusy[2] = {};
  for (uint32_t i = section.first; i < section.end; ++i) {
    isBusy[bound.steps[i].queue != 0] |= !isIdle(bound, bound.steps[i]);
  }
  return isBusy[0] && isBusy[1];
}

} // namespace

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

std::vector<Section> sectionsOf(const engine::Plan &plan, const BoundPlan &bound) {
  if (bound.steps.empty()) {
    return {};
  }
  std::vector<Section> sections = plan.sections;
  std::erase_if(sections, [&](const Section &section) {
    return !hasTwoQueues(bound, section) || hasConflict(plan, bound, section);
  });
  return sections;
}

} // namespace tenon::runtime
