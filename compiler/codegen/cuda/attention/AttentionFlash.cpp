// The frame of the flash kernel: the block's and the threads' places, loads, and the loop over
// tiles of keys. Relies on AttentionFlashStep.cpp for the body of the loop and
// AttentionFlashStore.cpp for its end.
#include "compiler/codegen/cuda/attention/AttentionFlash.h"

#include "compiler/codegen/cuda/attention/AttentionPages.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cuda {

namespace {

using Values = ThreadBuilder::Values;

/// Of rows that have seen no key. Where scores are not scaled, its product with the exponent's
/// factor must be exact (so a power of two), else it is the lowest float, since masks may hold
/// that.
double lowestScore(const AttentionProblem &problem) {
  return foldsScale(problem) ? -0x1p100 : -double(std::numeric_limits<float>::max());
}

} // namespace

int64_t FlashShape::group() const {
  return tile.joinsHeads ? *tn::constantDim(p.heads) / *tn::constantDim(p.keyHeads) : 1;
}

AffineExpr FlashShape::rowCount() const { return p.queries * group(); }

AffineExpr FlashShape::rowBlockCount() const {
  return p.sequences ? rowBlocksOf(p, tile.rows(), group()) : rowCount().ceilDiv(tile.rows());
}

FlashKernel::State FlashKernel::initialState(const ThreadBuilder &t) const {
  State state;
  Value zero = t.f32(0), lowest = t.f32(lowestScore(p));
  state.accumulators.assign(tile.rowTiles, SmallVector<Values>(valueSteps * 2, Values(4, zero)));
  state.maxima.assign(tile.rowTiles, Values(2, lowest));
  state.totals.assign(tile.rowTiles, Values(2, zero));
  return state;
}

Values FlashKernel::flatten(const State &state) const {
  Values all;
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    for (const Values &accumulators : state.accumulators[r]) {
      all.append(accumulators);
    }
    all.append(state.maxima[r]);
    all.append(state.totals[r]);
  }
  all.append(state.words);
  return all;
}

FlashKernel::State FlashKernel::unflatten(ValueRange values) const {
  State state;
  auto take = [&](size_t count) {
    Values part(values.take_front(count));
    values = values.drop_front(count);
    return part;
  };
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    SmallVector<Values> accumulators;
    for (int64_t n = 0; n < valueSteps * 2; ++n) {
      accumulators.push_back(take(4));
    }
    state.accumulators.push_back(accumulators);
    state.maxima.push_back(take(2));
    state.totals.push_back(take(2));
  }
  state.words = Values(values);
  return state;
}

/// Blocks are numbered [batch][head][block of rows][part of columns][split]: neighbours share keys
/// and values; or [block of rows][batch][head], where the heaviest come first.
void FlashKernel::placeBlock(const ThreadBuilder &t) {
  Value index = t.block();
  split = t.rem(index, tile.splits);
  index = t.div(index, tile.splits);
  if (valueParts > 1) {
    firstColumn = t.min(t.mul(t.rem(index, valueParts), valueWidth), t.i32(allValues - valueWidth));
    index = t.div(index, valueParts);
  }
  Value rowBlocks = frame.size32(rowBlockCount());
  Value heads = frame.size32(tile.joinsHeads ? p.keyHeads : p.heads);
  if (tile.isHeaviestFirst) {
    Value lists = p.sequences ? heads : t.mul(frame.size32(p.batches), heads);
    rowBlock = t.div(index, lists);
    index = t.rem(index, lists);
  } else {
    rowBlock = t.rem(index, rowBlocks);
    index = t.div(index, rowBlocks);
  }
  if (p.causal) {
    // The longest first.
    rowBlock = t.sub(t.sub(rowBlocks, t.i32(1)), rowBlock);
  }
  blockHead = t.rem(index, heads);
  bool isShared = !tile.joinsHeads && !tn::sameDim(p.heads, p.keyHeads);
  keyHead = isShared ? t.div(blockHead, t.div(heads, frame.size32(p.keyHeads))) : blockHead;

  Value warp = t.div(t.thread(), kWarp);
  lane = t.lane();
  rowWarp = t.rem(warp, tile.rowWarps);
  keyWarp = t.div(warp, tile.rowWarps);
  laneRow = t.div(lane, 4);
  laneColumn = t.mul(t.rem(lane, 4), 2);
  if (!p.sequences) {
    batch = t.div(index, heads);
    rows = frame.size32(rowCount());
    queryCount = frame.size32(p.queries);
    keyCount = frame.size32(p.keys);
    firstRow = t.mul(rowBlock, tile.rows());
  }
}

