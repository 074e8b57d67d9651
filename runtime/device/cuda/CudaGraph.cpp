// Remembers which node each kernel became, so that changed addresses are set in those nodes alone;
// whatever else changes is captured again and compared by the driver.

#include "runtime/device/cuda/CudaGraph.h"

#include <cstring>
#include <utility>

namespace tenon::runtime::cuda {

using engine::InstructionKind;

CudaGraph::~CudaGraph() { release(); }

void CudaGraph::release() {
  const CudaDriver &driver = device->driver();
  ContextScope scope(*device);
  if (exec) {
    driver.graphExecDestroy(std::exchange(exec, nullptr));
  }
  if (original.graph) {
    driver.graphDestroy(std::exchange(original.graph, nullptr));
  }
}

bool CudaGraph::isCurrent(const BoundPlan &bound, const void *workspace) const {
  return exec && usedWorkspace == workspace &&
         std::memcmp(pointers.data(), bound.pointers.data(), pointers.size() * sizeof(void *)) == 0;
}

Status CudaGraph::update(const BoundPlan &bound, const void *workspace, StreamHandle stream,
                         StepRunner &runner) {
  if (!exec || usedWorkspace != workspace || !updateKernels(bound, runner)) {
    TENON_ASSIGN(Captured captured, capture(bound, stream, runner));
    TENON_TRY(replace(std::move(captured)));
  }
  pointers = bound.pointers;
  usedWorkspace = workspace;
  return Status::ok();
}

/// The stream that is captured, and one that parts from it and meets it again.
struct CudaGraph::Streams {
  Streams(const std::shared_ptr<const CudaDevice> &device, StreamHandle captured)
      : driver(device->driver()), main(captured), branch(device), mark(device) {}

  Status open() {
    TENON_TRY(branch.open());
    return mark.open(kEventNoTiming);
  }
  Status part() const { return follow(branch.handle(), main); }
  Status join() const { return follow(main, branch.handle()); }

  const CudaDriver &driver;
  StreamHandle main;
  CudaStream branch;
  CudaEvent mark;

private:
  Status follow(StreamHandle later, StreamHandle earlier) const {
    TENON_TRY(mark.record(earlier, "capturing a branch"));
    return driver.check(driver.streamWaitEvent(later, mark.handle(), 0), "capturing a branch");
  }
};

Status CudaGraph::captureSteps(const BoundPlan &bound, const Streams &streams, StepRunner &runner,
                               std::vector<NodeHandle> &nodes) const {
  std::vector<engine::Section>::const_iterator section = sections.begin();
  NodeHandle last[2] = {}; // of the main stream and of the other
  bool followsOne[2] = {true, true};
  for (uint32_t i = first; i < end; ++i) {
    bool isWithin = section != sections.end() && i >= section->first;
    if (isWithin && i == section->first) {
      TENON_TRY(streams.part());
      last[1] = last[0];
      followsOne[1] = false;
    }
    size_t side = isWithin && bound.steps[i].queue != 0;
    StreamHandle stream = side ? streams.branch.handle() : streams.main;
    TENON_TRY(runner.run(bound.steps[i], stream, followsOne[side]));
    NodeHandle after = lastNode(stream);
    bool isNew = after && after != last[side];
    followsOne[side] |= isNew;
    bool isKernel = bound.steps[i].kind == InstructionKind::Launch && isNew;
    nodes.push_back(isKernel ? after : nullptr);
    last[side] = after;
    if (isWithin && i + 1 == section->end) {
      TENON_TRY(streams.join());
      followsOne[0] = false;
      ++section;
    }
  }
  return Status::ok();
}

Result<CudaGraph::Captured> CudaGraph::capture(const BoundPlan &bound, StreamHandle stream,
                                               StepRunner &runner) const {
  const CudaDriver &driver = device->driver();
  Streams streams(device, stream);
  if (!sections.empty()) {
    TENON_TRY(streams.open());
  }
  TENON_TRY(driver.check(driver.streamBeginCapture(stream, kCaptureThreadLocal),
                         "starting to capture a graph"));
  Captured captured;
  Status status = captureSteps(bound, streams, runner, captured.nodes);
  // Ends the capture in any case: the stream is of no use before.
  int code = driver.streamEndCapture(stream, &captured.graph);
  if (status.isOk()) {
    status = driver.check(code, "capturing a graph");
  }
  if (!status.isOk()) {
    if (captured.graph) {
      driver.graphDestroy(captured.graph);
    }
    return status;
  }
  return captured;
}

/// The node that the next one on a capturing stream would follow; null when there is not just one,
/// or the driver does not say.
NodeHandle CudaGraph::lastNode(StreamHandle stream) const {
  int status = 0;
  uint64_t id = 0;
  GraphHandle graph = nullptr;
  const NodeHandle *nodes = nullptr;
  const void *edges = nullptr;
  size_t count = 0;
  int code =
      device->driver().streamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count);
  return code == kSuccess && count == 1 ? nodes[0] : nullptr;
}

/// Sets the changed addresses in the nodes of their kernels; false when a change is elsewhere.
bool CudaGraph::updateKernels(const BoundPlan &bound, StepRunner &runner) {
  std::vector<size_t> changed;
  for (size_t i = first; i < end; ++i) {
    const BoundStep &step = bound.steps[i];
    bool isSame =
        std::memcmp(pointers.data() + step.firstPointer, bound.pointers.data() + step.firstPointer,
                    step.pointerCount * sizeof(void *)) == 0;
    bool isSkipped = step.kind == InstructionKind::Launch && step.grid == 0;
    if (isSame || isSkipped) {
      continue;
    }
    if (!original.nodes[i - first]) {
      return false;
    }
    changed.push_back(i);
  }
  for (size_t i : changed) {
    const BoundStep &step = bound.steps[i];
    KernelNodeParams node;
    node.function = runner.function(step);
    node.gridX = static_cast<unsigned>(step.grid);
    node.blockX = step.threads;
    node.sharedBytes = static_cast<unsigned>(step.scratch);
    node.params = runner.params(step);
    if (device->driver().graphExecKernelNodeSetParams(exec, original.nodes[i - first], &node) !=
        kSuccess) {
      return false;
    }
  }
  return true;
}

Status CudaGraph::replace(Captured captured) {
  const CudaDriver &driver = device->driver();
  GraphUpdateInfo info;
  if (exec && driver.graphExecUpdate(exec, captured.graph, &info) == kSuccess) {
    // Nodes are known to `exec` by the graph that it was made from, which is kept.
    driver.graphDestroy(captured.graph);
    return Status::ok();
  }
  release();
  original = std::move(captured);
  Status status =
      driver.check(driver.graphInstantiate(&exec, original.graph, 0), "making a graph of the run");
  if (!status.isOk()) {
    exec = nullptr;
    release();
  }
  return status;
}

Status CudaGraph::launch(StreamHandle stream) const {
  const CudaDriver &driver = device->driver();
  return driver.check(driver.graphLaunch(exec, stream), "launching the graph of the run");
}

} // namespace tenon::runtime::cuda
