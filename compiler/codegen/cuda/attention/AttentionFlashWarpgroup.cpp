// The flash kernel's copies and products where a warpgroup does them: queries, keys and values lie
// in shared memory as the tiles of Warpgroup.h, and 64 queries are one row of products. Relies on
// the tile being as AttentionTile::isWarpgroup says.
#include "compiler/codegen/cuda/attention/AttentionFlash.h"
#include "compiler/codegen/cuda/attention/Tuning.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// Neighbouring threads whose copies go to different banks: a row of a tile of 64 columns, two rows
/// of 32, or four of 16.
constexpr int64_t kCopyingThreads = 8;

SmallVector<Values> byFours(const Values &all) {
  SmallVector<Values> fours;
  for (size_t i = 0; i < all.size(); i += 4) {
    fours.push_back(Values(ArrayRef(all).slice(i, 4)));
  }
  return fours;
}

Values joined(ArrayRef<Values> parts) {
  Values all;
  for (const Values &part : parts) {
    all.append(part);
  }
  return all;
}

} // namespace

bool FlashShape::keepsMask() const {
  return tile.isWarpgroup && sharesMask(p, tile.joinsHeads) &&
         tn::constantDim(p.keys).value_or(tuning::kKeptMask + 1) <= tuning::kKeptMask;
}

/// A mask that has rows comes in tile by tile, so that its loads are of whole rows.
bool FlashShape::stagesMask() const {
  return tile.isWarpgroup && p.mask && !sharesMask(p, tile.joinsHeads) && maskLanes() > 1 &&
         p.mask->element.getIntOrFloatBitWidth() >= 16;
}

/// From row to row of a tile of the mask, in 16 bits; 16 bytes more than it holds, so that eight
/// rows are in different banks.
int64_t FlashShape::maskPitch() const {
  return stagesMask() ? tile.keys * p.mask->element.getIntOrFloatBitWidth() / 16 + 8 : 0;
}

/// Of the part behind the stages: the queries and the mask.
int64_t FlashShape::groupBytes() const {
  int64_t mask =
      keepsMask() ? (*tn::constantDim(p.keys) + tile.keys - 1) / tile.keys * tile.keys : 0;
  return tile.isWarpgroup ? tile.rows() * keyPitch * 2 + mask * 4 : 0;
}

/// Starts copies of `count` rows in tiles side by side; rows from `end` on (null: none) and columns
/// behind the head's are zeros.
void FlashKernel::copyGroupRows(const ThreadBuilder &t, Value pointer, const StridedTensor &tensor,
                                Value firstRow, int64_t count, Value end, Value to, int64_t columns,
                                const Values &pages) const {
  int64_t pitch = llvm::alignTo(columns, kMmaDepth), inTile = tileColumnsOf(pitch),
          tiles = pitch / inTile;
  int64_t lanes = inTile / 8, rowsTogether = kCopyingThreads / lanes,
          slots = tile.threads() / kCopyingThreads;
  int64_t rowsPerStep = slots / tiles * rowsTogether;
  Value slot = t.div(t.thread(), kCopyingThreads), inSlot = t.rem(t.thread(), kCopyingThreads);
  Value own = t.rem(slot, tiles), chunk = t.rem(inSlot, lanes);
  Value row = t.add(t.mul(t.div(slot, tiles), rowsTogether), t.div(inSlot, lanes));
  Value column = t.add(t.mul(own, inTile), t.mul(chunk, 8));
  Value stride = frame.size64(tensor.strides[2]);
  Value head = t.offset(pointer, element, column);
  Value from = t.offset(head, element, t.mul(t.toI64(t.add(firstRow, row)), stride));
  Value tileOfOwn = t.offset(to, half, t.mul(own, count * inTile));
  auto copy = [&](const ThreadBuilder &b, int64_t first) {
    Value source = pages.empty()
                       ? b.offset(from, element, b.mul(stride, first))
                       : b.offset(head, element,
                                  placeInPage(b, tensor, pages, firstRow, row, first, rowsPerStep));
    Value isRead = end ? b.isLess(b.add(b.add(firstRow, row), first), end) : Value();
    if (columns != pitch) {
      Value inside = b.isLess(column, b.i32(columns));
      isRead = isRead ? b.bitAnd(isRead, inside) : inside;
    }
    Value bytes = isRead ? b.select(isRead, b.i32(16), b.i32(0)) : Value();
    // Chunks take the same turns in every eighth row, whose places are known before the loop.
    int64_t turn = first % 8;
    Value target = b.offset(tileOfOwn, half, tileOffset(b, b.add(row, turn), chunk, inTile));
    copyAsync(b, b.offset(target, half, (first - turn) * inTile), source, bytes);
  };
  auto copyAll = [&](const ThreadBuilder &b) {
    for (int64_t first = 0; first < count; first += rowsPerStep) {
      if (first + rowsPerStep <= count) {
        copy(b, first);
      } else {
        b.when(b.isLess(row, b.i32(count - first)),
               [&](const ThreadBuilder &inner) { copy(inner, first); });
      }
    }
  };
  if (slots % tiles == 0) {
    copyAll(t);
  } else {
    t.when(t.isLess(row, t.i32(rowsPerStep)), copyAll);
  }
}

