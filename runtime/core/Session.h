// A session runs an engine: it owns an arena, state and threads (or a stream) of its own. One
// thread at a time may use a session; different sessions of one engine run at the same time.

#pragma once

#include "runtime/core/Engine.h"
#include "runtime/plan/Device.h"
#include "support/Result.h"

#include <cstdint>
#include <memory>
#include <span>

namespace tenon::runtime {

/// The tensors of a run, in the engine's order.
struct RunTensors {
  std::span<const InputBinding> inputs;
  std::span<const OutputBinding> outputs;
};

class Session {
public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Engine> engine,
                                                 const SessionOptions &options = {});
  ~Session();

  const Engine &engine() const;
  unsigned threads() const;

  /// Makes the session ready for these input dims (in order of the inputs): symbols are bound and
  /// checked, sizes evaluated, the arena laid out. The last sets of dims are remembered, 64 of
  /// them, or fewer where a session has sizes of its own (Executor::rememberedShapes).
  Status prepare(std::span<const std::span<const int64_t>> inputDims);
  /// Whether dims are prepared: after a successful prepare or run, and at once when all are fixed.
  bool isPrepared() const;
  /// Of Engine::plan(choice), the one that the dims prepared last take.
  const engine::Plan &activePlan() const;
  /// Dims and bytes of an output for the dims last prepared or run: what the run made, and before
  /// it the largest that it can make, for which a binding has room. They differ where data decides
  /// sizes. Valid until the next prepare or run.
  std::span<const int64_t> outputDims(size_t output) const;
  uint64_t outputBytes(size_t output) const;

  /// Prepares for the inputs' dims and runs the plan. Without a stream of the caller, outputs are
  /// complete when it returns ok; they are undefined after an error. No input may overlap an
  /// output, nor outputs each other. With dims seen before, nothing is allocated.
  Status run(std::span<const InputBinding> inputs, std::span<const OutputBinding> outputs,
             const RunOptions &options = {});
  /// The same for several runs in this order, complete when it returns ok. Stages of a plan work on
  /// different ones at the same time. All are prepared before the first begins.
  Status runInOrder(std::span<const RunTensors> runs);
  /// The bytes of an output kept in the session by the last run, in the place that its binding
  /// named. Valid until the next run.
  const void *outputData(size_t output) const;

  /// Zeroes the state buffers.
  Status resetState();
  MemoryUse memoryUse() const;

  /// On a GPU: whether runs are timed, for info().
  void setTiming(bool isOn);
  /// What the plan prepared last consists of, and how the last run went.
  RunInfo info() const;
  /// On a GPU: device seconds of one run, over `count` runs in a row on the tensors of the last
  /// run.
  Result<double> timeRuns(unsigned count);
  /// Seconds of each instruction, the mean of `count` times; see Executor::timeSteps. On a GPU, and
  /// after steps in a row, what outputs and state then hold is undefined.
  Result<std::vector<StepTime>> timeSteps(unsigned count, StepOrder order = StepOrder::WithinRuns);

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> implementation);
  std::unique_ptr<Impl> impl;
};

} // namespace tenon::runtime
