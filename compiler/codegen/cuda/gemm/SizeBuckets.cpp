// Which kernel is the fastest in each range of a size, what of that is worth code of its own, and
// the launches. Relies on SubRegion.h for regions with narrower symbols, and on predictions,
// which are comparable within one range. One file: ranges are cut, joined and emitted by the same
// predictions.
#include "compiler/codegen/cuda/gemm/SizeBuckets.h"

#include "compiler/codegen/cuda/gemm/RowBuckets.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Invariance.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Of a kernel's time, what another one of its family may take in its place: less code to load for
/// less than predictions are off.
constexpr double kAsFast = 1.03;

/// Of the time of an engine of one size alone, what a kernel for a range may take at this size;
/// from how many sizes on the middle of a range is looked at too.
constexpr double kAsFixed = 1.05;
constexpr int64_t kWideRange = 8;

constexpr double kNoTime = std::numeric_limits<double>::infinity();

struct RangeKernel {
  dispatch::KernelChoice kernel;
  double microseconds = kNoTime;
  std::optional<dispatch::WeightLayout> weight;
};

/// All but the families that this one is made of or stands beside.
std::vector<std::string> disabledFor(bool calls) {
  std::vector<std::string> disabled;
  for (const KernelFamily *family : kernelFamilies().families()) {
    if ((family->isCall && !calls) || family->isSplitBySizes) {
      disabled.push_back(family->name.str());
    }
  }
  return disabled;
}

/// The fastest kernel that reads the weight as `layout`, if one is given.
RangeKernel fastestIn(func::FuncOp function, const target::Target &gpu, bool calls,
                      const std::optional<dispatch::WeightLayout> *layout = nullptr) {
  std::vector<std::string> disabled = disabledFor(calls);
  while (true) {
    RegionBuilder region(function, "", gpu);
    llvm::Expected<dispatch::KernelSelection> selection =
        kernelFamilies().select(region, {nullptr, disabled});
    if (!selection) {
      llvm::consumeError(selection.takeError());
      return RangeKernel();
    }
    if (!layout || selection->weight == *layout) {
      return {selection->chosen, selection->microseconds, selection->weight};
    }
    disabled.push_back(selection->chosen.family);
  }
}

/// The symbols of a tensor's dims; none if a dim behind the first has one or is unknown.
bool collectSymbols(Type type, llvm::SmallBitVector &symbols) {
  tn::Dims dims = tn::getDims(type);
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (!dim || (i > 0 && !tn::constantDim(dim))) {
      return false;
    }
    dim.walk([&](AffineExpr expression) {
      if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(expression)) {
        symbols.set(symbol.getPosition());
      }
    });
  }
  return true;
}

/// The only symbol of what a region reads and writes, in first dims alone; none for other regions.
std::optional<unsigned> varyingSymbol(func::FuncOp source, size_t symbolCount) {
  llvm::SmallBitVector symbols(symbolCount);
  for (TypeRange types :
       {TypeRange(source.getArgumentTypes()), TypeRange(source.getResultTypes())}) {
    for (Type type : types) {
      if (!collectSymbols(type, symbols)) {
        return std::nullopt;
      }
    }
  }
  return symbols.count() == 1 ? std::optional<unsigned>(symbols.find_first()) : std::nullopt;
}

bool hasKernelsBySize(StringRef strategy) {
  return strategy == dispatch::kContraction || strategy == dispatch::kDepthwise ||
         strategy == dispatch::kAttention || strategy == dispatch::kRows;
}

/// Of FP32, tiles that are chosen for few rows of several dims were seen to spill on sm_80 and
/// sm_89.
bool isWideProduct(func::FuncOp source) {
  return llvm::any_of(source.getOps<tn::MatmulOp>(),
                      [](tn::MatmulOp op) { return getElementTypeOrSelf(op.getType()).isF32(); });
}