/// Row `g + 8 half` of each row tile. Rows past the last one read the last and are not stored.
void FlashKernel::placeRows(const ThreadBuilder &t) {
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    std::array<Row, 2> pair;
    for (int64_t part : {0, 1}) {
      Row &row = pair[part];
      Value tileRow = t.add(t.mul(rowWarp, tile.rowTiles * 16), r * 16 + part * 8);
      Value index = t.add(t.add(firstRow, tileRow), laneRow);
      row.valid = t.isLess(index, rows);
      index = t.min(index, t.sub(rows, t.i32(1)));
      if (p.sequences) {
        index = t.max(index, t.i32(0));
      }
      row.head = blockHead;
      row.query = index;
      if (tile.joinsHeads) {
        Value queries = p.sequences ? t.max(queryCount, t.i32(1)) : queryCount;
        row.head = t.add(t.mul(blockHead, group()), t.div(index, queries));
        row.query = t.rem(index, queries);
      }
      if (p.mask) {
        row.maskPointer = rowPointer(t, 3, *p.mask, row.head, row.query);
      }
    }
    placed.push_back(pair);
  }
}

/// The keys that each of the thread's rows sees.
void FlashKernel::limitRows(const ThreadBuilder &t) {
  for (std::array<Row, 2> &pair : placed) {
    for (Row &row : pair) {
      Value seen = p.causal ? t.add(t.add(row.query, start), 1) : keyCount;
      row.keyLimit = p.causal ? t.min(keyCount, seen) : keyCount;
      row.firstKey = p.window > 0 ? t.sub(seen, t.i32(p.window)) : Value();
    }
  }
}

/// The tiles of keys that this block goes over, every `splits`-th from `firstTile`: those below
/// `fullEnd` without any check of keys, those from there to `tilesEnd` with.
void FlashKernel::findTiles(const ThreadBuilder &t) {
  Value keys = keyCount, zero = t.i32(0);
  Value keysEnd = keys, fullKeys = keys;
  firstTile = tile.isParts ? zero : split;
  if (p.causal) {
    Value first = tile.joinsHeads ? start : t.add(start, firstRow);
    Value end = tile.joinsHeads ? queryCount : t.min(queryCount, t.add(firstRow, tile.rows()));
    Value firstSeen = t.add(first, 1);
    fullKeys = t.max(zero, t.min(keys, firstSeen));
    keysEnd = t.max(zero, t.min(keys, t.add(start, end)));
    if (p.window > 0) {
      Value hidden = t.min(keys, t.max(zero, t.sub(firstSeen, t.i32(p.window))));
      firstTile = t.div(hidden, stepKeys());
      firstTile = tile.isParts ? firstTile : t.add(firstTile, split);
    }
  }
  tilesEnd = t.ceilDiv(keysEnd, stepKeys());
  if (p.sequences) {
    tilesEnd = t.select(t.isLess(firstRow, rows), tilesEnd, zero);
  }
  fullEnd = t.min(t.div(fullKeys, stepKeys()), tilesEnd);
}

Value FlashKernel::rowPointer(const ThreadBuilder &t, unsigned position,
                              const StridedTensor &tensor, Value head, Value row) {
  return pointerTo(t, frame, position, tensor,
                   row ? Values{batch, head, row} : Values{batch, head});
}

Value FlashKernel::columnsPointer(const ThreadBuilder &t, unsigned position,
                                  const StridedTensor &tensor, Value head, Value row) {
  Value pointer = rowPointer(t, position, tensor, head, row);
  return firstColumn ? t.offset(pointer, tensor.element, firstColumn) : pointer;
}

/// Q as left operands, by row tile and step of 16 columns, straight from global memory.
void FlashKernel::loadQueries(const ThreadBuilder &t) {
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    std::array<Value, 2> pointers;
    for (int64_t part : {0, 1}) {
      const Row &row = placed[r][part];
      pointers[part] = t.offset(rowPointer(t, 0, p.q, row.head, row.query), element, laneColumn);
    }
    SmallVector<Values> steps;
    for (int64_t step = 0; step < depthSteps; ++step) {
      Values words;
      for (int64_t word = 0; word < 4; ++word) {
        int64_t column = step * 16 + word / 2 * 8;
        words.push_back(column < width
                            ? t.load(t.i32Type(), t.offset(pointers[word % 2], element, column), 4)
                            : t.i32(0));
      }
      steps.push_back(words);
    }
    queries.push_back(steps);
  }
}

/// What comes in front of it reads nothing that kernels before this one write.
void FlashKernel::waitAndLaunch() {
  frame.waitHere();
  frame.launchDependentsHere();
}

