// The two families that find the k first of rows: by selecting from pieces of rows until the k
// first of a row are left, and by sorting whole rows. Relies on a top-k being a region of its own.
#include "compiler/codegen/cuda/selection/TopK.h"

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/ElementRun.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/selection/RadixSort.h"
#include "compiler/dispatch/Strategy.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::codegen::cuda {

template <typename Visitor> void visitParameters(Visitor &visit, SelectLayout &layout) {
  visit("tile", layout.threads, layout.items);
  visit("rows", layout.rows);
}

std::optional<TopKWork> topKOf(RegionBuilder &region) {
  constexpr int64_t mostElements = INT32_MAX - 64;
  Operation *op = region.source.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  tn::TopKOp topK = dyn_cast_or_null<tn::TopKOp>(op);
  BlockArgument x = topK ? dyn_cast<BlockArgument>(topK.getX()) : BlockArgument();
  tn::Dims dims = x ? tn::getDims(x.getType()) : tn::Dims();
  int64_t axis = topK ? topK.getAxis() : 0;
  if (!x || tn::constantDim(dims[axis]).value_or(0) > mostElements) {
    return std::nullopt;
  }
  ArrayRef<AffineExpr> all(dims);
  MLIRContext *context = region.source.getContext();
  tn::SymbolList declared(region.source->getParentOfType<ModuleOp>());
  TopKWork work{tn::elementCount(context, all.take_front(axis)), dims[axis],
                tn::elementCount(context, all.drop_front(axis + 1)),
                tn::getDims(topK.getValues().getType())[axis],
                KeyOrder(getElementTypeOrSelf(x.getType()), topK.getLargest())};
  work.longest = std::clamp<int64_t>(declared.bounds(work.length).max, 0, mostElements);
  work.most = std::clamp<int64_t>(declared.bounds(work.wanted).max, 0, work.longest);
  work.input = region.input(x.getArgNumber());
  return work;
}

