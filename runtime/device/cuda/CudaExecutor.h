// Runs bound plans on a GPU: a stream, the session's memory there, and one graph launch a run.
// Where data decides sizes, the host waits for each and launches what follows step by step.

#pragma once

#include "runtime/device/cuda/CudaCalls.h"
#include "runtime/device/cuda/CudaGraph.h"
#include "runtime/device/cuda/CudaGroup.h"
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaStream.h"
#include "runtime/device/cuda/CudaVariant.h"
#include "runtime/plan/Device.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::runtime::cuda {

class CudaExecutor : public Executor {
public:
  static Result<std::unique_ptr<Executor>> create(const CudaVariant &variant,
                                                  const SessionOptions &options,
                                                  const CudaExecutor *beside, RankPlace place);
  ~CudaExecutor() override;

  unsigned threads() const override { return 1; }
  int64_t alignment() const override { return kDeviceAlignment; }
  /// To prepare BERT-base anew takes four times as long as its run; kept, its graph is 2 MB of the
  /// host's memory.
  size_t rememberedShapes(const engine::Plan &) const override { return 256; }
  uint64_t scratchNeed(const BoundPlan &bound) const override;
  Status placeFixedRoots(std::span<std::byte *> roots, const StateLayout &states) override;
  Status activate(BoundPlan &bound, std::span<std::byte *> roots) override;
  Status bindInput(size_t index, const InputBinding &input, uint64_t bytes,
                   std::byte *&root) override;
  Status bindOutput(size_t index, const OutputBinding &output, uint64_t bytes,
                    std::byte *&root) override;
  Status execute(BoundPlan &bound, const RunOptions &options) override;
  const void *outputData(size_t index) const override;
  Status resetState() override;
  MemoryUse memoryUse() const override;
  void setTiming(bool isOn) override { isTimed = isOn; }
  RunInfo info(const BoundPlan &bound) const override;
  Result<double> timeRuns(BoundPlan &bound, unsigned count) override;
  Result<std::vector<StepTime>> timeSteps(BoundPlan &bound, unsigned count,
                                          StepOrder order) override;

private:
  /// An input or output of the plan, and how it gets to the plan's memory and back.
  struct Port {
    explicit Port(const std::shared_ptr<const CudaDevice> &device)
        : memory(device, MemoryKind::Device), staging(device, MemoryKind::Pinned) {}
    CudaBuffer memory;  ///< empty when the caller's memory is used in place
    CudaBuffer staging; ///< for host tensors
    Place place = Place::Host;
    bool isInPlace = false;
    std::byte *caller = nullptr;
    uint64_t bytes = 0;
  };
  struct PlanPart;
  /// What a rank hands over to that of the stage behind, which copies it.
  struct Handover {
    const void *from = nullptr;
    ContextHandle context = nullptr;
    EventHandle written = nullptr;
    mutable EventHandle copied = nullptr; ///< of the stage behind
  };

  CudaExecutor(const CudaVariant &loaded, const SessionOptions &options, RankPlace place);
  Status open();
  Status joinGroup(const CudaExecutor *beside);
  /// Of what ranks do together in the plan, each by the way that fits; all ranks do the same.
  Status prepareCollectives(const BoundPlan &bound);
  Status openLibraryOfGroup();
  CollectiveCall collectiveOf(const BoundPlan &bound, const BoundStep &step) const;
  CollectiveWay wayOf(const CollectiveCall &call) const;
  /// Whether a collective with a kernel of its own, that also does what follows it, is done by
  /// that.
  bool takesNormed(const BoundPlan &bound, const BoundStep &step) const;
  Status takeFailureOfGroup();
  bool isBetweenStages(const BoundStep &step) const;
  Status pass(const BoundPlan &bound, const BoundStep &step, StreamHandle target);
  Status startCollective(const BoundPlan &bound, const BoundStep &step, StreamHandle target,
                         bool mayStartEarly);

  Status waitUntilIdle();
  Status grow(CudaBuffer &buffer, uint64_t bytes, const char *what);
  Status bindPort(Port &port, std::byte *data, uint64_t bytes, Place place, std::byte *&root);

  std::vector<engine::Section> sectionsFor(const BoundPlan &bound) const;
  Status preparePart(BoundPlan &bound);
  Status prepareSteps(BoundPlan &bound, PlanPart &part, size_t first);
  Status reserveStatuses(uint32_t count);
  Status takeFailure();
  Status prepareLaunch(const BoundStep &step) const;
  /// Whether launches stand behind a call for machines on which `problem` is what there is.
  bool canDoWithout(const BoundStep &call, ErrorId problem) const;

  Status copyInputs(StreamHandle target);
  Status copyOutputs(StreamHandle target);
  Status finishOutputs();
  Status runPlan(BoundPlan &bound, StreamHandle target);
  Status runSteps(BoundPlan &bound, size_t first, size_t end, StreamHandle target);
  Status runGraphs(BoundPlan &bound, StreamHandle target);
  Status bindSize(BoundPlan &bound, size_t index, StreamHandle target);
  bool makeGraph(const BoundPlan &bound);

  const CudaVariant &variant;
  std::shared_ptr<const CudaDevice> device;
  const CudaDriver &driver;
  CudaStream stream;
  CudaEvent done;      ///< recorded after a run that was not waited for
  CudaEvent planStart; ///< around the plan, for timing
  CudaEvent planEnd;
  CudaEvent written; ///< what goes to the stage behind
  CudaEvent copied;  ///< what came from the stage before
  Handover handover; ///< to the stage behind, which may look at it until the run has ended
  StreamHandle lastStream = nullptr;
  bool isPending = false; ///< a run may still be under way; `done` was recorded behind it
  bool isTimed = false;
  bool wasTimed = false;
  bool usedGraph = false;

  CudaBuffer arena;
  CudaBuffer state;
  CudaBuffer workspace;
  /// The host's, which kernels that fail write to: TENON_KERNEL_STATUSES bytes for each instruction
  /// that can.
  CudaBuffer statuses;
  CudaBuffer selected; ///< the host's, for a count that data decides
  std::vector<Port> inputs;
  std::vector<Port> outputs;

  bool overlaps;
  CudaCalls calls;
  RankPlace place;
  std::shared_ptr<CudaGroup> group; ///< null for one rank
};

} // namespace tenon::runtime::cuda
