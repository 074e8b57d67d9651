// Chooses how rows are shared out among threads: enough bytes in flight for each multiprocessor,
// few registers for each thread. Relies on rows being stored one after the other.
#include "compiler/dispatch/RowReductionConfig.h"

#include "compiler/dispatch/ElementwiseLaunchConfig.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

namespace tenon::dispatch {
namespace {

constexpr int64_t kWarpLanes = 32;
constexpr int64_t kMaxThreads = 1024;
/// Blocks of a cluster, and of one for very long rows.
constexpr int64_t kMaxBlocks = 8, kWideBlocks = 16;
/// Elements of a thread: what keeps enough loads in flight, and what still fits in registers.
constexpr int64_t kFewElements = 16, kManyElements = 32;
/// Bytes that are read for an element, and results, beyond which a thread holds few of them.
constexpr int64_t kManyBytes = 8, kFewResults = 2;
/// Of rows in shared memory: strips of a thread; those of a row that is short, and too short to be
/// staged; bytes that no cache holds.
constexpr int64_t kStagedSteps = 4, kShortStrips = 512, kShortestStrips = 64;
constexpr int64_t kStreamedBytes = int64_t(1) << 24;
/// Registers of a thread, also if it holds parameters, and those for them: rows of 65,536 are
/// normed at 3.72 TB/s with three blocks that hold them, at 3.52 with four that do not.
constexpr int64_t kStagedRegisters = 64, kHoldingRegisters = 80, kParameterRegisters = 32;
/// Registers of a thread that has little of its row.
constexpr int64_t kFewRegisters = 48;
/// Bytes of staged rows of a multiprocessor beyond which more only spread over memory what is read
/// at once (layer norm of 4,096: 4.03 TB/s with 80 KiB, 3.94 with 128, 3.92 with 64).
constexpr int64_t kEnoughStaged = 80 * 1024;
/// Strips of a row that is worth sixteen blocks.
constexpr int64_t kVeryLongStrips = 16384;
/// Threads of a block that works on one row, where the row allows it.
constexpr int64_t kGoodThreads = 256, kClusterThreads = 512;
/// Threads of a block of several rows, and the rows below which each gets a block of its own.
constexpr int64_t kSharedThreads = 128, kFewRows = 1024;

int64_t widestBytes(const RowInfo &info) {
  int64_t widest = 0;
  for (int64_t bytes : llvm::concat<const int64_t>(info.results, info.inputs)) {
    widest = std::max(widest, bytes);
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

/// Clusters as the layouts below have them.
bool mayCluster(const RowInfo &info) { return info.gpu->clusterBlocks >= kMaxBlocks; }

/// Clusters of so many blocks that find room at once if each multiprocessor takes one block: not
/// every one is part of a whole cluster. An H200 that was asked has room for 15 of eight and 7 of
/// sixteen blocks on 132; which ones are off differs between GPUs.
int64_t concurrentClusters(const target::Target &gpu, int64_t blocks) {
  return std::max<int64_t>(1, gpu.cores * 10 / 11 / blocks);
}

/// Whether copies of 16 bytes bring the same number of elements of every input.
bool canBeStaged(const RowInfo &info) {
  int64_t lanes = lanesOf(info, *info.length);
  auto isStrip = [&](int64_t bytes) { return bytes * lanes == kStagedBytes; };
  return info.gpu->has(target::Feature::AsyncCopy) && !info.inputs.empty() &&
         !info.results.empty() && llvm::all_of(info.inputs, isStrip);
}

/// Whether the rows are read from memory, and a kernel would wait for more than its row: what waits
/// in registers meanwhile leaves a multiprocessor with too few rows on their way.
bool isWorthStaging(const RowInfo &info, const RowReductionConfig &layout) {
  bool isStream = info.rows * layout.strips * kStagedBytes >= kStreamedBytes;
  bool isShort = layout.strips <= kShortStrips;
  bool waits = info.inputs.size() > 1 || info.parameters > 1;
  return isStream && layout.strips > kShortestStrips && (waits || !isShort);
}

/// Elements of a strip for which the layouts below were measured.
constexpr int64_t kHalfLanes = 8;

/// Whether rows are better held in the registers of a cluster of blocks that start when others end
/// (fp16, an H200, TB/s by `tenon bench`, in brackets waiting in shared memory): softmax of 16,384
/// and 65,536 4.14 and 4.08 (4.03 and 3.80), RMS norm of 16,384 4.06 (4.03), add and layer norm of
/// 16,384 4.24 (3.86). Not where what all rows read is more than the row: the second-level cache
/// cannot deliver that (layer norm of 16,384 3.6).
bool isForCluster(const RowInfo &info, const RowReductionConfig &layout) {
  int64_t ofBlock = kGoodThreads * kStagedSteps, inputs = info.inputs.size();
  int64_t most = info.parameters == 0 && inputs == 1 ? kMaxBlocks : 2;
  bool fits =
      layout.lanes == kHalfLanes && layout.strips > ofBlock && layout.strips <= most * ofBlock;
  return mayCluster(info) && fits && info.parameters <= inputs;
}

/// Blocks of such a cluster that a multiprocessor must have room for: with half as many registers
/// again (72 for 48) softmax is 6 % slower at 16,384 and 20 % at 65,536.
int64_t blocksInRegisters(const RowInfo &info) {
  bool isKnown = info.inputs.size() <= 2 && info.results.size() == 1;
  int64_t registers = 48 + (info.parameters > 0 ? 16 : 0) + (info.inputs.size() > 1 ? 16 : 0);
  return isKnown ? info.gpu->registers / (registers * kGoodThreads) : 0;
}

/// Blocks of a cluster for very long rows.
int64_t mostBlocks(const RowInfo &info) {
  return info.gpu->clusterBlocks >= kWideBlocks ? kWideBlocks : kMaxBlocks;
}

/// Rows of one tensor that a cluster reduces side by side, and others start when it ends (the
/// kernels alone): layer norm of 16,384 and 65,536 4.08 and 4.06 (3.98 and 3.80), RMS norm of
/// 65,536 4.10 (3.95), as each strip of the parameters is read once for two rows; softmax of
/// 262,144 in clusters of sixteen 4.01, a row at a time 3.84 to 3.89, of eight 3.83 (3.59), and RMS
/// norm 4.09 (4.07). Not layer norm of 262,144, whose parameters blocks that stay hold (4.03, two
/// rows at a time 3.78), nor norms in clusters of eight. Only for lengths of which one round of the
/// threads does all reductions.
std::optional<RowReductionConfig> layoutTogether(const RowInfo &info, RowReductionConfig layout) {
  constexpr int64_t kRegisters = 40, kWordsOfStrip = kStagedBytes / 4;
  /// Of a multiprocessor.
  constexpr int64_t kPairedBytes = 128 * 1024, kSingleBytes = 192 * 1024;
  int64_t ofBlock = kGoodThreads * kStagedSteps, most = mostBlocks(info);
  bool fits = layout.lanes == kHalfLanes && layout.strips > ofBlock &&
              layout.strips <= 4 * kMaxBlocks * ofBlock;
  if (!mayCluster(info) || info.inputs.size() != 1 || info.parameters > 2 || !fits ||
      !llvm::isPowerOf2_64(layout.strips)) {
    return std::nullopt;
  }
  bool isVeryLong = layout.strips > kMaxBlocks * ofBlock, hasParameters = info.parameters > 0;
  bool isHeld = info.parameters > 1 || (hasParameters && most == kMaxBlocks);
  if (isVeryLong && isHeld) {
    return std::nullopt;
  }
  layout.threads = {kGoodThreads, layout.strips / ofBlock};
  if (isVeryLong) {
    layout.threads = {kGoodThreads * 2 * kMaxBlocks / most, most};
  }
  layout.areTogether = true;
  bool isPaired = hasParameters || (layout.strips > kVeryLongStrips && most > kMaxBlocks);
  layout.stages = layout.groupsPerBlock = isPaired ? 2 : 1;
  layout.steps = layout.strips / layout.threadsOfRow();
  layout.parameterRegisters = kWordsOfStrip * layout.steps * info.parameters;
  layout.sharedBytes = layout.stagedBytes(1);
  if (layout.sharedBytes + kReservedBytes > info.gpu->sharedBytes) {
    return std::nullopt;
  }
  const target::Target &gpu = *info.gpu;
  int64_t bytes = std::min(hasParameters ? kPairedBytes : kSingleBytes, gpu.sharedOfProcessor);
  int64_t registers = hasParameters ? kStagedRegisters : kRegisters;
  layout.blocksPerSm = std::min({bytes / layout.sharedBytes, gpu.threads / layout.blockThreads(),
                                 gpu.registers / (registers * layout.blockThreads()), gpu.blocks});
  return layout;
}

/// Blocks that a multiprocessor holds if a thread has no more registers than `registers`.
int64_t blocksPerSm(const RowInfo &info, const RowReductionConfig &layout, int64_t registers) {
  int64_t byMemory = info.gpu->sharedBytes / (layout.sharedBytes + kReservedBytes);
  int64_t byThreads = info.gpu->threads / layout.blockThreads();
  int64_t byRegisters = info.gpu->registers / (registers * layout.blockThreads());
  return std::min({byMemory, byThreads, byRegisters, info.gpu->blocks});
}

} // namespace

// Figures of an H200 for 2^27 fp16 elements, layer norm. Two rows a block, in the order in which
// blocks start, read memory at 4.0 TB/s for rows of up to 16,384 elements, more rows a block at
// less (8 rows: 3.8), since what runs at once is then spread over more of it. Where a
// multiprocessor holds one block only, or a cluster of them, blocks that stay for all rows are
// better: 3.8 to 3.5, and a third row on its way lets a cluster reduce one while it agrees on the
// one before (without: 3.5 to 3.0).
std::optional<RowReductionConfig> layoutStaged(const RowInfo &info) {
  if (!info.length || !canBeStaged(info)) {
    return std::nullopt;
  }
  RowReductionConfig layout;
  layout.lanes = lanesOf(info, *info.length);
  layout.strips = *info.length / layout.lanes;
  int64_t inputs = info.inputs.size();
  if (!isWorthStaging(info, layout) || isForCluster(info, layout)) {
    return std::nullopt;
  }
  if (std::optional<RowReductionConfig> together = layoutTogether(info, layout)) {
    return together;
  }
  layout.stages = 2;
  layout.groupsPerBlock = 2;
  if (layout.strips <= kWarpLanes * kStagedSteps) {
    layout.threads.perRow = kWarpLanes;
    layout.rowsPerBlock = kSharedThreads / kWarpLanes;
  } else if (layout.strips <= kMaxThreads * kStagedSteps) {
    int64_t steps = layout.strips <= kShortStrips ? kStagedSteps / 2 : kStagedSteps;
    layout.threads.perRow = threadsFor(layout.strips, steps);
  } else if (mayCluster(info)) {
    // Two smaller blocks a multiprocessor, where that is possible: RMS norm of 262,144 4.00 TB/s,
    // with one of 512 threads 3.96.
    bool isVeryLong = inputs == 1 && layout.strips > kVeryLongStrips;
    layout.threads.blocks = isVeryLong ? mostBlocks(info) : kMaxBlocks;
    layout.stages = 3;
    int64_t strips = llvm::divideCeil(layout.strips, layout.threads.blocks);
    bool isLong = strips > kClusterThreads * kStagedSteps || layout.threads.blocks > kMaxBlocks;
    layout.threads.perRow = threadsFor(strips, isLong ? 2 * kStagedSteps : kStagedSteps);
  }
  layout.steps = llvm::divideCeil(layout.strips, layout.threadsOfRow());
  layout.sharedBytes = layout.stagedBytes(inputs);
  bool isTooMuch = layout.sharedBytes + kReservedBytes > info.gpu->sharedBytes;
  if (layout.threads.blocks > 1 && isTooMuch) {
    layout.stages = 1;
    layout.sharedBytes = layout.stagedBytes(inputs);
  }
  bool holdsParameters = layout.threads.blocks > 1 && info.parameters > 0;
  layout.blocksPerSm =
      blocksPerSm(info, layout, holdsParameters ? kHoldingRegisters : kStagedRegisters);
  if (layout.threads.perRow > kMaxThreads || layout.blocksPerSm == 0) {
    return std::nullopt;
  }
  if (holdsParameters) {
    // What few blocks leave: layer norm of 262,144 is read at 3.83 TB/s with both held, at 3.51
    // with one; add and layer norm at 3.89 and 3.39.
    int64_t left = info.gpu->registers / (layout.blocksPerSm * layout.blockThreads());
    layout.parameterRegisters = std::max(kParameterRegisters, left - kStagedRegisters);
  }
  if (layout.threads.blocks > 1 || layout.blocksPerSm == 1) {
    layout.groupsPerBlock = 0;
    int64_t places = layout.threads.blocks > 1
                         ? concurrentClusters(*info.gpu, layout.threads.blocks)
                         : info.gpu->cores;
    layout.concurrentGroups = layout.blocksPerSm * places;
    return layout;
  }
  int64_t enough = llvm::divideCeil(kEnoughStaged, layout.sharedBytes);
  // Several inputs are more to compute, for which there must be enough threads; parameters of long
  // rows need what the first-level cache has left.
  if (info.inputs.size() == 1 && (enough > 2 || info.parameters < 2)) {
    int64_t tooMany = info.gpu->sharedBytes / (enough + 1);
    layout.sharedBytes = std::max(layout.sharedBytes, tooMany);
  }
  // A thread that has much of its row may use the registers that so few blocks leave it, and no
  // more; others about as many as ptxas takes by itself (norms of 4,096: 40 to 44).
  bool hasMuch = layout.rowsPerBlock > 1 || enough <= 2;
  int64_t registers = info.parameters > 3 ? kStagedRegisters : kFewRegisters;
  layout.blocksPerSm =
      hasMuch ? std::min(enough, layout.blocksPerSm) : blocksPerSm(info, layout, registers);
  return layout;
}

bool keepsReads(const RowInfo &info, const RowReductionConfig &layout) {
  // More than any second-level cache.
  constexpr int64_t kMuch = int64_t(128) << 20;
  int64_t elements = info.length.value_or(0) * info.rows;
  // Softmax of 65,536 in the registers of eight blocks: 3.98 TB/s, without 4.06.
  bool isSpread = layout.stages == 0 && layout.threads.blocks > 2;
  return info.gpu->has(target::Feature::KeepsReads) && !isSpread && !info.inputs.empty() &&
         elements * *llvm::min_element(info.inputs) >= kMuch;
}

int64_t lanesOf(const RowInfo &info, int64_t multiple) {
  return std::gcd(kAccessBytes / widestBytes(info), multiple);
}

std::optional<RowReductionConfig> layoutInRegisters(const RowInfo &info) {
  if (!info.length || *info.length == 0) {
    return std::nullopt;
  }
  RowReductionConfig layout;
  layout.lanes = lanesOf(info, *info.length);
  layout.strips = *info.length / layout.lanes;
  // Several tensors, or wide elements, leave less room for each.
  int64_t read = 0;
  for (int64_t bytes : info.inputs) {
    read += bytes;
  }
  bool isCrowded =
      read >= kManyBytes || widestBytes(info) >= kManyBytes || info.results.size() > kFewResults;
  int64_t mostThreads = info.inputs.size() > 1 ? kMaxThreads / 2 : kMaxThreads;
  int64_t many = std::max<int64_t>(1, (isCrowded ? kFewElements : kManyElements) / layout.lanes);
  int64_t few = std::max<int64_t>(1, kFewElements / layout.lanes);
  int64_t rows = info.rows;
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
    int64_t blocks = 1;
    int64_t enough = !isFew && isForCluster(info, layout) ? kGoodThreads : kClusterThreads;
    while (mayCluster(info) && threads > enough && blocks < kMaxBlocks) {
      blocks *= 2;
      threads = threadsFor(layout.strips, many * blocks);
    }
    if (threads > mostThreads) {
      return std::nullopt;
    }
    layout.threads.blocks = blocks;
    layout.threads.perRow = evenThreads(threads, mostThreads, blocks, layout.strips);
    bool isCluster = blocks > 1 && !isFew && threads <= kGoodThreads;
    layout.blocksPerSm = isCluster ? blocksInRegisters(info) : 0;
  }
  layout.steps = llvm::divideCeil(layout.strips, layout.threadsOfRow());
  return layout;
}

} // namespace tenon::dispatch
