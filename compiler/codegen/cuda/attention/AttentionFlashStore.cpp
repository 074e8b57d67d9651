// From a thread's accumulators to the result: directly, or through shared memory where several
// warps did parts of the keys, or as partial results where several blocks did. Relies on
// AttentionCombine.cpp for the latter.
#include "compiler/codegen/cuda/attention/AttentionFlash.h"
#include "compiler/codegen/cuda/attention/Tuning.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// The sum over neighbouring lanes, a power of two of them.
Value sumOfLanes(const ThreadBuilder &t, Value value, int64_t lanes) {
  for (int64_t distance = 1; distance < lanes; distance *= 2) {
    value = t.addF(value, t.shuffleXor(value, distance));
  }
  return value;
}

} // namespace

void FlashKernel::storeRows(const ThreadBuilder &t, State &state) {
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    for (int64_t part : {0, 1}) {
      const Row &row = placed[r][part];
      Value total = state.totals[r][part];
      Value inverse = inverseTotal(t, frame, p, p.sequences ? total : sumOfLanes(t, total, 4));
      Value pointer =
          t.offset(columnsPointer(t, p.reads(), p.y, row.head, row.query), element, laneColumn);
      t.when(row.valid, [&](const ThreadBuilder &inner) {
        for (int64_t n = 0; n * 8 < valueWidth; ++n) {
          const Values &accumulators = state.accumulators[r][n];
          Value pair = inner.packPair(element, inner.mulF(accumulators[part * 2], inverse),
                                      inner.mulF(accumulators[part * 2 + 1], inverse));
          inner.store(pair, inner.offset(pointer, element, n * 8), 4);
        }
      });
    }
  }
}

int64_t FlashShape::partRows() const {
  return std::min(tn::constantDim(rowCount()).value_or(tile.rows()), tile.rows());
}

/// Brings the accumulators of the warps that share rows into shared memory: {maximum, total} of
/// [key warp][row], then [key warp][row][column].
void FlashKernel::shareParts(const ThreadBuilder &t, State &state) {
  Type real = t.f32Type();
  Value marks = t.offset(shared, t.builder.getI8Type(), partsOffset());
  Value accumulators = t.offset(marks, real, tile.keyWarps * partRows() * 2);
  auto store = [&](const ThreadBuilder &b, Value tileRow, int64_t r, int64_t part, Value total) {
    Value row = b.add(b.mul(keyWarp, partRows()), tileRow);
    b.when(b.isEqual(laneColumn, b.i32(0)), [&](const ThreadBuilder &inner) {
      inner.store(inner.pack({state.maxima[r][part], total}),
                  inner.offset(marks, real, inner.mul(row, 2)), 8);
    });
    Value to = b.offset(accumulators, real, b.add(b.mul(row, sumPitch()), laneColumn));
    for (int64_t n = 0; n < valueSteps * 2; ++n) {
      Value pair =
          b.pack({state.accumulators[r][n][part * 2], state.accumulators[r][n][part * 2 + 1]});
      b.store(pair, b.offset(to, real, n * 8), 8);
    }
  };
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    for (int64_t part : {0, 1}) {
      Value row = t.add(t.add(t.mul(rowWarp, tile.rowTiles * 16), r * 16 + part * 8), laneRow);
      Value total = sumOfLanes(t, state.totals[r][part], 4);
      if (partRows() == tile.rows()) {
        store(t, row, r, part, total);
      } else {
        t.when(t.isLess(row, t.i32(partRows())),
               [&](const ThreadBuilder &b) { store(b, row, r, part, total); });
      }
    }
  }
}

/// What the parts of a row count relative to the row's maximum.
FlashKernel::RowParts FlashKernel::weighParts(const ThreadBuilder &t, Value row) const {
  Type real = t.f32Type(), pairType = t.vectorType(2, real);
  Value marks = t.offset(shared, t.builder.getI8Type(), partsOffset());
  Value accumulators = t.offset(marks, real, tile.keyWarps * partRows() * 2);
  RowParts parts;
  Values totals;
  for (int64_t part = 0; part < tile.keyWarps; ++part) {
    Value at = t.add(row, part * partRows());
    Value mark = t.load(pairType, t.offset(marks, real, t.mul(at, 2)), 8);
    parts.columns.push_back(t.offset(accumulators, real, t.mul(at, sumPitch())));
    parts.weights.push_back(t.extract(mark, 0));
    totals.push_back(t.extract(mark, 1));
  }
  finish(t, parts, totals, 1);
  return parts;
}

