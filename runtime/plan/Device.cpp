// What is the same on every device; see Device.h.

#include "runtime/plan/Device.h"

namespace tenon::runtime {

using engine::InstructionKind;

RunFacts Executor::facts(const BoundPlan &bound) const {
  RunFacts facts;
  for (const BoundStep &step : bound.steps) {
    facts.kernels += step.kind == InstructionKind::Launch && step.grid != 0;
    facts.calls += step.kind == InstructionKind::Call;
    facts.moves += step.kind == InstructionKind::Copy || step.kind == InstructionKind::Fill;
  }
  return facts;
}

namespace {

Status notTimed() {
  return Status::error(ErrorId::BadArgument, "only runs on a GPU are timed by the device",
                       "measure the time around the runs");
}

} // namespace

Result<double> Executor::timeRuns(BoundPlan &, unsigned) { return notTimed(); }

Result<std::vector<StepTime>> Executor::timeSteps(BoundPlan &, unsigned) { return notTimed(); }

} // namespace tenon::runtime