void FlashKernel::copyGroupTile(const ThreadBuilder &t, Value index) const {
  Value to = stageOf(t, index), firstKey = t.mul(index, tile.keys);
  Value end = endsInTile() ? keyCount : Value();
  Values pages = pagesOfTile(t, firstKey);
  copyGroupRows(t, keyPointer, p.k, firstKey, tile.keys, end, to, width, pages);
  copyGroupRows(t, valuePointer, p.v, firstKey, tile.keys, end,
                t.offset(to, half, tile.keys * keyPitch), valueWidth, pages);
  if (stagesMask()) {
    copyMaskTile(t, firstKey, to);
  }
}

Value FlashKernel::maskOf(const ThreadBuilder &t, Value stage) const {
  return t.offset(stage, half, tile.keys * (keyPitch + valuePitch));
}

/// Starts copies of a tile of a mask that has rows. Rows past the last one are the last.
void FlashKernel::copyMaskTile(const ThreadBuilder &t, Value firstKey, Value stage) const {
  const StridedTensor &mask = *p.mask;
  int64_t chunks = tile.keys / maskLanes();
  Value row = t.div(t.thread(), chunks), chunk = t.rem(t.thread(), chunks);
  Value key = t.add(firstKey, t.mul(chunk, maskLanes())), bytes;
  if (endsInTile()) {
    bytes = t.select(t.isLess(key, keyCount), t.i32(16), t.i32(0));
  }
  Value from = t.offset(maskRows, mask.element, key), to = maskOf(t, stage);
  for (int64_t first = 0; first < tile.rows(); first += tile.threads() / chunks) {
    Value inTile = t.add(row, first);
    Value index = t.toI64(t.min(t.add(firstRow, inTile), t.sub(rows, t.i32(1))));
    Value place = t.mul(index, frame.size64(mask.strides[2]));
    copyAsync(t, t.offset(to, half, t.add(t.mul(inTile, maskPitch()), t.mul(chunk, 8))),
              t.offset(from, mask.element, place), bytes);
  }
}

/// The mask of the thread's row `part` and its two neighbouring columns behind `column`.
Values FlashKernel::maskPair(const ThreadBuilder &t, Value stage, int64_t part,
                             int64_t column) const {
  Type type = p.mask->element;
  Value row = t.add(t.add(t.mul(rowWarp, kMmaRows), part * 8), laneRow);
  Value from = t.offset(maskOf(t, stage), half, t.mul(row, maskPitch()));
  from = t.offset(t.offset(from, type, laneColumn), type, column);
  Value pair = t.load(t.vectorType(2, type), from, type.getIntOrFloatBitWidth() / 4);
  return {t.toF32(t.extract(pair, 0)), t.toF32(t.extract(pair, 1))};
}

/// To shared memory: as left operands in registers they would live through the loop, and ptxas 13.0
/// was seen to give such registers away after the first product.
void FlashKernel::copyGroupQueries(const ThreadBuilder &t) {
  groupQueries = t.offset(shared, half, tile.stages * stageElements());
  Value pointer = rowPointer(t, 0, p.q, blockHead, {});
  for (int64_t first = 0; first < tile.rows(); first += kGroupRows) {
    copyGroupRows(t, pointer, p.q, t.add(firstRow, first), kGroupRows, rows,
                  t.offset(groupQueries, half, first * keyPitch), width);
  }
}

