// The strategy of attention: for a block of queries and a block of keys, scores by the product
// kernel into a strip of scratch, softmax along its rows with a running maximum, and the product
// with V added up. Keys and values are brought into panels once for all queries of a head, or block
// by block where one block of queries is all there is.
#include "compiler/codegen/cpu/attention/Attention.h"

#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Fewest queries worth a grid point of their own.
constexpr int64_t kMinQueries = 14;

/// Most keys of a block: with 64 queries and heads of 64, its scores, keys and values are 400 KiB,
/// which an L2 cache of 512 KiB holds; each block costs a reduction of every row.
constexpr int64_t kMaxKeys = 512;

/// Keys whose values are read at once where they lie: 16 KiB of heads of 64.
constexpr int64_t kKeysInPlace = 64;

/// Blocks of equal size.
int64_t keysOfBlock(AffineExpr length) {
  std::optional<int64_t> size = tn::constantDim(length);
  if (!size || *size == 0) {
    return kMaxKeys;
  }
  int64_t blocks = llvm::divideCeil(*size, kMaxKeys);
  return llvm::alignTo(llvm::divideCeil(*size, blocks), kPanel);
}

} // namespace

AttentionLowering::AttentionLowering(KernelBuilder &kernel, tn::AttentionOp attention,
                                     engine::CpuLevel level, int64_t most)
    : OnlineSoftmax(kernel, floatLanes(level)), mostRows(most), causal(attention.getCausal()),
      window(attention.getWindow()), maskedRowsAreNan(attention.getMaskedRowsAreNan()) {
  auto buffer = [&](Value operand) {
    return kernel.input(cast<BlockArgument>(operand).getArgNumber());
  };
  ArrayRef<bool> inner = attention.getHeadsInner();
  q = {buffer(attention.getQ()), inner[0], tn::getDims(attention.getQ().getType())};
  k = {buffer(attention.getK()), inner[1], tn::getDims(attention.getK().getType())};
  v = {buffer(attention.getV()), inner[2], tn::getDims(attention.getV().getType())};
  result = {kernel.output(0), inner[3], tn::getDims(attention.getY().getType())};
  if (attention.getMask()) {
    mask = buffer(attention.getMask());
    maskDims = tn::getDims(attention.getMask().getType());
  }
  if (attention.getStart()) {
    startBuffer = buffer(attention.getStart());
  }
  Type element = cast<MemRefType>(q.buffer.getType()).getElementType();
  type = element.isBF16() ? ProductType::BF16 : ProductType::F32;
  perWord = elementsOfWord(type);
  isNarrow = element.isF16();
  setScale(attention.getScale().convertToDouble(), type == ProductType::BF16);
  bool sharesNone = tn::sameDim(q.heads(), k.heads());
  sharing =
      sharesNone ? getAffineConstantExpr(1, attention.getContext()) : q.heads().floorDiv(k.heads());
  blockKeys = keysOfBlock(k.length());
  std::optional<int64_t> length = tn::constantDim(k.length()), rows = tn::constantDim(q.length());
  bool seesSome = !causal || (length && rows && *length >= *rows && !startBuffer && window == 0);
  isSingle = length && *length > 0 && *length <= blockKeys && seesSome;
  grid.batches = q.dims[0] * k.heads();
  grid.chunks = getAffineConstantExpr(1, attention.getContext());
  grid.panels = chunkCount(sharing * q.length(), mostRows, kMinQueries, grid.batches);
}

