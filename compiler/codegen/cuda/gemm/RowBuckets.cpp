// Relies on base/StepRange.h for what is left out.
//
// One file: buckets by time and those of one order of sums are told and emitted alike.
#include "compiler/codegen/cuda/gemm/RowBuckets.h"

#include "compiler/codegen/cuda/base/StepRange.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/gemm/Gemv.h"
#include "compiler/codegen/cuda/gemm/SizeBuckets.h"
#include "compiler/codegen/cuda/gemm/SlicedGemm.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Invariance.h"
#include "llvm/Support/ErrorHandling.h"

#include <cmath>
#include <limits>
#include <map>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Rows of the largest tile of kernels for few rows, of which some may be empty: more than two
/// tiles are also counted by halves of doublings.
constexpr int64_t kMostRowsOfTile = 128;

/// How the weights must lie for all kernels; none if they lie so. GEMV alone has a faster layout.
std::optional<dispatch::WeightLayout> layoutFor(RegionBuilder &region, int64_t mostRows) {
  tn::MatmulOp op = *region.source.getOps<tn::MatmulOp>().begin();
  if (mostRows <= kMaxStreamedRows && !tn::isInvariant(region.source)) {
    return layoutInDepthPanels(region, kGemvPanel);
  }
  return op.getTransposeB() ? std::nullopt : layoutInDepthPanels(region, halfGemmOf(op)->depth);
}

/// What is the fastest for a region, and its predicted microseconds; infinite if nothing takes it.
struct Fastest {
  dispatch::KernelChoice kernel;
  double microseconds = std::numeric_limits<double>::infinity();
};

Fastest fastestFor(func::FuncOp function, const target::Target &gpu, bool calls) {
  std::vector<std::string> disabled;
  for (const KernelFamily *family : kernelFamilies().families()) {
    if ((family->isCall && !calls) || family->isSplitBySizes) {
      disabled.push_back(family->name.str());
    }
  }
  RegionBuilder region(function, "", gpu);
  llvm::Expected<dispatch::KernelSelection> selection =
      kernelFamilies().select(region, {nullptr, disabled});
  if (!selection) {
    llvm::consumeError(selection.takeError());
    return Fastest();
  }
  return Fastest{selection->chosen, selection->microseconds};
}

/// A range of rows with those left by which its kernels are compared: the count that is guessed, or
/// from one in the middle on, by factors. None if no size gives such a count.
SubRegion typicalOf(RegionBuilder &region, const RowBuckets &all, const RowRange &rows) {
  int64_t guess = region.estimate(all.rowCount);
  bool isGuessed = guess >= rows.least && guess <= rows.most;
  int64_t middle = int64_t(std::sqrt(double(rows.least) * double(rows.most)));
  return narrowed(region.source, {isGuessed ? guess : std::max(rows.least, middle), rows.most},
                  all.layout);
}

/// For all rows of a range: one kernel, or one a part where these are faster.
std::optional<RowBucket> generalBucket(RegionBuilder &region, const SubRegion &typical,
                                       const RowRange &rows, bool calls) {
  Fastest whole = fastestFor(typical.function(), region.gpu, calls);
  RowBucket apart{rows, {}};
  double microseconds = 0;
  for (SubRegion &part : partsOf(typical.function(), apart.weights)) {
    Fastest own = fastestFor(part.function(), region.gpu, calls);
    apart.kernels.push_back(own.kernel);
    microseconds += own.microseconds;
  }
  if (!apart.kernels.empty() && microseconds < whole.microseconds) {
    return apart;
  }
  bool isTaken = std::isfinite(whole.microseconds);
  return isTaken ? std::optional(RowBucket{rows, {whole.kernel}}) : std::nullopt;
}

/// The kernels by which a family for few rows does it: its own, or that behind a kernel for what is
/// in front of the product, which it does not take in for so many rows. None if it does not do it.
RowBucket fewRowsBucket(RegionBuilder &region, const KernelFamily &family, const SubRegion &few,
                        const RowRange &rows, bool calls) {
  auto choiceOf = [&](func::FuncOp function) {
    RegionBuilder builder(function, "", region.gpu);
    return FamilyTable<RegionBuilder>::match(family, builder).choice;
  };
  RowBucket bucket{rows, {}, FewBits::Stored};
  if (std::optional<dispatch::KernelChoice> whole = choiceOf(few.function())) {
    bucket.kernels.push_back(*whole);
    return bucket;
  }
  SmallVector<SubRegion> parts = partsOf(few.function(), bucket.weights);
  if (parts.size() == 2) {
    Fastest front = fastestFor(parts[0].function(), region.gpu, calls);
    std::optional<dispatch::KernelChoice> product = choiceOf(parts[1].function());
    if (product && std::isfinite(front.microseconds)) {
      bucket.kernels = {front.kernel, *product};
    }
  }
  return bucket;
}

