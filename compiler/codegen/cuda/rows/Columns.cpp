// The family of columns: which regions it takes and how they are shared out. Relies on tensors of
// all elements being read again from the second-level cache where registers do not hold a column.
#include "compiler/codegen/cuda/rows/Columns.h"

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "compiler/codegen/cuda/rows/Tuning.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Strategy.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <functional>
#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kColumnAccessBytes = 16;

/// Threads along a column of so many elements of which one takes `steps`.
int64_t heightFor(int64_t length, int64_t steps) {
  return llvm::PowerOf2Ceil(llvm::divideCeil(length, steps));
}

/// Neighbouring strips that make so many bytes, of whole groups.
int64_t widthOf(const ColumnsInfo &info, int64_t lanes, int64_t bytes) {
  int64_t ofGroup = info.group > lanes ? info.group / lanes : 1;
  int64_t strips = llvm::divideCeil(info.columns, lanes * ofGroup);
  int64_t groups = bytes / (lanes * ofGroup * info.elementBytes);
  return ofGroup * std::clamp<int64_t>(llvm::bit_floor(static_cast<uint64_t>(groups)), 1,
                                       llvm::PowerOf2Ceil(strips));
}

int64_t groupsOf(const ColumnsInfo &info, const ColumnsLayout &layout) {
  return llvm::divideCeil(info.columns, layout.columns());
}

/// Threads above each other in a block of so many at most.
int64_t mostHeight(const ColumnsLayout &layout, int64_t threads = tuning::kColumnThreads) {
  return llvm::bit_floor(static_cast<uint64_t>(std::max<int64_t>(threads / layout.width, 1)));
}

/// Shares `height` threads above each other out among the blocks of a cluster.
bool spreadHeight(const target::Target &gpu, ColumnsLayout &layout, int64_t height,
                  int64_t threads = tuning::kColumnThreads) {
  int64_t most = std::min(gpu.clusterBlocks, tuning::kColumnBlocks);
  layout.height = std::min(height, mostHeight(layout, threads));
  layout.blocks = height / layout.height;
  return layout.blocks <= most;
}

/// Wider blocks where columns are short, so that they have threads enough.
void widen(const ColumnsInfo &info, ColumnsLayout &layout) {
  int64_t strips = llvm::PowerOf2Ceil(llvm::divideCeil(info.columns, layout.lanes));
  layout.group = info.group;
  while (layout.threads() < tuning::kFewColumnThreads && layout.width < strips) {
    layout.width *= 2;
  }
  while (layout.threads() < kWarp) {
    layout.height *= 2;
  }
}

/// Of groups, in tables of few threads that have whole sectors side by side and few elements each.
std::optional<ColumnsLayout> inSmallBlocks(const target::Target &gpu, const ColumnsInfo &info,
                                           int64_t lanes) {
  int64_t threads = tuning::kGroupThreads, most = tuning::kColumnElements / lanes;
  int64_t all = info.columns / lanes * *info.length;
  for (int64_t bytes : {tuning::kLine, tuning::kLine / 2, tuning::kLine / 4}) {
    ColumnsLayout layout;
    layout.lanes = lanes;
    layout.group = info.group;
    layout.width = widthOf(info, lanes, bytes);
    bool hasSectors = layout.columns() * info.elementBytes >= tuning::kLine / 4;
    int64_t steps = std::clamp<int64_t>(all / (gpu.cores * threads), 2, std::max<int64_t>(most, 2));
    while (steps < most && !spreadHeight(gpu, layout, heightFor(*info.length, steps), threads)) {
      steps *= 2;
    }
    bool fits = steps <= most && spreadHeight(gpu, layout, heightFor(*info.length, steps), threads);
    bool isEnough =
        bytes == tuning::kLine / 4 || groupsOf(info, layout) * layout.blocks >= gpu.cores;
    if (info.group > 1 && hasSectors && fits && isEnough) {
      layout.steps = llvm::divideCeil(*info.length, layout.height * layout.blocks);
      widen(info, layout);
      return layout;
    }
  }
  return std::nullopt;
}

std::optional<ColumnsLayout> inRegisters(const target::Target &gpu, const ColumnsInfo &info,
                                         int64_t lanes) {
  if (!info.length) {
    return std::nullopt;
  }
  if (std::optional<ColumnsLayout> small = inSmallBlocks(gpu, info, lanes)) {
    return small;
  }
  int64_t length = *info.length;
  int64_t held = info.group > 1 ? tuning::kGroupElements
                                : tuning::kColumnElements / std::min<int64_t>(info.tensors, 4);
  int64_t most = std::clamp<int64_t>(held / lanes, 1, length);
  // Fewer elements a thread where there are few in all; lines of the cache, else sectors of it.
  int64_t all = info.columns / lanes * length;
  int64_t steps = std::clamp<int64_t>(all / (gpu.cores * tuning::kColumnThreads),
                                      std::min<int64_t>(most, 2), most);
  for (int64_t bytes : {tuning::kLine, tuning::kLine / 2, tuning::kLine / 4}) {
    ColumnsLayout layout;
    layout.lanes = lanes;
    layout.width = widthOf(info, lanes, bytes);
    bool isLast = bytes == tuning::kLine / 4;
    bool fits = spreadHeight(gpu, layout, heightFor(length, steps)) ||
                spreadHeight(gpu, layout, heightFor(length, most));
    bool isEnough = isLast || groupsOf(info, layout) * layout.blocks >= gpu.cores;
    if (fits && isEnough) {
      layout.steps = llvm::divideCeil(length, layout.height * layout.blocks);
      widen(info, layout);
      return layout;
    }
  }
  return std::nullopt;
}

