// The words of a plan.
#include "engine/Plan.h"

#include <bit>

namespace tenon::engine {

const char *nameOf(InstructionKind kind) {
  switch (kind) {
  case InstructionKind::Launch:
    return "launch";
  case InstructionKind::Call:
    return "call";
  case InstructionKind::Copy:
    return "copy";
  case InstructionKind::Size:
    return "size";
  case InstructionKind::Collective:
    return "collective";
  case InstructionKind::Return:
    return "return";
  }
  return "unknown"; // of a plan that was not validated
}

const char *nameOf(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce   ? "all-reduce"
         : kind == CollectiveKind::AllGather ? "all-gather"
                                             : "send-receive";
}

namespace {

uint32_t rootOf(const Plan &plan, uint32_t buffer) {
  while (plan.buffers[buffer].aliasOf != kNone) {
    buffer = plan.buffers[buffer].aliasOf;
  }
  return buffer;
}

} // namespace

std::vector<bool> buffersOfStage(const Plan &plan, uint32_t stage) {
  std::vector<bool> used(plan.buffers.size(), plan.stages == 1);
  for (const Instruction &instruction : plan.instructions) {
    for (uint32_t buffer : instruction.buffers) {
      if (instruction.runsIn(stage)) {
        used[rootOf(plan, buffer)] = true;
      }
    }
  }
  for (uint32_t buffer = 0; buffer < used.size(); ++buffer) {
    used[buffer] = used[rootOf(plan, buffer)];
  }
  return used;
}

uint32_t stageOfOutput(const Plan &plan, size_t output) {
  uint64_t stages = 0;
  if (plan.stages == 1) {
    return 0;
  }
  for (const Instruction &instruction : plan.instructions) {
    for (size_t i = instruction.reads; i < instruction.buffers.size(); ++i) {
      bool isWritten = rootOf(plan, instruction.buffers[i]) == plan.outputs[output].buffer;
      stages = isWritten ? instruction.stages : stages;
    }
  }
  return stages == 0 ? 0 : static_cast<uint32_t>(std::countr_zero(stages));
}

} // namespace tenon::engine
