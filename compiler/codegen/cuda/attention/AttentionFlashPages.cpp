// The flash kernel over pages: whose rows a block does, and where the keys of a tile lie. Relies on
// AttentionPages.h for the tables.
#include "compiler/codegen/cuda/attention/AttentionFlash.h"
#include "compiler/codegen/cuda/attention/AttentionPages.h"
#include "compiler/codegen/cuda/base/WarpOps.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

} // namespace

/// Of a block of rows of all sequences: whose it is. One without rows has no tiles either.
void FlashKernel::placeSequence(const ThreadBuilder &t) {
  blockNumber = rowBlock;
  SequencePlace place = placeInSequence(t, frame, p, blockNumber, tile.rows(), group());
  sequence = place.sequence;
  batch = place.firstToken;
  queryCount = place.tokens;
  keyCount = place.length;
  start = t.sub(keyCount, queryCount);
  rows = t.mul(queryCount, group());
  rowBlock = place.rowBlock;
  firstRow = t.mul(rowBlock, tile.rows());
}

/// Once, of the blocks that do the same rows.
void FlashKernel::clearRows(const ThreadBuilder &t) const {
  Value isFirst = t.isEqual(split, t.i32(0));
  isFirst = firstColumn ? both(t, isFirst, t.isEqual(firstColumn, t.i32(0))) : isFirst;
  t.when(isFirst, [&](const ThreadBuilder &b) {
    clearRest(b, frame, p, blockNumber, frame.size32(rowBlockCount()), b.mul(blockHead, group()),
              group(), tile.threads());
  });
}

/// Where the pages of a tile's keys are; nothing without pages.
Values FlashKernel::pagesOfTile(const ThreadBuilder &t, Value firstKey) const {
  Values pages;
  for (int64_t key = 0; p.sequences && key < stepKeys(); key += p.sequences->page) {
    pages.push_back(pageOf(t, frame, p, sequence, t.add(firstKey, key), keyCount));
  }
  return pages;
}

/// The offset (i64) of row `row + first` of a tile with these pages, where `row` is less than
/// `rowsPerStep`.
Value FlashKernel::placeInPage(const ThreadBuilder &t, const StridedTensor &tensor,
                               const Values &pages, Value firstKey, Value row, int64_t first,
                               int64_t rowsPerStep) const {
  int64_t size = p.sequences->page, last = static_cast<int64_t>(pages.size()) - 1;
  Value page = pages[std::min(first / size, last)];
  for (int64_t next = first / size + 1; next * size < first + rowsPerStep && next <= last; ++next) {
    page = t.select(t.isLess(row, t.i32(next * size - first)), page, pages[next]);
  }
  Value place = t.rem(t.add(t.add(firstKey, row), first), size);
  return t.add(t.mul(page, frame.size64(tensor.strides[0])),
               t.mul(t.toI64(place), frame.size64(tensor.strides[2])));
}

} // namespace tenon::codegen::cuda
