// Each pass counts the digits of every piece of a row, takes running sums of the counts, digit by
// digit and piece by piece, which say where a piece's elements of a digit go, and moves them there
// in the order in which they come. Relies on rows of fewer elements than 32 bits number.
#include "compiler/codegen/cuda/selection/RadixSort.h"

#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/scan/Scan.h"
#include "compiler/codegen/cuda/selection/Tuning.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

constexpr int64_t kDigits = 256, kDigitBits = 8;
/// A thread for each digit.
constexpr int64_t kThreads = kDigits, kWarps = kThreads / kWarp;
constexpr int64_t kItems = tuning::kSortItems, kPiece = kThreads * kItems;
/// Words of shared memory for the counts of a warp: the last is for elements that are not there.
constexpr int64_t kCounts = kDigits + 1;

class RadixPass {
public:
  RadixPass(RegionBuilder &region, const SortJob &job, int64_t number)
      : region(region), job(job), number(number), pieces(job.length.ceilDiv(kPiece)) {}

  /// Keys and numbers as the pass before left them, and as this one leaves them.
  struct List {
    uint32_t keys, numbers;
  };
  void emitCount(const std::optional<List> &from, uint32_t counts);
  void emitMove(const std::optional<List> &from, uint32_t starts, const std::optional<List> &to);

private:
  struct Element {
    Value isThere, key, number, digit; ///< i1, key, i32, i32
  };
  struct Place {
    Value row, piece, length; ///< i64
    Value shared;
  };
  SmallVector<uint32_t> buffersOf(const std::optional<List> &from) const {
    return from ? SmallVector<uint32_t>{from->keys, from->numbers} : job.read;
  }
  Place begin(const ThreadBuilder &t, KernelFrame &frame) const;
  /// One of a thread's elements: a warp's lie side by side, so that they come in order.
  Element load(const ThreadBuilder &t, KernelFrame &frame, bool isList, const Place &place,
               int64_t which) const;
  /// All loads come before what is done with them.
  SmallVector<Element> loadAll(const ThreadBuilder &t, KernelFrame &frame, bool isList,
                               const Place &place) const {
    SmallVector<Element> elements;
    for (int64_t i = 0; i < kItems; ++i) {
      elements.push_back(load(t, frame, isList, place, i));
    }
    return elements;
  }
  Value startOf(const ThreadBuilder &t, KernelFrame &frame, const Place &place, Value digit) const {
    Value row = t.add(t.mul(place.row, kDigits), t.toI64(digit));
    return t.add(t.mul(row, frame.size64(pieces)), place.piece);
  }
  Value countAt(const ThreadBuilder &t, const Place &place, Value warp, Value digit) const {
    return t.offset(place.shared, t.i32Type(), t.add(t.mul(warp, kCounts), digit));
  }
  void clear(const ThreadBuilder &t, const Place &place) const;
  /// Counts a warp's elements digit by digit, and tells how many of the digit came before.
  Value rank(const ThreadBuilder &t, const Place &place, const Element &element) const;
  int64_t sharedBytes() const { return kWarps * kCounts * 4; }

  RegionBuilder &region;
  const SortJob &job;
  int64_t number;
  AffineExpr pieces;
};

RadixPass::Place RadixPass::begin(const ThreadBuilder &t, KernelFrame &frame) const {
  Value block = t.toI64(t.block()), count = frame.size64(pieces);
  return {t.div(block, count), t.rem(block, count), frame.size64(job.length),
          frame.dynamicShared()};
}

RadixPass::Element RadixPass::load(const ThreadBuilder &t, KernelFrame &frame, bool isList,
                                   const Place &place, int64_t which) const {
  Value warp = t.mul(t.div(t.thread(), kWarp), kItems * kWarp);
  Value within = t.add(t.add(warp, which * kWarp), t.lane());
  Value number = t.add(t.mul(place.piece, kPiece), t.toI64(within));
  Element element;
  element.isThere = t.isLess(number, place.length);
  Value none = arith::ConstantOp::create(t.builder, t.location, t.builder.getZeroAttr(job.key));
  Values loaded = t.choose(
      element.isThere,
      [&](const ThreadBuilder &b) -> Values {
        if (!isList) {
          return {job.keyOf(b, frame, 0, place.row, number), b.toI32(number)};
        }
        Value at = b.add(b.mul(place.row, place.length), number);
        Value key = b.load(job.key, b.offset(frame.buffer(0), job.key, at), byteSize(job.key));
        return {key, b.load(b.i32Type(), b.offset(frame.buffer(1), b.i32Type(), at), 4)};
      },
      [&](const ThreadBuilder &b) -> Values { return {none, b.i32(0)}; });
  element.key = loaded[0];
  element.number = loaded[1];
  Value shifted =
      shiftRight(t, element.key, t.constantOfType(element.key, this->number * kDigitBits));
  Value digit = t.toI32(t.bitAnd(shifted, t.constantOfType(shifted, kDigits - 1)));
  element.digit = t.select(element.isThere, digit, t.i32(kDigits));
  return element;
}

void RadixPass::clear(const ThreadBuilder &t, const Place &place) const {
  t.loop(t.thread(), t.i32(kWarps * kCounts), t.i32(kThreads), {},
         [&](const ThreadBuilder &b, Value i, ValueRange) -> Values {
           b.store(b.i32(0), b.offset(place.shared, b.i32Type(), i), 4);
           return {};
         });
  t.barrier();
}