Value FlashKernel::keptMask(const ThreadBuilder &t) const {
  return t.offset(groupQueries, half, tile.rows() * keyPitch);
}

/// The mask that all queries of the block have; the first step's barrier makes it visible.
void FlashKernel::keepMask(const ThreadBuilder &t) const {
  auto keep = [&](const ThreadBuilder &b, Value key, ValueRange) -> Values {
    Value element = maskAt(b, placed[0][0], key, /*isEdge=*/false);
    b.store(element, b.offset(keptMask(b), b.f32Type(), key), 4);
    return {};
  };
  t.loop(t.thread(), frame.size32(p.keys), t.i32(tile.threads()), {}, keep);
}

/// Of the thread's columns of a tile of keys.
Values FlashKernel::groupMask(const ThreadBuilder &t, Value firstKey) const {
  Value from = t.offset(keptMask(t), t.f32Type(), t.add(firstKey, laneColumn));
  Values mask;
  for (int64_t column = 0; column < tile.keys; column += 8) {
    Value pair = t.load(t.vectorType(2, t.f32Type()), t.offset(from, t.f32Type(), column), 8);
    mask.append({t.extract(pair, 0), t.extract(pair, 1)});
  }
  return mask;
}

Value FlashKernel::ownQueries(const ThreadBuilder &t) const {
  Value own = t.mul(t.div(rowWarp, kWarpsOfGroup), kGroupRows * keyPitch);
  return t.offset(groupQueries, half, own);
}

SmallVector<SmallVector<Values>> FlashKernel::groupScores(const ThreadBuilder &t,
                                                          Value stage) const {
  return {byFours(multiplyTiles(t, element, ownQueries(t), stage, keyPitch, tile.keys))};
}

void FlashKernel::addGroupValues(const ThreadBuilder &t, Value stage,
                                 const SmallVector<Values> &probabilities,
                                 SmallVector<Values> &accumulators) const {
  Value values = t.offset(stage, half, tile.keys * keyPitch);
  accumulators =
      byFours(addProduct(t, element, groupWords(t, probabilities), values, joined(accumulators)));
}

/// The left operand of all keys of a tile.
Values FlashKernel::groupWords(const ThreadBuilder &t,
                               const SmallVector<Values> &probabilities) const {
  Values words;
  for (int64_t keys = 0; keys < tile.keys; keys += kMmaDepth) {
    words.append(leftOperand(t, probabilities, keys));
  }
  return words;
}

/// Begins the product of the probabilities of the tile before `index` and its values.
Values FlashKernel::beginValues(const ThreadBuilder &t, Value index, const State &state) const {
  Value stage = stageOf(t, t.sub(index, t.i32(1)));
  return beginProduct(t, element, state.words, t.offset(stage, half, tile.keys * keyPitch),
                      t.i32(1), joined(state.accumulators[0]));
}

/// A tile's probabilities, and beside them the product of those before with their values. The first
/// tile has none before it.
Values FlashKernel::overlappedStep(const ThreadBuilder &t, Value index, const State &before,
                                   bool isEdge, bool isFirst) const {
  State state = before;
  Value firstKey = t.mul(index, tile.keys);
  turnToTile(t, index);
  Values nothing(tile.keys / 2, t.undefined(t.f32Type())), sums;
  Value stage = stageOf(t, index);
  Values scores = beginTiles(t, element, ownQueries(t), stage, keyPitch, t.i32(0), nothing);
  if (!isFirst) {
    sums = beginValues(t, index, before);
  }
  SmallVector<SmallVector<Values>> tileScores = {
      byFours(waitForProducts(t, scores, isFirst ? 0 : 1))};
  finishScores(t, firstKey, isEdge, keepsMask() ? groupMask(t, firstKey) : Values(), stage,
               tileScores);
  SmallVector<Values> older = weigh(t, tileScores, state);
  if (!isFirst) {
    state.accumulators[0] = byFours(waitForProducts(t, sums, 0));
    scaleSums(t, older, state);
  }
  state.words = groupWords(t, tileScores[0]);
  return flatten(state);
}

/// The product that is left behind the last tile.
Values FlashKernel::lastValues(const ThreadBuilder &t, const State &before) const {
  State state = before;
  Values sums = beginValues(t, tilesEnd, before);
  state.accumulators[0] = byFours(waitForProducts(t, sums, 0));
  return flatten(state);
}

} // namespace tenon::codegen::cuda