void FlashKernel::emit() {
  ThreadBuilder t = frame.code();
  shared = frame.dynamicShared(tile.isWarpgroup ? kTileAlignment : 16);
  placeBlock(t);
  Values keyPlace = {p.sequences ? t.i32(0) : batch, keyHead};
  keyPointer = pointerTo(t, frame, 1, p.k, keyPlace);
  valuePointer = pointerTo(t, frame, 2, p.v, keyPlace);
  valuePointer = firstColumn ? t.offset(valuePointer, element, firstColumn) : valuePointer;
  bool areRowsGiven = p.sequences && p.sequences->areGiven;
  if (!areRowsGiven) {
    waitAndLaunch();
  }
  if (tile.isClustered) {
    t.arriveAtCluster();
  }
  if (p.sequences) {
    placeSequence(t);
  } else if (p.causal) {
    start = startOf(t, frame, p);
  }
  placeRows(t);
  if (findsTilesLate()) {
    // The first tile is on its way before it is known where the queries are.
    firstTile = split;
    tilesEnd = t.ceilDiv(frame.size32(p.keys), tile.keys);
  } else {
    findTiles(t);
    limitRows(t);
  }
  if (tile.isParts) {
    doParts(t);
    return;
  }
  if (areRowsGiven) {
    waitAndLaunch();
  }
  if (p.sequences) {
    clearRows(t);
  }
  if (tile.isWarpgroup) {
    copyGroupQueries(t);
  }
  if (stagesMask()) {
    maskRows = rowPointer(t, 3, *p.mask, blockHead, {});
  }
  if (keepsMask()) {
    keepMask(t);
  }
  // The mask is asked for before the keys, whose first loads take long; the first tile is on its
  // way before it is known whether the mask needs it.
  List<MaskPiece> pieces;
  if (tile.endsAtMask) {
    pieces = firstPieces(t);
  }
  for (int64_t ahead = 0; ahead < tilesAhead(); ++ahead) {
    Value index = t.add(firstTile, ahead * tile.splits);
    t.when(t.isLess(index, tilesEnd), [&](const ThreadBuilder &inner) { copyTile(inner, index); });
    commitCopies(t);
    if (ahead > 0) {
      continue;
    }
    if (!tile.isWarpgroup) {
      loadQueries(t);
    }
    if (findsTilesLate()) {
      findTiles(t);
      limitRows(t);
    }
    if (tile.endsAtMask) {
      endAtMask(t, pieces);
    }
  }
  Value step = t.i32(tile.splits);
  auto pass = [&](Value from, Value to, ValueRange state, bool isEdge) {
    return t.loop(from, to, step, state,
                  [&](const ThreadBuilder &inner, Value index, ValueRange carried) {
                    return tile.overlaps ? overlappedStep(inner, index, unflatten(carried), isEdge,
                                                          /*isFirst=*/false)
                                         : this->step(inner, index, unflatten(carried), isEdge);
                  });
  };
  Values state = flatten(initialState(t));
  bool hasEdge = p.causal || endsInTile();
  Value hasTiles;
  if (tile.overlaps) {
    hasTiles = t.isLess(firstTile, tilesEnd);
    State none = initialState(t);
    none.words = Values(tile.keys / 4, t.i32(0));
    state = t.choose(
        hasTiles,
        [&](const ThreadBuilder &b) {
          return overlappedStep(b, firstTile, none, hasEdge, /*isFirst=*/true);
        },
        [&](const ThreadBuilder &) { return flatten(none); });
    firstTile = t.add(firstTile, 1);
  }
  if (p.window > 0) {
    fullEnd = t.i32(0);
  } else {
    state = pass(firstTile, fullEnd, state, /*isEdge=*/false);
  }
  if (hasEdge) {
    Value rest = t.max(t.i32(0), t.sub(fullEnd, firstTile));
    Value from = t.add(firstTile, t.mul(t.ceilDiv(rest, tile.splits), tile.splits));
    state = pass(from, tilesEnd, state, /*isEdge=*/true);
  }
  if (tile.overlaps) {
    state = t.choose(
        hasTiles, [&](const ThreadBuilder &b) { return lastValues(b, unflatten(state)); },
        [&](const ThreadBuilder &) { return state; });
  }
  State last = unflatten(state);
  if (tile.keyWarps > 1) {
    if (tile.isClustered) {
      sendParts(t, last);
      mergeCluster(t);
    } else {
      shareParts(t, last);
      mergeWarps(t);
    }
  } else {
    storeRows(t, last);
  }
}

} // namespace tenon::codegen::cuda
