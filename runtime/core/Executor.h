// Runs the steps of a bound plan over a thread pool. Private to runtime/core.

#pragma once

#include "engine/KernelAbi.h"
#include "runtime/core/BoundPlan.h"
#include "support/AlignedBuffer.h"
#include "support/ThreadPool.h"

#include <atomic>
#include <memory>
#include <vector>

namespace tenon::runtime {

class Executor {
public:
  static Result<std::unique_ptr<Executor>> create(unsigned threads);

  unsigned threads() const { return pool->threads(); }
  uint64_t scratchBytes() const { return scratch.size(); }
  /// What reserveScratch(bytesPerThread) would hold for all threads.
  uint64_t scratchNeed(uint64_t bytesPerThread) const;
  /// Makes room for launches that ask for up to this much scratch per thread.
  Status reserveScratch(uint64_t bytesPerThread);

  /// Runs all steps in order. `plan` names the step in errors.
  Status execute(const BoundPlan &bound, const engine::Plan &plan);

private:
  explicit Executor(std::unique_ptr<ThreadPool> threadPool);

  int32_t launch(const BoundPlan &bound, const BoundStep &step);
  void move(const BoundPlan &bound, const BoundStep &step);
  int32_t call(const BoundPlan &bound, const BoundStep &step, int64_t begin, int64_t end,
               unsigned thread) const;

  std::unique_ptr<ThreadPool> pool;
  AlignedBuffer scratch;
  std::vector<TenonKernelContext> contexts; ///< by thread
  std::atomic<int32_t> failure = 0;         ///< of the running launch
};

} // namespace tenon::runtime