/// Adds the bucket of a family with at most so many rows, or more rows to the one before it if that
/// is the same kernel: a tile's rows may be any, those of registers are its limit.
void addFewRows(RegionBuilder &region, const KernelFamily &family, int64_t limit, RowBuckets &all,
                int64_t &next, bool calls) {
  RowRange rows{next, std::min(limit, all.all.most)};
  SubRegion few = rows.least <= rows.most ? narrowed(region.source, rows, all.layout) : SubRegion();
  if (!few) {
    next = std::max(next, rows.most + 1);
    return;
  }
  RowBucket bucket = fewRowsBucket(region, family, few, rows, calls);
  if (bucket.kernels.empty()) {
    return;
  }
  all.limits.few = rows.most;
  next = rows.most + 1;
  // One group of rows is the same code for one row, unless the kernel says otherwise.
  bool isAnyRows = limit > kMaxStreamedRows || limit <= kMmaColumns;
  if (isAnyRows && !all.buckets.empty() && all.buckets.back().kernels == bucket.kernels) {
    all.buckets.back().rows.most = rows.most;
    return;
  }
  all.buckets.push_back(std::move(bucket));
}

/// The rows, beyond `next`, from which on a family may have a kernel for many; none if there is no
/// such family.
std::optional<int64_t> manyRowsOf(RegionBuilder &region, int64_t next) {
  for (const KernelFamily *family : kernelFamilies().families()) {
    int64_t rows = family->manyRows ? family->manyRows(region) : 0;
    if (rows > next) {
      return rows;
    }
  }
  return std::nullopt;
}

/// The last rows of ranges for many rows, in order: what one batch more than doubles, and what
/// keeps a persistent kernel busy apart.
SmallVector<int64_t> manyRowsLimits(RegionBuilder &region, const RowBuckets &all, int64_t next) {
  std::optional<tn::LinearDim> linear = tn::linearDim(tn::simplify(all.rowCount));
  int64_t ofOne = linear && linear->offset == 0 ? linear->factor : 1;
  SmallVector<int64_t> limits = {all.all.most};
  for (int64_t sizes : kLastSizes) {
    limits.push_back(sizes * ofOne);
  }
  if (std::optional<int64_t> large = manyRowsOf(region, next)) {
    limits.push_back(*large - 1);
  }
  llvm::erase_if(limits, [&](int64_t rows) { return rows < next || rows > all.all.most; });
  llvm::sort(limits);
  return limits;
}

/// Whether kernels of the same families take as long in place of those of a range: less code to
/// load for less than predictions are off.
bool isAsFast(const SubRegion &typical, const RowBucket &before, const RowBucket &own,
              const target::Target &gpu) {
  constexpr double asFast = 1.03;
  if (before.kernels == own.kernels) {
    return true;
  }
  const dispatch::KernelChoice &old = before.kernels.front(), &kernel = own.kernels.front();
  return before.kernels.size() == 1 && own.kernels.size() == 1 && old.family == kernel.family &&
         predictedMicroseconds(typical.function(), old, gpu) <=
             asFast * predictedMicroseconds(typical.function(), kernel, gpu);
}

/// All rows from `next` on, by what is the fastest in each range.
bool addManyRows(RegionBuilder &region, RowBuckets &all, int64_t next, bool calls) {
  for (int64_t limit : manyRowsLimits(region, all, next)) {
    RowRange rows{next, limit};
    SubRegion typical = rows.least <= rows.most ? typicalOf(region, all, rows) : SubRegion();
    if (!typical) {
      continue;
    }
    std::optional<RowBucket> general = generalBucket(region, typical, rows, calls);
    if (!general) {
      return false;
    }
    RowBucket &before = all.buckets.back();
    if (before.rows.least > all.limits.few && isAsFast(typical, before, *general, region.gpu)) {
      before.rows.most = rows.most;
    } else {
      all.buckets.push_back(std::move(*general));
    }
    next = rows.most + 1;
  }
  return true;
}