void AttentionLowering::allocateScratch(const IndexMath &math) {
  queries = math.size(kernel, q.length());
  keys = math.size(kernel, k.length());
  start = math.sub(keys, queries);
  if (startBuffer) {
    Value stored = memref::LoadOp::create(math.builder, math.location, startBuffer,
                                          ValueRange{math.constant(0)});
    start = arith::IndexCastOp::create(math.builder, math.location, math.builder.getIndexType(),
                                       stored);
  }
  depth = math.size(kernel, q.width());
  width = math.size(kernel, v.width());
  valuePanels = math.size(kernel, v.width().ceilDiv(kPanel));
  isPrepared = math.isLess(math.constant(1), math.size(kernel, grid.panels));
  std::optional<int64_t> blocks = tn::constantDim(grid.panels);
  AffineExpr held = blocks && *blocks <= 1
                        ? getAffineConstantExpr(blockKeys, q.width().getContext())
                        : k.length().ceilDiv(blockKeys) * blockKeys;
  Value panel = math.constant(kPanel), most = math.constant(mostRows);
  depthWords = math.size(kernel, q.width().ceilDiv(perWord));
  AffineExpr valueWords = held.ceilDiv(perWord) * v.width().ceilDiv(kPanel);
  packedKeys = allocate(kernel, {math.size(kernel, held * q.width().ceilDiv(perWord))});
  packedValues = allocate(kernel, {math.size(kernel, valueWords), panel});
  Type element = type == ProductType::F32 ? Type(math.builder.getF32Type())
                                          : cast<MemRefType>(q.buffer.getType()).getElementType();
  Value depthOfWords = math.mul(depthWords, perWord);
  bool isWholeDepth = tn::constantDim(q.width()).value_or(1) % perWord == 0;
  rowsOfQueries = allocate(kernel, {most, depthOfWords}, element);
  allocateRows(math, mostRows, blockKeys, v.width(),
               perWord > 1 ? element : Type(math.builder.getF32Type()));
  if (perWord > 1) {
    if (tn::constantDim(v.width()).value_or(1) % kPanel != 0) {
      valueRows = allocate(kernel, {math.constant(blockKeys), panel}, element);
      clear(math, valueRows);
    }
  }
  if (isNarrow || !isWholeDepth) {
    keyRows = allocate(kernel, {panel, depthOfWords}, element);
  }
  if (!isWholeDepth) {
    clear(math, rowsOfQueries);
    clear(math, keyRows);
  }
}

/// Keys that the last of the rows [first, next) sees, or one of them that sees more.
Value AttentionLowering::keysSeenBy(const IndexMath &math, Value first, Value next) const {
  if (!causal) {
    return keys;
  }
  Value one = math.constant(1), zero = math.constant(0);
  Value last = math.sub(next, one);
  if (tn::constantDim(sharing) != 1) {
    Value isOneHead = math.builder.createOrFold<arith::CmpIOp>(
        math.location, arith::CmpIPredicate::eq, math.div(first, queries), math.div(last, queries));
    last = arith::SelectOp::create(math.builder, math.location, isOneHead, math.rem(last, queries),
                                   math.sub(queries, one));
  }
  Value seen = math.add(math.add(last, one), start);
  return math.min(keys, math.max(zero, seen));
}

/// The first key that a query sees of its window; it may be negative.
Value AttentionLowering::firstOf(const IndexMath &math, Value query) const {
  return math.add(math.add(query, start), math.constant(1 - window));
}

/// The first key that any of the rows [first, next) sees, or one before it.
Value AttentionLowering::firstKeyOf(const IndexMath &math, Value first, Value next) const {
  Value zero = math.constant(0), query = first;
  if (tn::constantDim(sharing) != 1) {
    Value last = math.sub(next, math.constant(1));
    Value isOneHead = math.builder.createOrFold<arith::CmpIOp>(
        math.location, arith::CmpIPredicate::eq, math.div(first, queries), math.div(last, queries));
    query = arith::SelectOp::create(math.builder, math.location, isOneHead,
                                    math.rem(first, queries), zero);
  }
  return math.max(zero, firstOf(math, query));
}

QueryBlock AttentionLowering::blockOf(const IndexMath &math, const GridPoint &point) const {
  Value heads = math.size(kernel, k.heads());
  Value rows = math.mul(math.size(kernel, sharing), queries);
  Value blocks = math.size(kernel, grid.panels);
  Value one = math.constant(1), number = point.panel;
  if (causal) {
    // Early and late rows in turn, so that threads with one half of the grid each have equal work.
    Value half = math.div(number, math.constant(2));
    Value isOdd = math.builder.createOrFold<arith::CmpIOp>(math.location, arith::CmpIPredicate::ne,
                                                           math.rem(number, math.constant(2)),
                                                           math.constant(0));
    Value fromEnd = math.sub(math.sub(blocks, one), half);
    number = math.builder.createOrFold<arith::SelectOp>(math.location, isOdd, fromEnd, half);
  }
  QueryBlock block;
  block.batch = math.div(point.batch, heads);
  block.keyHead = math.rem(point.batch, heads);
  block.first = math.div(math.mul(number, rows), blocks);
  Value next = math.div(math.mul(math.add(number, one), rows), blocks);
  block.count = math.sub(next, block.first);
  block.keys = keysSeenBy(math, block.first, next);
  block.firstKey = window > 0 ? firstKeyOf(math, block.first, next) : math.constant(0);
  return block;
}

