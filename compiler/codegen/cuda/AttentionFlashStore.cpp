// From a thread's sums to the result: directly, or through shared memory where several warps did
// parts of the keys, or as partial results where several blocks did. Relies on AttentionCombine.cpp
// for the latter.
#include "compiler/codegen/cuda/AttentionFlash.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Lanes that add up the parts of a place together: enough to have most loads from other blocks
/// under way at once.
constexpr int64_t kMergingLanes = 8;

/// The sum over neighbouring lanes, a power of two of them.
Value sumOfLanes(const ThreadBuilder &t, Value value, int64_t lanes) {
  for (int64_t distance = 1; distance < lanes; distance *= 2) {
    value = t.addF(value, t.shuffleXor(value, distance));
  }
  return value;
}

} // namespace

Value inverseTotal(const ThreadBuilder &t, Value total) {
  return t.divF(t.f32(1), t.maxF(total, t.f32(1e-30)));
}

void FlashKernel::storeRows(const ThreadBuilder &t, State &state) {
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    for (int64_t part : {0, 1}) {
      const Row &row = placed[r][part];
      Value inverse = inverseTotal(t, sumOfLanes(t, state.totals[r][part], 4));
      Value pointer =
          t.offset(rowPointer(t, p.mask ? 4 : 3, p.y, row.head, row.query), element, laneColumn);
      t.when(row.valid, [&](const ThreadBuilder &inner) {
        for (int64_t n = 0; n * 8 < valueWidth; ++n) {
          const Values &sums = state.sums[r][n];
          Value pair = inner.packPair(element, inner.mulF(sums[part * 2], inverse),
                                      inner.mulF(sums[part * 2 + 1], inverse));
          inner.store(pair, inner.offset(pointer, element, n * 8), 4);
        }
      });
    }
  }
}

/// Rows of a block that warps or blocks share, without those that no block has.
int64_t FlashKernel::partRows() const {
  return std::min(tn::constantDim(rowCount()).value_or(tile.rows()), tile.rows());
}

