// Chooses how rows are shared out among threads: enough bytes in flight for each multiprocessor,
// few registers for each thread. Relies on rows being stored one after the other.
#include "compiler/codegen/cuda/Rows.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kAccessBytes = 16, kWarpLanes = 32;
constexpr int64_t kMostThreads = 1024, kMostBlocks = 8;
/// Elements of a thread: what keeps enough loads in flight, and what still fits in registers.
constexpr int64_t kFewElements = 16, kManyElements = 32;
/// Bytes that are read for an element, and results, beyond which a thread holds few of them.
constexpr int64_t kManyBytes = 8, kFewResults = 2;
/// Threads of a block that works on one row, where the row allows it.
constexpr int64_t kGoodThreads = 256, kClusterThreads = 512;
/// Threads of a block of several rows, and the rows below which each gets a block of its own.
constexpr int64_t kSharedThreads = 128, kFewRows = 1024;

int64_t widestBytes(const RowsWork &work) {
  int64_t widest = 0;
  for (const Root &root : work.wide) {
    widest = std::max(widest, byteSize(getElementTypeOrSelf(root.tensor)));
  }
  for (Value input : work.inputs) {
    widest = std::max(widest, byteSize(getElementTypeOrSelf(input)));
  }
  return widest == 0 ? sizeof(float) : widest;
}

/// The next multiple of a warp from `threads` on with which no thread has strips less than others,
/// or `threads` if that is far.
int64_t evenThreads(int64_t threads, int64_t most, int64_t blocks, int64_t strips) {
  for (int64_t more = threads; more <= std::min(most, threads + threads / 4); more += kWarpLanes) {
    if (strips % (more * blocks) == 0) {
      return more;
    }
  }
  return threads;
}

int64_t threadsFor(int64_t strips, int64_t steps) {
  return llvm::alignTo(llvm::divideCeil(strips, steps), kWarpLanes);
}

} // namespace

int64_t lanesOf(const RowsWork &work, int64_t multiple) {
  return std::gcd(kAccessBytes / widestBytes(work), multiple);
}

std::optional<RowsLayout> layoutInRegisters(RegionBuilder &region, const RowsWork &work) {
  std::optional<int64_t> length =
      tn::constantDim(tn::elementCount(region.source.getContext(), work.inner));
  if (!length || *length == 0) {
    return std::nullopt;
  }
  RowsLayout layout;
  layout.lanes = lanesOf(work, *length);
  layout.strips = *length / layout.lanes;
  // Several tensors, or wide elements, leave less room for each.
  int64_t read = 0;
  for (Value input : work.inputs) {
    read += byteSize(getElementTypeOrSelf(input));
  }
  bool isCrowded =
      read >= kManyBytes || widestBytes(work) >= kManyBytes || work.wide.size() > kFewResults;
  int64_t mostThreads = work.inputs.size() > 1 ? kMostThreads / 2 : kMostThreads;
  int64_t many = std::max<int64_t>(1, (isCrowded ? kFewElements : kManyElements) / layout.lanes);
  int64_t few = std::max<int64_t>(1, kFewElements / layout.lanes);
  int64_t rows = region.estimate(work.rows);
  // Few rows leave room for many threads: what counts is how soon each is done.
  bool isFew = rows < kFewRows;
  few = isFew ? 1 : few;
  if (layout.strips <= kWarpLanes * (isFew ? 1 : many)) {
    int64_t threads = llvm::PowerOf2Ceil(llvm::divideCeil(layout.strips, few));
    layout.threads.perRow = std::min(kWarpLanes, threads);
    layout.rowsPerBlock = std::max<int64_t>(1, kSharedThreads / layout.threads.perRow);
    if (isFew) {
      layout.rowsPerBlock = kWarpLanes / layout.threads.perRow;
    }
  } else {
    int64_t threads = threadsFor(layout.strips, few);
    if (threads > (isFew ? kClusterThreads : kGoodThreads)) {
      threads = threadsFor(layout.strips, many);
    }
    bool hasClusters = region.arch.number >= 90;
    int64_t blocks = 1;
    while (hasClusters && threads > kClusterThreads && blocks < kMostBlocks) {
      blocks *= 2;
      threads = threadsFor(layout.strips, many * blocks);
    }
    if (threads > mostThreads) {
      return std::nullopt;
    }
    layout.threads.blocks = blocks;
    layout.threads.perRow = evenThreads(threads, mostThreads, blocks, layout.strips);
  }
  layout.steps = llvm::divideCeil(layout.strips, layout.threadsOfRow());
  return layout;
}

} // namespace tenon::codegen::cuda