MatchResult<SizeBuckets> emptySizeBuckets(RegionBuilder &region) {
  tn::SymbolList symbols(region.source->getParentOfType<ModuleOp>());
  std::optional<unsigned> symbol = varyingSymbol(region.source, symbols.symbols().size());
  if (!symbol || !hasKernelsBySize(region.strategy()) || tn::isInvariant(region.source)) {
    return MatchFailure{"it is not a region of which one size varies, as the first dim"};
  }
  if (isWideProduct(region.source)) {
    return MatchFailure{"a product in FP32 has one tile for all sizes"};
  }
  const tn::Symbol &varying = symbols.symbols()[*symbol];
  if (region.source->hasAttr(kIsOfRange) || region.source->hasAttr(kRowRange) || varying.min < 1 ||
      varying.min == varying.max) {
    return MatchFailure{"it is compiled for a range of its size"};
  }
  return SizeBuckets{*symbol, {varying.min, varying.max}, std::nullopt, {}};
}

SubRegion inRange(RegionBuilder &region, const SizeBuckets &all, const SizeRange &sizes) {
  return narrowed(region.source, all.symbol, sizes);
}

/// One size, and what an engine of it alone is predicted to take.
struct SizeAlone {
  SubRegion region;
  double microseconds;
};

/// A range with the kernel that was chosen for it.
struct ChosenRange {
  SizeRange sizes;
  RangeKernel fastest;
  SubRegion narrow;
  SmallVector<SizeAlone, 2> others; ///< sizes of it but the last at which kernels are judged
  bool isTaken = false;
};

/// Whether a kernel is as fast as the one for a size alone, for which it may not be offered.
bool holdsAt(const SizeAlone &size, const dispatch::KernelChoice &kernel,
             const target::Target &gpu) {
  return predictedMicroseconds(size.region.function(), kernel, gpu) <= kAsFixed * size.microseconds;
}

/// Whether a kernel may stand for the one that was chosen. One that is predicted to be faster was
/// not chosen by predictions, which then say nothing of how close the two are.
bool standsFor(const dispatch::KernelChoice &kernel, const ChosenRange &range,
               const target::Target &gpu) {
  const RangeKernel &own = range.fastest;
  if (kernel == own.kernel || kernel.family != own.kernel.family) {
    return kernel == own.kernel;
  }
  double microseconds = predictedMicroseconds(range.narrow.function(), kernel, gpu);
  return microseconds >= own.microseconds && microseconds <= kAsFast * own.microseconds &&
         llvm::all_of(range.others,
                      [&](const SizeAlone &size) { return holdsAt(size, kernel, gpu); });
}

/// Which of the ranges that have no kernel yet each kernel may stand for; the one of the most.
std::pair<dispatch::KernelChoice, SmallVector<size_t>> widest(ArrayRef<ChosenRange> ranges,
                                                              const target::Target &gpu) {
  std::pair<dispatch::KernelChoice, SmallVector<size_t>> best;
  SmallVector<dispatch::KernelChoice> asked;
  for (const ChosenRange &range : ranges) {
    if (range.isTaken || llvm::is_contained(asked, range.fastest.kernel)) {
      continue;
    }
    asked.push_back(range.fastest.kernel);
    SmallVector<size_t> own;
    for (auto [i, other] : llvm::enumerate(ranges)) {
      if (!other.isTaken && standsFor(range.fastest.kernel, other, gpu)) {
        own.push_back(i);
      }
    }
    if (own.size() > best.second.size()) {
      best = {range.fastest.kernel, own};
    }
  }
  return best;
}

SizeAlone alone(RegionBuilder &region, const SizeBuckets &all, int64_t size, bool calls) {
  SizeAlone own{inRange(region, all, {size, size}), 0};
  own.microseconds = fastestIn(own.region.function(), region.gpu, calls, &all.layout).microseconds;
  return own;
}

