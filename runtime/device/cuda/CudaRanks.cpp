// What an executor does as one rank of a group: the group is made by the first rank while the
// others wait for it, and a collective goes the way that fits its size.

#include "runtime/device/cuda/CudaExecutor.h"

#include "support/text/Text.h"

#include <algorithm>
#include <optional>

namespace tenon::runtime::cuda {

using engine::InstructionKind;

namespace {

/// The first compute capability at which kernels may start before those in front have ended.
constexpr int kDependentLaunch = 90;

/// The other rank's own error is the one of the session.
Status leftAlone(const RankGroup &group) {
  return Status::error(ErrorId::DeviceFailed,
                       strCat("rank ", group.failed().value_or(0), " has left the group"));
}

} // namespace

Status CudaExecutor::joinGroup(const CudaExecutor *beside) {
  if (beside) {
    group = beside->group;
    return Status::ok();
  }
  std::optional<std::span<const void *const>> all = place.group->meet(place.position, &device);
  if (!all) {
    return leftAlone(*place.group);
  }
  if (place.position == 0) {
    std::vector<std::shared_ptr<const CudaDevice>> devices;
    for (const void *other : *all) {
      devices.push_back(*static_cast<const std::shared_ptr<const CudaDevice> *>(other));
    }
    TENON_ASSIGN(group, CudaGroup::open(std::move(devices)));
  }
  all = place.group->meet(place.position, &group);
  if (!all) {
    return leftAlone(*place.group);
  }
  if (place.position != 0) {
    group = *static_cast<const std::shared_ptr<CudaGroup> *>(all->front());
  }
  // The first rank's pointer stays until the others have read it.
  return place.group->meet(place.position) ? Status::ok() : leftAlone(*place.group);
}

CollectiveCall CudaExecutor::collectiveOf(const BoundPlan &bound, const BoundStep &step) const {
  const engine::Instruction &instruction = variant.plan().instructions[step.instruction];
  return {.kind = instruction.collective,
          .type = instruction.dtype,
          .from = bound.pointers[step.firstPointer],
          .to = bound.pointers[step.firstPointer + 1],
          .count = bound.sizes[step.firstSize]};
}

CollectiveWay CudaExecutor::wayOf(const CollectiveCall &call) const {
  CollectiveWay way = group->peerProblem().isOk() ? wayFor(call) : CollectiveWay::Library;
  bool isFaster = group->hasLibrary() && isLong(call);
  bool hasKernel = way != CollectiveWay::Library &&
                   variant.module().find(kernelFor(way, call.kind, call.type, group->ranks()));
  return isFaster || !hasKernel ? CollectiveWay::Library : way;
}

bool CudaExecutor::takesNormed(const BoundPlan &bound, const BoundStep &step) const {
  CollectiveCall call = collectiveOf(bound, step);
  return call.bytes() <= engine::kNormedBytes && wayOf(call) == CollectiveWay::OneShot;
}

Status CudaExecutor::prepareCollectives(const BoundPlan &bound) {
  bool needsLibrary = false, likesLibrary = false;
  for (const BoundStep &step : bound.steps) {
    if (step.kind == InstructionKind::Collective && step.grid != 0 && !isBetweenStages(step)) {
      CollectiveCall call = collectiveOf(bound, step);
      needsLibrary |= call.count != 0 && wayOf(call) == CollectiveWay::Library;
      likesLibrary |= isLong(call);
    }
  }
  if (!needsLibrary && !likesLibrary) {
    return Status::ok();
  }
  Status opened = openLibraryOfGroup();
  return opened.isOk() || (!needsLibrary && opened.id() == ErrorId::LibraryMissing) ? Status::ok()
                                                                                    : opened;
}

/// By the first rank; the others wait for it.
Status CudaExecutor::openLibraryOfGroup() {
  if (!place.group->meet(place.position)) {
    return leftAlone(*place.group);
  }
  Status status;
  if (place.position == 0) {
    status = group->openLibrary("");
    if (!status.isOk() && !group->peerProblem().isOk()) {
      status = Status::error(status.id(),
                             strCat(group->peerProblem().message(), ", and ", status.message()),
                             status.hint());
    }
  }
  std::optional<std::span<const void *const>> all = place.group->meet(place.position, &status);
  if (!all) {
    return leftAlone(*place.group);
  }
  Status result = *static_cast<const Status *>(all->front());
  return place.group->meet(place.position) ? result : leftAlone(*place.group);
}

/// Where a rank has ended the run by itself, its error counts, not that another one waited for it.
Status CudaExecutor::takeFailureOfGroup() {
  Status waited = group->takeFailure(place.position);
  if (!waited.isOk() && place.group->failed() && !place.group->meet(place.position)) {
    return leftAlone(*place.group);
  }
  return waited;
}

bool CudaExecutor::isBetweenStages(const BoundStep &step) const {
  return step.kind == InstructionKind::Collective &&
         variant.plan().instructions[step.instruction].collective ==
             engine::CollectiveKind::SendReceive;
}

/// Neither host waits for a GPU: the stage behind copies when the value is written, and this one
/// goes on when it is copied.
Status CudaExecutor::pass(const BoundPlan &bound, const BoundStep &step, StreamHandle target) {
  CollectiveCall call = collectiveOf(bound, step);
  const engine::Instruction &instruction = variant.plan().instructions[step.instruction];
  bool receives = place.stage > 0 && instruction.runsIn(place.stage - 1);
  int code = kSuccess;
  const Handover *given = &handover;
  if (receives) {
    given = static_cast<const Handover *>(place.before->take());
  } else {
    code = driver.eventRecord(written.handle(), target);
    handover = {call.from, device->context(), written.handle(), nullptr};
    given = place.after->give(&handover) ? given : nullptr;
  }
  if (!given) {
    place.group->giveUp(place.position);
    return leftAlone(*place.group);
  }
  if (code == kSuccess) {
    code = driver.streamWaitEvent(target, receives ? given->written : given->copied, 0);
  }
  if (receives) {
    if (code == kSuccess && call.bytes() != 0) {
      code = driver.memcpyPeerAsync(reinterpret_cast<DevicePointer>(call.to), device->context(),
                                    reinterpret_cast<DevicePointer>(given->from), given->context,
                                    static_cast<size_t>(call.bytes()), target);
    }
    if (code == kSuccess) {
      code = driver.eventRecord(copied.handle(), target);
    }
    given->copied = copied.handle();
    place.before->taken();
  }
  return driver.check(code, "sending to the next stage");
}

Status CudaExecutor::startCollective(const BoundPlan &bound, const BoundStep &step,
                                     StreamHandle target, bool mayStartEarly) {
  CollectiveCall call = collectiveOf(bound, step);
  CollectiveWay way = wayOf(call);
  mayStartEarly &= device->info().capability >= kDependentLaunch;
  Status status;
  if (step.kernel != engine::kNone) {
    int64_t blocks = bound.sizes[step.firstSize + 1];
    status = group->startKernel(
        place.position, variant.module().kernel(step.kernel),
        std::span(bound.pointers).subspan(step.firstPointer, step.pointerCount), blocks,
        static_cast<unsigned>(std::min(blocks, engine::kCollectiveBlocks)), step.threads, target,
        mayStartEarly);
  } else {
    FunctionHandle kernel =
        way == CollectiveWay::Library
            ? nullptr
            : variant.module().find(kernelFor(way, call.kind, call.type, group->ranks()));
    status = group->start(place.position, way, kernel, call, target, mayStartEarly);
  }
  const std::string &label = variant.plan().instructions[step.instruction].label;
  return status.isOk() ? std::move(status) : Status(status.prefix(strCat("'", label, "'")));
}

} // namespace tenon::runtime::cuda