/// From the maxima and totals of parts to their weights and the total of all.
void FlashKernel::finish(const ThreadBuilder &t, RowParts &parts, ArrayRef<Value> totals,
                         int64_t lanes) const {
  Value factor = t.f32(weightExponent(p));
  parts.maximum = parts.weights.front();
  for (Value maximum : ArrayRef(parts.weights).drop_front()) {
    parts.maximum = t.maxF(parts.maximum, maximum);
  }
  for (int64_t distance = 1; distance < lanes; distance *= 2) {
    parts.maximum = t.maxF(parts.maximum, t.shuffleXor(parts.maximum, distance));
  }
  parts.total = t.f32(0);
  for (auto [weight, total] : llvm::zip(parts.weights, totals)) {
    weight = t.exp2(t.mulF(t.subF(weight, parts.maximum), factor));
    parts.total = t.fma(total, weight, parts.total);
  }
  parts.total = sumOfLanes(t, parts.total, lanes);
}

/// Adds up the parts of the warps of a block: a few threads do a row.
void FlashKernel::mergeWarps(const ThreadBuilder &t) {
  t.barrier();
  int64_t pairs = valueWidth / 2, together = tile.threads() / llvm::PowerOf2Ceil(partRows());
  Value row = t.div(t.thread(), together), first = t.rem(t.thread(), together);
  Value isMine = t.isLess(t.add(firstRow, row), rows);
  if (!llvm::isPowerOf2_64(partRows())) {
    isMine = t.bitAnd(isMine, t.isLess(row, t.i32(partRows())));
    row = t.min(row, t.i32(partRows() - 1));
  }
  RowParts parts = weighParts(t, row);
  auto merge = [&](const ThreadBuilder &b, Value pair) {
    Value column = b.mul(pair, 2), low = b.f32(0), high = low;
    for (auto [columns, weight] : llvm::zip(parts.columns, parts.weights)) {
      Value accumulators =
          b.load(b.vectorType(2, b.f32Type()), b.offset(columns, b.f32Type(), column), 8);
      low = b.fma(b.extract(accumulators, 0), weight, low);
      high = b.fma(b.extract(accumulators, 1), weight, high);
    }
    storeMerged(b, row, column, parts, low, high);
  };
  t.when(isMine, [&](const ThreadBuilder &b) {
    for (int64_t done = 0; done < pairs; done += together) {
      Value pair = b.add(first, done);
      if (done + together <= pairs) {
        merge(b, pair);
      } else {
        b.when(b.isLess(pair, b.i32(pairs)), [&](const ThreadBuilder &c) { merge(c, pair); });
      }
    }
  });
}

/// Sends the parts to the blocks of the cluster that add them up: each does a share of the places
/// (two columns of a row), for which it gets {columns, maximum, total} of [warp of the
/// cluster][place].
void FlashKernel::sendParts(const ThreadBuilder &t, State &state) {
  int64_t pairs = valueWidth / 2;
  Value area = t.offset(shared, t.builder.getI8Type(), partsOffset());
  Value sender = t.mul(t.add(t.mul(split, tile.keyWarps), keyWarp), placePitch());
  // The memory of a block may be written to only once the block runs.
  t.waitForCluster();
  for (int64_t part = 0; part < 2 && part * 8 < partRows(); ++part) {
    Value total = sumOfLanes(t, state.totals[0][part], 4), row = t.add(laneRow, part * 8);
    auto send = [&](const ThreadBuilder &b) {
      for (int64_t n = 0; n * 8 < valueWidth; ++n) {
        Value place = b.add(b.add(b.mul(row, pairs), b.div(laneColumn, 2)), n * 4);
        Value to = b.remote(area, b.div(place, share()));
        to = b.offset(to, b.f32Type(), b.mul(b.add(sender, b.rem(place, share())), 4));
        const Values &accumulators = state.accumulators[0][n];
        b.store(b.pack({accumulators[part * 2], accumulators[part * 2 + 1], state.maxima[0][part],
                        total}),
                to, 16);
      }
    };
    if (part * 8 + 8 <= partRows()) {
      send(t);
    } else {
      t.when(t.isLess(row, t.i32(partRows())), send);
    }
  }
}

