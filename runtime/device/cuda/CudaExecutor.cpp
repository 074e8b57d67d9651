// Everything of a run is put on one stream in order: inputs, the plan, outputs. The first run of a
// plan launches each step; later ones launch its graph, and what comes behind a size that data
// decides.
//
// One file: a run from its inputs to its outputs, in the order of its steps.

#include "runtime/device/cuda/CudaExecutor.h"

#include "runtime/device/cuda/CudaPlanPart.h"

#include <algorithm>
#include <cstring>

namespace tenon::runtime::cuda {

using engine::InstructionKind;
using engine::Space;

namespace {

/// Pieces in which host tensors are staged, so that copying them and sending them overlap.
constexpr uint64_t kStagingPiece = uint64_t(4) << 20;
/// Written before the runs of a step are timed, so that the host is ahead of the GPU when they
/// begin.
constexpr uint64_t kLeadBytes = uint64_t(512) << 20;

DevicePointer toDevice(const void *pointer) { return reinterpret_cast<DevicePointer>(pointer); }

} // namespace

CudaExecutor::CudaExecutor(const CudaVariant &loaded, const SessionOptions &options,
                           RankPlace ofRank)
    : variant(loaded), device(loaded.device()), driver(device->driver()), stream(device),
      done(device), planStart(device), planEnd(device), written(device), copied(device),
      arena(device, MemoryKind::Device), state(device, MemoryKind::Device),
      workspace(device, MemoryKind::Device), statuses(device, MemoryKind::Pinned),
      selected(device, MemoryKind::Pinned), overlaps(options.overlapBranches),
      calls(loaded, options.measureSeconds), place(ofRank) {
  for (size_t i = 0; i < variant.plan().inputs.size(); ++i) {
    inputs.emplace_back(device);
  }
  for (size_t i = 0; i < variant.plan().outputs.size(); ++i) {
    outputs.emplace_back(device);
  }
}

Result<std::unique_ptr<Executor>> CudaExecutor::create(const CudaVariant &variant,
                                                       const SessionOptions &options,
                                                       const CudaExecutor *beside,
                                                       RankPlace place) {
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(variant, options, place));
  TENON_TRY(executor->open());
  if (place.group && place.group->ranks() > 1) {
    TENON_TRY(executor->joinGroup(beside));
  }
  return std::unique_ptr<Executor>(std::move(executor));
}

CudaExecutor::~CudaExecutor() {
  // What a run under way uses must outlive it; an error of it has nobody to go to.
  (void)waitUntilIdle().isOk();
}

Status CudaExecutor::open() {
  ContextScope scope(*device);
  TENON_TRY(stream.open());
  TENON_TRY(done.open(kEventNoTiming));
  TENON_TRY(written.open(kEventNoTiming));
  TENON_TRY(copied.open(kEventNoTiming));
  TENON_TRY(planStart.open(kEventWithTiming));
  return planEnd.open(kEventWithTiming);
}

Status CudaExecutor::waitUntilIdle() {
  if (!isPending) {
    return Status::ok();
  }
  ContextScope scope(*device);
  isPending = false;
  return done.wait("waiting for the previous run");
}

Status CudaExecutor::grow(CudaBuffer &buffer, uint64_t bytes, const char *what) {
  if (bytes <= buffer.size()) {
    return Status::ok();
  }
  TENON_TRY(waitUntilIdle());
  return buffer.reserve(bytes, what);
}

uint64_t CudaExecutor::scratchNeed(const BoundPlan &bound) const {
  bool hasCalls = std::ranges::any_of(
      bound.steps, [](const BoundStep &step) { return step.kind == InstructionKind::Call; });
  // Calls that run at once have workspaces of their own.
  return !hasCalls ? 0 : sectionsFor(bound).empty() ? kWorkspaceBytes : 2 * kWorkspaceBytes;
}

Status CudaExecutor::placeFixedRoots(std::span<std::byte *> roots, const StateLayout &states) {
  const engine::Plan &plan = variant.plan();
  TENON_TRY(state.reserve(states.bytes, "state"));
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const engine::Buffer &buffer = plan.buffers[i];
    if (isRootOf(buffer, Space::Const)) {
      roots[i] = variant.weight(buffer.weight);
    } else if (isRootOf(buffer, Space::State)) {
      roots[i] = state.data() + states.offsets[i];
    }
  }
  return resetState();
}

