// What a bound plan needs to run on a GPU: arguments of its kernels, its prepared calls, its graph.
// Private to CudaExecutor.

#pragma once

#include "runtime/device/cuda/CudaExecutor.h"

#include <array>
#include <list>
#include <set>

namespace tenon::runtime::cuda {

/// What kernels and libraries may rely on for inputs and outputs.
inline constexpr uintptr_t kPortAlignment = 16;
/// Most that a library call may ask for.
inline constexpr uint64_t kWorkspaceBytes = uint64_t(32) << 20;

/// Prepared calls that are kept for sizes which may come again.
inline constexpr size_t kRecentCalls = 256;

struct CudaExecutor::PlanPart : DevicePart, StepRunner {
  PlanPart(CudaExecutor &owner, BoundPlan &plan, std::vector<engine::Section> sections);
  ~PlanPart() override {
    // A run under way may be of this plan.
    (void)executor.waitUntilIdle().isOk();
  }

  /// The plan of a call, or none if launches behind it do what it would.
  void take(const BoundStep &step, std::shared_ptr<library::Plan> plan);
  Status run(const BoundStep &step, StreamHandle stream, bool mayStartEarly) override;
  FunctionHandle function(const BoundStep &step) const override {
    return executor.variant.module().kernel(step.kernel);
  }
  void **params(const BoundStep &step) override {
    return arguments.data() + step.firstPointer + step.firstSize + step.firstMap + step.firstStatus;
  }
  /// What is done otherwise is left out: the fallbacks of calls and of fused collectives, or a
  /// fused collective that its fallbacks do.
  void skipFallbacks();
  /// Makes the tensor maps those of the plan's present addresses.
  Status encodeMaps();
  int launch(const BoundStep &step, StreamHandle stream, bool mayStartEarly);
  int copy(const BoundStep &step, StreamHandle stream) const;

  CudaExecutor &executor;
  BoundPlan &bound;
  /// Addresses of each step's pointers, then of its sizes, its tensor maps, and of the pointer to
  /// its status.
  std::vector<void *> arguments;
  std::vector<std::byte *> statuses; ///< by the number of a step that can fail
  std::vector<EncodedTensorMap> maps;
  /// By map: what it was encoded from.
  std::vector<std::pair<BoundMap, void *>> mapped;
  std::map<uint32_t, std::shared_ptr<library::Plan>> calls; ///< by instruction
  /// The last of those prepared, round and round: data may decide a size again.
  std::array<std::shared_ptr<library::Plan>, kRecentCalls> recent;
  size_t prepared = 0;
  /// Calls that may run at once have workspaces of their own.
  std::set<uint32_t> sideInstructions;
  uint64_t workspaceBytes = 0; ///< of each of the two
  /// Of the fixed steps, those between what goes from stage to stage.
  std::list<CudaGraph> graphs;
  bool hasRun = false;
  std::string refusal;
};

} // namespace tenon::runtime::cuda
