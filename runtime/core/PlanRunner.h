// One plan of an engine in a session: its executor, the last bound shapes and the memory that they
// share. Private to runtime/core; used by one thread at a time.

#pragma once

#include "runtime/core/Engine.h"
#include "runtime/plan/Device.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tenon::runtime {

class PlanRunner {
public:
  /// `choice` is one of Engine::plans(). `beside` runs another plan of the session, whose threads
  /// this one shares; null for the first. Called by the thread of the rank.
  static Result<std::unique_ptr<PlanRunner>> create(const Engine &engine, size_t choice,
                                                    const SessionOptions &options,
                                                    const PlanRunner *beside, RankPlace place);

  const engine::Plan &plan() const { return enginePlan; }
  const Executor &executor() const { return *planExecutor; }
  Executor &executor() { return *planExecutor; }

  /// Whether the constant dims of a plan's inputs are these; ranks are the plan's.
  static bool takes(const engine::Plan &plan, const FlatDims &dims);
  /// Makes the bound plan for `dims` current, from those remembered or by binding now.
  Status bind(const FlatDims &dims);
  /// Runs the current plan.
  Status run(std::span<const InputBinding> inputs, std::span<const OutputBinding> outputs,
             const RunOptions &options);
  /// Of the plan's session symbols.
  std::span<const int64_t> sessionValues() const { return session; }
  /// Null before the first bind.
  BoundPlan *current() const { return currentPlan; }

private:
  /// A bound plan and when it was last used.
  struct CachedPlan {
    BoundPlan plan;
    uint64_t lastUse = 0;
  };

  PlanRunner(const engine::Plan &plan, const SessionOptions &options)
      : enginePlan(plan), options(options) {}
  Status init(const LoadedVariant &variant, const PlanRunner *beside, RankPlace place);
  Status outOfMemory(uint64_t bytes) const;
  BoundPlan &remember(BoundPlan bound);
  Status activate(BoundPlan &bound);
  Status bindInputs(std::span<const InputBinding> inputs);
  Status bindOutputs(std::span<const OutputBinding> outputs);
  Status checkOverlap() const;

  const engine::Plan &enginePlan;
  SessionOptions options;
  std::unique_ptr<Executor> planExecutor;
  OffsetPlanner planner;

  std::vector<std::unique_ptr<CachedPlan>> cache;
  BoundPlan *currentPlan = nullptr;
  uint64_t uses = 0;

  std::vector<int64_t> session; ///< values of the plan's session symbols
  uint64_t stateBytes = 0;
  uint32_t stage = 0;
  std::vector<bool> buffersOfStage; ///< by buffer
  std::vector<std::byte *> roots;   ///< by buffer; null for views, and for what others have
};

} // namespace tenon::runtime
