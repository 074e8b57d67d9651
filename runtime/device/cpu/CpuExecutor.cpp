// The hot loop: nothing here allocates, locks or looks anything up while kernels succeed.

#include "runtime/device/cpu/CpuExecutor.h"

#include "runtime/device/cpu/AddRanks.h"
#include "runtime/device/cpu/CpuVariant.h"
#include "support/text/Text.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace tenon::runtime {

using engine::InstructionKind;
using engine::Space;

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kPage = 4096;
/// Of an all-reduce, that a thread takes at a time.
constexpr int64_t kSummedElements = 4096;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status notOnHost() {
  return Status::error(ErrorId::RunBadBinding,
                       "a tensor is on a GPU, but the engine runs on the CPU",
                       "pass it in host memory, or use a variant for the GPU");
}

/// The other rank's own error is the one of the run.
Status rankError(const RankGroup &group) {
  return Status::error(ErrorId::RunKernelFailed,
                       strCat("rank ", group.failed().value_or(0), " ended the run"));
}

} // namespace

Result<std::unique_ptr<Executor>> CpuExecutor::create(const CpuVariant &variant,
                                                      const SessionOptions &options,
                                                      const CpuExecutor *beside, RankPlace place) {
  if (beside) {
    return std::unique_ptr<Executor>(new CpuExecutor(variant, beside->pool, place));
  }
  unsigned threads = options.threads == 0 ? usableCpus() : options.threads;
  if (threads > kMaxThreads) {
    return Status::error(
        ErrorId::BadArgument,
        strCat(threads, " threads were requested; at most ", kMaxThreads, " are possible"),
        "request as many as there are CPUs");
  }
  if (place.group) {
    threads = std::max(1u, threads / place.ofSession);
  }
  TENON_ASSIGN(std::unique_ptr<ThreadPool> pool, ThreadPool::create(threads));
  return std::unique_ptr<Executor>(new CpuExecutor(variant, std::move(pool), place));
}

CpuExecutor::CpuExecutor(const CpuVariant &loaded, std::shared_ptr<ThreadPool> threadPool,
                         RankPlace ofRank)
    : variant(loaded), pool(std::move(threadPool)), place(ofRank),
      keptOutputs(loaded.plan().outputs.size()) {
  for (unsigned thread = 0; thread < pool->threads(); ++thread) {
    contexts.push_back({TENON_KERNEL_ABI, thread, nullptr, 0, nullptr, 0});
  }
}

uint64_t CpuExecutor::scratchNeed(const BoundPlan &bound) const {
  // Whole pages, so that no two threads write to one.
  uint64_t pages = (static_cast<uint64_t>(bound.scratchBytes) + kPage - 1) / kPage;
  uint64_t need = 0;
  return __builtin_mul_overflow(pages * kPage, contexts.size(), &need) ? UINT64_MAX : need;
}

Status CpuExecutor::reserveScratch(uint64_t need) {
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

Status CpuExecutor::placeFixedRoots(std::span<std::byte *> roots, const StateLayout &states) {
  const engine::Plan &plan = variant.plan();
  TENON_ASSIGN(state, AlignedBuffer::create(states.bytes));
  // Kernels only read weights; the pointer type is theirs.
  std::byte *weights = const_cast<std::byte *>(variant.file().weightsSection().data());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const engine::Buffer &buffer = plan.buffers[i];
    if (isRootOf(buffer, Space::Const)) {
      roots[i] = weights + variant.file().weights()[buffer.weight].offsetOf(place.position);
    } else if (isRootOf(buffer, Space::State)) {
      roots[i] = state.data() + states.offsets[i];
    }
  }
  return Status::ok();
}

Status CpuExecutor::activate(BoundPlan &bound, std::span<std::byte *> roots) {
  // A kernel may read an element of an empty buffer and not use it; that may lie at the very end.
  uint64_t bytes = static_cast<uint64_t>(bound.arenaBytes) + engine::kBufferAlignment;
  if (bytes > arena.size()) {
    arena = AlignedBuffer();
    TENON_ASSIGN(arena, AlignedBuffer::create(bytes));
  }
  TENON_TRY(reserveScratch(scratchNeed(bound)));
  const engine::Plan &plan = variant.plan();
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    if (isRootOf(plan.buffers[i], Space::Arena)) {
      roots[i] = arena.data() + bound.arenaOffsets[i];
    }
  }
  return Status::ok();
}

Status CpuExecutor::bindInput(size_t, const InputBinding &input, uint64_t bytes, std::byte *&root) {
  // A kernel may read an element of an empty input and not use it.
  alignas(
      engine::kBufferAlignment) static constexpr std::byte kNothing[engine::kBufferAlignment] = {};
  if (input.place != Place::Host) {
    return notOnHost();
  }
  const void *data = bytes == 0 ? kNothing : input.data;
  root = static_cast<std::byte *>(const_cast<void *>(data));
  return Status::ok();
}

