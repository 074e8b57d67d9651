// From a thread's sums to the result: directly, or through shared memory where several warps did
// parts of the keys, or as partial results where several blocks did. Relies on AttentionCombine.cpp
// for the latter.
#include "compiler/codegen/cuda/AttentionFlash.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// The sum of a row's weights over the four lanes that hold it.
Value rowTotal(const ThreadBuilder &t, Value part) {
  Value pair = t.addF(part, t.shuffleXor(part, 1));
  return t.addF(pair, t.shuffleXor(pair, 2));
}

} // namespace

Value inverseTotal(const ThreadBuilder &t, Value total) {
  return t.divF(t.f32(1), t.maxF(total, t.f32(1e-30)));
}

void FlashKernel::storeRows(const ThreadBuilder &t, State &state) {
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    for (int64_t part : {0, 1}) {
      const Row &row = placed[r][part];
      Value inverse = inverseTotal(t, rowTotal(t, state.totals[r][part]));
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

/// Brings the sums of the warps that share rows into shared memory: [key warp][row][column], and
/// {maximum, total} of each before them.
void FlashKernel::mergeWarps(const ThreadBuilder &t, State &state) {
  Type real = t.f32Type();
  Value sums = t.offset(shared, real, tile.keyWarps * tile.rows() * 2);
  t.barrier();
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    for (int64_t part : {0, 1}) {
      Value row = t.add(t.mul(rowWarp, tile.rowTiles * 16), r * 16 + part * 8);
      row = t.add(t.add(row, t.mul(keyWarp, tile.rows())), laneRow);
      Value total = rowTotal(t, state.totals[r][part]);
      t.when(t.isEqual(laneColumn, t.i32(0)), [&](const ThreadBuilder &inner) {
        inner.store(inner.pack({state.maxima[r][part], total}),
                    inner.offset(shared, real, inner.mul(row, 2)), 8);
      });
      Value to = t.offset(sums, real, t.add(t.mul(row, sumPitch()), laneColumn));
      for (int64_t n = 0; n < valueSteps * 2; ++n) {
        Value pair = t.pack({state.sums[r][n][part * 2], state.sums[r][n][part * 2 + 1]});
        t.store(pair, t.offset(to, real, n * 8), 8);
      }
    }
  }
  t.barrier();
  storeMerged(t, sums, shared);
}

/// A row by threads() / rows() threads, two columns at a time.
void FlashKernel::storeMerged(const ThreadBuilder &t, Value sums, Value marks) {
  Type real = t.f32Type(), pairType = t.vectorType(2, t.f32Type());
  int64_t together = tile.threads() / tile.rows();
  Value row = t.div(t.thread(), together), first = t.mul(t.rem(t.thread(), together), 2);
  Value factor = t.f32(weightExponent(p)), maximum, total = t.f32(0);
  SmallVector<Value> places, maxima, totals;
  for (int64_t k = 0; k < tile.keyWarps; ++k) {
    places.push_back(t.add(row, k * tile.rows()));
    Value mark = t.load(pairType, t.offset(marks, real, t.mul(places[k], 2)), 8);
    maxima.push_back(t.extract(mark, 0));
    totals.push_back(t.extract(mark, 1));
    maximum = maximum ? t.maxF(maximum, maxima[k]) : maxima[k];
  }
  for (int64_t k = 0; k < tile.keyWarps; ++k) {
    maxima[k] = t.exp2(t.mulF(t.subF(maxima[k], maximum), factor));
    total = t.fma(totals[k], maxima[k], total);
  }
  Value index = t.add(firstRow, row), head = blockHead, query = index;
  if (tile.joinsHeads) {
    Value queryCount = shell.size32(p.queries);
    head = t.add(t.mul(blockHead, group()), t.div(index, queryCount));
    query = t.rem(index, queryCount);
  }
  bool isPartial = tile.splits > 1;
  unsigned output = p.mask ? 4 : 3;
  Value scale = isPartial ? t.f32(1) : inverseTotal(t, total), pointer, markPointer;
  if (isPartial) {
    Value all = t.add(t.mul(t.wide(batch), shell.size(p.heads)), t.wide(head));
    all = t.add(t.mul(all, shell.size(p.queries)), t.wide(query));
    AffineExpr count = p.batches * p.heads * p.queries;
    all = t.add(all, t.mul(t.wide(split), shell.size(count)));
    pointer = t.offset(shell.buffer(output), real, t.mul(all, valueWidth));
    markPointer = t.offset(shell.buffer(output + 1), real, t.mul(all, 2));
  } else {
    pointer = rowPointer(t, output, p.y, head, query);
  }
  t.when(t.isLess(index, rows), [&](const ThreadBuilder &inner) {
    for (int64_t c = 0; c < valueWidth; c += together * 2) {
      Value column = inner.add(first, c);
      auto store = [&](const ThreadBuilder &b) {
        Value low = b.f32(0), high = low;
        for (int64_t k = 0; k < tile.keyWarps; ++k) {
          Value at = b.add(b.mul(places[k], sumPitch()), column);
          Value pair = b.load(pairType, b.offset(sums, real, at), 8);
          low = b.fma(b.extract(pair, 0), maxima[k], low);
          high = b.fma(b.extract(pair, 1), maxima[k], high);
        }
        if (isPartial) {
          b.store(b.pack({low, high}), b.offset(pointer, real, column), 8);
        } else {
          b.store(b.packPair(element, b.mulF(low, scale), b.mulF(high, scale)),
                  b.offset(pointer, element, column), 4);
        }
      };
      if (c + together * 2 <= valueWidth) {
        store(inner);
      } else {
        inner.when(inner.isLess(column, inner.i32(valueWidth)), store);
      }
    }
    if (isPartial) {
      inner.when(inner.isEqual(first, inner.i32(0)), [&](const ThreadBuilder &b) {
        b.store(b.pack({maximum, total}), markPointer, 8);
      });
    }
  });
}

} // namespace tenon::codegen::cuda
