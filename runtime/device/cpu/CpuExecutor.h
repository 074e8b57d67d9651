// Runs the steps of a bound plan over a thread pool, in host memory.

#pragma once

#include "engine/KernelAbi.h"
#include "runtime/plan/Device.h"
#include "support/memory/AlignedBuffer.h"
#include "support/threads/ThreadPool.h"

#include <atomic>
#include <memory>
#include <vector>

namespace tenon::runtime {

class CpuVariant;

class CpuExecutor : public Executor {
public:
  /// Shares the threads of `beside`, if that is not null.
  static Result<std::unique_ptr<Executor>> create(const CpuVariant &variant,
                                                  const SessionOptions &options,
                                                  const CpuExecutor *beside, RankPlace place);

  unsigned threads() const override { return pool->threads(); }
  int64_t alignment() const override { return engine::kBufferAlignment; }
  uint64_t scratchNeed(const BoundPlan &bound) const override;
  Status placeFixedRoots(std::span<std::byte *> roots, const StateLayout &states) override;
  Status activate(BoundPlan &bound, std::span<std::byte *> roots) override;
  Status bindInput(size_t index, const InputBinding &input, uint64_t bytes,
                   std::byte *&root) override;
  Status bindOutput(size_t index, const OutputBinding &output, uint64_t bytes,
                    std::byte *&root) override;
  Status execute(BoundPlan &bound, const RunOptions &options) override;
  const void *outputData(size_t index) const override;
  Result<std::vector<StepTime>> timeSteps(BoundPlan &bound, unsigned count,
                                          StepOrder order) override;
  Status resetState() override;
  MemoryUse memoryUse() const override;

private:
  CpuExecutor(const CpuVariant &loaded, std::shared_ptr<ThreadPool> threadPool, RankPlace ofRank);

  Status reserveScratch(uint64_t bytesPerThread);
  /// Once in the binary, which is small on purpose; a call takes about a nanosecond.
  [[gnu::noinline]] Status runStep(BoundPlan &bound, const BoundStep &step);
  int32_t launch(const BoundPlan &bound, const BoundStep &step);
  void setRanges(const BoundPlan &bound, const BoundStep &step);
  void copy(const BoundPlan &bound, const BoundStep &step);
  Status exchange(const BoundPlan &bound, const BoundStep &step);
  Status pass(const BoundPlan &bound, const BoundStep &step);
  int32_t call(const BoundPlan &bound, const BoundStep &step, int64_t begin, int64_t end,
               unsigned thread);
  double takeBusySeconds();

  /// Seconds of a thread inside of kernels, on a cache line of its own.
  struct alignas(64) BusyTime {
    double seconds = 0;
  };

  const CpuVariant &variant;
  std::shared_ptr<ThreadPool> pool;
  RankPlace place;
  AlignedBuffer arena;
  AlignedBuffer state;
  AlignedBuffer scratch;
  std::vector<AlignedBuffer> keptOutputs;
  std::vector<TenonKernelContext> contexts; ///< by thread
  std::vector<TenonRange> ranges;           ///< of guarded code, by thread
  std::atomic<int32_t> failure = 0;         ///< of the running launch
  std::vector<BusyTime> busy;               ///< by thread, while steps are timed; else empty
};

} // namespace tenon::runtime