/// Of groups whose columns' length is known, what registers hold: of few threads and of many, of
/// so many bytes side by side, and of so many blocks.
std::vector<ColumnsLayout> groupedLayouts(const target::Target &gpu, const ColumnsInfo &info,
                                          int64_t lanes) {
  std::vector<ColumnsLayout> layouts;
  for (int64_t threads : {tuning::kGroupThreads, tuning::kColumnThreads}) {
    for (int64_t bytes : {tuning::kLine, tuning::kLine / 2, tuning::kLine / 4}) {
      for (int64_t blocks = 1; blocks <= std::min(gpu.clusterBlocks, tuning::kColumnBlocks);
           blocks *= 2) {
        ColumnsLayout layout;
        layout.lanes = lanes;
        layout.width = widthOf(info, lanes, bytes);
        layout.blocks = blocks;
        layout.group = info.group;
        layout.height =
            std::min<int64_t>(heightFor(*info.length, blocks), mostHeight(layout, threads));
        while (layout.threads() < kWarp) {
          layout.height *= 2;
        }
        layout.steps = llvm::divideCeil(*info.length, layout.height * blocks);
        bool isKnown = llvm::any_of(layouts, [&](const ColumnsLayout &other) {
          return other.width == layout.width && other.height == layout.height &&
                 other.blocks == layout.blocks;
        });
        if (layout.steps * lanes <= tuning::kGroupElements && !isKnown) {
          layouts.push_back(layout);
        }
      }
    }
  }
  return layouts;
}

ColumnsLayout inLoops(const target::Target &gpu, const ColumnsInfo &info, int64_t lanes) {
  ColumnsLayout layout;
  layout.lanes = lanes;
  layout.width = widthOf(info, lanes, tuning::kLine / 2);
  if (groupsOf(info, layout) < gpu.cores) {
    layout.width = widthOf(info, lanes, tuning::kLine / 4);
  }
  int64_t tall = heightFor(info.longest, tuning::kFewSteps);
  layout.height = std::clamp<int64_t>(tall, 1, mostHeight(layout));
  widen(info, layout);
  int64_t most = std::min({gpu.clusterBlocks, tuning::kColumnBlocks, tall / layout.height});
  while (layout.blocks * 2 <= most && groupsOf(info, layout) * layout.blocks < 2 * gpu.cores) {
    layout.blocks *= 2;
  }
  return layout;
}

} // namespace

std::optional<ColumnsLayout> columnsLayout(const target::Target &gpu, const ColumnsInfo &info) {
  if (info.columns == 0 || info.longest == 0) {
    return std::nullopt;
  }
  int64_t lanes =
      std::gcd(std::max<int64_t>(kColumnAccessBytes / info.elementBytes, 1), info.multiple);
  if (lanes % info.group != 0) {
    lanes = std::gcd(lanes, info.group);
  }
  std::optional<ColumnsLayout> layout = inRegisters(gpu, info, lanes);
  if (!layout) {
    layout = inLoops(gpu, info, lanes);
  }
  bool isMuch = info.columns * info.longest >= tuning::kMuchOfColumns;
  bool isFew = groupsOf(info, *layout) * layout->blocks * tuning::kColumnShare < gpu.cores;
  return isMuch && isFew && info.group == 1 ? std::nullopt : layout;
}

size_t countOfIndependent(ArrayRef<linalg::GenericOp> reductions) {
  llvm::SmallPtrSet<Operation *, 4> together;
  std::function<bool(Value)> needsOne = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return op && (together.contains(op) || llvm::any_of(op->getOperands(), needsOne));
  };
  for (linalg::GenericOp op : reductions) {
    if (llvm::any_of(op->getOperands(), needsOne)) {
      break;
    }
    together.insert(op);
  }
  return together.size();
}

