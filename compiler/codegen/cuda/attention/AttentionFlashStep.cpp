// One tile of keys: its copies to shared memory, scores, the running maximum and sum, and the
// product with V. Relies on the tile being under way when the step begins.
#include "compiler/codegen/cuda/attention/AttentionFlash.h"
#include "compiler/codegen/cuda/attention/AttentionPages.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

} // namespace

/// Starts copies of a tile's rows of K or V; rows past the last key and columns past the head's are
/// filled with zeros. 16 bytes a thread, neighbours in a row.
void FlashKernel::copyRows(const ThreadBuilder &t, Value pointer, const StridedTensor &tensor,
                           Value firstKey, Value to, int64_t columns, int64_t pitch,
                           const Values &pages) const {
  int64_t chunks = (columns + 15) / 16 * 2;
  int64_t lanes = llvm::PowerOf2Ceil(chunks), rowsPerStep = tile.threads() / lanes;
  Value row = t.div(t.thread(), lanes), chunk = t.rem(t.thread(), lanes);
  Value column = t.mul(chunk, 8);
  Value stride = frame.size64(tensor.strides[2]);
  auto copy = [&](const ThreadBuilder &inner, Value at, int64_t first) {
    Value key = inner.add(firstKey, at);
    Value isRead = endsInTile() ? inner.isLess(key, keyCount) : Value();
    if (columns % 16 != 0) {
      Value inside = inner.isLess(column, inner.i32(columns));
      isRead = isRead ? inner.bitAnd(isRead, inside) : inside;
    }
    Value bytes = isRead ? inner.select(isRead, inner.i32(16), inner.i32(0)) : Value();
    Value place = pages.empty()
                      ? inner.mul(inner.toI64(key), stride)
                      : placeInPage(inner, tensor, pages, firstKey, row, first, rowsPerStep);
    Value from = inner.add(place, inner.toI64(column));
    Value target = inner.add(inner.mul(at, pitch), column);
    copyAsync(inner, inner.offset(to, half, target), inner.offset(pointer, element, from), bytes);
  };
  for (int64_t first = 0; first < tile.keys; first += rowsPerStep) {
    Value at = t.add(row, first);
    Value needed = chunks < lanes ? t.isLess(chunk, t.i32(chunks)) : Value();
    if (first + rowsPerStep > tile.keys) {
      Value inside = t.isLess(at, t.i32(tile.keys));
      needed = needed ? t.bitAnd(needed, inside) : inside;
    }
    if (needed) {
      t.when(needed, [&](const ThreadBuilder &inner) { copy(inner, at, first); });
    } else {
      copy(t, at, first);
    }
  }
}

/// Where the tile with this index lies in shared memory.
Value FlashKernel::stageOf(const ThreadBuilder &t, Value index) const {
  Value stage = t.rem(t.div(index, tile.splits), tile.stages);
  return t.offset(shared, half, t.mul(stage, stageElements()));
}

void FlashKernel::copyTile(const ThreadBuilder &t, Value index) const {
  if (tile.isWarpgroup) {
    return copyGroupTile(t, index);
  }
  Value keysTo = stageOf(t, index);
  Value firstKey = t.mul(index, tile.keys);
  Values pages = pagesOfTile(t, firstKey);
  copyRows(t, keyPointer, p.k, firstKey, keysTo, width, keyPitch, pages);
  copyRows(t, valuePointer, p.v, firstKey, t.offset(keysTo, half, tile.keys * keyPitch), valueWidth,
           valuePitch, pages);
}

/// Products of Q and K, by row tile and 8 keys.
SmallVector<SmallVector<Values>> FlashKernel::scores(const ThreadBuilder &t, Value stage) const {
  if (tile.isWarpgroup) {
    return groupScores(t, stage);
  }
  TileSpot spot = columnsFirst(t);
  Value row = t.add(t.mul(keyWarp, warpKeys), spot.row);
  Value base = t.offset(stage, half, t.add(t.mul(row, keyPitch), spot.column));
  SmallVector<SmallVector<Values>> result(tile.rowTiles,
                                          SmallVector<Values>(warpKeys / 8, Values(4, t.f32(0))));
  for (int64_t step = 0; step < depthSteps; ++step) {
    for (int64_t keys = 0; keys < warpKeys; keys += 16) {
      Values b = loadMatrices(t, t.offset(base, half, keys * keyPitch + step * 16), false);
      for (int64_t r = 0; r < tile.rowTiles; ++r) {
        Values &left = result[r][keys / 8], &right = result[r][keys / 8 + 1];
        left = multiply(t, element, queries[r][step], {b[0], b[1]}, left);
        right = multiply(t, element, queries[r][step], {b[2], b[3]}, right);
      }
    }
  }
  return result;
}

