// Steps of a bound plan in a row, as one launch: captured once, on two streams where
// branches overlap, and updated in place when only addresses change.

#pragma once

#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/CudaStream.h"
#include "runtime/plan/Branches.h"

#include <memory>
#include <vector>

namespace tenon::runtime::cuda {

/// What puts the steps of a plan on a stream.
class StepRunner {
public:
  virtual ~StepRunner() = default;
  /// `mayStartEarly`: all that the step follows is the one before it on the same stream, so that a
  /// kernel which waits itself may be started before that one has ended.
  virtual Status run(const BoundStep &step, StreamHandle stream, bool mayStartEarly) = 0;
  /// Of a launch: its kernel, and the addresses of its arguments.
  virtual FunctionHandle function(const BoundStep &step) const = 0;
  virtual void **params(const BoundStep &step) = 0;
};

class CudaGraph {
public:
  /// Of steps [first, end), which are the same in every run; in `taken` their queues part and meet.
  CudaGraph(std::shared_ptr<const CudaDevice> owner, uint32_t firstStep, uint32_t endStep,
            std::vector<engine::Section> taken)
      : device(std::move(owner)), first(firstStep), end(endStep), sections(std::move(taken)) {}
  ~CudaGraph();
  CudaGraph(const CudaGraph &) = delete;
  CudaGraph &operator=(const CudaGraph &) = delete;

  uint32_t firstStep() const { return first; }
  uint32_t endStep() const { return end; }
  /// Whether the graph runs on the plan's present addresses and this workspace.
  bool isCurrent(const BoundPlan &bound, const void *workspace) const;
  /// Makes it so. `stream` is used for capturing only.
  Status update(const BoundPlan &bound, const void *workspace, StreamHandle stream,
                StepRunner &runner);
  Status launch(StreamHandle stream) const;

private:
  struct Captured {
    GraphHandle graph = nullptr;
    std::vector<NodeHandle> nodes; ///< by step from the first; null where it is not one kernel
  };
  struct Streams;

  Status captureSteps(const BoundPlan &bound, const Streams &streams, StepRunner &runner,
                      std::vector<NodeHandle> &nodes) const;
  Result<Captured> capture(const BoundPlan &bound, StreamHandle stream, StepRunner &runner) const;
  NodeHandle lastNode(StreamHandle stream) const;
  bool updateKernels(const BoundPlan &bound, StepRunner &runner);
  Status replace(Captured captured);
  void release();

  std::shared_ptr<const CudaDevice> device;
  uint32_t first, end;
  std::vector<engine::Section> sections;
  Captured original; ///< what `exec` was made from
  GraphExecHandle exec = nullptr;
  std::vector<void *> pointers; ///< addresses that `exec` has
  const void *usedWorkspace = nullptr;
};

} // namespace tenon::runtime::cuda