Status CpuExecutor::bindOutput(size_t index, const OutputBinding &output, uint64_t bytes,
                               std::byte *&root) {
  if (output.place != Place::Host) {
    return notOnHost();
  }
  AlignedBuffer &kept = keptOutputs[index];
  if (!output.data && kept.size() < bytes) {
    kept = AlignedBuffer();
    TENON_ASSIGN(kept, AlignedBuffer::create(bytes));
  }
  root = output.data ? static_cast<std::byte *>(output.data) : kept.data();
  return Status::ok();
}

const void *CpuExecutor::outputData(size_t index) const {
  return index < keptOutputs.size() ? keptOutputs[index].data() : nullptr;
}

Status CpuExecutor::resetState() {
  if (state.size() != 0) {
    std::memset(state.data(), 0, state.size());
  }
  return Status::ok();
}

MemoryUse CpuExecutor::memoryUse() const {
  MemoryUse use;
  use.arenaBytes = arena.size() == 0 ? 0 : arena.size() - engine::kBufferAlignment;
  use.stateBytes = state.size();
  use.scratchBytes = scratch.size();
  for (const AlignedBuffer &kept : keptOutputs) {
    use.portBytes += place.position == 0 ? 0 : kept.size(); // the first rank's are the caller's
  }
  return use;
}

int32_t CpuExecutor::call(const BoundPlan &bound, const BoundStep &step, int64_t begin, int64_t end,
                          unsigned thread) {
  Clock::time_point start = busy.empty() ? Clock::time_point() : Clock::now();
  int32_t code =
      variant.kernel(step.kernel)(&contexts[thread], bound.pointers.data() + step.firstPointer,
                                  bound.sizes.data() + step.firstSize, begin, end);
  if (!busy.empty()) {
    busy[thread].seconds += secondsSince(start);
  }
  return code;
}

double CpuExecutor::takeBusySeconds() {
  double sum = 0;
  for (BusyTime &time : busy) {
    sum += std::exchange(time.seconds, 0);
  }
  return sum;
}

/// What guarded code may touch: the launch's buffers, and each thread its scratch.
void CpuExecutor::setRanges(const BoundPlan &bound, const BoundStep &step) {
  const engine::Instruction &launch = variant.plan().instructions[step.instruction];
  size_t perThread = step.pointerCount + 1;
  ranges.resize(perThread * contexts.size());
  for (TenonKernelContext &context : contexts) {
    TenonRange *own = ranges.data() + perThread * context.thread;
    for (uint32_t i = 0; i < step.pointerCount; ++i) {
      // An element of an empty buffer may be read and not used.
      uint64_t bytes = static_cast<uint64_t>(bound.sources[step.firstPointer + i].bytes);
      own[i] = {bound.pointers[step.firstPointer + i],
                bytes == 0 ? engine::kBufferAlignment : bytes, i >= launch.reads && bytes != 0};
    }
    own[step.pointerCount] = {context.scratch, context.scratchBytes, 1};
    context.ranges = own;
    context.rangeCount = perThread;
  }
}

int32_t CpuExecutor::launch(const BoundPlan &bound, const BoundStep &step) {
  if (variant.plan().isGuarded) {
    setRanges(bound, step);
  }
  if (step.grid <= 1 || step.isSmall || pool->threads() == 1) {
    return step.grid == 0 ? 0 : call(bound, step, 0, step.grid, 0);
  }
  pool->parallelFor(step.grid, [&](int64_t begin, int64_t end, unsigned thread) {
    int32_t code = call(bound, step, begin, end, thread);
    int32_t before = failure.load(std::memory_order_relaxed);
    while (code > before && !failure.compare_exchange_weak(before, code)) {
    }
  });
  return failure.load(std::memory_order_relaxed);
}

void CpuExecutor::copy(const BoundPlan &bound, const BoundStep &step) {
  int64_t bytes = bound.sizes[step.firstSize];
  if (bytes == 0) {
    return;
  }
  void *const *operands = bound.pointers.data() + step.firstPointer;
  int64_t pieces = std::clamp<int64_t>(step.grid, 1, bytes);
  int64_t piece = bytes / pieces + (bytes % pieces != 0 ? 1 : 0);
  auto copyPieces = [&](int64_t begin, int64_t end, unsigned) {
    int64_t first = std::min(begin * piece, bytes);
    size_t count = static_cast<size_t>(std::min(end * piece, bytes) - first);
    std::memcpy(static_cast<char *>(operands[1]) + first,
                static_cast<const char *>(operands[0]) + first, count);
  };
  if (pieces == 1) {
    copyPieces(0, 1, 0);
  } else {
    pool->parallelFor(pieces, copyPieces);
  }
}

