// Prepares a bound plan once, and puts its steps on a stream.

#include "runtime/device/cuda/CudaPlanPart.h"

#include "engine/KernelAbi.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cstring>

namespace tenon::runtime::cuda {

using engine::Instruction;
using engine::InstructionKind;

namespace {

constexpr int64_t kMaxBlocks = INT32_MAX;
/// Below this a graph has nothing to save.
constexpr uint32_t kMinGraphSteps = 2;

DevicePointer toDevice(const void *pointer) { return reinterpret_cast<DevicePointer>(pointer); }

/// The calls of a plan from step `first` on in its order, not yet prepared.
std::vector<LibraryCall> callsOf(const engine::Plan &plan, const BoundPlan &bound, size_t first) {
  std::vector<LibraryCall> calls;
  for (const BoundStep &step : std::span(bound.steps).subspan(first)) {
    if (step.kind != InstructionKind::Call) {
      continue;
    }
    LibraryCall &call = calls.emplace_back();
    call.descriptor = plan.instructions[step.instruction].call;
    call.sizes = std::span(bound.sizes).subspan(step.firstSize, step.sizeCount);
    call.alignment = kPortAlignment;
    for (uint32_t i = 0; i < step.pointerCount; ++i) {
      int64_t offset = bound.sources[step.firstPointer + i].offset;
      call.alignment = offset == 0 ? call.alignment : std::min(call.alignment, offset & -offset);
    }
  }
  return calls;
}

} // namespace

CudaExecutor::PlanPart::PlanPart(CudaExecutor &owner, BoundPlan &plan,
                                 std::vector<engine::Section> sections)
    : executor(owner), bound(plan) {
  uint32_t first = 0;
  for (uint32_t step = 0; step <= plan.fixedSteps(); ++step) {
    bool isEnd = step == plan.fixedSteps() || executor.isBetweenStages(plan.steps[step]);
    if (isEnd && step - first >= kMinGraphSteps) {
      graphs.emplace_back(owner.device, first, step, sections);
    }
    first = isEnd ? step + 1 : first;
  }
  for (const engine::Section &section : sections) {
    for (uint32_t step = section.first; step < section.end; ++step) {
      if (plan.steps[step].queue != 0) {
        sideInstructions.insert(step);
      }
    }
  }
}

Status CudaExecutor::PlanPart::run(const BoundStep &step, StreamHandle stream, bool mayStartEarly) {
  const CudaDriver &driver = executor.driver;
  const Instruction &instruction = executor.variant.plan().instructions[step.instruction];
  if (step.kind == InstructionKind::Call) {
    std::span<void *const> buffers(bound.pointers.data() + step.firstPointer, step.pointerCount);
    bool isSide = sideInstructions.contains(step.instruction);
    void *workspace = executor.workspace.data() + (isSide ? workspaceBytes : 0);
    auto call = calls.find(step.instruction);
    if (call == calls.end()) {
      return Status::ok(); // its fallbacks do it
    }
    Status status = call->second->run(buffers, workspace, stream);
    return status.isOk() ? std::move(status)
                         : Status(status.prefix(strCat("'", instruction.label, "'")));
  }
  if (executor.isBetweenStages(step)) {
    return executor.pass(bound, step, stream);
  }
  if (step.kind == InstructionKind::Collective) {
    return step.grid == 0 ? Status::ok()
                          : executor.startCollective(bound, step, stream, mayStartEarly);
  }
  int code = step.kind == InstructionKind::Launch ? launch(step, stream, mayStartEarly)
                                                  : copy(step, stream);
  if (code != kSuccess) {
    return driver.check(
        code, strCat("starting '", instruction.label, "' (instruction ", step.instruction, ")"));
  }
  return Status::ok();
}

void CudaExecutor::PlanPart::skipFallbacks() {
  bool isServed = false; // the last call, by a library; the last fused collective, by its kernel
  for (BoundStep &step : bound.steps) {
    if (step.kind == InstructionKind::Call) {
      isServed = calls.contains(step.instruction);
    } else if (executor.variant.plan().instructions[step.instruction].isFallback) {
      step.grid = isServed ? 0 : step.grid;
    } else if (step.kind == InstructionKind::Collective && step.kernel != engine::kNone) {
      isServed = executor.takesNormed(bound, step);
      step.grid = isServed ? 1 : 0;
    }
  }
}

Status CudaExecutor::PlanPart::encodeMaps() {
  for (const BoundStep &step : bound.steps) {
    for (uint32_t i = step.firstMap; i < step.firstMap + step.mapCount && step.grid != 0; ++i) {
      const BoundMap &map = bound.maps[i];
      void *address = bound.pointers[map.pointer];
      if (mapped[i] == std::pair(map, address)) {
        continue;
      }
      const uint64_t dims[] = {static_cast<uint64_t>(map.columns), static_cast<uint64_t>(map.rows)};
      const uint64_t rowBytes = static_cast<uint64_t>(map.rowBytes);
      const unsigned box[] = {map.boxColumns, map.boxRows};
      const unsigned elementStrides[] = {1, 1};
      int code = executor.driver.tensorMapEncodeTiled(
          &maps[i], kTensorMapUint16, 2, address, dims, &rowBytes, box, elementStrides,
          kTensorMapNoInterleave, kTensorMapSwizzle128, kTensorMapFetch128, kTensorMapZeroFill);
      mapped[i] = {map, code == kSuccess ? address : nullptr};
      if (code != kSuccess) {
        const std::string &label = executor.variant.plan().instructions[step.instruction].label;
        return executor.driver.check(code, strCat("describing the ", map.rows, " x ", map.columns,
                                                  " matrix of '", label, "'"));
      }
    }
  }
  return Status::ok();
}

int CudaExecutor::PlanPart::launch(const BoundStep &step, StreamHandle stream, bool mayStartEarly) {
  if (step.grid == 0) {
    return kSuccess;
  }
  LaunchConfig config;
  config.gridX = static_cast<unsigned>(step.grid);
  config.blockX = step.threads;
  config.sharedBytes = static_cast<unsigned>(step.scratch);
  config.stream = stream;
  LaunchAttribute attribute;
  config.attributes = &attribute;
  if (executor.variant.plan().instructions[step.instruction].cluster == engine::kWholeGrid) {
    attribute.id = kAttributeCooperative;
    attribute.value.cooperative = 1;
    config.attributeCount = 1;
  } else if (mayStartEarly && step.isDependentLaunch) {
    attribute.id = kAttributeProgrammaticSerialization;
    attribute.value.programmaticSerialization = 1;
    config.attributeCount = 1;
  }
  return executor.driver.launchKernel(&config, function(step), params(step), nullptr);
}

int CudaExecutor::PlanPart::copy(const BoundStep &step, StreamHandle stream) const {
  size_t bytes = static_cast<size_t>(bound.sizes[step.firstSize]);
  void *const *operands = bound.pointers.data() + step.firstPointer;
  if (bytes == 0) {
    return kSuccess;
  }
  return executor.driver.memcpyDtoDAsync(toDevice(operands[1]), toDevice(operands[0]), bytes,
                                         stream);
}

std::vector<engine::Section> CudaExecutor::sectionsFor(const BoundPlan &bound) const {
  return overlaps ? sectionsOf(variant.plan(), bound) : std::vector<engine::Section>();
}

Status CudaExecutor::preparePart(BoundPlan &bound) {
  std::unique_ptr<PlanPart> part = std::make_unique<PlanPart>(*this, bound, sectionsFor(bound));
  part->arguments.resize(bound.pointers.size() + bound.sizes.size() + bound.maps.size() +
                         bound.statusCount);
  TENON_TRY(reserveStatuses(bound.statusCount));
  for (uint32_t i = 0; i < bound.statusCount; ++i) {
    part->statuses.push_back(statuses.data() + i * TENON_KERNEL_STATUSES);
  }
  part->maps.resize(bound.maps.size());
  part->mapped.resize(bound.maps.size());
  for (const BoundStep &step : bound.steps) {
    void **argument = part->params(step);
    for (uint32_t i = 0; i < step.pointerCount; ++i) {
      *argument++ = &bound.pointers[step.firstPointer + i];
    }
    for (uint32_t i = 0; i < step.sizeCount; ++i) {
      *argument++ = &bound.sizes[step.firstSize + i];
    }
    for (uint32_t i = 0; i < step.mapCount; ++i) {
      *argument++ = &part->maps[step.firstMap + i];
    }
    if (step.canFail) {
      *argument++ = &part->statuses[step.firstStatus];
    }
  }
  TENON_TRY(prepareSteps(bound, *part, 0));
  TENON_TRY(prepareCollectives(bound));
  bound.devicePart = std::move(part);
  return Status::ok();
}

/// Steps from `first` on, for the present sizes: those behind a size that data decides again in
/// each run.
Status CudaExecutor::prepareSteps(BoundPlan &bound, PlanPart &part, size_t first) {
  std::vector<LibraryCall> libraryCalls = callsOf(variant.plan(), bound, first);
  TENON_TRY(calls.prepare(libraryCalls));
  std::vector<LibraryCall>::iterator call = libraryCalls.begin();
  for (const BoundStep &step : std::span(bound.steps).subspan(first)) {
    if (step.kind == InstructionKind::Launch) {
      TENON_TRY(prepareLaunch(step));
    } else if (step.kind == InstructionKind::Call) {
      if (!call->status.isOk() && !canDoWithout(step, call->status.id())) {
        const std::string &label = variant.plan().instructions[step.instruction].label;
        return call->status.prefix(strCat("'", label, "'"));
      }
      part.take(step, std::move(call->plan));
      ++call;
    }
  }
  part.skipFallbacks();
  uint64_t workspaces = part.sideInstructions.empty() ? 1 : 2;
  return grow(workspace, workspaces * part.workspaceBytes, "the libraries' workspace");
}

/// The same number for every binding of a plan, so they keep their place.
Status CudaExecutor::reserveStatuses(uint32_t count) {
  uint64_t bytes = uint64_t(count) * TENON_KERNEL_STATUSES;
  if (bytes > statuses.size()) {
    TENON_TRY(grow(statuses, bytes, "the kernels' status"));
    std::memset(statuses.data(), 0, statuses.size());
  }
  return Status::ok();
}

/// What kernels reported, once: the highest status of the first of them.
Status CudaExecutor::takeFailure() {
  if (group) {
    TENON_TRY(takeFailureOfGroup());
  }
  std::span<const std::byte> places(statuses.data(), statuses.size());
  if (std::ranges::all_of(places, [](std::byte status) { return status == std::byte(0); })) {
    return Status::ok();
  }
  TENON_TRY(waitUntilIdle());
  Status failure = Status::ok();
  const std::byte *place = statuses.data();
  for (uint32_t i = 0; i < variant.plan().instructions.size() && failure.isOk(); ++i) {
    if (!variant.plan().instructions[i].canFail) {
      continue;
    }
    for (int32_t code = TENON_KERNEL_STATUSES - 1; code > 0 && failure.isOk(); --code) {
      failure = place[code] == std::byte(0) ? Status::ok() : kernelError(code, variant.plan(), i);
    }
    place += TENON_KERNEL_STATUSES;
  }
  std::memset(statuses.data(), 0, statuses.size());
  return failure;
}

bool CudaExecutor::canDoWithout(const BoundStep &call, ErrorId problem) const {
  const std::vector<Instruction> &instructions = variant.plan().instructions;
  size_t next = size_t(call.instruction) + 1;
  bool isLibrarys = problem == ErrorId::LibraryMissing || problem == ErrorId::LibraryUnsupported ||
                    problem == ErrorId::LibraryFailed;
  return isLibrarys && next < instructions.size() && instructions[next].isFallback;
}

Status CudaExecutor::prepareLaunch(const BoundStep &step) const {
  const std::string &label = variant.plan().instructions[step.instruction].label;
  if (step.grid > kMaxBlocks) {
    return Status::error(
        ErrorId::RunBadSize,
        strCat("'", label, "' has ", step.grid, " blocks, but a GPU allows ", kMaxBlocks),
        "use smaller dims");
  }
  Status status = variant.module().allowSharedBytes(step.kernel, step.scratch);
  return status.isOk() ? std::move(status) : Status(status.prefix(strCat("'", label, "'")));
}

void CudaExecutor::PlanPart::take(const BoundStep &step, std::shared_ptr<library::Plan> plan) {
  calls.erase(step.instruction);
  if (!plan) {
    return;
  }
  uint64_t unit = kDeviceAlignment;
  uint64_t bytes = (plan->workspaceBytes() + unit - 1) / unit * unit;
  workspaceBytes = std::max(workspaceBytes, bytes);
  recent[prepared++ % kRecentCalls] = plan;
  calls[step.instruction] = std::move(plan);
}

} // namespace tenon::runtime::cuda