/// Cuts a range where its kernel, chosen for its last size, is too slow for smaller ones, and what
/// is in front again: tiles that fill a wave at the end of a range leave much of it idle at the
/// beginning. Gives the parts from the last to the first.
std::vector<ChosenRange> cutWhereSlow(RegionBuilder &region, const SizeBuckets &all,
                                      ChosenRange range, bool calls) {
  std::vector<ChosenRange> parts;
  while (true) {
    auto [least, most] = range.sizes;
    int64_t slow = least - 1, middle = std::midpoint(least, most);
    SmallVector<int64_t, 2> sizes;
    if (most - least >= kWideRange) {
      sizes.push_back(middle);
    }
    if (least < most) {
      sizes.push_back(least);
    }
    range.others.clear();
    for (int64_t size : sizes) {
      range.others.push_back(alone(region, all, size, calls));
      if (!holdsAt(range.others.back(), range.fastest.kernel, region.gpu)) {
        slow = std::max(slow, size);
      }
    }
    if (slow < least) {
      parts.push_back(std::move(range));
      return parts;
    }
    int64_t fast = most;
    while (slow + 1 < fast) {
      middle = std::midpoint(slow, fast);
      bool holds = holdsAt(alone(region, all, middle, calls), range.fastest.kernel, region.gpu);
      (holds ? fast : slow) = middle;
    }
    ChosenRange front{{least, slow}, RangeKernel(), inRange(region, all, {slow, slow}), {}};
    front.fastest = fastestIn(front.narrow.function(), region.gpu, calls, &all.layout);
    range.sizes.least = fast;
    range.others.clear();
    if (fast < most) {
      range.others.push_back(alone(region, all, fast, calls));
    }
    parts.push_back(std::move(range));
    range = std::move(front);
  }
}

/// The ranges of a kernel as one bucket, if its code can be that of all sizes between, else one for
/// each.
void addBucket(RegionBuilder &region, SizeBuckets &all, const dispatch::KernelChoice &kernel,
               ArrayRef<SizeRange> ranges, bool calls) {
  SizeBucket bucket{{}, kernel};
  for (const SizeRange &sizes : ranges) {
    if (!bucket.ranges.empty() && bucket.ranges.back().most + 1 == sizes.least) {
      bucket.ranges.back().most = sizes.most;
    } else {
      bucket.ranges.push_back(sizes);
    }
  }
  auto isRight = [&](const SizeRange &sizes) {
    SubRegion narrow = inRange(region, all, sizes);
    return std::isfinite(predictedMicroseconds(narrow.function(), kernel, region.gpu));
  };
  if (isRight(bucket.whole())) {
    all.buckets.push_back(std::move(bucket));
    return;
  }
  for (const SizeRange &sizes : ranges) {
    SubRegion narrow = inRange(region, all, sizes);
    all.buckets.push_back(
        {{sizes},
         isRight(sizes) ? kernel
                        : fastestIn(narrow.function(), region.gpu, calls, &all.layout).kernel});
  }
}

} // namespace

MatchResult<SizeBuckets> sizeBucketsOf(RegionBuilder &region, bool calls) {
  MatchResult<SizeBuckets> found = emptySizeBuckets(region);
  if (!found) {
    return found;
  }
  SizeBuckets &all = *found;
  std::vector<ChosenRange> ranges;
  int64_t least = all.all.least;
  auto add = [&](int64_t last) {
    SizeRange sizes{least, std::min(last, all.all.most)};
    if (sizes.least <= sizes.most) {
      // Chosen as for an engine of the last size alone; of the last range for what is guessed.
      SizeRange typical{sizes.most == all.all.most ? sizes.least : sizes.most, sizes.most};
      ranges.push_back({sizes, RangeKernel(), inRange(region, all, typical), {}});
      least = sizes.most + 1;
    }
  };
  llvm::for_each(kLastSizes, add);
  add(all.all.most);
  std::vector<ChosenRange> cut;
  for (ChosenRange &range : llvm::reverse(ranges)) {
    bool isLast = range.sizes.most == all.all.most;
    range.fastest =
        fastestIn(range.narrow.function(), region.gpu, calls, isLast ? nullptr : &all.layout);
    if (!std::isfinite(range.fastest.microseconds)) {
      return MatchFailure{"no kernel takes it in all ranges of its size"};
    }
    all.layout = range.fastest.weight;
    if (isLast) {
      cut.push_back(std::move(range));
      continue;
    }
    for (ChosenRange &part : cutWhereSlow(region, all, std::move(range), calls)) {
      cut.push_back(std::move(part));
    }
  }
  std::reverse(cut.begin(), cut.end());
  ranges = std::move(cut);
  for (auto [kernel, taken] = widest(ranges, region.gpu); !taken.empty();
       std::tie(kernel, taken) = widest(ranges, region.gpu)) {
    SmallVector<SizeRange> own;
    for (size_t i : taken) {
      ranges[i].isTaken = true;
      own.push_back(ranges[i].sizes);
    }
    addBucket(region, all, kernel, own, calls);
  }
  return all.buckets.size() > 1 ? std::move(found)
                                : MatchResult<SizeBuckets>(MatchFailure{
                                      "one kernel is the fastest for all of its sizes"});
}

