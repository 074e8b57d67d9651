// Scans along an axis that does not lie innermost: neighbouring threads take neighbouring columns,
// and the threads above each other parts of the axis, whose sums meet in shared memory. Relies on
// strips of columns not reaching over the end of the innermost dims.
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/scan/Scan.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;
constexpr int64_t kSteps = tuning::kColumnSteps;

class ColumnScan {
public:
  ColumnScan(RegionBuilder &region, const ScanWork &work, const ScanLayout &layout)
      : region(region), work(work), layout(layout) {}

  void emitSums(uint32_t sums);
  void emitScan(std::optional<uint32_t> sums);

private:
  /// What a thread knows of its columns and its piece of the axis.
  struct Place {
    Value height;               ///< i64, the thread's along the axis
    Value slot;                 ///< i32, of its sums in shared memory
    Value outer, piece, column; ///< the first of its strip
    Value isInside;             ///< whether there are such columns
    Value first, end;           ///< tiles of the piece
    Value length, inner;
    Value shared;
  };
  Place findPlace(const ThreadBuilder &t, KernelFrame &frame) const;
  /// A number of the axis, in the order of the scan, as an element of the thread's first column.
  Value elementAt(const ThreadBuilder &t, const Place &place, Value number) const;
  Value numberOf(const ThreadBuilder &t, const Place &place, Value tile, int64_t step) const;
  /// Of a strip: zeros behind the end of the axis.
  Values loadStrip(const ThreadBuilder &t, Value from, const Place &place, Value number) const;
  void storeStrip(const ThreadBuilder &t, Value to, const Place &place, Value number,
                  ValueRange sums) const;
  SmallVector<Values> loadTile(const ThreadBuilder &t, Value from, const Place &place,
                               Value tile) const;
  std::pair<Values, Values> overThreads(const ThreadBuilder &t, const Place &place,
                                        ValueRange own) const;
  Values sumBefore(const ThreadBuilder &t, const Place &place, Value sums) const;
  Values scanTile(const ThreadBuilder &t, Value from, Value to, const Place &place, Value tile,
                  ValueRange carry) const;
  Value partialAt(const ThreadBuilder &t, const Place &place, Value sums, Value piece) const;
  Values zeros(const ThreadBuilder &t) const { return Values(layout.lanes, zeroSum(t, work.sum)); }
  Values addStrips(const ThreadBuilder &t, ValueRange a, ValueRange b) const;
  int64_t stripBytes() const { return layout.lanes * byteSize(work.sum); }
  int64_t sharedBytes() const {
    return layout.height > 1 ? 2 * layout.width * layout.height * stripBytes() : 0;
  }
  AffineExpr groups() const { return work.inner.ceilDiv(layout.lanes * layout.width); }
  AffineExpr blocks() const { return work.outer * groups() * layout.pieces; }

  RegionBuilder &region;
  const ScanWork &work;
  const ScanLayout &layout;
};

ColumnScan::Place ColumnScan::findPlace(const ThreadBuilder &t, KernelFrame &frame) const {
  Place place;
  Value block = t.toI64(t.block()), thread = t.toI64(t.thread()),
        groupCount = frame.size64(groups());
  place.length = frame.size64(work.length);
  place.inner = frame.size64(work.inner);
  place.height = t.div(thread, layout.width);
  place.slot = t.thread();
  Value group = t.rem(block, groupCount), rest = t.div(block, groupCount);
  place.piece = t.rem(rest, layout.pieces);
  place.outer = t.div(rest, layout.pieces);
  Value strip = t.add(t.mul(group, layout.width), t.rem(thread, layout.width));
  place.column = t.mul(strip, layout.lanes);
  place.isInside = t.isLess(place.column, place.inner);
  Value tiles = t.ceilDiv(place.length, layout.height * kSteps);
  Value share = t.ceilDiv(tiles, layout.pieces);
  place.first = t.min(t.mul(place.piece, share), tiles);
  place.end = t.min(t.add(place.first, share), tiles);
  place.shared = sharedBytes() > 0 ? frame.dynamicShared() : Value();
  return place;
}

Value ColumnScan::elementAt(const ThreadBuilder &t, const Place &place, Value number) const {
  Value along = work.isReverse ? t.sub(t.add(place.length, -1), number) : number;
  Value row = t.add(t.mul(place.outer, place.length), along);
  return t.add(t.mul(row, place.inner), place.column);
}