QueryPlace AttentionLowering::placeOf(const IndexMath &math, const QueryBlock &block,
                                      Value row) const {
  Value place = math.add(block.first, row);
  if (tn::constantDim(sharing) == 1) {
    return {block.keyHead, place};
  }
  Value head =
      math.add(math.mul(block.keyHead, math.size(kernel, sharing)), math.div(place, queries));
  return {head, math.rem(place, queries)};
}

void AttentionLowering::computeScores(const IndexMath &math, const QueryBlock &block,
                                      const KeyBlock &part) {
  Value panel = math.constant(kPanel);
  Value strip = math.builder.createOrFold<memref::DimOp>(math.location, scores, 1);
  Value a = math.pointer(rowsOfQueries, math.constant(0));
  Value count = math.div(math.add(part.count, math.constant(kPanel - 1)), panel);
  forEach(math, count, [&](const IndexMath &inner, Value index) {
    callProduct(inner, kernel.function(),
                {a, depthWords, keysAt(inner, part, index), panel,
                 inner.pointer(scores, inner.mul(index, kPanel)), strip, depthWords, block.count,
                 Value(), type});
  });
}

/// Adds the product of the exponentials of keys [first, first + count) of a block with their
/// values.
void AttentionLowering::addValuePanel(const IndexMath &math, const QueryBlock &block,
                                      const KeyBlock &part, const KeyBlock &keysOfPart,
                                      Value index) {
  Value isPacked = packsPanel(math, index);
  std::optional<int64_t> constantWidth = getConstantIntValue(width);
  bool isWhole = constantWidth && *constantWidth % kPanel == 0;
  Value columns = isWhole ? Value() : math.sub(width, math.mul(index, kPanel));
  Value packed = math.add(valueRow(math, part, index), wordsOf(math, keysOfPart.first));
  Value b = math.pointer(packedValues, math.mul(packed, kPanel));
  Value ldb = math.constant(kPanel);
  if (getConstantIntValue(isPacked) != 1) {
    Value key = math.add(part.first, keysOfPart.first);
    Value inPlace =
        math.add(rowOffset(math, v, block.batch, block.keyHead, key), math.mul(index, kPanel));
    b = math.builder.createOrFold<arith::SelectOp>(math.location, isPacked, b,
                                                   math.pointer(v.buffer, inPlace));
    ldb = math.builder.createOrFold<arith::SelectOp>(math.location, isPacked, ldb,
                                                     rowStride(math, v));
  }
  Value accumulates = isSingle ? math.isLess(math.constant(0), keysOfPart.first)
                               : math.isLess(math.constant(0), math.constant(1));
  Value strip = math.builder.createOrFold<memref::DimOp>(math.location, exponentials, 1);
  Value stride = math.builder.createOrFold<memref::DimOp>(math.location, sums, 1);
  callProduct(math, kernel.function(),
              {math.pointer(exponentials, wordsOf(math, keysOfPart.first)), wordsOf(math, strip), b,
               ldb, math.pointer(sums, math.mul(index, kPanel)), stride,
               wordsOf(math, keysOfPart.count), block.count, accumulates, type, columns});
}

/// Values that are read in place are read row by row of some, as memory streams them.
void AttentionLowering::addValues(const IndexMath &math, const QueryBlock &block,
                                  const KeyBlock &part) {
  Value step = math.builder.createOrFold<arith::SelectOp>(
      math.location, readsInPlace(math), math.constant(kKeysInPlace), math.constant(blockKeys));
  scf::ForOp::create(math.builder, math.location, math.constant(0), part.count, step, ValueRange(),
                     [&](OpBuilder &builder, Location location, Value first, ValueRange) {
                       IndexMath inner(builder, location);
                       KeyBlock some{first, inner.min(step, inner.sub(part.count, first))};
                       forEach(inner, valuePanels, [&](const IndexMath &body, Value index) {
                         addValuePanel(body, block, part, some, index);
                       });
                       scf::YieldOp::create(builder, location);
                     });
}