namespace {

/// Results that do not leave the region get temporaries.
void setResults(RegionBuilder &region, TopKWork &work) {
  Operation *op = region.source.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  OperandRange outputs = region.source.getBody().front().getTerminator()->getOperands();
  uint32_t *buffers[] = {&work.values, &work.indices};
  for (OpResult result : op->getResults()) {
    auto found = llvm::find(outputs, result);
    bool leaves = found != outputs.end();
    bool isIndex = result.getResultNumber() == 1;
    AffineExpr bytes = work.rows() * work.wanted * (isIndex ? 8 : byteSize(work.order.storage));
    *buffers[result.getResultNumber()] =
        leaves ? region.output(found - outputs.begin()) : region.addTemporary(bytes);
  }
}

/// Elements that a thread holds.
int64_t itemsOf(const TopKWork &work) {
  return work.order.bits == 64 ? tuning::kSelectWideItems : tuning::kSelectItems;
}

/// Threads that hold so many elements, if so many can.
int64_t threadsFor(const TopKWork &work, int64_t elements) {
  return std::max<int64_t>(kWarp, llvm::PowerOf2Ceil(llvm::divideCeil(elements, itemsOf(work))));
}

constexpr int64_t kMaxThreads = 1024;

/// Pieces of a row that varies or not, at most.
int64_t mostPieces(const TopKWork &work, const SelectLayout &layout) {
  return std::max<int64_t>(llvm::divideCeil(work.longest + reachOver(work, layout), layout.piece()),
                           1);
}

SelectLayout firstLayout(RegionBuilder &region, const TopKWork &work) {
  SelectLayout layout;
  if (work.longest <= kWarp) {
    return layout;
  }
  int64_t most =
      work.longest <= tuning::kLongestOfWarp / 4 ? tuning::kMaxOfShort : tuning::kMaxOfWarp;
  if (work.longest <= tuning::kLongestOfWarp && work.most <= most) {
    layout.items = llvm::PowerOf2Ceil(llvm::divideCeil(work.longest, kWarp));
    if (mostPieces(work, layout) > 1) {
      layout.items *= 2;
    }
    layout.rows = 4;
    return layout;
  }
  layout.items = itemsOf(work);
  layout.threads = threadsFor(work, work.longest);
  layout.threads *= mostPieces(work, layout) > 1 ? 2 : 1;
  int64_t rows = std::max<int64_t>(region.estimate(work.rows()), 1);
  int64_t enough = tuning::kPiecesOfProcessor * region.gpu.cores;
  bool isSmall = layout.threads <= 2 * kWarp || 4 * work.most > work.longest;
  if (layout.threads <= kMaxThreads && (isSmall || rows >= region.gpu.cores)) {
    return layout;
  }
  // Rows in pieces of four times as many as are wanted, or more where there are blocks enough.
  int64_t least = std::max<int64_t>(threadsFor(work, 4 * work.most), 4 * kWarp);
  layout.threads = std::min(least, kMaxThreads);
  while (layout.threads < kMaxThreads / 2 && rows * mostPieces(work, layout) > enough) {
    layout.threads *= 2;
  }
  return layout;
}

/// The kernels behind the first, whose pieces are `pieces` at most; the last holds whole rows.
std::vector<SelectLayout> laterLayouts(const TopKWork &work, int64_t pieces) {
  std::vector<SelectLayout> layouts;
  while (pieces > 1) {
    SelectLayout layout;
    layout.items = itemsOf(work);
    int64_t elements = pieces * std::max<int64_t>(work.most, 1);
    layout.threads = std::min(threadsFor(work, elements), kMaxThreads);
    layouts.push_back(layout);
    pieces = llvm::divideCeil(elements, layout.piece());
  }
  return layouts;
}

/// Of all kernels.
std::vector<SelectLayout> layoutsOf(const TopKWork &work, const SelectLayout &first) {
  std::vector<SelectLayout> layouts = laterLayouts(work, mostPieces(work, first));
  layouts.insert(layouts.begin(), first);
  return layouts;
}

FamilyMatch matchTopK(RegionBuilder &region) {
  std::optional<TopKWork> work = topKOf(region);
  if (!work) {
    return FamilyMatch::refuse("it selects no first elements of an input");
  }
  SelectLayout first = firstLayout(region, *work);
  if (mostPieces(*work, first) > 1 && work->most > tuning::kMaxOfPieces) {
    return FamilyMatch::refuse("so many are wanted that pieces of a row hardly hold more");
  }
  std::vector<SelectLayout> layouts = layoutsOf(*work, first);
  if (sortedBytes(*work, layouts.back()) > region.gpu.sharedBytes) {
    return FamilyMatch::refuse("shared memory does not hold what is selected");
  }
  return FamilyMatch::take(
      *work, dispatch::choiceOf(kTopK.name, first),
      first.items == 1 ? "rows that a warp sorts in registers"
      : layouts.size() == 1
          ? "rows that a team of threads holds in registers"
          : "pieces of rows, then what was selected of them, in the registers of a block each");
}

/// Seconds of a kernel that goes through `steps` steps for each of its teams, of which as many are
/// at work at once as a GPU has threads for.
double teamSeconds(const target::Target &gpu, const SelectLayout &layout, double teams,
                   double steps) {
  double residentBlocks = double(gpu.cores) * double(gpu.threads) / double(layout.threads);
  double step = layout.threads > kWarp ? tuning::kTeamStepSeconds : tuning::kWarpStepSeconds;
  return std::ceil(teams / residentBlocks) * steps * step;
}

double topKSeconds(RegionBuilder &region, const TopKWork &work,
                   const dispatch::KernelChoice &choice) {
  SelectLayout first = configOf<SelectLayout>(choice);
  double rows = double(region.estimate(work.rows()));
  double elements = double(region.estimate(work.length)), seconds = 0;
  double bytes = rows * elements * double(byteSize(work.order.storage)), teams = rows;
  auto stepsOfSort = [](int64_t slots) {
    double levels = std::log2(double(llvm::PowerOf2Ceil(std::max<int64_t>(slots, 1))));
    return levels * (levels + 1) / 2;
  };
  if (first.items == 1) {
    double lanes = double(llvm::PowerOf2Ceil(std::max<int64_t>(work.longest, 1)));
    return region.gpu.launchSeconds + bytes / region.gpu.memoryBandwidth +
           teamSeconds(region.gpu, first, rows * lanes / double(kWarp), stepsOfSort(kWarp));
  }
  std::vector<SelectLayout> layouts = layoutsOf(work, first);
  for (const SelectLayout &layout : layouts) {
    double pieces = std::ceil(elements / double(layout.piece()));
    double bits = double(work.order.bits);
    teams = rows * pieces;
    seconds += region.gpu.launchSeconds + bytes / region.gpu.memoryBandwidth +
               rows * elements * bits * tuning::kKeyBitSeconds / double(region.gpu.cores) +
               teamSeconds(region.gpu, layout, teams, bits);
    elements = pieces * double(work.most);
    bytes = rows * elements * double(byteSize(work.order.key) + 4);
  }
  int64_t slots = llvm::PowerOf2Ceil(std::max<int64_t>(work.most, 1));
  double pairs = double(llvm::divideCeil(slots / 2, layouts.back().threads));
  return seconds + teamSeconds(region.gpu, layouts.back(), teams, stepsOfSort(slots) * pairs);
}

LogicalResult emitTopK(RegionBuilder &region, const TopKWork &problem,
                       const dispatch::KernelChoice &choice) {
  TopKWork work = problem;
  SelectLayout first = configOf<SelectLayout>(choice);
  setResults(region, work);
  if (first.items == 1) {
    emitSortedLanes(region, work);
    return success();
  }
  std::vector<SelectLayout> layouts = layoutsOf(work, first);
  std::optional<Candidates> source, sink;
  AffineExpr elements = work.length + reachOver(work, first);
  for (const SelectLayout &layout : ArrayRef(layouts).drop_back()) {
    sink = Candidates{elements.ceilDiv(layout.piece())};
    AffineExpr count = work.rows() * sink->pieces * work.wanted;
    sink->keys = region.addTemporary(count * byteSize(work.order.key));
    sink->indices = region.addTemporary(count * 4);
    emitSelect(region, work, layout, source, sink);
    source = sink;
    elements = sink->pieces * work.wanted;
  }
  emitSelect(region, work, layouts.back(), source, std::nullopt);
  return success();
}

/// Its own, and pieces of fewer threads.
std::vector<dispatch::KernelChoice> topKConfigs(RegionBuilder &region, const TopKWork &work) {
  SelectLayout own = firstLayout(region, work);
  std::vector<dispatch::KernelChoice> choices = {dispatch::choiceOf(kTopK.name, own)};
  if (own.rows > 1 || own.items == 1) {
    return choices;
  }
  for (SelectLayout layout = own; layout.threads > 2 * kWarp;) {
    layout.threads /= 2;
    bool shrinks =
        layout.piece() >= 4 * std::max<int64_t>(work.most, 1) && work.most <= tuning::kMaxOfPieces;
    if (shrinks) {
      choices.push_back(dispatch::choiceOf(kTopK.name, layout));
    }
  }
  return choices;
}

/// The sort that a top-k is: keys in the other direction, so that the first come first.
SortJob sortOf(const TopKWork &work) {
  SortJob job;
  job.rows = work.rows();
  job.length = work.length;
  job.key = work.order.key;
  job.bits = work.order.bits;
  job.read = {work.input};
  job.keyOf = [work](const ThreadBuilder &t, KernelFrame &frame, unsigned first, Value row,
                     Value number) {
    Type element = work.order.storage;
    Value inner = frame.size64(work.inner);
    Value start = rowStart(t, row, frame.size64(work.length), inner);
    Value from = t.offset(frame.buffer(first), element, t.add(start, t.mul(number, inner)));
    Value key = work.order.keyOf(t, t.load(element, from, byteSize(element)));
    return bitXor(t, key, t.constantOfType(key, -1));
  };
  job.given = {work.input};
  job.written = {work.values, work.indices};
  job.store = [work](const ThreadBuilder &t, KernelFrame &frame, unsigned first, Value row,
                     Value place, Value, Value number) {
    Value isWanted = t.isLess(place, t.toI32(frame.size64(work.wanted)));
    t.when(isWanted, [&](const ThreadBuilder &b) {
      TopKResults(b, frame, work, row, first, first + 1).store(b, place, number);
    });
  };
  return job;
}

FamilyMatch matchRadixSort(RegionBuilder &region) {
  std::optional<TopKWork> work = topKOf(region);
  return work ? FamilyMatch::take(*work, {kRadixSort.name.str(), {}},
                                  "rows are sorted, of any length and however many are wanted")
              : FamilyMatch::refuse("it selects no first elements of an input");
}

double rowsSortSeconds(RegionBuilder &region, const TopKWork &work,
                       const dispatch::KernelChoice &) {
  return radixSortSeconds(region, sortOf(work));
}

LogicalResult emitRadixSortOfRows(RegionBuilder &region, const TopKWork &problem,
                                  const dispatch::KernelChoice &) {
  TopKWork work = problem;
  setResults(region, work);
  emitRadixSort(region, sortOf(work));
  return success();
}

} // namespace

constexpr KernelFamily kTopK = {
    .name = "top_k",
    .what = "selection of the k first of rows: a team of threads holds a piece of a row in "
            "registers and finds the last key that is wanted bit by bit; few are sorted at the end",
    .strategies = {dispatch::kSingle},
    .needs = {"top_k"},
    .match = matchTopK,
    .configs = on<topKConfigs>,
    .seconds = on<topKSeconds>,
    .emit = on<emitTopK>,
    .order = noSums<RegionBuilder>};

constexpr KernelFamily kRadixSort = {
    .name = "radix_sort",
    .what = "stable radix sort of rows by many blocks, 8 bits of the keys at a time",
    .strategies = {dispatch::kSingle},
    .needs = {"top_k"},
    .match = matchRadixSort,
    .seconds = on<rowsSortSeconds>,
    .emit = on<emitRadixSortOfRows>,
    .order = noSums<RegionBuilder>};

} // namespace tenon::codegen::cuda