Value ColumnScan::numberOf(const ThreadBuilder &t, const Place &place, Value tile,
                           int64_t step) const {
  Value part = t.add(t.mul(tile, layout.height), place.height);
  return t.add(t.mul(part, kSteps), step);
}

Values ColumnScan::loadStrip(const ThreadBuilder &t, Value from, const Place &place,
                             Value number) const {
  Value isThere = both(t, place.isInside, t.isLess(number, place.length));
  int64_t bytes = byteSize(work.element);
  Values loaded = t.choose(
      isThere,
      [&](const ThreadBuilder &b) -> Values {
        Value at = b.offset(from, work.element, elementAt(b, place, number));
        if (layout.lanes == 1) {
          return {b.load(work.element, at, bytes)};
        }
        Value strip = b.load(b.vectorType(layout.lanes, work.element), at, layout.lanes * bytes);
        Values values;
        for (int64_t lane = 0; lane < layout.lanes; ++lane) {
          values.push_back(b.extract(strip, lane));
        }
        return values;
      },
      [&](const ThreadBuilder &b) { return Values(layout.lanes, zeroSum(b, work.element)); });
  return llvm::map_to_vector<6>(loaded, [&](Value value) { return toSum(t, work.sum, value); });
}

void ColumnScan::storeStrip(const ThreadBuilder &t, Value to, const Place &place, Value number,
                            ValueRange sums) const {
  Value isThere = both(t, place.isInside, t.isLess(number, place.length));
  t.when(isThere, [&](const ThreadBuilder &b) {
    Values values;
    for (Value sum : sums) {
      values.push_back(fromSum(b, work.element, sum));
    }
    Value at = b.offset(to, work.element, elementAt(b, place, number));
    b.store(layout.lanes == 1 ? values[0] : b.pack(values), at,
            layout.lanes * byteSize(work.element));
  });
}

SmallVector<Values> ColumnScan::loadTile(const ThreadBuilder &t, Value from, const Place &place,
                                         Value tile) const {
  SmallVector<Values> strips;
  for (int64_t step = 0; step < kSteps; ++step) {
    strips.push_back(loadStrip(t, from, place, numberOf(t, place, tile, step)));
  }
  return strips;
}

Values ColumnScan::addStrips(const ThreadBuilder &t, ValueRange a, ValueRange b) const {
  Values sums;
  for (auto [left, right] : llvm::zip(a, b)) {
    sums.push_back(addSums(t, left, right));
  }
  return sums;
}

/// The sums of the threads before the own one in its column, and those of all: in each step a
/// thread adds what one twice as far away has; the steps take turns with two arrays.
std::pair<Values, Values> ColumnScan::overThreads(const ThreadBuilder &t, const Place &place,
                                                  ValueRange own) const {
  if (layout.height == 1) {
    return {zeros(t), Values(own)};
  }
  int64_t bytes = byteSize(work.sum), array = 0;
  Value height = t.toI32(place.height);
  auto address = [&](const ThreadBuilder &b, Value slot, int64_t lane) {
    int64_t first = array * layout.width * layout.height * layout.lanes + lane;
    return b.offset(place.shared, work.sum, b.add(b.mul(slot, layout.lanes), first));
  };
  auto put = [&](ValueRange values) {
    for (auto [lane, value] : llvm::enumerate(values)) {
      t.store(value, address(t, place.slot, lane), bytes);
    }
    t.barrier();
  };
  auto get = [&](Value slot) {
    Values values;
    for (int64_t lane = 0; lane < layout.lanes; ++lane) {
      values.push_back(t.load(work.sum, address(t, slot, lane), bytes));
    }
    return values;
  };
  // The slot so many threads before in the column, or the first one's.
  auto slotBefore = [&](int64_t distance) {
    Value isFar = t.isLess(height, t.i32(distance));
    return t.select(isFar, place.slot, t.sub(place.slot, t.i32(distance * layout.width)));
  };
  Values sums(own);
  for (int64_t distance = 1; distance < layout.height; distance *= 2) {
    put(sums);
    Values more = addStrips(t, get(slotBefore(distance)), sums);
    Value isFar = t.isLess(height, t.i32(distance));
    for (auto [sum, other] : llvm::zip(sums, more)) {
      sum = t.select(isFar, sum, other);
    }
    array = 1 - array;
  }
  put(sums);
  Values before = get(slotBefore(1));
  Value last = t.add(t.rem(place.slot, layout.width), (layout.height - 1) * layout.width);
  Values all = get(last);
  Value isFirst = t.isEqual(height, t.i32(0));
  for (Value &value : before) {
    value = t.select(isFirst, zeroSum(t, work.sum), value);
  }
  // Before the next call writes.
  t.barrier();
  return {before, all};
}

