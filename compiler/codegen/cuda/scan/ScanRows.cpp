// Scans of rows whose elements lie side by side: a thread sums the few neighbours that it holds,
// the threads of a row take prefix sums of those by shuffles and over shared memory, tile after
// tile. Relies on rows that share a block fitting in one tile.
#include "compiler/codegen/cuda/base/ElementRun.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/scan/Scan.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

class RowScan {
public:
  RowScan(RegionBuilder &region, const ScanWork &work, const ScanLayout &layout)
      : region(region), work(work), layout(layout),
        items(std::max(tuning::kScanBytes / byteSize(work.element), lanesOf(work.element))) {}

  void emitSums(uint32_t sums);
  /// Without pieces `sums` is not read.
  void emitScan(std::optional<uint32_t> sums);

private:
  /// What a thread knows of its row and its piece of it.
  struct Place {
    Value thread; ///< i64, of its row
    Value row, piece;
    Value first, end; ///< tiles of the piece
    Value shared;
  };
  int64_t warps() const { return std::max<int64_t>(layout.height / kWarp, 1); }
  int64_t sharedBytes() const {
    return layout.height > kWarp ? 2 * warps() * byteSize(work.sum) : 0;
  }
  Place findPlace(const ThreadBuilder &t, KernelFrame &frame) const;
  ElementRun rowOf(const ThreadBuilder &t, KernelFrame &frame, uint32_t buffer,
                   const Place &place) const;
  /// The number of one of a thread's vectors in a tile, in the order of the scan.
  Value vectorOf(const ThreadBuilder &t, const ElementRun &run, const Place &place, Value tile,
                 int64_t which) const;
  Values load(const ThreadBuilder &t, const ElementRun &run, const Place &place, Value tile) const;
  void store(const ThreadBuilder &t, const ElementRun &run, const Place &place, Value tile,
             ArrayRef<Value> sums) const;
  /// The sum of the threads before the own one, and that of all threads of the row; `round` tells
  /// two calls apart that follow each other.
  std::pair<Value, Value> overThreads(const ThreadBuilder &t, const Place &place, Value own,
                                      Value round) const;
  Value sumBefore(const ThreadBuilder &t, const Place &place, Value sums) const;
  Value scanTile(const ThreadBuilder &t, const ElementRun &from, const ElementRun &to,
                 const Place &place, Value tile, Value carry) const;
  AffineExpr blocks() const {
    return layout.rows > 1 ? work.outer.ceilDiv(layout.rows) : work.outer * layout.pieces;
  }

  RegionBuilder &region;
  const ScanWork &work;
  const ScanLayout &layout;
  int64_t items;
};

RowScan::Place RowScan::findPlace(const ThreadBuilder &t, KernelFrame &frame) const {
  Place place;
  Value block = t.toI64(t.block()), thread = t.toI64(t.thread());
  if (layout.rows > 1) {
    place.thread = t.rem(thread, layout.height);
    place.row = t.add(t.mul(block, layout.rows), t.div(thread, layout.height));
    place.piece = t.i64(0);
  } else {
    place.thread = thread;
    place.row = t.div(block, layout.pieces);
    place.piece = t.rem(block, layout.pieces);
  }
  int64_t tile = layout.height * items;
  // A row that begins within a vector reaches into one more.
  Value tiles = t.ceilDiv(t.add(frame.size64(work.length), lanesOf(work.element) - 1), tile);
  Value share = t.ceilDiv(tiles, layout.pieces);
  place.first = t.min(t.mul(place.piece, share), tiles);
  place.end = t.min(t.add(place.first, share), tiles);
  place.shared = sharedBytes() > 0 ? frame.dynamicShared() : Value();
  return place;
}

/// Rows behind the last are empty.
ElementRun RowScan::rowOf(const ThreadBuilder &t, KernelFrame &frame, uint32_t buffer,
                          const Place &place) const {
  Value length = frame.size64(work.length);
  Value begin = t.mul(place.row, length), end = t.add(begin, length);
  if (layout.rows > 1) {
    end = t.select(t.isLess(place.row, frame.size64(work.outer)), end, begin);
  }
  return ElementRun(t, frame.buffer(buffer), work.element, begin, end);
}

Value RowScan::vectorOf(const ThreadBuilder &t, const ElementRun &run, const Place &place,
                        Value tile, int64_t which) const {
  int64_t vectors = items / run.lanes;
  Value thread = t.add(t.mul(tile, layout.height), place.thread);
  Value number = t.add(t.mul(thread, vectors), which);
  return work.isReverse ? t.sub(t.add(run.vectors(), -1), number) : number;
}

/// In the order of the scan, as sums.
Values RowScan::load(const ThreadBuilder &t, const ElementRun &run, const Place &place,
                     Value tile) const {
  Values all;
  Value none = zeroSum(t, work.element);
  SmallVector<Values> loaded;
  for (int64_t i = 0; i < items / run.lanes; ++i) {
    loaded.push_back(run.load(t, vectorOf(t, run, place, tile, i), none));
  }
  for (Values &values : loaded) {
    if (work.isReverse) {
      std::reverse(values.begin(), values.end());
    }
    for (Value value : values) {
      all.push_back(toSum(t, work.sum, value));
    }
  }
  return all;
}

void RowScan::store(const ThreadBuilder &t, const ElementRun &run, const Place &place, Value tile,
                    ArrayRef<Value> sums) const {
  for (int64_t i = 0; i < items / run.lanes; ++i) {
    Values values;
    for (Value sum : sums.slice(i * run.lanes, run.lanes)) {
      values.push_back(fromSum(t, work.element, sum));
    }
    if (work.isReverse) {
      std::reverse(values.begin(), values.end());
    }
    run.store(t, vectorOf(t, run, place, tile, i), values);
  }
}