Status CudaExecutor::activate(BoundPlan &bound, std::span<std::byte *> roots) {
  ContextScope scope(*device);
  if (!bound.devicePart) {
    TENON_TRY(preparePart(bound));
  }
  TENON_TRY(grow(arena, static_cast<uint64_t>(bound.arenaBytes) + kSlackBytes, "the arena"));
  const engine::Plan &plan = variant.plan();
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    if (isRootOf(plan.buffers[i], Space::Arena)) {
      roots[i] = arena.data() + bound.arenaOffsets[i];
    }
  }
  return Status::ok();
}

Status CudaExecutor::bindPort(Port &port, std::byte *data, uint64_t bytes, Place place,
                              std::byte *&root) {
  port.caller = data;
  port.bytes = bytes;
  port.place = place;
  bool isAligned = reinterpret_cast<uintptr_t>(data) % kPortAlignment == 0;
  // The caller's memory is on the first rank's GPU.
  bool isHere = place == Place::Gpu && this->place.rank == 0;
  port.isInPlace = isHere && data && isAligned && bytes != 0;
  if (port.isInPlace) {
    root = data;
    return Status::ok();
  }
  TENON_TRY(grow(port.memory, std::max(bytes, kSlackBytes), "inputs and outputs"));
  if (place == Place::Host) {
    TENON_TRY(grow(port.staging, bytes, "inputs and outputs"));
  }
  root = port.memory.data();
  return Status::ok();
}

Status CudaExecutor::bindInput(size_t index, const InputBinding &input, uint64_t bytes,
                               std::byte *&root) {
  std::byte *data = static_cast<std::byte *>(const_cast<void *>(input.data));
  return bindPort(inputs[index], data, bytes, input.place, root);
}

Status CudaExecutor::bindOutput(size_t index, const OutputBinding &output, uint64_t bytes,
                                std::byte *&root) {
  return bindPort(outputs[index], static_cast<std::byte *>(output.data), bytes, output.place, root);
}

Status CudaExecutor::execute(BoundPlan &bound, const RunOptions &options) {
  ContextScope scope(*device);
  // A run that nobody waited for may have failed.
  TENON_TRY(takeFailure());
  StreamHandle target =
      options.stream ? static_cast<StreamHandle>(options.stream) : stream.handle();
  if (isPending && lastStream != target) {
    TENON_TRY(driver.check(driver.streamWaitEvent(target, done.handle(), 0),
                           "ordering a run after the previous one"));
  }
  TENON_TRY(copyInputs(target));
  wasTimed = isTimed;
  if (isTimed) {
    TENON_TRY(planStart.record(target, "timing a run"));
  }
  Status status = runPlan(bound, target);
  if (status.isOk() && isTimed) {
    status = planEnd.record(target, "timing a run");
  }
  if (status.isOk()) {
    status = copyOutputs(target);
  }
  bool hasHostOutput = std::ranges::any_of(
      outputs, [](const Port &port) { return port.place == Place::Host && port.bytes != 0; });
  bool isLeft = options.stream && !hasHostOutput;
  if (isLeft || !status.isOk()) {
    // After an error, what was put on the stream before it is under way.
    lastStream = target;
    isPending = done.record(target, "marking the end of a run").isOk();
    return status;
  }
  isPending = false;
  TENON_TRY(driver.check(driver.streamSynchronize(target), "waiting for the run"));
  TENON_TRY(takeFailure());
  return finishOutputs();
}

Status CudaExecutor::copyInputs(StreamHandle target) {
  for (Port &port : inputs) {
    if (port.isInPlace || port.bytes == 0) {
      continue;
    }
    if (port.place == Place::Gpu) {
      TENON_TRY(driver.check(
          driver.memcpyDtoDAsync(port.memory.pointer(), toDevice(port.caller), port.bytes, target),
          "copying an input"));
      continue;
    }
    // A run before may still read the staging memory.
    TENON_TRY(waitUntilIdle());
    for (uint64_t at = 0; at < port.bytes; at += kStagingPiece) {
      uint64_t count = std::min(kStagingPiece, port.bytes - at);
      std::memcpy(port.staging.data() + at, port.caller + at, count);
      TENON_TRY(driver.check(driver.memcpyHtoDAsync(port.memory.pointer() + at,
                                                    port.staging.data() + at, count, target),
                             "sending an input to the GPU"));
    }
  }
  return Status::ok();
}

