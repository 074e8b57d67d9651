// Prepares a bound plan once, and puts its steps on a stream.

#include "runtime/device/cuda/CudaPlanPart.h"

#include "support/Text.h"

#include <algorithm>

namespace tenon::runtime::cuda {

using engine::Instruction;
using engine::InstructionKind;

namespace {

constexpr int64_t kMostBlocks = INT32_MAX;

DevicePointer toDevice(const void *pointer) { return reinterpret_cast<DevicePointer>(pointer); }

} // namespace

Status CudaExecutor::PlanPart::run(const BoundStep &step, StreamHandle stream) {
  const CudaDriver &driver = executor.driver;
  const Instruction &instruction = executor.variant.plan().instructions[step.instruction];
  if (step.kind == InstructionKind::Call) {
    std::span<void *const> buffers(bound.pointers.data() + step.firstPointer, step.pointerCount);
    Status status = calls.at(step.instruction)->run(buffers, executor.workspace.data(), stream);
    return status.isOk() ? std::move(status)
                         : Status(status.prefix(strCat("'", instruction.label, "'")));
  }
  int code = step.kind == InstructionKind::Launch ? launch(step, stream) : move(step, stream);
  if (code != kSuccess) {
    return driver.check(
        code, strCat("starting '", instruction.label, "' (instruction ", step.instruction, ")"));
  }
  return Status::ok();
}

int CudaExecutor::PlanPart::launch(const BoundStep &step, StreamHandle stream) {
  if (step.grid == 0) {
    return kSuccess;
  }
  LaunchConfig config;
  config.gridX = static_cast<unsigned>(step.grid);
  config.blockX = step.threads;
  config.sharedBytes = static_cast<unsigned>(step.scratch);
  config.stream = stream;
  LaunchAttribute early;
  early.id = kAttributeProgrammaticSerialization;
  early.value.programmaticSerialization = 1;
  if (executor.variant.module().waitsItself(step.kernel)) {
    config.attributes = &early;
    config.attributeCount = 1;
  }
  return executor.driver.launchKernel(&config, function(step), params(step), nullptr);
}

int CudaExecutor::PlanPart::move(const BoundStep &step, StreamHandle stream) const {
  size_t bytes = static_cast<size_t>(bound.sizes[step.firstSize]);
  void *const *operands = bound.pointers.data() + step.firstPointer;
  if (bytes == 0) {
    return kSuccess;
  }
  return step.kind == InstructionKind::Copy
             ? executor.driver.memcpyDtoDAsync(toDevice(operands[1]), toDevice(operands[0]), bytes,
                                               stream)
             : executor.driver.memsetD8Async(toDevice(operands[0]), step.fillByte, bytes, stream);
}

Status CudaExecutor::preparePart(BoundPlan &bound) {
  std::unique_ptr<PlanPart> part = std::make_unique<PlanPart>(*this, bound);
  part->arguments.resize(bound.pointers.size() + bound.sizes.size());
  for (const BoundStep &step : bound.steps) {
    void **argument = part->params(step);
    for (uint32_t i = 0; i < step.pointerCount; ++i) {
      *argument++ = &bound.pointers[step.firstPointer + i];
    }
    for (uint32_t i = 0; i < step.sizeCount; ++i) {
      *argument++ = &bound.sizes[step.firstSize + i];
    }
    if (step.kind == InstructionKind::Launch) {
      TENON_TRY(prepareLaunch(step));
    } else if (step.kind == InstructionKind::Call) {
      TENON_TRY(prepareCall(bound, step, *part));
    }
  }
  bound.devicePart = std::move(part);
  return Status::ok();
}

Status CudaExecutor::prepareLaunch(const BoundStep &step) const {
  const std::string &label = variant.plan().instructions[step.instruction].label;
  if (step.grid > kMostBlocks) {
    return Status::error(
        ErrorId::RunBadSize,
        strCat("'", label, "' has ", step.grid, " blocks; a GPU takes ", kMostBlocks),
        "use smaller dims");
  }
  Status status = variant.module().allowSharedBytes(step.kernel, step.scratch);
  return status.isOk() ? std::move(status) : Status(status.prefix(strCat("'", label, "'")));
}

Status CudaExecutor::prepareCall(const BoundPlan &bound, const BoundStep &step, PlanPart &part) {
  const Instruction &instruction = variant.plan().instructions[step.instruction];
  std::span<const int64_t> sizes(bound.sizes.data() + step.firstSize, step.sizeCount);
  int64_t alignment = kPortAlignment;
  for (uint32_t i = 0; i < step.pointerCount; ++i) {
    int64_t offset = bound.sources[step.firstPointer + i].offset;
    alignment = offset == 0 ? alignment : std::min(alignment, offset & -offset);
  }
  std::string key(reinterpret_cast<const char *>(instruction.call.data()), instruction.call.size());
  key.append(reinterpret_cast<const char *>(sizes.data()), sizes.size_bytes());
  key.push_back(static_cast<char>(alignment));
  std::weak_ptr<library::Plan> &known = prepared[key];
  std::shared_ptr<library::Plan> plan = known.lock();
  if (!plan) {
    TENON_TRY(openLibraries());
    Result<std::unique_ptr<library::Plan>> made =
        libraries->prepare(instruction.call, sizes, static_cast<size_t>(alignment));
    if (!made.isOk()) {
      Status status = made.takeStatus();
      return status.prefix(strCat("'", instruction.label, "'"));
    }
    plan = std::move(*made);
    known = plan;
  }
  TENON_TRY(grow(workspace, plan->workspaceBytes(), "the libraries' workspace"));
  part.calls[step.instruction] = std::move(plan);
  return Status::ok();
}

Status CudaExecutor::openLibraries() {
  if (libraries) {
    return Status::ok();
  }
  library::Options options;
  options.workspaceLimit = kWorkspaceBytes;
  options.cacheFolder = variant.cacheFolder();
  options.device = strCat(device->facts().name, ", sm_", device->facts().capability, ", driver ",
                          driver.version());
  if (measuresCalls) {
    TENON_ASSIGN(meter, CudaMeter::create(device));
    options.meter = meter.get();
  }
  libraries = library::makeHandles(options);
  return Status::ok();
}

} // namespace tenon::runtime::cuda