/// Adds up what the warps of the cluster sent: a few neighbouring lanes do a place.
void FlashKernel::mergeCluster(const ThreadBuilder &t) {
  int64_t pairs = valueWidth / 2, places = partRows() * pairs, lanes = 1;
  int64_t senders = tile.splits * tile.keyWarps;
  while (lanes < std::min(tuning::kMergingLanes, senders) &&
         share() * lanes * 2 <= tile.threads()) {
    lanes *= 2;
  }
  t.arriveAtCluster();
  t.waitForCluster();
  Value area = t.offset(shared, t.builder.getI8Type(), partsOffset());
  Value lane = t.rem(t.thread(), lanes), first = t.div(t.thread(), lanes);
  for (int64_t done = 0; done < share(); done += tile.threads() / lanes) {
    Value number = t.add(first, done), place = t.add(number, t.mul(split, share()));
    Value isMine = t.bitAnd(t.isLess(number, t.i32(share())), t.isLess(place, t.i32(places)));
    isMine = t.bitAnd(isMine, t.isEqual(lane, t.i32(0)));
    number = t.min(number, t.i32(share() - 1));
    RowParts parts;
    Values totals, received;
    for (int64_t sender = 0; sender < senders; sender += lanes) {
      Value at = t.add(t.mul(t.add(lane, sender), placePitch()), number);
      Value part =
          t.load(t.vectorType(4, t.f32Type()), t.offset(area, t.f32Type(), t.mul(at, 4)), 16);
      received.push_back(part);
      parts.weights.push_back(t.extract(part, 2));
      totals.push_back(t.extract(part, 3));
    }
    finish(t, parts, totals, lanes);
    Value low = t.f32(0), high = low;
    for (auto [part, weight] : llvm::zip(received, parts.weights)) {
      low = t.fma(t.extract(part, 0), weight, low);
      high = t.fma(t.extract(part, 1), weight, high);
    }
    low = sumOfLanes(t, low, lanes);
    high = sumOfLanes(t, high, lanes);
    Value row = t.div(place, pairs), column = t.mul(t.rem(place, pairs), 2);
    isMine = t.bitAnd(isMine, t.isLess(t.add(firstRow, row), rows));
    t.when(isMine, [&](const ThreadBuilder &b) { storeMerged(b, row, column, parts, low, high); });
  }
}

/// Two columns of a row of the result, or of the partial results that a second kernel adds up.
void FlashKernel::storeMerged(const ThreadBuilder &t, Value row, Value column,
                              const RowParts &parts, Value low, Value high) {
  Value index = t.add(firstRow, row), head = blockHead, query = index;
  if (tile.joinsHeads) {
    Value queries = p.sequences ? t.max(queryCount, t.i32(1)) : queryCount;
    head = t.add(t.mul(blockHead, group()), t.div(index, queries));
    query = t.rem(index, queries);
  }
  unsigned output = p.reads();
  if (tile.splits == 1 || tile.isClustered) {
    Value scale = inverseTotal(t, frame, p, parts.total);
    t.store(t.packPair(element, t.mulF(low, scale), t.mulF(high, scale)),
            t.offset(columnsPointer(t, output, p.y, head, query), element, column), 4);
    return;
  }
  Type real = t.f32Type();
  Value at = t.add(t.mul(t.toI64(batch), frame.size64(p.heads)), t.toI64(head));
  at = t.add(t.mul(at, frame.size64(p.queries)), t.toI64(query));
  at = t.add(at, t.mul(t.toI64(split), frame.size64(p.batches * p.heads * p.queries)));
  Value pointer = t.offset(frame.buffer(output), real, t.mul(at, valueWidth));
  t.store(t.pack({low, high}), t.offset(pointer, real, column), 8);
  t.when(t.isEqual(column, t.i32(0)), [&](const ThreadBuilder &b) {
    b.store(b.pack({parts.maximum, parts.total}),
            b.offset(frame.buffer(output + 1), real, b.mul(at, 2)), 8);
  });
}

} // namespace tenon::codegen::cuda
