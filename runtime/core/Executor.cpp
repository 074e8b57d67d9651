// The hot loop: nothing here allocates, locks or looks anything up while kernels succeed.

#include "runtime/core/Executor.h"

#include "support/Text.h"

#include <algorithm>
#include <cstring>

namespace tenon::runtime {

using engine::InstructionKind;

namespace {

constexpr uint64_t kPage = 4096;
constexpr int64_t kMoveBlock = 64 << 10; ///< bytes of a copy or fill done by one thread at once
constexpr int64_t kLeastParallel = 512 << 10; ///< bytes that are worth waking threads for

Status kernelError(int32_t code, const BoundStep &step, const engine::Plan &plan) {
  std::string where = strCat("'", plan.instructions[step.instruction].label, "' (instruction ",
                             step.instruction, "): ");
  switch (code) {
  case TENON_KERNEL_INDEX_RANGE:
    return Status::error(ErrorId::RunIndexOutOfRange, where + "an index is out of range",
                         "check the index tensors among the inputs");
  case TENON_KERNEL_ARITHMETIC:
    return Status::error(ErrorId::RunBadArithmetic, where + "integer division by zero",
                         "check the divisors among the inputs");
  default:
    return Status::error(ErrorId::RunKernelFailed, where + strCat("the kernel returned ", code),
                         "report it with the engine");
  }
}

} // namespace

Result<std::unique_ptr<Executor>> Executor::create(unsigned threads) {
  TENON_ASSIGN(std::unique_ptr<ThreadPool> pool, ThreadPool::create(threads));
  return std::unique_ptr<Executor>(new Executor(std::move(pool)));
}

Executor::Executor(std::unique_ptr<ThreadPool> threadPool) : pool(std::move(threadPool)) {
  for (unsigned thread = 0; thread < pool->threads(); ++thread) {
    contexts.push_back({TENON_KERNEL_ABI, thread, nullptr, 0});
  }
}

uint64_t Executor::scratchNeed(uint64_t bytesPerThread) const {
  // Whole pages, so that no two threads write to one.
  uint64_t stride = (bytesPerThread + kPage - 1) / kPage * kPage;
  return stride * contexts.size();
}

Status Executor::reserveScratch(uint64_t bytesPerThread) {
  uint64_t need = scratchNeed(bytesPerThread);
  if (need <= scratch.size()) {
    return Status::ok();
  }
  TENON_ASSIGN(scratch, AlignedBuffer::create(need));
  uint64_t stride = need / contexts.size();
  for (TenonKernelContext &context : contexts) {
    context.scratch = scratch.data() + stride * context.thread;
    context.scratchBytes = stride;
  }
  return Status::ok();
}

int32_t Executor::call(const BoundPlan &bound, const BoundStep &step, int64_t begin, int64_t end,
                       unsigned thread) const {
  return step.kernel(&contexts[thread], bound.pointers.data() + step.firstPointer,
                     bound.sizes.data() + step.firstSize, begin, end);
}

int32_t Executor::launch(const BoundPlan &bound, const BoundStep &step) {
  if (step.grid <= 1 || pool->threads() == 1) {
    return step.grid == 0 ? 0 : call(bound, step, 0, step.grid, 0);
  }
  pool->parallelFor(step.grid, [&](int64_t begin, int64_t end, unsigned thread) {
    int32_t code = call(bound, step, begin, end, thread);
    if (code != TENON_KERNEL_OK) {
      failure.store(code, std::memory_order_relaxed);
    }
  });
  return failure.load(std::memory_order_relaxed);
}

void Executor::move(const BoundPlan &bound, const BoundStep &step) {
  int64_t bytes = bound.sizes[step.firstSize];
  void *const *operands = bound.pointers.data() + step.firstPointer;
  auto moveBlocks = [&](int64_t begin, int64_t end, unsigned) {
    int64_t first = begin * kMoveBlock;
    size_t count = static_cast<size_t>(std::min(end * kMoveBlock, bytes) - first);
    if (step.kind == InstructionKind::Copy) {
      std::memcpy(static_cast<char *>(operands[1]) + first,
                  static_cast<const char *>(operands[0]) + first, count);
    } else {
      std::memset(static_cast<char *>(operands[0]) + first, step.fillByte, count);
    }
  };
  int64_t blocks = bytes / kMoveBlock + (bytes % kMoveBlock != 0 ? 1 : 0);
  if (bytes >= kLeastParallel) {
    pool->parallelFor(blocks, moveBlocks);
  } else if (bytes != 0) {
    moveBlocks(0, blocks, 0);
  }
}

Status Executor::execute(const BoundPlan &bound, const engine::Plan &plan) {
  failure.store(0, std::memory_order_relaxed);
  for (const BoundStep &step : bound.steps) {
    if (step.kind == InstructionKind::Launch) {
      int32_t code = launch(bound, step);
      if (code != TENON_KERNEL_OK) {
        return kernelError(code, step, plan);
      }
      continue;
    }
    move(bound, step);
  }
  return Status::ok();
}

} // namespace tenon::runtime
