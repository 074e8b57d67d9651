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

constexpr int64_t kTileElements = kGroupRows * kTileColumns;

} // namespace

bool FlashShape::keepsMask() const {
  return tile.isWarpgroup && sharesMask(p, tile.joinsHeads) &&
         tn::constantDim(p.keys).value_or(tuning::kKeptMask + 1) <= tuning::kKeptMask;
}

/// Of the part behind the stages: the queries and the mask.
int64_t FlashShape::groupBytes() const {
  int64_t mask =
      keepsMask() ? (*tn::constantDim(p.keys) + tile.keys - 1) / tile.keys * tile.keys : 0;
  return tile.isWarpgroup ? tile.rows() * width * 2 + mask * 4 : 0;
}

/// Starts copies of 64 rows in tiles of 64 columns; rows from `end` on (null: none) are zeros. A
/// pass has a multiple of 8 rows, so the thread's place in its row is the same in all.
void FlashKernel::copyGroupRows(const ThreadBuilder &t, Value pointer, const StridedTensor &tensor,
                                Value firstRow, Value end, Value to, int64_t columns,
                                const Values &pages) const {
  int64_t lanes = columns / 8, rowsPerStep = tile.threads() / lanes;
  Value row = t.div(t.thread(), lanes), chunk = t.rem(t.thread(), lanes);
  Value stride = frame.size64(tensor.strides[2]);
  Value from = t.add(t.mul(t.toI64(row), stride), t.toI64(t.mul(chunk, 8)));
  from = t.offset(t.offset(pointer, element, from), element, t.mul(t.toI64(firstRow), stride));
  auto sourceOf = [&](int64_t first) {
    if (pages.empty()) {
      return t.offset(from, element, t.mul(stride, first));
    }
    Value column = t.offset(pointer, element, t.mul(chunk, 8));
    return t.offset(column, element,
                    placeInPage(t, tensor, pages, firstRow, row, first, rowsPerStep));
  };
  Value target = t.add(tileOffset(t, row, t.rem(chunk, 8)), t.mul(t.div(chunk, 8), kTileElements));
  target = t.offset(to, half, target);
  for (int64_t first = 0; first < kGroupRows; first += rowsPerStep) {
    Value bytes;
    if (end) {
      Value isRead = t.isLess(t.add(t.add(firstRow, row), first), end);
      bytes = t.select(isRead, t.i32(16), t.i32(0));
    }
    copyAsync(t, t.offset(target, half, first * kTileColumns), sourceOf(first), bytes);
  }
}

void FlashKernel::copyGroupTile(const ThreadBuilder &t, Value index) const {
  Value to = stageOf(t, index), firstKey = t.mul(index, tile.keys);
  Value end = endsInTile() ? keyCount : Value();
  Values pages = pagesOfTile(t, firstKey);
  copyGroupRows(t, keyPointer, p.k, firstKey, end, to, width, pages);
  copyGroupRows(t, valuePointer, p.v, firstKey, end, t.offset(to, half, tile.keys * width),
                valueWidth, pages);
}

/// To shared memory: as left operands in registers they would live through the loop, and ptxas 13.0
/// was seen to give such registers away after the first product.
void FlashKernel::copyGroupQueries(const ThreadBuilder &t) {
  groupQueries = t.offset(shared, half, tile.stages * stageElements());
  Value pointer = rowPointer(t, 0, p.q, blockHead, {});
  for (int64_t first = 0; first < tile.rows(); first += kGroupRows) {
    copyGroupRows(t, pointer, p.q, t.add(firstRow, first), rows,
                  t.offset(groupQueries, half, first * width), width);
  }
}

Value FlashKernel::keptMask(const ThreadBuilder &t) const {
  return t.offset(groupQueries, half, tile.rows() * width);
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

SmallVector<SmallVector<Values>> FlashKernel::groupScores(const ThreadBuilder &t,
                                                          Value stage) const {
  Value own = t.mul(t.div(rowWarp, kWarpsOfGroup), kGroupRows * width);
  Values accumulators = multiplyTiles(t, element, t.offset(groupQueries, half, own), stage, width);
  SmallVector<Values> columns;
  for (size_t i = 0; i < accumulators.size(); i += 4) {
    columns.push_back(Values(ArrayRef(accumulators).slice(i, 4)));
  }
  return {columns};
}

void FlashKernel::addGroupValues(const ThreadBuilder &t, Value stage,
                                 const SmallVector<Values> &probabilities,
                                 SmallVector<Values> &accumulators) const {
  Values words;
  for (int64_t keys = 0; keys < tile.keys; keys += kMmaDepth) {
    words.append(leftOperand(t, probabilities, keys));
  }
  for (int64_t column = 0; column < valueWidth; column += kTileColumns) {
    MutableArrayRef<Values> part =
        MutableArrayRef(accumulators).slice(column / 8, kTileColumns / 8);
    Values before;
    for (const Values &four : part) {
      before.append(four);
    }
    Value values = t.offset(stage, half, tile.keys * (width + column));
    Values after = addProduct(t, element, words, values, before);
    for (size_t i = 0; i < part.size(); ++i) {
      part[i] = Values(ArrayRef(after).slice(i * 4, 4));
    }
  }
}

} // namespace tenon::codegen::cuda
