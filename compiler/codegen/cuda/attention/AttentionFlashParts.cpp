// Attention over pages by parts of keys: each has a maximum and sums of its own, which are added in
// the order of the keys. So the sums of a row are the same whether one warp goes through the parts,
// or warps and blocks share them. Relies on the steps of the flash form for a part.
#include "compiler/codegen/cuda/attention/AttentionFlash.h"
#include "compiler/codegen/cuda/attention/AttentionPages.h"
#include "compiler/codegen/cuda/attention/Tuning.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// What a part and the sums before it count relative to the maximum of both.
struct PartWeights {
  Value maximum, before, part;
};

PartWeights partWeightsOf(const ThreadBuilder &t, Value before, Value part, Value factor) {
  Value maximum = t.maxF(before, part);
  auto weight = [&](Value own) { return t.exp2(t.mulF(t.subF(own, maximum), factor)); };
  return {maximum, weight(before), weight(part)};
}

Value addWeighted(const ThreadBuilder &t, const PartWeights &weights, Value before, Value part) {
  return t.fma(part, weights.part, t.mulF(before, weights.before));
}

/// Slots of a round that a thread has loads of under way.
constexpr int64_t kSlotsAtOnce = 4;

} // namespace

void FlashKernel::sumTotals(const ThreadBuilder &t, State &part) const {
  for (Values &totals : part.totals) {
    for (Value &total : totals) {
      total = t.addF(total, t.shuffleXor(total, 1));
      total = t.addF(total, t.shuffleXor(total, 2));
    }
  }
}

void FlashKernel::addPart(const ThreadBuilder &t, const State &part, State &state) const {
  Value factor = t.f32(weightExponent(p));
  for (int64_t r = 0; r < tile.rowTiles; ++r) {
    for (int64_t half : {0, 1}) {
      PartWeights weights = partWeightsOf(t, state.maxima[r][half], part.maxima[r][half], factor);
      state.maxima[r][half] = weights.maximum;
      Value &total = state.totals[r][half];
      total = addWeighted(t, weights, total, part.totals[r][half]);
      for (auto [sums, own] : llvm::zip(state.accumulators[r], part.accumulators[r])) {
        for (int64_t i : {half * 2, half * 2 + 1}) {
          sums[i] = addWeighted(t, weights, sums[i], own[i]);
        }
      }
    }
  }
}

/// Starts the warp's copies of its rows of K or V of a part.
void FlashKernel::copyPart(const ThreadBuilder &t, Value part, const Values &pages,
                           bool isKeys) const {
  const StridedTensor &tensor = isKeys ? p.k : p.v;
  Value pointer = isKeys ? keyPointer : valuePointer;
  int64_t columns = isKeys ? width : valueWidth, pitch = isKeys ? keyPitch : valuePitch;
  int64_t chunks = (columns + 15) / 16 * 2, lanes = llvm::PowerOf2Ceil(chunks);
  int64_t rowsPerStep = kWarp / lanes;
  Value row = t.div(lane, lanes), chunk = t.rem(lane, lanes), column = t.mul(chunk, 8);
  Value firstKey = t.mul(part, warpKeys);
  Value to = t.offset(shared, half, t.mul(t.add(t.mul(keyWarp, warpKeys), row), pitch));
  to = t.offset(t.offset(to, half, column), half, isKeys ? 0 : tile.keys * keyPitch);
  auto copy = [&](const ThreadBuilder &b) {
    for (int64_t first = 0; first < warpKeys; first += rowsPerStep) {
      Value isRead = b.isLess(b.add(b.add(firstKey, row), first), keyCount);
      if (columns % 16 != 0) {
        isRead = b.bitAnd(isRead, b.isLess(column, b.i32(columns)));
      }
      Value from = placeInPage(b, tensor, pages, firstKey, row, first, rowsPerStep);
      from = b.offset(b.offset(pointer, element, from), element, column);
      copyAsync(b, b.offset(to, half, first * pitch), from, b.select(isRead, b.i32(16), b.i32(0)));
    }
  };
  if (chunks < lanes) {
    t.when(t.isLess(chunk, t.i32(chunks)), copy);
  } else {
    copy(t);
  }
}