namespace {

ColumnsInfo columnsInfoOf(RegionBuilder &region, const RowsWork &work) {
  constexpr int64_t enough = int64_t(1) << 24;
  MLIRContext *context = region.source.getContext();
  ColumnsInfo info;
  AffineExpr length = tn::elementCount(context, work.inner);
  info.length = tn::constantDim(length);
  tn::SymbolList declared(region.source->getParentOfType<ModuleOp>());
  info.longest = info.length.value_or(std::clamp<int64_t>(declared.bounds(length).max, 1, enough));
  tn::Dims columns = work.rows;
  columns.append(work.columns());
  info.columns = region.estimate(columns);
  info.multiple = tn::constantDim(work.columns().back()).value_or(1);
  if (!work.within.empty()) {
    info.group = info.multiple;
    info.multiple *= tn::constantDim(work.behind.back()).value_or(1);
  }
  info.elementBytes = 1;
  auto note = [&](Value tensor) {
    info.elementBytes = std::max(info.elementBytes, byteSize(getElementTypeOrSelf(tensor)));
  };
  llvm::for_each(work.inputs, note);
  for (const Root &root : work.wide) {
    note(root.tensor);
  }
  info.tensors = std::max<int64_t>(work.inputs.size(), 1);
  return info;
}

struct ColumnsProblem {
  RowsWork work;
  ColumnsInfo info;
  ColumnsLayout own;
};

FamilyMatch matchColumns(RegionBuilder &region) {
  std::optional<RowsWork> work = findColumnsWork(region);
  if (!work) {
    return FamilyMatch::refuse(
        "its results do not share columns with reductions over all of a column");
  }
  if (work->wide.empty() && work->reductions.size() == 1) {
    return FamilyMatch::refuse(
        "one reduction, whose results are all, is better shared out by itself");
  }
  ColumnsInfo info = columnsInfoOf(region, *work);
  if (!work->within.empty() && (work->within.size() > 1 || !tn::constantDim(work->within.back()) ||
                                info.group > tuning::kMostGroup)) {
    return FamilyMatch::refuse("groups of columns that are not the last dim, or of too many");
  }
  std::optional<ColumnsLayout> layout = columnsLayout(region.gpu, info);
  if (!layout) {
    return FamilyMatch::refuse(
        "columns so few and long that each is work for many blocks, or none");
  }
  return FamilyMatch::take(
      ColumnsProblem{*work, info, *layout}, dispatch::choiceOf(kColumnsTiled.name, *layout),
      layout->steps > 0 ? "a column fits the registers of its threads"
                        : "columns of any length, read again for each reduction");
}

dispatch::TimeParts columnsParts(RegionBuilder &region, const ColumnsProblem &problem,
                                 const dispatch::KernelChoice &choice) {
  ColumnsLayout layout = configOf<ColumnsLayout>(choice);
  dispatch::Cost cost =
      dispatch::costOfRegion(region.source.getBody().front(), region.gpu, /*isGenerated=*/true);
  int64_t meetings = 0;
  ArrayRef<linalg::GenericOp> left(problem.work.reductions);
  for (; layout.blocks > 1 && !left.empty(); ++meetings) {
    left = left.drop_front(countOfIndependent(left));
  }
  dispatch::TimeParts time;
  time.add("start", region.gpu.launchSeconds);
  time.add("fill", tuning::kColumnsFillSeconds);
  time.add("split", double(meetings) * tuning::kColumnsMeetSeconds);
  time.add("bytes", cost.bytesMicroseconds * 1e-6);
  return time;
}

double columnsSeconds(RegionBuilder &region, const ColumnsProblem &problem,
                      const dispatch::KernelChoice &choice) {
  return columnsParts(region, problem, choice).microseconds() * 1e-6;
}

/// Its own, and what others would be of the same lanes.
std::vector<dispatch::KernelChoice> columnsConfigs(RegionBuilder &region,
                                                   const ColumnsProblem &problem) {
  std::vector<dispatch::KernelChoice> choices = {
      dispatch::choiceOf(kColumnsTiled.name, problem.own)};
  if (problem.own.steps > 0) {
    choices.push_back(dispatch::choiceOf(kColumnsTiled.name,
                                         inLoops(region.gpu, problem.info, problem.own.lanes)));
  }
  if (problem.info.group > 1 && problem.info.length) {
    for (const ColumnsLayout &layout :
         groupedLayouts(region.gpu, problem.info, problem.own.lanes)) {
      choices.push_back(dispatch::choiceOf(kColumnsTiled.name, layout));
    }
  }
  return choices;
}

LogicalResult emitColumnsChoice(RegionBuilder &region, const ColumnsProblem &problem,
                                const dispatch::KernelChoice &choice) {
  bool hasFailed = false;
  ColumnsLayout layout = configOf<ColumnsLayout>(choice);
  layout.group = problem.info.group;
  emitColumns(region, problem.work, layout, hasFailed);
  return failure(hasFailed);
}

} // namespace

constexpr KernelFamily kColumnsTiled = {
    .name = "columns_tiled",
    .what = "fused kernel of softmax, norms and reductions over columns: a table of threads, or a "
            "cluster of such blocks, has a few neighbouring columns",
    .strategies = {dispatch::kRows, dispatch::kSingle},
    .match = matchColumns,
    .configs = on<columnsConfigs>,
    .seconds = on<columnsSeconds>,
    .parts = on<columnsParts>,
    .emit = on<emitColumnsChoice>};

} // namespace tenon::codegen::cuda