/// Rows up to which kernels of an invariant model differ.
constexpr int64_t kInvariantRows[] = {1,  8,   16,  32,
                                      64, 128, 512, std::numeric_limits<int64_t>::max()};

/// Whether a kernel streams weights for few rows.
bool isForFewRows(const KernelFamily &family) { return family.fewRows.front() > 0; }

/// Kernels for a range of rows, all parts of the region together.
struct RangeKernels {
  SmallVector<dispatch::KernelChoice> kernels;
  FewBits weights = FewBits::Decoded;
  double microseconds = std::numeric_limits<double>::infinity();
  bool areForFew = false; ///< whether the product's streams weights

  /// For few rows where such a one takes it, as without --invariant, else the fastest.
  bool isBetterThan(const RangeKernels &other) const {
    return areForFew == other.areForFew ? microseconds < other.microseconds : areForFew;
  }
};
/// By the order of their sums.
using KernelsByOrder = std::map<std::string, RangeKernels>;

void addBetter(KernelsByOrder &found, const std::string &order, const RangeKernels &kernels) {
  RangeKernels &best = found[order];
  if (best.kernels.empty() || kernels.isBetterThan(best)) {
    best = kernels;
  }
}

/// One kernel for all of a function.
KernelsByOrder wholeByOrder(func::FuncOp function, const target::Target &gpu) {
  RegionBuilder region(function, "", gpu);
  KernelsByOrder found;
  for (const KernelFamily *family : kernelFamilies().families()) {
    if (family->isCall || family->isSplitBySizes) {
      continue;
    }
    FamilyMatch match = FamilyTable<RegionBuilder>::match(*family, region);
    for (const dispatch::KernelChoice &choice :
         match ? FamilyTable<RegionBuilder>::configsOf(*family, region, match)
               : std::vector<dispatch::KernelChoice>()) {
      llvm::Expected<double> microseconds =
          FamilyTable<RegionBuilder>::microsecondsOf(*family, region, match, choice);
      std::string order = FamilyTable<RegionBuilder>::orderOf(*family, region, match, choice);
      if (!microseconds) {
        llvm::consumeError(microseconds.takeError());
      } else if (!order.empty()) {
        addBetter(found, order, {{choice}, FewBits::Decoded, *microseconds, isForFewRows(*family)});
      }
    }
  }
  return found;
}

/// Kernels for its parts, of which the ones beside the product add up nothing, or as gemv's norm
/// does: the texts of other orders say which sums a row has, and not in what order two families of
/// kernels take them.
KernelsByOrder partsByOrder(func::FuncOp function, FewBits weights, const target::Target &gpu) {
  SmallVector<SubRegion> parts = partsOf(function, weights);
  KernelsByOrder found;
  if (!parts.empty()) {
    found[""] = {{}, weights, 0, false};
  }
  for (SubRegion &part : parts) {
    bool isProduct = !part.function().getOps<tn::MatmulOp>().empty();
    KernelsByOrder next;
    for (const auto &[order, kernels] : wholeByOrder(part.function(), gpu)) {
      RegionBuilder builder(part.function(), "", gpu);
      bool addsNothing = order == noSums(builder, std::any(), kernels.kernels.front());
      if (!isProduct && !addsNothing && order != slicedNormOrder()) {
        continue;
      }
      for (const auto &[before, all] : found) {
        RangeKernels longer = all;
        longer.kernels.push_back(kernels.kernels.front());
        longer.microseconds += kernels.microseconds;
        longer.areForFew |= kernels.areForFew;
        addBetter(next, addsNothing ? before : behind(order, before), longer);
      }
    }
    found = std::move(next);
  }
  return found;
}

KernelsByOrder kernelsByOrder(func::FuncOp function, const target::Target &gpu) {
  KernelsByOrder found = wholeByOrder(function, gpu);
  for (FewBits weights : {FewBits::Stored, FewBits::Decoded}) {
    for (const auto &[order, kernels] : partsByOrder(function, weights, gpu)) {
      addBetter(found, order, kernels);
    }
  }
  return found;
}