Value RadixPass::rank(const ThreadBuilder &t, const Place &place, const Element &element) const {
  Value warp = t.div(t.thread(), kWarp), one = t.i32(1);
  Value at = countAt(t, place, warp, element.digit);
  Value same = lanesOfSame(t, element.digit), before = t.load(t.i32Type(), at, 4);
  Value lower = t.sub(shiftLeft(t, one, t.lane()), one);
  Value lowerSame = bitCount(t, t.bitAnd(same, lower));
  t.warpBarrier();
  t.when(t.isEqual(lowerSame, t.i32(0)),
         [&](const ThreadBuilder &b) { b.store(b.add(before, bitCount(b, same)), at, 4); });
  t.warpBarrier();
  return t.add(before, lowerSame);
}

void RadixPass::emitCount(const std::optional<List> &from, uint32_t counts) {
  SmallVector<uint32_t> buffers = buffersOf(from);
  unsigned reads = buffers.size();
  buffers.push_back(counts);
  KernelFrame frame(region, buffers, reads, kThreads);
  ThreadBuilder t = frame.code();
  Place place = begin(t, frame);
  clear(t, place);
  for (const Element &element : loadAll(t, frame, from.has_value(), place)) {
    rank(t, place, element);
  }
  t.barrier();
  Value digit = t.thread(), all = t.i32(0);
  for (int64_t warp = 0; warp < kWarps; ++warp) {
    all = t.add(all, t.load(t.i32Type(), countAt(t, place, t.i32(warp), digit), 4));
  }
  t.store(all, t.offset(frame.buffer(reads), t.i32Type(), startOf(t, frame, place, digit)), 4);
  frame.finish(job.rows * pieces, sharedBytes());
}

void RadixPass::emitMove(const std::optional<List> &from, uint32_t starts,
                         const std::optional<List> &to) {
  SmallVector<uint32_t> buffers = buffersOf(from);
  unsigned startsAt = buffers.size();
  buffers.push_back(starts);
  if (!to) {
    buffers.append(job.given);
  }
  unsigned reads = buffers.size();
  buffers.append(to ? SmallVector<uint32_t>{to->keys, to->numbers} : job.written);
  KernelFrame frame(region, buffers, reads, kThreads);
  ThreadBuilder t = frame.code();
  Place place = begin(t, frame);
  clear(t, place);
  SmallVector<Element> elements = loadAll(t, frame, from.has_value(), place);
  Values ranks;
  for (const Element &element : elements) {
    ranks.push_back(rank(t, place, element));
  }
  t.barrier();
  // Where each warp's elements of the thread's digit begin.
  Value digit = t.thread();
  Value next =
      t.load(t.i32Type(),
             t.offset(frame.buffer(startsAt), t.i32Type(), startOf(t, frame, place, digit)), 4);
  for (int64_t warp = 0; warp < kWarps; ++warp) {
    Value at = countAt(t, place, t.i32(warp), digit);
    Value count = t.load(t.i32Type(), at, 4);
    t.store(next, at, 4);
    next = t.add(next, count);
  }
  t.barrier();
  Value warp = t.div(t.thread(), kWarp);
  for (auto [element, own] : llvm::zip(elements, ranks)) {
    t.when(element.isThere, [&](const ThreadBuilder &b) {
      Value first = b.load(b.i32Type(), countAt(b, place, warp, element.digit), 4);
      Value at = b.add(first, own);
      if (!to) {
        return job.store(b, frame, startsAt + 1, place.row, at, element.key, element.number);
      }
      Value number = b.add(b.mul(place.row, place.length), b.toI64(at));
      b.store(element.key, b.offset(frame.buffer(reads), job.key, number), byteSize(job.key));
      b.store(element.number, b.offset(frame.buffer(reads + 1), b.i32Type(), number), 4);
    });
  }
  frame.finish(job.rows * pieces, sharedBytes());
}

} // namespace

void emitRadixSort(RegionBuilder &region, const SortJob &job) {
  using List = RadixPass::List;
  MLIRContext *context = region.source.getContext();
  AffineExpr count = job.rows * job.length, pieces = job.length.ceilDiv(kPiece);
  ScanWork sums;
  sums.outer = job.rows;
  sums.length = pieces * kDigits;
  sums.inner = getAffineConstantExpr(1, context);
  sums.element = sums.sum = IntegerType::get(context, 32);
  sums.isExclusive = true;
  sums.input = region.addTemporary(job.rows * pieces * (kDigits * 4));
  sums.output = region.addTemporary(job.rows * pieces * (kDigits * 4));
  SmallVector<List> lists;
  for (int64_t i = 0; i < std::min<int64_t>(job.passes() - 1, 2); ++i) {
    lists.push_back(
        {region.addTemporary(count * byteSize(job.key)), region.addTemporary(count * 4)});
  }
  std::optional<List> from;
  for (int64_t i = 0; i < job.passes(); ++i) {
    bool isLast = i + 1 == job.passes();
    std::optional<List> to = isLast ? std::nullopt : std::optional(lists[i % 2]);
    RadixPass pass(region, job, i);
    pass.emitCount(from, sums.input);
    emitScan(region, sums, scanLayout(region, sums));
    pass.emitMove(from, sums.output, to);
    from = to;
  }
}

double radixSortSeconds(RegionBuilder &region, const SortJob &job) {
  double rows = double(region.estimate(job.rows)), length = double(region.estimate(job.length));
  double bytes = rows * length * (3 * double(byteSize(job.key)) + 8);
  double residentBlocks = double(region.gpu.cores) * double(region.gpu.threads) / double(kThreads);
  double rounds = std::ceil(rows * std::ceil(length / double(kPiece)) / residentBlocks);
  double kernels = 4;
  return double(job.passes()) *
         (bytes / region.gpu.memoryBandwidth + 2 * rounds * tuning::kSortBlockSeconds +
          kernels * region.gpu.launchSeconds);
}

} // namespace tenon::codegen::cuda