Value ColumnScan::partialAt(const ThreadBuilder &t, const Place &place, Value sums,
                            Value piece) const {
  Value row = t.add(t.mul(place.outer, layout.pieces), piece);
  return t.offset(sums, work.sum, t.add(t.mul(row, place.inner), place.column));
}

/// Of the pieces before the own one.
Values ColumnScan::sumBefore(const ThreadBuilder &t, const Place &place, Value sums) const {
  Value end = t.select(place.isInside, place.piece, t.i64(0));
  Values own = t.loop(place.height, end, t.i64(layout.height), zeros(t),
                      [&](const ThreadBuilder &b, Value i, ValueRange sum) {
                        Value at = partialAt(b, place, sums, i);
                        Values values;
                        for (int64_t lane = 0; lane < layout.lanes; ++lane) {
                          values.push_back(
                              b.load(work.sum, b.offset(at, work.sum, lane), byteSize(work.sum)));
                        }
                        return addStrips(b, sum, values);
                      });
  return overThreads(t, place, own).second;
}

Values ColumnScan::scanTile(const ThreadBuilder &t, Value from, Value to, const Place &place,
                            Value tile, ValueRange carry) const {
  SmallVector<Values> sums = loadTile(t, from, place, tile);
  for (int64_t step = 1; step < kSteps; ++step) {
    sums[step] = addStrips(t, sums[step - 1], sums[step]);
  }
  auto [before, all] = overThreads(t, place, sums.back());
  Values start = addStrips(t, carry, before);
  for (int64_t step = 0; step < kSteps; ++step) {
    bool isStart = work.isExclusive && step == 0;
    Values result = isStart ? start : addStrips(t, start, sums[work.isExclusive ? step - 1 : step]);
    storeStrip(t, to, place, numberOf(t, place, tile, step), result);
  }
  return addStrips(t, carry, all);
}

void ColumnScan::emitScan(std::optional<uint32_t> sums) {
  SmallVector<uint32_t> buffers = {work.input};
  if (sums) {
    buffers.push_back(*sums);
  }
  uint32_t reads = buffers.size();
  buffers.push_back(work.output);
  KernelFrame frame(region, buffers, reads, layout.threads());
  ThreadBuilder t = frame.code();
  Place place = findPlace(t, frame);
  Values carry = sums ? sumBefore(t, place, frame.buffer(1)) : zeros(t);
  t.loop(place.first, place.end, t.i64(1), carry,
         [&](const ThreadBuilder &b, Value tile, ValueRange carried) {
           return scanTile(b, frame.buffer(0), frame.buffer(reads), place, tile, carried);
         });
  frame.finish(blocks(), sharedBytes());
}

void ColumnScan::emitSums(uint32_t sums) {
  KernelFrame frame(region, {work.input, sums}, 1, layout.threads());
  ThreadBuilder t = frame.code();
  Place place = findPlace(t, frame);
  Values own = t.loop(place.first, place.end, t.i64(1), zeros(t),
                      [&](const ThreadBuilder &b, Value tile, ValueRange carried) {
                        Values sum(carried);
                        for (const Values &strip : loadTile(b, frame.buffer(0), place, tile)) {
                          sum = addStrips(b, sum, strip);
                        }
                        return sum;
                      });
  Values all = overThreads(t, place, own).second;
  Value stores = both(t, place.isInside, t.isEqual(place.height, t.i64(0)));
  t.when(stores, [&](const ThreadBuilder &b) {
    Value at = partialAt(b, place, frame.buffer(1), place.piece);
    for (auto [lane, value] : llvm::enumerate(all)) {
      b.store(value, b.offset(at, work.sum, static_cast<int64_t>(lane)), byteSize(work.sum));
    }
  });
  frame.finish(blocks(), sharedBytes());
}

} // namespace

void emitColumnScan(RegionBuilder &region, const ScanWork &work, const ScanLayout &layout) {
  ColumnScan scan(region, work, layout);
  std::optional<uint32_t> sums;
  if (layout.pieces > 1) {
    int64_t bytes = layout.pieces * byteSize(work.sum);
    sums = region.addTemporary(work.outer * work.inner * bytes);
    scan.emitSums(*sums);
  }
  scan.emitScan(sums);
}

} // namespace tenon::codegen::cuda