/// To the slot of the part in the blocks that bring columns together: [slot][row][column], and
/// behind all of these {maximum, total} of [slot][row].
void FlashKernel::sendPart(const ThreadBuilder &t, const State &part) const {
  Type real = t.f32Type();
  Value slot = t.mul(t.add(t.mul(keyWarp, tile.splits), split), kMmaRows);
  Value sums = t.offset(shared, t.builder.getI8Type(), partsOffset());
  Value marks = t.offset(sums, real, slots() * kMmaRows * slotPitch());
  auto inBlock = [&](const ThreadBuilder &b, Value pointer, Value owner) {
    return tile.isClustered ? b.remote(pointer, owner) : pointer;
  };
  for (int64_t half : {0, 1}) {
    Value row = t.add(laneRow, half * 8);
    t.when(t.isLess(t.add(firstRow, row), rows), [&](const ThreadBuilder &b) {
      Value place = b.add(slot, row);
      for (int64_t n = 0; n * 8 < valueWidth; ++n) {
        Value pair = b.add(b.div(laneColumn, 2), n * 4), owner = b.div(pair, ownPairs());
        Value at = b.add(b.mul(place, slotPitch()), b.mul(b.rem(pair, ownPairs()), 2));
        const Values &own = part.accumulators[0][n];
        b.store(b.pack({own[half * 2], own[half * 2 + 1]}),
                b.offset(inBlock(b, sums, owner), real, at), 8);
      }
      // The four lanes of a row share the blocks.
      Value mark = b.pack({part.maxima[0][half], part.totals[0][half]});
      for (int64_t first = 0; first < tile.splits; first += 4) {
        Value owner = b.add(b.div(laneColumn, 2), first);
        b.when(b.isLess(owner, b.i32(tile.splits)), [&](const ThreadBuilder &c) {
          c.store(mark, c.offset(inBlock(c, marks, owner), real, c.mul(place, 2)), 8);
        });
      }
    });
  }
}

void FlashKernel::meet(const ThreadBuilder &t) const {
  if (tile.isClustered) {
    t.arriveAtCluster();
    t.waitForCluster();
  } else {
    t.barrier();
  }
}

/// Adds the first `count` slots to {maximum, total, two columns} of a place of the block's.
Values FlashKernel::addSlots(const ThreadBuilder &t, Value place, Value count,
                             ValueRange before) const {
  Type real = t.f32Type(), pairType = t.vectorType(2, real);
  Value factor = t.f32(weightExponent(p));
  Value row = t.div(place, ownPairs()), column = t.mul(t.rem(place, ownPairs()), 2);
  Value sums = t.offset(shared, t.builder.getI8Type(), partsOffset());
  Value marks = t.offset(sums, real, slots() * kMmaRows * slotPitch());
  int64_t together = std::min(kSlotsAtOnce, slots());
  return t.loop(t.i32(0), count, t.i32(together), before,
                [&](const ThreadBuilder &b, Value first, ValueRange carried) -> Values {
                  Values state(carried), loadedMarks, loadedSums;
                  for (int64_t i = 0; i < together; ++i) {
                    Value at = b.add(b.mul(b.add(first, i), kMmaRows), row);
                    loadedMarks.push_back(b.load(pairType, b.offset(marks, real, b.mul(at, 2)), 8));
                    Value from =
                        b.offset(b.offset(sums, real, b.mul(at, slotPitch())), real, column);
                    loadedSums.push_back(b.load(pairType, from, 8));
                  }
                  for (int64_t i = 0; i < together; ++i) {
                    // Behind the last one a part that has seen no key, which changes nothing.
                    Value isThere = b.isLess(b.add(first, i), count);
                    auto held = [&](Value pair, int64_t lane, Value other) {
                      return b.select(isThere, b.extract(pair, lane), other);
                    };
                    PartWeights weights =
                        partWeightsOf(b, state[0], held(loadedMarks[i], 0, state[0]), factor);
                    Value zero = b.f32(0);
                    state = {weights.maximum,
                             addWeighted(b, weights, state[1], held(loadedMarks[i], 1, zero)),
                             addWeighted(b, weights, state[2], held(loadedSums[i], 0, zero)),
                             addWeighted(b, weights, state[3], held(loadedSums[i], 1, zero))};
                  }
                  return state;
                });
}