namespace {

struct BucketedRegion {
  SizeBuckets buckets;
  double microseconds; ///< of the kernel that it has otherwise
};

template <bool kCalls> FamilyMatch matchSizeBuckets(RegionBuilder &region) {
  if (!region.source->hasAttr(kIsOfRange) && rowBucketsOf(region, kCalls)) {
    return FamilyMatch::refuse("it is a product with kernels for ranges of its rows");
  }
  MatchResult<SizeBuckets> all = sizeBucketsOf(region, kCalls);
  if (!all) {
    return FamilyMatch::refuse(all.why());
  }
  std::string why;
  for (const SizeBucket &bucket : all->buckets) {
    why += (why.empty() ? "" : "; ");
    for (auto [i, sizes] : llvm::enumerate(bucket.ranges)) {
      why += (llvm::Twine(i == 0 ? "" : ", ") + llvm::Twine(sizes.least) + " to " +
              llvm::Twine(sizes.most))
                 .str();
    }
    why += " " + bucket.kernel.text();
  }
  double otherwise =
      fastestIn(inRange(region, *all, all->all).function(), region.gpu, kCalls).microseconds;
  return FamilyMatch::take(BucketedRegion{*all, otherwise},
                           {(kCalls ? kSizeBuckets : kSizeBucketsGenerated).name.str(), {}}, why);
}

/// As one kernel for all sizes would take at the size that is guessed, so that what runs together
/// is decided by the same numbers: buckets make other sizes faster.
double sizeBucketsSeconds(RegionBuilder &, const BucketedRegion &all,
                          const dispatch::KernelChoice &) {
  return all.microseconds * 1e-6;
}

std::optional<dispatch::WeightLayout> sizeBucketsWeights(RegionBuilder &,
                                                         const BucketedRegion &all) {
  return all.buckets.layout;
}

LogicalResult emitSizeBuckets(RegionBuilder &region, const BucketedRegion &all,
                              const dispatch::KernelChoice &) {
  AffineExpr size = getAffineSymbolExpr(all.buckets.symbol, region.source.getContext());
  SmallVector<unsigned> buffers;
  for (unsigned i = 0; i < region.source.getNumArguments() + region.source.getNumResults(); ++i) {
    buffers.push_back(i);
  }
  for (const SizeBucket &bucket : all.buckets.buckets) {
    SubRegion narrow = inRange(region, all.buckets, bucket.whole());
    size_t first = region.code.steps.size();
    if (failed(emitPart(region, narrow.function(), bucket.kernel, buffers))) {
      return failure();
    }
    limitSteps(MutableArrayRef(region.code.steps).drop_front(first), size, all.buckets.all,
               bucket.ranges);
  }
  return success();
}

} // namespace

constexpr KernelFamily kSizeBuckets = {
    .name = "size_buckets",
    .what = "the fastest kernel, or library's call, for each range of a size that varies",
    .strategies = {dispatch::kContraction, dispatch::kDepthwise, dispatch::kAttention,
                   dispatch::kRows},
    .match = matchSizeBuckets<true>,
    .configs = nullptr,
    .seconds = on<sizeBucketsSeconds>,
    .weights = on<sizeBucketsWeights>,
    .emit = on<emitSizeBuckets>,
    .isSplitBySizes = true,
    .mayCall = true};

constexpr KernelFamily kSizeBucketsGenerated = {
    .name = "size_buckets_generated",
    .what = "size_buckets without a library",
    .strategies = {dispatch::kContraction, dispatch::kDepthwise, dispatch::kAttention,
                   dispatch::kRows},
    .match = matchSizeBuckets<false>,
    .configs = nullptr,
    .seconds = on<sizeBucketsSeconds>,
    .weights = on<sizeBucketsWeights>,
    .emit = on<emitSizeBuckets>,
    .isSplitBySizes = true};

} // namespace tenon::codegen::cuda