/// Scale, mask, and -inf for keys out of reach.
void FlashKernel::finishScores(const ThreadBuilder &t, Value firstKey, bool isEdge,
                               const Values &mask, Value stage,
                               SmallVector<SmallVector<Values>> &scores) const {
  Value first = t.add(t.add(firstKey, t.mul(keyWarp, warpKeys)), laneColumn);
  Value scale = t.f32(p.scale), lowest = t.f32(-std::numeric_limits<float>::infinity());
  std::array<Values, 2> pairs;
  for (int64_t column = 0; column < warpKeys / 8 * 2; ++column) {
    Value key = t.add(first, column / 2 * 8 + column % 2), shared;
    if (stagesMask() && column % 2 == 0) {
      pairs = {maskPair(t, stage, 0, column * 4), maskPair(t, stage, 1, column * 4)};
    } else if (!mask.empty()) {
      shared = mask[column];
    } else if (sharesMask(p, tile.joinsHeads)) {
      shared = maskAt(t, placed[0][0], key, isEdge);
    }
    int64_t inThread = column / 2 * 8 + column % 2;
    for (int64_t r = 0; r < tile.rowTiles; ++r) {
      for (int64_t part : {0, 1}) {
        const Row &row = placed[r][part];
        Value &score = scores[r][column / 2][part * 2 + column % 2];
        if (p.mask) {
          Value added = stagesMask() ? pairs[part][column % 2]
                        : shared     ? shared
                                     : maskAt(t, row, key, isEdge);
          score = t.fma(score, scale, added);
        } else if (p.softcap > 0) {
          score = cappedScore(t, score, p);
        } else if (!foldsScale(p)) {
          score = t.mulF(score, scale);
        }
        if (isEdge) {
          score = t.select(t.isLess(t.i32(inThread), t.sub(row.keyLimit, first)), score, lowest);
        }
        if (isEdge && row.firstKey) {
          score = t.select(t.isLess(t.i32(inThread), t.sub(row.firstKey, first)), lowest, score);
        }
      }
    }
  }
}

/// Scores to probabilities relative to the new maxima. Returns what older accumulators of each row
/// have to be multiplied with; totals are.
SmallVector<Values> FlashKernel::weigh(const ThreadBuilder &t,
                                       SmallVector<SmallVector<Values>> &scores,
                                       State &state) const {
  Value factor = t.f32(weightExponent(p));
  SmallVector<Values> factors;
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    factors.emplace_back();
    for (int64_t part : {0, 1}) {
      Values top;
      for (Values &columns : scores[r]) {
        top.push_back(t.maxF(columns[part * 2], columns[part * 2 + 1]));
      }
      for (size_t count = top.size(); count > 1; count = (count + 1) / 2) {
        for (size_t i = 0; i < count / 2; ++i) {
          top[i] = t.maxF(top[i], top[count - 1 - i]);
        }
      }
      Value maximum = t.maxF(top[0], t.shuffleXor(top[0], 1));
      maximum = t.maxF(maximum, t.shuffleXor(maximum, 2));
      Value before = state.maxima[r][part];
      maximum = t.maxF(before, maximum);
      state.maxima[r][part] = maximum;
      Value shift = foldsScale(p) ? t.negF(t.mulF(maximum, factor)) : Value();
      auto probability = [&](Value score) {
        return t.exp2(shift ? t.fma(score, factor, shift) : t.mulF(t.subF(score, maximum), factor));
      };
      // A part begins with sums of zero.
      Value older = p.sequences ? Value() : probability(before);
      Value total = older ? t.mulF(state.totals[r][part], older) : state.totals[r][part];
      for (Values &columns : scores[r]) {
        for (int64_t i : {part * 2, part * 2 + 1}) {
          columns[i] = probability(columns[i]);
          total = t.addF(total, columns[i]);
        }
      }
      state.totals[r][part] = total;
      factors[r].push_back(older);
    }
  }
  return factors;
}