/// The order that has a kernel for few rows, which a decoder's steps are; else the one in which
/// ranges take the least, each by the share of its own fastest order. Empty if no order has kernels
/// for all of them.
std::string fastestOrder(ArrayRef<KernelsByOrder> ranges) {
  std::map<std::string, double> shares;
  for (const KernelsByOrder &ofRange : ranges) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto &[order, kernels] : ofRange) {
      least = std::min(least, kernels.microseconds);
    }
    for (const auto &[order, kernels] : ofRange) {
      shares[order] += kernels.microseconds / least;
    }
  }
  std::string fastest;
  bool isFew = false;
  for (const auto &[order, share] : shares) {
    auto has = [&](const KernelsByOrder &ofRange) { return ofRange.count(order) > 0; };
    if (!llvm::all_of(ranges, has)) {
      continue;
    }
    bool isOwnFew = ranges.front().at(order).areForFew;
    if (fastest.empty() || (isOwnFew == isFew ? share < shares[fastest] : isOwnFew)) {
      fastest = order;
      isFew = isOwnFew;
    }
  }
  return fastest;
}

/// Of an invariant model: kernels that all add up in one order. False if no order has kernels for
/// all ranges.
bool addInvariantRows(RegionBuilder &region, RowBuckets &all) {
  SmallVector<RowRange> ranges;
  SmallVector<KernelsByOrder> found;
  int64_t next = std::max<int64_t>(all.all.least, 1);
  for (int64_t limit : kInvariantRows) {
    RowRange rows{next, std::min(limit, all.all.most)};
    SubRegion part =
        rows.least <= rows.most ? narrowed(region.source, rows, all.layout) : SubRegion();
    if (!part) {
      continue;
    }
    ranges.push_back(rows);
    found.push_back(kernelsByOrder(part.function(), region.gpu));
    next = rows.most + 1;
  }
  all.order = fastestOrder(found);
  if (all.order.empty()) {
    return false;
  }
  for (auto [rows, ofRange] : llvm::zip_equal(ranges, found)) {
    const RangeKernels &own = ofRange.at(all.order);
    // A kernel for few rows is other code for more of them.
    RowBucket *before = all.buckets.empty() ? nullptr : &all.buckets.back();
    if (before && !own.areForFew && before->kernels == own.kernels &&
        before->weights == own.weights) {
      before->rows.most = rows.most;
    } else {
      all.buckets.push_back({rows, own.kernels, own.weights});
    }
  }
  all.limits.few = all.buckets.front().rows.most;
  return true;
}

/// The configuration that a family offers for a function, in place of one that it has not for it.
void settle(func::FuncOp function, dispatch::KernelChoice &kernel, const target::Target &gpu) {
  RegionBuilder region(function, "", gpu);
  const KernelFamily &family = *kernelFamilies().find(kernel.family);
  FamilyMatch match = FamilyTable<RegionBuilder>::match(family, region);
  if (match && kernel != *match.choice &&
      !llvm::is_contained(FamilyTable<RegionBuilder>::configsOf(family, region, match), kernel)) {
    kernel = *match.choice;
  }
}

/// Kernels were chosen for a count or a range within that of their bucket; a layout of rows may be
/// another one for all of it.
void settleBuckets(RegionBuilder &region, RowBuckets &all) {
  for (RowBucket &bucket : all.buckets) {
    SubRegion own = narrowed(region.source, bucket.rows, all.layout);
    if (!own) {
      continue;
    }
    if (bucket.kernels.size() == 1) {
      settle(own.function(), bucket.kernels.front(), region.gpu);
      continue;
    }
    SmallVector<SubRegion> parts = partsOf(own.function(), bucket.weights);
    for (auto [part, kernel] : llvm::zip_equal(parts, bucket.kernels)) {
      settle(part.function(), kernel, region.gpu);
    }
  }
}

/// A product of 16-bit floats whose row count varies.
MatchResult<RowBuckets> emptyBuckets(RegionBuilder &region) {
  auto ops = region.source.getOps<tn::MatmulOp>();
  if (!llvm::hasSingleElement(ops) || region.source.getNumResults() != 1) {
    return MatchFailure{"it is not one product with one result"};
  }
  tn::MatmulOp op = *ops.begin();
  RowBuckets all;
  all.rowCount = rowCountOf(op.getA().getType());
  all.all = rowRangeOf(region.source, op.getA().getType());
  if (!halfGemmOf(op) || !all.rowCount || tn::constantDim(all.rowCount) ||
      region.source->hasAttr(kRowRange) || region.source->hasAttr(kIsOfRange)) {
    return MatchFailure{"it is not a product of f16 or bf16 by a matrix whose row count varies"};
  }
  all.layout = layoutFor(region, all.all.most);
  return all;
}

} // namespace