/// What this rank has handed over is whole until the others have read it.
Status CpuExecutor::exchange(const BoundPlan &bound, const BoundStep &step) {
  const engine::Instruction &instruction = variant.plan().instructions[step.instruction];
  void *const *operands = bound.pointers.data() + step.firstPointer;
  if (instruction.collective == engine::CollectiveKind::SendReceive) {
    return pass(bound, step);
  }
  std::optional<std::span<const void *const>> parts =
      place.group->meet(place.position, operands[0]);
  if (!parts) {
    return rankError(*place.group);
  }
  std::byte *to = static_cast<std::byte *>(operands[1]);
  int64_t count = bound.sizes[step.firstSize];
  int64_t elementBytes = bitWidth(instruction.dtype) / 8;
  if (instruction.collective == engine::CollectiveKind::AllGather) {
    size_t bytes = static_cast<size_t>(count * elementBytes);
    for (size_t rank = 0; rank < parts->size() && bytes != 0; ++rank) {
      std::memcpy(to + rank * bytes, (*parts)[rank], bytes);
    }
  } else {
    int64_t pieces = (count + kSummedElements - 1) / kSummedElements;
    pool->parallelFor(pieces, [&](int64_t begin, int64_t end, unsigned) {
      int64_t last = std::min(end * kSummedElements, count);
      addRanks(instruction.dtype, *parts, to, begin * kSummedElements, last);
    });
  }
  return place.group->meet(place.position) ? Status::ok() : rankError(*place.group);
}

/// To the stage behind, which copies it, or of the one before.
Status CpuExecutor::pass(const BoundPlan &bound, const BoundStep &step) {
  const engine::Instruction &instruction = variant.plan().instructions[step.instruction];
  void *const *operands = bound.pointers.data() + step.firstPointer;
  bool isDone = false;
  if (place.stage > 0 && instruction.runsIn(place.stage - 1)) {
    const void *from = place.before->take();
    isDone = from != nullptr;
    if (isDone) {
      size_t bytes = static_cast<size_t>(bound.sizes[step.firstSize] *
                                         int64_t(bitWidth(instruction.dtype) / 8));
      std::memcpy(operands[1], from, bytes);
      place.before->taken();
    }
  } else {
    isDone = place.after->give(operands[0]);
  }
  if (!isDone) {
    place.group->giveUp(place.position);
    return rankError(*place.group);
  }
  return Status::ok();
}

Status CpuExecutor::runStep(BoundPlan &bound, const BoundStep &step) {
  if (step.kind == InstructionKind::Launch) {
    int32_t code = launch(bound, step);
    return code == TENON_KERNEL_OK ? Status::ok()
                                   : kernelError(code, variant.plan(), step.instruction);
  }
  if (step.kind == InstructionKind::Size) {
    int64_t count = 0;
    std::memcpy(&count, bound.pointers[step.firstPointer], sizeof(count));
    return bound.bindSize(variant.plan(), step, count);
  }
  if (step.kind == InstructionKind::Collective) {
    return exchange(bound, step);
  }
  copy(bound, step);
  return Status::ok();
}

Status CpuExecutor::execute(BoundPlan &bound, const RunOptions &options) {
  if (options.stream) {
    return Status::error(ErrorId::BadArgument, "a stream was given for a run on the CPU",
                         "pass none");
  }
  failure.store(0, std::memory_order_relaxed);
  ThreadPool::Caller caller(*pool);
  // By index: a size that is bound makes the steps anew, in their places.
  for (size_t i = 0; i < bound.steps.size(); ++i) {
    TENON_TRY(runStep(bound, bound.steps[i]));
  }
  return Status::ok();
}

Result<std::vector<StepTime>> CpuExecutor::timeSteps(BoundPlan &bound, unsigned count,
                                                     StepOrder order) {
  failure.store(0, std::memory_order_relaxed);
  ThreadPool::Caller caller(*pool);
  busy.assign(pool->threads(), {});
  std::vector<StepTime> times(bound.steps.size());
  bool isInARow = order == StepOrder::InARow;
  unsigned passes = isInARow ? 1 : count, inARow = isInARow ? count : 1;
  Status status = Status::ok();
  for (unsigned pass = 0; pass < passes && status.isOk(); ++pass) {
    Clock::time_point start = Clock::now();
    for (size_t i = 0; i < times.size() && status.isOk(); ++i) {
      times[i].instruction = bound.steps[i].instruction;
      for (unsigned time = 0; time < inARow && status.isOk(); ++time) {
        status = runStep(bound, bound.steps[i]);
      }
      Clock::time_point end = Clock::now();
      times[i].seconds += std::chrono::duration<double>(end - start).count() / count;
      times[i].busySeconds += takeBusySeconds() / count;
      start = end;
    }
  }
  busy.clear();
  TENON_TRY(std::move(status));
  return times;
}

} // namespace tenon::runtime