Status CudaExecutor::copyOutputs(StreamHandle target) {
  for (Port &port : outputs) {
    if (port.isInPlace || port.bytes == 0) {
      continue;
    }
    int code = kSuccess;
    if (port.place == Place::Host) {
      code = driver.memcpyDtoHAsync(port.staging.data(), port.memory.pointer(), port.bytes, target);
    } else if (port.caller) {
      code =
          driver.memcpyDtoDAsync(toDevice(port.caller), port.memory.pointer(), port.bytes, target);
    }
    TENON_TRY(driver.check(code, "fetching an output from the GPU"));
  }
  return Status::ok();
}

Status CudaExecutor::finishOutputs() {
  for (Port &port : outputs) {
    if (port.place == Place::Host && port.caller && port.bytes != 0) {
      std::memcpy(port.caller, port.staging.data(), port.bytes);
    }
  }
  return Status::ok();
}

Status CudaExecutor::runPlan(BoundPlan &bound, StreamHandle target) {
  PlanPart &part = static_cast<PlanPart &>(*bound.devicePart);
  if (bound.fixedSteps() < bound.steps.size()) {
    part.skipFallbacks(); // the session has bound the sizes anew
  }
  TENON_TRY(part.encodeMaps());
  // The first run may load code, which a capture must not.
  usedGraph = part.hasRun && makeGraph(bound);
  part.hasRun = true;
  return usedGraph ? runGraphs(bound, target) : runSteps(bound, 0, bound.steps.size(), target);
}

Status CudaExecutor::runGraphs(BoundPlan &bound, StreamHandle target) {
  PlanPart &part = static_cast<PlanPart &>(*bound.devicePart);
  size_t done = 0;
  for (const CudaGraph &graph : part.graphs) {
    TENON_TRY(runSteps(bound, done, graph.firstStep(), target));
    TENON_TRY(graph.launch(target));
    done = graph.endStep();
  }
  return runSteps(bound, done, bound.steps.size(), target);
}

Status CudaExecutor::runSteps(BoundPlan &bound, size_t first, size_t end, StreamHandle target) {
  PlanPart &part = static_cast<PlanPart &>(*bound.devicePart);
  for (size_t i = first; i < end; ++i) {
    const BoundStep &step = bound.steps[i];
    TENON_TRY(step.kind == InstructionKind::Size ? bindSize(bound, i, target)
                                                 : part.run(step, target, true));
  }
  return Status::ok();
}

/// Waits for the count, and prepares what follows for it.
Status CudaExecutor::bindSize(BoundPlan &bound, size_t index, StreamHandle target) {
  const BoundStep &step = bound.steps[index];
  PlanPart &part = static_cast<PlanPart &>(*bound.devicePart);
  int64_t count = 0;
  TENON_TRY(selected.reserve(sizeof(count), "sizes that data decides"));
  TENON_TRY(driver.check(driver.memcpyDtoHAsync(selected.data(),
                                                toDevice(bound.pointers[step.firstPointer]),
                                                sizeof(count), target),
                         "fetching a size from the GPU"));
  TENON_TRY(driver.check(driver.streamSynchronize(target), "waiting for a size"));
  TENON_TRY(takeFailure());
  std::memcpy(&count, selected.data(), sizeof(count));
  TENON_TRY(bound.bindSize(variant.plan(), step, count));
  TENON_TRY(prepareSteps(bound, part, index + 1));
  return part.encodeMaps();
}

/// Whether the plan's graph is there for the present addresses. Where it cannot be made, the steps
/// are launched one by one from then on, and info() says why.
bool CudaExecutor::makeGraph(const BoundPlan &bound) {
  PlanPart &part = static_cast<PlanPart &>(*bound.devicePart);
  if (!part.refusal.empty() || part.graphs.empty()) {
    return false;
  }
  for (CudaGraph &graph : part.graphs) {
    if (graph.isCurrent(bound, workspace.data())) {
      continue;
    }
    Status status = graph.update(bound, workspace.data(), stream.handle(), part);
    if (!status.isOk()) {
      part.refusal = status.toString();
      return false;
    }
  }
  return true;
}

const void *CudaExecutor::outputData(size_t index) const {
  if (index >= outputs.size() || outputs[index].caller) {
    return nullptr;
  }
  const Port &port = outputs[index];
  return port.place == Place::Host ? port.staging.data() : port.memory.data();
}

