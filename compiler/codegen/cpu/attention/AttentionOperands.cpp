// Attention's operands: where the rows of a head lie, keys and values in panels, queries scaled,
// and the result divided by its sums. Relies on heads being stored as rows of one width.
#include "compiler/codegen/cpu/attention/Attention.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Most rows of queries for which values are read where they lie: more read them again and again,
/// and rows far apart share few sets of a cache.
constexpr int64_t kFewRowsInPlace = 8;

} // namespace

Value AttentionLowering::rowStride(const IndexMath &math, const HeadRows &rows) const {
  AffineExpr stride = rows.headsInner ? rows.heads() * rows.width() : rows.width();
  return math.size(kernel, stride);
}

Value AttentionLowering::rowOffset(const IndexMath &math, const HeadRows &rows, Value batch,
                                   Value head, Value row) const {
  Value outer = rows.headsInner ? row : head, inner = rows.headsInner ? head : row;
  Value offset = batch;
  offset = math.add(math.mul(offset, math.size(kernel, rows.dims[1])), outer);
  offset = math.add(math.mul(offset, math.size(kernel, rows.dims[2])), inner);
  return math.mul(offset, math.size(kernel, rows.width()));
}

/// Rows [first, first + count) of a head and some of their columns as a memref of two dims.
Value AttentionLowering::rowsView(const IndexMath &math, const HeadRows &rows, Value batch,
                                  Value head, Value first, Value count, Value column,
                                  Value columns) const {
  Value one = math.constant(1);
  SmallVector<Value> offsets = {batch, head, first, column}, sizes = {one, one, count, columns};
  if (rows.headsInner) {
    std::swap(offsets[1], offsets[2]);
    std::swap(sizes[1], sizes[2]);
  }
  SmallVector<OpFoldResult> strides(4, math.builder.getIndexAttr(1));
  SmallVector<OpFoldResult> mixedOffsets = getAsOpFoldResult(ValueRange(offsets));
  SmallVector<OpFoldResult> mixedSizes = getAsOpFoldResult(ValueRange(sizes));
  SmallVector<int64_t> shape = {getConstantIntValue(count).value_or(ShapedType::kDynamic),
                                getConstantIntValue(columns).value_or(ShapedType::kDynamic)};
  // The dims of size one to drop are ambiguous by shape alone, so the strides are picked here.
  MemRefType full = cast<MemRefType>(memref::SubViewOp::inferResultType(
      cast<MemRefType>(rows.buffer.getType()), mixedOffsets, mixedSizes, strides));
  auto [fullStrides, offset] = full.getStridesAndOffset();
  StridedLayoutAttr layout = StridedLayoutAttr::get(
      math.builder.getContext(), offset, {fullStrides[rows.headsInner ? 1 : 2], fullStrides[3]});
  MemRefType type = MemRefType::get(shape, full.getElementType(), layout);
  return memref::SubViewOp::create(math.builder, math.location, type, rows.buffer, mixedOffsets,
                                   mixedSizes, strides);
}

/// Where a panel of a block's keys lies in scratch: of the block alone if nothing is prepared.
Value AttentionLowering::keysAt(const IndexMath &math, const KeyBlock &part, Value panel) const {
  Value start = math.builder.createOrFold<arith::SelectOp>(math.location, isPrepared, part.first,
                                                           math.constant(0));
  Value key = math.add(start, math.mul(panel, kPanel));
  return math.pointer(packedKeys, math.mul(key, depthWords));
}

/// The row of packedValues at which a panel of a block's values begins.
Value AttentionLowering::valueRow(const IndexMath &math, const KeyBlock &part, Value panel) const {
  Value start = math.builder.createOrFold<arith::SelectOp>(math.location, isPrepared, part.first,
                                                           math.constant(0));
  Value row = math.add(math.mul(start, valuePanels), math.mul(panel, blockKeys));
  return wordsOf(math, row);
}