MatchResult<RowBuckets> rowBucketsOf(RegionBuilder &region, bool calls) {
  MatchResult<RowBuckets> found = emptyBuckets(region);
  if (!found) {
    return found;
  }
  RowBuckets &all = *found;
  if (tn::isInvariant(region.source)) {
    if (!addInvariantRows(region, all)) {
      return MatchFailure{"no order of sums has kernels for all row counts"};
    }
    settleBuckets(region, all);
    return all.buckets.size() > 1
               ? std::move(found)
               : MatchResult<RowBuckets>(MatchFailure{"one kernel takes all row counts"});
  }
  int64_t next = std::max<int64_t>(all.all.least, 1);
  for (const KernelFamily *family : kernelFamilies().families()) {
    for (int64_t limit : family->fewRows) {
      if (limit > 2 * kMostRowsOfTile) {
        addFewRows(region, *family, limit / 4 * 3, all, next, calls);
      }
      if (limit > 0) {
        addFewRows(region, *family, limit, all, next, calls);
      }
    }
  }
  // What no kernel takes in is better a region of its own, which all of them read.
  if (llvm::none_of(all.buckets, [](const RowBucket &few) { return few.kernels.size() == 1; })) {
    return MatchFailure{"no kernel for few rows takes it"};
  }
  if (next <= all.all.most && !addManyRows(region, all, next, calls)) {
    return MatchFailure{"nothing takes it with many rows"};
  }
  const RowRange &first = all.buckets.front().rows;
  if (first.least <= all.all.least && first.most >= all.all.most) {
    return MatchFailure{"one kernel takes all row counts"};
  }
  settleBuckets(region, all);
  return found;
}

namespace {

/// Where the result of a part lies: in the region's, or in memory in between.
unsigned placeOf(RegionBuilder &region, const SubRegion &part, const SubRegion *next) {
  Value result = region.source.getBody().front().getTerminator()->getOperand(0);
  auto isElementwise = [](Operation &op) { return op.hasTrait<tn::TnElementwise>(); };
  bool isInPlace =
      next && part.result.getType() == result.getType() &&
      llvm::all_of(next->function().getBody().front().without_terminator(), isElementwise);
  if (!next || isInPlace) {
    return region.output(0);
  }
  Type element = getElementTypeOrSelf(part.result.getType());
  AffineExpr count =
      tn::elementCount(region.source.getContext(), tn::getDims(part.result.getType()));
  return region.addTemporary(count * byteSize(element));
}

LogicalResult emitParts(RegionBuilder &region, func::FuncOp function, const RowBucket &bucket) {
  ArrayRef<dispatch::KernelChoice> kernels = bucket.kernels;
  SmallVector<SubRegion> parts = partsOf(function, bucket.weights);
  if (parts.size() != kernels.size()) {
    return failure();
  }
  DenseMap<Value, unsigned> places;
  for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
    places[argument] = region.input(i);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    SmallVector<unsigned> buffers;
    for (Value input : parts[i].inputs) {
      buffers.push_back(places.at(input));
    }
    const SubRegion *next = i + 1 < parts.size() ? &parts[i + 1] : nullptr;
    places[parts[i].result] = placeOf(region, parts[i], next);
    buffers.push_back(places.at(parts[i].result));
    if (failed(emitPart(region, parts[i].function(), kernels[i], buffers))) {
      return failure();
    }
  }
  return success();
}

LogicalResult emitBucket(RegionBuilder &region, const RowBuckets &all, const RowBucket &bucket) {
  SubRegion narrow = narrowed(region.source, bucket.rows, all.layout);
  size_t first = region.code.steps.size();
  if (!narrow) {
    return success(); // its symbols give no such count
  }
  SmallVector<unsigned> buffers;
  for (unsigned i = 0; i < region.source.getNumArguments(); ++i) {
    buffers.push_back(region.input(i));
  }
  buffers.push_back(region.output(0));
  bool isWhole = bucket.kernels.size() == 1;
  if (failed(isWhole ? emitPart(region, narrow.function(), bucket.kernels.front(), buffers)
                     : emitParts(region, narrow.function(), bucket))) {
    return failure();
  }
  limitSteps(MutableArrayRef(region.code.steps).drop_front(first), all.rowCount, all.all,
             bucket.rows);
  return success();
}

