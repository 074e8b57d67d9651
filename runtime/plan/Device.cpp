// What is the same on every device; see Device.h.

#include "runtime/plan/Device.h"

#include "engine/KernelAbi.h"
#include "support/text/Text.h"

namespace tenon::runtime {

using engine::InstructionKind;

MemoryUse &MemoryUse::operator+=(const MemoryUse &other) {
  arenaBytes += other.arenaBytes;
  stateBytes += other.stateBytes;
  scratchBytes += other.scratchBytes;
  weightBytes += other.weightBytes;
  workspaceBytes += other.workspaceBytes;
  portBytes += other.portBytes;
  stagingBytes += other.stagingBytes;
  return *this;
}

Status kernelError(int32_t code, const engine::Plan &plan, uint32_t instruction) {
  const engine::Instruction &launch = plan.instructions[instruction];
  std::string where = strCat("'", launch.label, "' (instruction ", instruction, "): ");
  switch (code) {
  case TENON_KERNEL_INDEX_RANGE:
    return Status::error(ErrorId::RunIndexOutOfRange, where + "an index is out of range",
                         "check the index tensors among the inputs");
  case TENON_KERNEL_ARITHMETIC:
    return Status::error(ErrorId::RunBadArithmetic, where + "integer division by zero",
                         "check the divisors among the inputs");
  case TENON_KERNEL_CONSTRAINT:
    return Status::error(ErrorId::RunConstraint,
                         where + "the inputs violate this condition: " + launch.constraint,
                         "give inputs that meet it; --fill sets seeded ones");
  case TENON_KERNEL_WAITED:
    return Status::error(ErrorId::RunKernelFailed,
                         where + "blocks of the kernel waited for each other in vain",
                         "report it with the engine and with what else ran on the GPU");
  case TENON_KERNEL_OUT_OF_BOUNDS:
    return Status::error(ErrorId::RunOutOfBounds, where + "an access lies outside its buffers",
                         "report it with the model and the dims of the inputs");
  default:
    return Status::error(ErrorId::RunKernelFailed, where + strCat("the kernel returned ", code),
                         "report it with the engine");
  }
}

RunInfo Executor::info(const BoundPlan &bound) const {
  RunInfo info;
  for (const BoundStep &step : bound.steps) {
    info.kernels += step.kind == InstructionKind::Launch && step.grid != 0;
    info.calls += step.kind == InstructionKind::Call;
    info.moves += step.kind == InstructionKind::Copy;
    info.collectives += step.kind == InstructionKind::Collective && step.grid != 0;
  }
  return info;
}

namespace {

Status notTimed() {
  return Status::error(ErrorId::BadArgument, "only runs on a GPU are timed by the device",
                       "measure the time around the runs");
}

} // namespace

Result<double> Executor::timeRuns(BoundPlan &, unsigned) { return notTimed(); }

Result<std::vector<StepTime>> Executor::timeSteps(BoundPlan &, unsigned, StepOrder) {
  return notTimed();
}

} // namespace tenon::runtime