/// Words that hold so many elements of a depth.
Value AttentionLowering::wordsOf(const IndexMath &math, Value elements) const {
  return perWord == 1
             ? elements
             : math.div(math.add(elements, math.constant(perWord - 1)), math.constant(perWord));
}

void AttentionLowering::packKeys(const IndexMath &math, Value batch, Value head,
                                 const KeyBlock &part) {
  Value zero = math.constant(0), panel = math.constant(kPanel);
  Value panels = math.div(math.add(part.count, math.constant(kPanel - 1)), panel);
  forEach(math, panels, [&](const IndexMath &inner, Value index) {
    Value first = inner.add(part.first, inner.mul(index, kPanel));
    Value count = inner.min(panel, inner.sub(inner.add(part.first, part.count), first));
    Value to = keysAt(inner, part, index);
    if (keyRows) {
      Value rows = rowsView(inner, k, batch, head, first, count, zero, depth);
      copyElements(inner, rows, inner.view(keyRows, {zero, zero}, {count, depth}),
                   inner.builder.getMultiDimIdentityMap(2));
      callPackTransposed(inner, kernel.function(), inner.pointer(keyRows, zero), depthWords, to,
                         depthWords, count);
      return;
    }
    Value from = inner.elementPointer(k.buffer, rowOffset(inner, k, batch, head, first));
    callPackTransposed(inner, kernel.function(), from, wordsOf(inner, rowStride(inner, k)), to,
                       depthWords, count);
  });
}

/// Whether values are read where they lie, but for a panel with fewer than 32 columns: few rows
/// read them, and nothing must be widened. Of type i1.
Value AttentionLowering::readsInPlace(const IndexMath &math) const {
  Value no = math.isLess(math.constant(1), math.constant(0));
  if (isNarrow || perWord > 1) {
    return no;
  }
  Value rows = math.mul(math.size(kernel, sharing), queries);
  Value areFew = math.isLess(rows, math.constant(kFewRowsInPlace + 1));
  return math.builder.createOrFold<arith::SelectOp>(math.location, isPrepared, no, areFew);
}

/// Whether a panel of values is read from scratch. Of type i1.
Value AttentionLowering::packsPanel(const IndexMath &math, Value panel) const {
  Value yes = math.isLess(math.constant(0), math.constant(1));
  Value isPacked = math.builder.createOrFold<arith::XOrIOp>(math.location, readsInPlace(math), yes);
  std::optional<int64_t> columns = getConstantIntValue(width);
  if (columns && *columns % kPanel == 0) {
    return isPacked;
  }
  Value isTail = math.isLess(width, math.mul(math.add(panel, math.constant(1)), kPanel));
  return math.builder.createOrFold<arith::OrIOp>(math.location, isPacked, isTail);
}

void AttentionLowering::packValues(const IndexMath &math, Value batch, Value head,
                                   const KeyBlock &part) {
  Value zero = math.constant(0), panel = math.constant(kPanel);
  forEach(math, valuePanels, [&](const IndexMath &inner, Value index) {
    when(inner, packsPanel(inner, index), [&](const IndexMath &then) {
      if (perWord > 1) {
        Value to = then.pointer(packedValues, then.mul(valueRow(then, part, index), kPanel));
        weaveValues(then, batch, head, part, index, to);
        return;
      }
      Value first = then.mul(index, kPanel);
      std::optional<int64_t> columns = getConstantIntValue(width);
      bool isWhole = columns && *columns % kPanel == 0;
      Value count = isWhole ? panel : then.min(panel, then.sub(width, first));
      Value row = valueRow(then, part, index);
      if (!isWhole) {
        clear(then, then.view(packedValues, {row, zero}, {part.count, panel}));
      }
      Value from = rowsView(then, v, batch, head, part.first, part.count, first, count);
      Value to = then.view(packedValues, {row, zero}, {part.count, count});
      copyElements(then, from, to, then.builder.getMultiDimIdentityMap(2));
    });
  });
}