Status CudaExecutor::resetState() {
  if (state.size() == 0) {
    return Status::ok();
  }
  ContextScope scope(*device);
  TENON_TRY(waitUntilIdle());
  TENON_TRY(driver.check(driver.memsetD8Async(state.pointer(), 0, state.size(), stream.handle()),
                         "zeroing state"));
  return stream.wait("zeroing state");
}

MemoryUse CudaExecutor::memoryUse() const {
  MemoryUse use;
  use.arenaBytes = arena.size() == 0 ? 0 : arena.size() - kSlackBytes;
  use.stateBytes = state.size();
  use.weightBytes = variant.weightBytes();
  use.workspaceBytes = workspace.size() + calls.bytes() + (group ? group->sharedBytes() : 0);
  for (const std::vector<Port> *ports : {&inputs, &outputs}) {
    for (const Port &port : *ports) {
      use.portBytes += port.memory.size();
      use.stagingBytes += port.staging.size();
    }
  }
  return use;
}

RunInfo CudaExecutor::info(const BoundPlan &bound) const {
  RunInfo info = Executor::info(bound);
  info.usedGraph = usedGraph;
  if (bound.devicePart) {
    const PlanPart &part = static_cast<const PlanPart &>(*bound.devicePart);
    info.graphRefusal = part.refusal;
    info.overlapped = usedGraph ? static_cast<uint32_t>(part.sideInstructions.size()) : 0;
  }
  ContextScope scope(*device);
  if (wasTimed && planEnd.wait("timing a run").isOk()) {
    Result<double> seconds = CudaEvent::secondsBetween(planStart, planEnd);
    info.gpuSeconds = seconds.isOk() ? *seconds : 0;
  }
  return info;
}

Result<double> CudaExecutor::timeRuns(BoundPlan &bound, unsigned count) {
  ContextScope scope(*device);
  TENON_TRY(waitUntilIdle());
  // The first of them makes the graph, outside of what is measured.
  TENON_TRY(runPlan(bound, stream.handle()));
  TENON_TRY(runPlan(bound, stream.handle()));
  TENON_TRY(planStart.record(stream.handle(), "timing runs"));
  for (unsigned i = 0; i < count; ++i) {
    TENON_TRY(runPlan(bound, stream.handle()));
  }
  TENON_TRY(planEnd.record(stream.handle(), "timing runs"));
  TENON_TRY(stream.wait("timing runs"));
  TENON_ASSIGN(double seconds, CudaEvent::secondsBetween(planStart, planEnd));
  return seconds / std::max(count, 1u);
}

Result<std::vector<StepTime>> CudaExecutor::timeSteps(BoundPlan &bound, unsigned count, StepOrder) {
  ContextScope scope(*device);
  TENON_TRY(waitUntilIdle());
  CudaBuffer lead(device, MemoryKind::Device);
  TENON_TRY(lead.reserve(kLeadBytes, "timing steps"));
  PlanPart &part = static_cast<PlanPart &>(*bound.devicePart);
  TENON_TRY(part.encodeMaps());
  StreamHandle target = stream.handle();
  std::vector<StepTime> times;
  for (const BoundStep &step : bound.steps) {
    // A size stays as the run before has found it; of a call and its fallbacks one is not run.
    bool isLeftOut =
        step.kind == InstructionKind::Call
            ? !part.calls.contains(step.instruction)
            : variant.plan().instructions[step.instruction].isFallback && step.grid == 0;
    if (step.kind == InstructionKind::Size || isLeftOut) {
      continue;
    }
    TENON_TRY(part.run(step, target, true));
    TENON_TRY(
        driver.check(driver.memsetD8Async(lead.pointer(), 0, lead.size(), target), "timing steps"));
    TENON_TRY(planStart.record(target, "timing steps"));
    for (unsigned i = 0; i < count; ++i) {
      TENON_TRY(part.run(step, target, true));
    }
    TENON_TRY(planEnd.record(target, "timing steps"));
    TENON_TRY(stream.wait("timing steps"));
    TENON_ASSIGN(double seconds, CudaEvent::secondsBetween(planStart, planEnd));
    times.push_back({.instruction = step.instruction, .seconds = seconds / std::max(count, 1u)});
  }
  // Steps that are repeated by themselves may read anything.
  (void)takeFailure().isOk();
  return times;
}

} // namespace tenon::runtime::cuda