/// In a round each warp does a part, part by part in turn over blocks and then warps; the next
/// one's copies begin as soon as its place is free.
void FlashKernel::doParts(const ThreadBuilder &t) {
  Value zero = t.i32(0);
  auto partOf = [&](const ThreadBuilder &b, Value round) {
    Value number = b.add(b.mul(b.add(b.mul(round, tile.keyWarps), keyWarp), tile.splits), split);
    return b.add(firstTile, number);
  };
  Value first = partOf(t, zero);
  Values firstPages = pagesOfTile(t, t.mul(first, warpKeys));
  if (p.sequences->areGiven) {
    waitAndLaunch();
  }
  t.when(t.isLess(first, tilesEnd), [&](const ThreadBuilder &b) {
    copyPart(b, first, firstPages, /*isKeys=*/true);
    copyPart(b, first, firstPages, /*isKeys=*/false);
    commitCopies(b);
  });
  clearRows(t);
  loadQueries(t);
  if (tile.isClustered) {
    // The memory of a block may be written to only once the block runs.
    t.waitForCluster();
  }
  Value rounds = t.ceilDiv(t.max(zero, t.sub(tilesEnd, firstTile)), slots());
  int64_t places = kMmaRows * ownPairs(), perThread = llvm::divideCeil(places, tile.threads());
  Value validRows = t.min(t.i32(kMmaRows), t.max(zero, t.sub(rows, firstRow)));
  Value ownPlaces = t.mul(validRows, ownPairs());
  State empty = initialState(t);
  Values state;
  for (int64_t i = 0; i < perThread; ++i) {
    state.append({empty.maxima[0][0], t.f32(0), t.f32(0), t.f32(0)});
  }
  auto placeOf = [&](const ThreadBuilder &b, int64_t i) {
    return b.add(b.thread(), i * tile.threads());
  };
  state = t.loop(
      zero, rounds, t.i32(1), state,
      [&](const ThreadBuilder &b, Value round, ValueRange carried) -> Values {
        Value part = partOf(b, round), next = partOf(b, b.add(round, 1));
        auto copyNext = [&](const ThreadBuilder &c, bool isKeys) {
          c.warpBarrier();
          c.when(c.isLess(next, tilesEnd), [&](const ThreadBuilder &d) {
            copyPart(d, next, pagesOfTile(d, d.mul(next, warpKeys)), isKeys);
          });
        };
        b.when(b.isLess(part, tilesEnd), [&](const ThreadBuilder &c) {
          waitForCopies(c, 0);
          c.warpBarrier();
          List<List<Values>> own = scores(c, shared);
          copyNext(c, /*isKeys=*/true);
          finishScores(c, c.mul(c.sub(part, keyWarp), warpKeys), /*isEdge=*/true, {}, Value(), own);
          State sums = initialState(c);
          weigh(c, own, sums);
          sumTotals(c, sums);
          addValues(c, shared, own, sums);
          copyNext(c, /*isKeys=*/false);
          commitCopies(c);
          sendPart(c, sums);
        });
        meet(b);
        Value done = b.mul(round, slots());
        Value count = b.min(b.i32(slots()), b.sub(b.sub(tilesEnd, firstTile), done));
        Values after;
        for (int64_t i = 0; i < perThread; ++i) {
          Value place = placeOf(b, i);
          Value own = b.select(b.isLess(place, ownPlaces), count, b.i32(0));
          after.append(addSlots(b, place, own, carried.slice(i * 4, 4)));
        }
        b.when(b.isLess(b.add(round, 1), rounds), [&](const ThreadBuilder &c) { meet(c); });
        return after;
      });
  for (int64_t i = 0; i < perThread; ++i) {
    Value place = placeOf(t, i), row = t.div(place, ownPairs());
    Value pair = t.add(t.rem(place, ownPairs()), t.mul(split, ownPairs()));
    Value isMine = t.bitAnd(t.isLess(place, ownPlaces), t.isLess(pair, t.i32(valueWidth / 2)));
    t.when(isMine, [&](const ThreadBuilder &b) {
      RowParts parts;
      parts.maximum = state[i * 4];
      parts.total = state[i * 4 + 1];
      storeMerged(b, row, b.mul(pair, 2), parts, state[i * 4 + 2], state[i * 4 + 3]);
    });
  }
}

} // namespace tenon::codegen::cuda