/// A panel of values in words of some keys each.
void AttentionLowering::weaveValues(const IndexMath &math, Value batch, Value head,
                                    const KeyBlock &part, Value panel, Value to) const {
  Value first = math.mul(panel, kPanel), zero = math.constant(0);
  auto weave = [&](const IndexMath &in, Value from, Value stride) {
    callPackRows(in, kernel.function(), perWord, from, stride, to, part.count);
  };
  auto inPlace = [&](const IndexMath &in) {
    Value start = in.add(rowOffset(in, v, batch, head, part.first), first);
    weave(in, in.elementPointer(v.buffer, start), rowStride(in, v));
  };
  if (!valueRows) {
    inPlace(math);
    return;
  }
  Value isTail = math.isLess(width, math.add(first, math.constant(kPanel)));
  scf::IfOp::create(
      math.builder, math.location, isTail,
      [&](OpBuilder &then, Location at) {
        IndexMath in(then, at);
        Value count = in.sub(width, first);
        Value rows = rowsView(in, v, batch, head, part.first, part.count, first, count);
        copyElements(in, rows, in.view(valueRows, {zero, zero}, {part.count, count}),
                     then.getMultiDimIdentityMap(2));
        weave(in, in.pointer(valueRows, zero), in.constant(kPanel));
        scf::YieldOp::create(then, at);
      },
      [&](OpBuilder &otherwise, Location at) {
        inPlace(IndexMath(otherwise, at));
        scf::YieldOp::create(otherwise, at);
      });
}

void AttentionLowering::packAll(const IndexMath &math, const GridPoint &point) {
  Value heads = math.size(kernel, k.heads());
  Value batch = math.div(point.batch, heads), head = math.rem(point.batch, heads);
  Value step = math.constant(blockKeys);
  Value blocks = math.size(kernel, k.length().ceilDiv(blockKeys));
  if (startBuffer) {
    Value seen = keysSeenBy(math, math.constant(0), math.mul(math.size(kernel, sharing), queries));
    blocks = math.div(math.add(seen, math.constant(blockKeys - 1)), step);
  }
  forEach(math, blocks, [&](const IndexMath &inner, Value index) {
    Value first = inner.mul(index, blockKeys);
    KeyBlock part{first, inner.min(step, inner.sub(keys, first))};
    packKeys(inner, batch, head, part);
    packValues(inner, batch, head, part);
  });
}

/// The rows of a block: at once where they are of one head, else one by one.
void AttentionLowering::forParts(
    const IndexMath &math, const QueryBlock &block,
    llvm::function_ref<void(const IndexMath &, QueryPlace, Value row, Value count)> body) const {
  if (tn::constantDim(sharing) == 1) {
    body(math, {block.keyHead, block.first}, math.constant(0), block.count);
    return;
  }
  forEach(math, block.count, [&](const IndexMath &inner, Value row) {
    body(inner, placeOf(inner, block, row), row, inner.constant(1));
  });
}

void AttentionLowering::takeQueries(const IndexMath &math, const QueryBlock &block) {
  forParts(math, block, [&](const IndexMath &inner, QueryPlace place, Value row, Value count) {
    Value zero = inner.constant(0);
    Value from = rowsView(inner, q, block.batch, place.head, place.query, count, zero, depth);
    Value to = inner.view(rowsOfQueries, {row, zero}, {count, depth});
    scaleQueries(inner, from, to);
  });
}

/// Divides by the rows' sums, whose inverses are at hand, on the way to the result.
void AttentionLowering::writeResult(const IndexMath &math, const QueryBlock &block) {
  forParts(math, block, [&](const IndexMath &inner, QueryPlace place, Value row, Value count) {
    Value zero = inner.constant(0);
    Value to = rowsView(inner, result, block.batch, place.head, place.query, count, zero, width);
    writeSums(inner, row, count, width, to);
  });
}

} // namespace tenon::codegen::cpu