std::pair<Value, Value> RowScan::overThreads(const ThreadBuilder &t, const Place &place, Value own,
                                             Value round) const {
  int64_t team = std::min(layout.height, kWarp);
  Value lane = t.rem(t.thread(), team), zero = zeroSum(t, work.sum);
  Value sum = own;
  for (int64_t distance = 1; distance < team; distance *= 2) {
    Value other = shuffleUp(t, sum, distance);
    sum = t.select(t.isLess(lane, t.i32(distance)), sum, addSums(t, other, sum));
  }
  Value before = t.select(t.isEqual(lane, t.i32(0)), zero, shuffleUp(t, sum, 1));
  if (layout.height <= kWarp) {
    return {before, zero};
  }
  // Rounds take turns with two arrays, so that one barrier each is enough.
  Value warp = t.div(t.thread(), kWarp);
  int64_t bytes = byteSize(work.sum);
  Value array = t.offset(place.shared, work.sum, t.mul(t.toI32(t.rem(round, 2)), warps()));
  t.when(t.isEqual(lane, t.i32(kWarp - 1)),
         [&](const ThreadBuilder &b) { b.store(sum, b.offset(array, work.sum, warp), bytes); });
  t.barrier();
  Value ahead = zero, all = zero;
  for (int64_t i = 0; i < warps(); ++i) {
    ahead = t.select(t.isEqual(warp, t.i32(i)), all, ahead);
    all = addSums(t, all, t.load(work.sum, t.offset(array, work.sum, i), bytes));
  }
  return {addSums(t, ahead, before), all};
}

/// Of the pieces before the own one.
Value RowScan::sumBefore(const ThreadBuilder &t, const Place &place, Value sums) const {
  Value row = t.mul(place.row, layout.pieces);
  Value own = t.loop(place.thread, place.piece, t.i64(layout.height), zeroSum(t, work.sum),
                     [&](const ThreadBuilder &b, Value i, ValueRange sum) -> Values {
                       Value at = b.offset(sums, work.sum, b.add(row, i));
                       return {addSums(b, sum[0], b.load(work.sum, at, byteSize(work.sum)))};
                     })[0];
  return overThreads(t, place, own, t.i64(1)).second;
}

Value RowScan::scanTile(const ThreadBuilder &t, const ElementRun &from, const ElementRun &to,
                        const Place &place, Value tile, Value carry) const {
  Values sums = load(t, from, place, tile);
  for (int64_t i = 1; i < items; ++i) {
    sums[i] = addSums(t, sums[i - 1], sums[i]);
  }
  auto [before, all] = overThreads(t, place, sums.back(), t.sub(tile, place.first));
  Value start = addSums(t, carry, before);
  Values results;
  for (int64_t i = 0; i < items; ++i) {
    bool isStart = work.isExclusive && i == 0;
    results.push_back(isStart ? start : addSums(t, start, sums[work.isExclusive ? i - 1 : i]));
  }
  store(t, to, place, tile, results);
  return addSums(t, carry, all);
}

void RowScan::emitScan(std::optional<uint32_t> sums) {
  SmallVector<uint32_t> buffers = {work.input};
  if (sums) {
    buffers.push_back(*sums);
  }
  uint32_t reads = buffers.size();
  buffers.push_back(work.output);
  KernelFrame frame(region, buffers, reads, layout.threads());
  ThreadBuilder t = frame.code();
  Place place = findPlace(t, frame);
  ElementRun from = rowOf(t, frame, 0, place), to = rowOf(t, frame, reads, place);
  Value carry = sums ? sumBefore(t, place, frame.buffer(1)) : zeroSum(t, work.sum);
  if (layout.rows > 1) {
    scanTile(t, from, to, place, t.i64(0), carry);
  } else {
    t.loop(place.first, place.end, t.i64(1), carry,
           [&](const ThreadBuilder &b, Value tile, ValueRange carried) -> Values {
             return {scanTile(b, from, to, place, tile, carried[0])};
           });
  }
  frame.finish(blocks(), sharedBytes());
}

void RowScan::emitSums(uint32_t sums) {
  KernelFrame frame(region, {work.input, sums}, 1, layout.threads());
  ThreadBuilder t = frame.code();
  Place place = findPlace(t, frame);
  ElementRun from = rowOf(t, frame, 0, place);
  Value own = t.loop(place.first, place.end, t.i64(1), zeroSum(t, work.sum),
                     [&](const ThreadBuilder &b, Value tile, ValueRange carried) -> Values {
                       Value sum = carried[0];
                       for (Value value : load(b, from, place, tile)) {
                         sum = addSums(b, sum, value);
                       }
                       return {sum};
                     })[0];
  Value all = overThreads(t, place, own, t.i64(0)).second;
  t.when(t.isEqual(place.thread, t.i64(0)), [&](const ThreadBuilder &b) {
    Value at = b.add(b.mul(place.row, layout.pieces), place.piece);
    b.store(all, b.offset(frame.buffer(1), work.sum, at), byteSize(work.sum));
  });
  frame.finish(blocks(), sharedBytes());
}

} // namespace

void emitRowScan(RegionBuilder &region, const ScanWork &work, const ScanLayout &layout) {
  RowScan scan(region, work, layout);
  std::optional<uint32_t> sums;
  if (layout.pieces > 1) {
    sums = region.addTemporary(work.outer * (layout.pieces * byteSize(work.sum)));
    scan.emitSums(*sums);
  }
  scan.emitScan(sums);
}

} // namespace tenon::codegen::cuda