void AttentionLowering::attendTo(const IndexMath &math, const QueryBlock &block,
                                 const KeyBlock &part) {
  Value yes =
      arith::ConstantOp::create(math.builder, math.location, math.builder.getBoolAttr(true));
  Value isUnprepared = math.builder.createOrFold<arith::XOrIOp>(math.location, isPrepared, yes);
  when(math, isUnprepared,
       [&](const IndexMath &inner) { packKeys(inner, block.batch, block.keyHead, part); });
  computeScores(math, block, part);
  forEach(math, block.count,
          [&](const IndexMath &inner, Value row) { softmaxRow(inner, block, part, row); });
  when(math, isUnprepared,
       [&](const IndexMath &inner) { packValues(inner, block.batch, block.keyHead, part); });
  addValues(math, block, part);
}

void AttentionLowering::attend(const IndexMath &math, const QueryBlock &block) {
  takeQueries(math, block);
  if (!isSingle) {
    forEach(math, block.count, [&](const IndexMath &inner, Value row) { startRow(inner, row); });
  }
  Value step = math.constant(blockKeys);
  scf::ForOp::create(
      math.builder, math.location, math.mul(math.div(block.firstKey, step), step), block.keys, step,
      ValueRange(), [&](OpBuilder &builder, Location location, Value first, ValueRange) {
        IndexMath inner(builder, location);
        KeyBlock part{first, inner.min(step, inner.sub(block.keys, first))};
        if (isSingle || !mask || !isMaskedByKey()) {
          attendTo(inner, block, part);
        } else {
          Value yes = arith::ConstantOp::create(builder, location, builder.getBoolAttr(true));
          Value isSeen =
              arith::XOrIOp::create(builder, location, isHidden(inner, block, part), yes);
          when(inner, isSeen, [&](const IndexMath &then) { attendTo(then, block, part); });
        }
        scf::YieldOp::create(builder, location);
      });
  forEach(math, block.count, [&](const IndexMath &inner, Value row) { invertTotal(inner, row); });
  writeResult(math, block);
}

FailureOr<AffineExpr> AttentionLowering::lower() {
  allocateScratch(IndexMath(kernel.builder, kernel.location));
  auto prepare = [&](const IndexMath &math, const GridPoint &point) {
    when(math, isPrepared, [&](const IndexMath &inner) { packAll(inner, point); });
  };
  auto tile = [&](const IndexMath &math, const GridPoint &point) {
    attend(math, blockOf(math, point));
    return success();
  };
  if (failed(buildGridLoop(kernel, grid, prepare, tile))) {
    return failure();
  }
  return grid.points();
}

namespace {

FamilyMatch matchFlash(Region &region) {
  tn::AttentionOp attention = firstOp<tn::AttentionOp>(region.source);
  if (!attention) {
    return FamilyMatch::refuse("no attention");
  }
  return getElementTypeOrSelf(attention.getQ()).isF64() ? FamilyMatch::refuse("heads of f64")
                                                        : FamilyMatch::take(attention);
}

FailureOr<AffineExpr> lowerFlash(KernelBuilder &kernel, Region &region,
                                 const tn::AttentionOp &attention, int64_t queries) {
  if (failed(checkBuffers(attention))) {
    return failure();
  }
  return AttentionLowering(kernel, attention, region.level(), queries).lower();
}

} // namespace

constexpr KernelFamily kAttentionFlash = {
    .name = "attention_flash",
    .what = "attention by blocks of queries: softmax between two micro-kernel products",
    .strategies = {dispatch::kAttention},
    .needsElements = true,
    .match = matchFlash,
    .parameter = "queries",
    // The scores of 64 queries against 1,000 keys are 256 KiB.
    .candidates = {64, 128, 32, 16},
    .emit = emitKernel<lowerFlash>};

} // namespace tenon::codegen::cpu
