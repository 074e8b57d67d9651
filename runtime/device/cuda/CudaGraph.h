// The steps of a bound plan as one launch: captured from a stream once, and updated in place when
// only addresses change.

#pragma once

#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/plan/BoundPlan.h"

#include <memory>
#include <vector>

namespace tenon::runtime::cuda {

/// What puts the steps of a plan on a stream.
class StepRunner {
public:
  virtual ~StepRunner() = default;
  virtual Status run(const BoundStep &step, StreamHandle stream) = 0;
  /// Of a launch: its kernel, and the addresses of its arguments.
  virtual FunctionHandle function(const BoundStep &step) const = 0;
  virtual void **params(const BoundStep &step) = 0;
};

class CudaGraph {
public:
  explicit CudaGraph(std::shared_ptr<const CudaDevice> owner) : device(std::move(owner)) {}
  ~CudaGraph();
  CudaGraph(const CudaGraph &) = delete;
  CudaGraph &operator=(const CudaGraph &) = delete;

  bool isMade() const { return exec != nullptr; }
  /// Whether the graph runs on the plan's present addresses and this workspace.
  bool isCurrent(const BoundPlan &bound, const void *workspace) const;
  /// Makes it so. `stream` is used for capturing only.
  Status update(const BoundPlan &bound, const void *workspace, StreamHandle stream,
                StepRunner &runner);
  Status launch(StreamHandle stream) const;

private:
  struct Captured {
    GraphHandle graph = nullptr;
    std::vector<NodeHandle> nodes; ///< by step; null where it is not one kernel
  };

  Result<Captured> capture(const BoundPlan &bound, StreamHandle stream, StepRunner &runner) const;
  NodeHandle lastNode(StreamHandle stream) const;
  bool updateKernels(const BoundPlan &bound, StepRunner &runner);
  Status replace(Captured captured);
  void release();

  std::shared_ptr<const CudaDevice> device;
  Captured original; ///< what `exec` was made from
  GraphExecHandle exec = nullptr;
  std::vector<void *> pointers; ///< addresses that `exec` has
  const void *usedWorkspace = nullptr;
};

} // namespace tenon::runtime::cuda