/// Brings accumulators to new maxima.
void FlashKernel::scaleSums(const ThreadBuilder &t, const SmallVector<Values> &older,
                            State &state) const {
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    for (Values &accumulators : state.accumulators[r]) {
      for (int64_t i = 0; i < 4; ++i) {
        accumulators[i] = t.mulF(accumulators[i], older[r][i / 2]);
      }
    }
  }
}

/// The probabilities of 16 keys, rounded: the words of a left operand.
Values FlashKernel::leftOperand(const ThreadBuilder &t, const SmallVector<Values> &probabilities,
                                int64_t firstKey) const {
  const Values &left = probabilities[firstKey / 8], &right = probabilities[firstKey / 8 + 1];
  return {t.packPair(element, left[0], left[1]), t.packPair(element, left[2], left[3]),
          t.packPair(element, right[0], right[1]), t.packPair(element, right[2], right[3])};
}

/// accumulators += probabilities V.
void FlashKernel::addValues(const ThreadBuilder &t, Value stage,
                            const SmallVector<SmallVector<Values>> &probabilities,
                            State &state) const {
  if (tile.isWarpgroup) {
    return addGroupValues(t, stage, probabilities[0], state.accumulators[0]);
  }
  TileSpot spot = rowsFirst(t);
  Value row = t.add(t.mul(keyWarp, warpKeys), spot.row);
  Value base = t.offset(stage, half, t.add(t.mul(row, valuePitch), spot.column));
  base = t.offset(base, half, tile.keys * keyPitch);
  for (int64_t keys = 0; keys < warpKeys; keys += 16) {
    SmallVector<Values> a;
    for (int64_t r = 0; r < tile.rowTiles; ++r) {
      a.push_back(leftOperand(t, probabilities[r], keys));
    }
    for (int64_t step = 0; step < valueSteps; ++step) {
      Values b = loadMatrices(t, t.offset(base, half, keys * valuePitch + step * 16), true);
      for (int64_t r = 0; r < tile.rowTiles; ++r) {
        Values &left = state.accumulators[r][step * 2],
               &right = state.accumulators[r][step * 2 + 1];
        left = multiply(t, element, a[r], {b[0], b[1]}, left);
        right = multiply(t, element, a[r], {b[2], b[3]}, right);
      }
    }
  }
}

/// Waits for a tile and asks for one of those after it.
void FlashKernel::turnToTile(const ThreadBuilder &t, Value index) const {
  waitForCopies(t, tilesAhead() - 1);
  if (tile.isWarpgroup) {
    releaseTiles(t);
  }
  // This tile is visible to all, and all are done with what the next one's place held.
  t.barrier();
  Value next = t.add(index, tilesAhead() * tile.splits);
  t.when(t.isLess(next, tilesEnd), [&](const ThreadBuilder &inner) { copyTile(inner, next); });
  commitCopies(t);
}

/// One tile of keys: those after it are under way while this one is worked on.
Values FlashKernel::step(const ThreadBuilder &t, Value index, const State &before,
                         bool isEdge) const {
  State state = before;
  Value firstKey = t.mul(index, tile.keys);
  Values mask = sharedMask(t, firstKey, isEdge);
  turnToTile(t, index);
  Value stage = stageOf(t, index);
  SmallVector<SmallVector<Values>> tileScores = scores(t, stage);
  if (keepsMask()) {
    mask = groupMask(t, firstKey);
  }
  finishScores(t, firstKey, isEdge, mask, stage, tileScores);
  State part = p.sequences ? initialState(t) : state;
  SmallVector<Values> older = weigh(t, tileScores, part);
  if (!p.sequences) {
    scaleSums(t, older, part);
  }
  addValues(t, stage, tileScores, part);
  if (p.sequences) {
    sumTotals(t, part);
    addPart(t, part, state);
    return flatten(state);
  }
  return flatten(part);
}

} // namespace tenon::codegen::cuda