/// Brings the sums of the warps that share rows into shared memory: {maximum, total} of [key
/// warp][row], then [key warp][row][column].
void FlashKernel::shareParts(const ThreadBuilder &t, State &state) {
  Type real = t.f32Type();
  Value marks = t.offset(shared, t.builder.getI8Type(), partsOffset());
  Value sums = t.offset(marks, real, tile.keyWarps * partRows() * 2);
  auto store = [&](const ThreadBuilder &b, Value tileRow, int64_t r, int64_t part, Value total) {
    Value row = b.add(b.mul(keyWarp, partRows()), tileRow);
    b.when(b.isEqual(laneColumn, b.i32(0)), [&](const ThreadBuilder &inner) {
      inner.store(inner.pack({state.maxima[r][part], total}),
                  inner.offset(marks, real, inner.mul(row, 2)), 8);
    });
    Value to = b.offset(sums, real, b.add(b.mul(row, sumPitch()), laneColumn));
    for (int64_t n = 0; n < valueSteps * 2; ++n) {
      Value pair = b.pack({state.sums[r][n][part * 2], state.sums[r][n][part * 2 + 1]});
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

/// What the parts of a row that a lane adds up count, relative to the row's maximum.
FlashKernel::RowParts FlashKernel::weighParts(const ThreadBuilder &t, Value row, Value firstPart,
                                              int64_t lanes) const {
  Type real = t.f32Type(), pairType = t.vectorType(2, real);
  Value own = t.offset(shared, t.builder.getI8Type(), partsOffset());
  Value factor = t.f32(weightExponent(p));
  RowParts parts;
  Values totals;
  for (int64_t first = 0; first < clusterBlocks() * tile.keyWarps; first += lanes) {
    Value part = t.add(firstPart, first);
    Value from = clusterBlocks() > 1 ? t.remote(own, t.div(part, tile.keyWarps)) : own;
    Value at = t.add(t.mul(t.rem(part, tile.keyWarps), partRows()), row);
    Value mark = t.load(pairType, t.offset(from, real, t.mul(at, 2)), 8);
    Value columns = t.offset(from, real, tile.keyWarps * partRows() * 2);
    parts.columns.push_back(t.offset(columns, real, t.mul(at, sumPitch())));
    parts.weights.push_back(t.extract(mark, 0));
    totals.push_back(t.extract(mark, 1));
  }
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
  return parts;
}

/// Adds up two columns of a row and stores them, if the place is the thread's.
void FlashKernel::mergeColumns(const ThreadBuilder &t, const RowParts &parts, Value row,
                               Value column, Value isMine, int64_t lanes) {
  Type real = t.f32Type();
  Value low = t.f32(0), high = low;
  for (auto [columns, weight] : llvm::zip(parts.columns, parts.weights)) {
    Value pair = t.load(t.vectorType(2, real), t.offset(columns, real, column), 8);
    low = t.fma(t.extract(pair, 0), weight, low);
    high = t.fma(t.extract(pair, 1), weight, high);
  }
  low = sumOfLanes(t, low, lanes);
  high = sumOfLanes(t, high, lanes);
  Value isRow = t.isLess(t.add(firstRow, row), rows);
  t.when(isMine ? t.bitAnd(isMine, isRow) : isRow, [&](const ThreadBuilder &inner) {
    storeMerged(inner, row, column, parts, low, high);
  });
}

/// Adds up the parts of the warps of a block: a few threads do a row.
void FlashKernel::mergeWarps(const ThreadBuilder &t) {
  t.barrier();
  int64_t pairs = valueWidth / 2, together = tile.threads() / llvm::PowerOf2Ceil(partRows());
  Value row = t.div(t.thread(), together), first = t.rem(t.thread(), together);
  Value last = t.i32(partRows() - 1);
  Value isRow = llvm::isPowerOf2_64(partRows()) ? Value() : t.isLess(row, t.i32(partRows()));
  row = isRow ? t.min(row, last) : row;
  RowParts parts = weighParts(t, row, t.i32(0), /*lanes=*/1);
  for (int64_t done = 0; done < pairs; done += together) {
    Value pair = t.add(first, done), isMine = isRow;
    if (done + together > pairs) {
      Value isPair = t.isLess(pair, t.i32(pairs));
      isMine = isMine ? t.bitAnd(isMine, isPair) : isPair;
      pair = t.min(pair, t.i32(pairs - 1));
    }
    mergeColumns(t, parts, row, t.mul(pair, 2), isMine, /*lanes=*/1);
  }
}

/// Adds up the parts of the warps of all blocks of a cluster: each block does a share of the places
/// (two columns of a row), of which each is done by a few neighbouring lanes.
void FlashKernel::mergeCluster(const ThreadBuilder &t) {
  int64_t pairs = valueWidth / 2, places = partRows() * pairs;
  int64_t share = (places + tile.splits - 1) / tile.splits, lanes = 1;
  while (lanes < std::min<int64_t>(kMergingLanes, tile.splits * tile.keyWarps) &&
         share * lanes * 2 <= tile.threads()) {
    lanes *= 2;
  }
  t.clusterBarrier();
  Value part = t.rem(t.thread(), lanes), first = t.div(t.thread(), lanes);
  for (int64_t done = 0; done < share; done += tile.threads() / lanes) {
    Value number = t.add(first, done), place = t.add(number, t.mul(split, share));
    Value isMine = t.bitAnd(t.isLess(number, t.i32(share)), t.isLess(place, t.i32(places)));
    isMine = t.bitAnd(isMine, t.isEqual(part, t.i32(0)));
    place = t.min(place, t.i32(places - 1));
    Value row = t.div(place, pairs);
    RowParts parts = weighParts(t, row, part, lanes);
    mergeColumns(t, parts, row, t.mul(t.rem(place, pairs), 2), isMine, lanes);
  }
  // No block ends while another one reads its memory.
  t.clusterBarrier();
}

/// Two columns of a row of the result, or of the partial results that a second kernel adds up.
void FlashKernel::storeMerged(const ThreadBuilder &t, Value row, Value column,
                              const RowParts &parts, Value low, Value high) {
  Value index = t.add(firstRow, row), head = blockHead, query = index;
  if (tile.joinsHeads) {
    Value queryCount = shell.size32(p.queries);
    head = t.add(t.mul(blockHead, group()), t.div(index, queryCount));
    query = t.rem(index, queryCount);
  }
  unsigned output = p.mask ? 4 : 3;
  if (tile.splits == 1 || tile.isClustered) {
    Value scale = inverseTotal(t, parts.total);
    t.store(t.packPair(element, t.mulF(low, scale), t.mulF(high, scale)),
            t.offset(rowPointer(t, output, p.y, head, query), element, column), 4);
    return;
  }
  Type real = t.f32Type();
  Value at = t.add(t.mul(t.wide(batch), shell.size(p.heads)), t.wide(head));
  at = t.add(t.mul(at, shell.size(p.queries)), t.wide(query));
  at = t.add(at, t.mul(t.wide(split), shell.size(p.batches * p.heads * p.queries)));
  Value pointer = t.offset(shell.buffer(output), real, t.mul(at, valueWidth));
  t.store(t.pack({low, high}), t.offset(pointer, real, column), 8);
  t.when(t.isEqual(column, t.i32(0)), [&](const ThreadBuilder &b) {
    b.store(b.pack({parts.maximum, parts.total}),
            b.offset(shell.buffer(output + 1), real, b.mul(at, 2)), 8);
  });
}

} // namespace tenon::codegen::cuda