template <bool kCalls> FamilyMatch matchBuckets(RegionBuilder &region) {
  MatchResult<RowBuckets> all = rowBucketsOf(region, kCalls);
  if (!all) {
    return FamilyMatch::refuse(all.why());
  }
  std::string why;
  for (const RowBucket &bucket : all->buckets) {
    why += (llvm::Twine(why.empty() ? "" : "; ") + "from " + llvm::Twine(bucket.rows.least) +
            " rows on")
               .str();
    for (const dispatch::KernelChoice &kernel : bucket.kernels) {
      why += " " + kernel.text();
    }
  }
  return FamilyMatch::take(
      *all,
      dispatch::choiceOf(kCalls ? kGemmBuckets.name : kGemmBucketsGenerated.name, all->limits),
      why);
}

/// A kernel's prediction for a part of the region; with its epilogue, or without.
double secondsOfPart(func::FuncOp part, const dispatch::KernelChoice &kernel,
                     const target::Target &gpu, bool hasEpilogue) {
  RegionBuilder region(part, "", gpu);
  const KernelFamily &family = *kernelFamilies().find(kernel.family);
  FamilyMatch match = FamilyTable<RegionBuilder>::match(family, region);
  llvm::Expected<double> microseconds =
      FamilyTable<RegionBuilder>::microsecondsOf(family, region, match, kernel);
  if (!microseconds) {
    llvm::reportFatalInternalError(microseconds.takeError());
  }
  bool isLess = !hasEpilogue && family.seconds && family.epilogueSeconds;
  return isLess ? family.seconds(region, match.problem, kernel) : *microseconds * 1e-6;
}

/// That of the bucket with the row count that is guessed, without the epilogue, which the table
/// adds.
double bucketsSeconds(RegionBuilder &region, const RowBuckets &all,
                      const dispatch::KernelChoice &) {
  int64_t guess = region.estimate(all.rowCount);
  const RowBucket *bucket =
      llvm::find_if(all.buckets, [&](const RowBucket &each) { return guess <= each.rows.most; });
  bucket = bucket == all.buckets.end() ? &all.buckets.back() : bucket;
  SubRegion narrow = narrowed(region.source, bucket->rows, all.layout);
  if (!narrow) { // its symbols give no such count
    return dispatch::costOfRegion(region.source.getBody().front(), region.gpu, /*isGenerated=*/true)
               .microseconds *
           1e-6;
  }
  if (bucket->kernels.size() == 1) {
    return secondsOfPart(narrow.function(), bucket->kernels.front(), region.gpu,
                         /*hasEpilogue=*/false);
  }
  double seconds = 0;
  for (auto [part, kernel] :
       llvm::zip_equal(partsOf(narrow.function(), bucket->weights), bucket->kernels)) {
    seconds += secondsOfPart(part.function(), kernel, region.gpu, /*hasEpilogue=*/true);
  }
  return seconds - epilogueSeconds(region);
}

std::optional<dispatch::WeightLayout> bucketsWeights(RegionBuilder &, const RowBuckets &all) {
  return all.layout;
}

std::string bucketsOrder(RegionBuilder &, const RowBuckets &all, const dispatch::KernelChoice &) {
  return all.order;
}

LogicalResult emitBuckets(RegionBuilder &region, const RowBuckets &all,
                          const dispatch::KernelChoice &) {
  return success(llvm::all_of(all.buckets, [&](const RowBucket &bucket) {
    return succeeded(emitBucket(region, all, bucket));
  }));
}

} // namespace

constexpr KernelFamily kGemmBuckets = {
    .name = "gemm_buckets",
    .what =
        "a kernel for each range of a row count that varies: GEMV, skinny GEMM, and a library's "
        "call or a tiled GEMM for more",
    .strategies = {dispatch::kContraction},
    .needs = {"matmul"},
    .match = matchBuckets<true>,
    .configs = nullptr,
    .seconds = on<bucketsSeconds>,
    .epilogueSeconds = epilogueSeconds,
    .weights = on<bucketsWeights>,
    .emit = on<emitBuckets>,
    .isSplitBySizes = true,
    .mayCall = true};

constexpr KernelFamily kGemmBucketsGenerated = {.name = "gemm_buckets_generated",
                                                .what = "gemm_buckets without a library",
                                                .strategies = {dispatch::kContraction},
                                                .needs = {"matmul"},
                                                .match = matchBuckets<false>,
                                                .configs = nullptr,
                                                .seconds = on<bucketsSeconds>,
                                                .epilogueSeconds = epilogueSeconds,
                                                .weights = on<bucketsWeights>,
                                                .emit = on<emitBuckets>,
                                                .order = on<bucketsOrder>,
                                                .isSplitBySizes = true};

} // namespace tenon::codegen::cuda
