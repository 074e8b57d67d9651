// Attention over pages: a grid point takes the new tokens of one sequence, or some of them, for one
// head of keys, and goes through the pages of that sequence, which the product kernels read where
// they lie. Relies on Pages.h for how they lie.
//
// The sums of a row are the same whatever else runs: blocks of keys begin at multiples of their
// size from position 0, products with values add up page by page, and keys that a row does not see
// add zeros.
//
// One file: all of it are steps of one nest of loops, over the same scratch.
#include "compiler/codegen/cpu/attention/OnlineSoftmax.h"
#include "compiler/codegen/cpu/attention/Pages.h"

#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/region/Failures.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Keys of a block, unless a page has more: each costs a reduction of every row.
constexpr int64_t kBlockKeys = 512;
constexpr double kLeast = -std::numeric_limits<double>::infinity();

/// Some new tokens of a sequence for one head of keys, all of index type. Row r is token r /
/// sharing and the head r % sharing of those that read the head of keys.
struct TokenBlock {
  Value sequence, keyHead;
  Value first;    ///< of the step's tokens
  Value position; ///< of that token
  Value tokens, rows;
};

/// Keys [first, next) of a sequence: of a block, those that some of its rows see.
struct SeenKeys {
  Value block; ///< a multiple of a block's keys
  Value first; ///< a multiple of a panel
  Value next;
};

class PagedAttentionLowering : OnlineSoftmax {
public:
  PagedAttentionLowering(KernelBuilder &kernel, tn::PagedAttentionOp op, engine::CpuLevel level,
                         int64_t most);

  AffineExpr lower();

private:
  Value buffer(Value operand) const {
    return kernel.input(cast<BlockArgument>(operand).getArgNumber());
  }
  void allocateScratch(const IndexMath &math);
  Value loadIndex(const IndexMath &math, Value from, ValueRange at) const;
  TokenBlock blockOf(const IndexMath &math, Value number, Value head) const;
  void clearRest(const IndexMath &math, Value head) const;
  void attend(const IndexMath &math, const TokenBlock &block);
  void takeQueries(const IndexMath &math, const TokenBlock &block);
  void computeScores(const IndexMath &math, const TokenBlock &block, const SeenKeys &keys);
  void softmaxRow(const IndexMath &math, const TokenBlock &block, const SeenKeys &keys, Value row);
  void addValues(const IndexMath &math, const TokenBlock &block, const SeenKeys &keys);
  void writeResult(const IndexMath &math, const TokenBlock &block);
  Value pageOf(const IndexMath &math, const TokenBlock &block, Value key) const;
  Value panelOfKeys(const IndexMath &math, const TokenBlock &block, Value key) const;
  Value copyValues(const IndexMath &math, Value page, Value inPage, Value count) const;
  static void decodeRows(const IndexMath &math, const PagedCache &cache, Value codes, Value scales,
                         Value to, unsigned positions);
  Value scoresOf(const IndexMath &math, Value row, Value column, Value hidden, Value active);
  void forPanels(const IndexMath &math, const SeenKeys &keys, Body body) const;
  Value rowsOfTokens(const IndexMath &math, Value buffer, const TokenBlock &block, Value token,
                     Value head, int64_t columns) const;

  tn::PagedAttentionOp op;
  int64_t sharing;    ///< heads that read one head of keys
  int64_t mostTokens; ///< of a grid point
  int64_t window;
  double softcap;
  Value q, result, pages, starts, lengths;
  PagedCache keys, values;
  ProductType type; ///< of both products
  int64_t word;     ///< elements of a word of both
  bool isWidened;   ///< pages of other elements than the products', which are copied
  int64_t blockKeys;
  AffineExpr tokens, sequences, table;
  Value rowsOfQueries; ///< [most rows, D], scaled
  Value keyPanel;      ///< [D, 32]: of pages that are widened or decoded, else null
  Value valueRows;     ///< [words of 32 positions, value panels * 32 words]
};

int64_t sharingOf(tn::PagedAttentionOp op) {
  return *tn::constantDim(tn::getDims(op.getQ().getType())[1]) /
         *tn::constantDim(tn::getDims(op.getKeys().getType())[1]);
}

PagedAttentionLowering::PagedAttentionLowering(KernelBuilder &kernel, tn::PagedAttentionOp op,
                                               engine::CpuLevel level, int64_t most)
    : OnlineSoftmax(kernel, floatLanes(level)), op(op), sharing(sharingOf(op)),
      mostTokens(std::max<int64_t>(1, most / sharing)), window(op.getWindow()),
      softcap(op.getSoftcap().convertToDouble()), q(buffer(op.getQ())), result(kernel.output(0)),
      pages(buffer(op.getPages())), starts(buffer(op.getStarts())),
      lengths(buffer(op.getLengths())),
      keys{buffer(op.getKeys()), tn::getDims(op.getKeys().getType()), true, op.getKeys().getType()},
      values{buffer(op.getValues()), tn::getDims(op.getValues().getType()), false,
             op.getValues().getType()},
      tokens(tn::getDims(op.getQ().getType())[0]),
      sequences(tn::getDims(op.getPages().getType())[0]),
      table(tn::getDims(op.getPages().getType())[1]) {
  Type element = keys.element();
  type = element.isBF16() && keys.perWord() == 2 ? ProductType::BF16 : ProductType::F32;
  word = elementsOfWord(type);
  isWidened = type == ProductType::F32 && !element.isF32();
  blockKeys = llvm::alignTo(kBlockKeys, keys.positions());
  setScale(op.getScale().convertToDouble(), type == ProductType::BF16);
}

void PagedAttentionLowering::allocateScratch(const IndexMath &math) {
  int64_t rows = mostTokens * sharing;
  Type element = type == ProductType::F32 ? Type(math.builder.getF32Type()) : keys.element();
  AffineExpr width = math.builder.getAffineConstantExpr(values.width());
  allocateRows(math, rows, blockKeys, width, element);
  rowsOfQueries = allocate(kernel, {math.constant(rows), math.constant(keys.width())}, element);
  if (isWidened) {
    keyPanel = allocate(kernel, {math.constant(keys.width()), math.constant(kPanel)});
  }
  valueRows = allocate(
      kernel,
      {math.constant(kPanel / word), math.constant(llvm::alignTo(values.width(), kPanel) * word)},
      element);
  clear(math, valueRows);
}

Value PagedAttentionLowering::loadIndex(const IndexMath &math, Value from, ValueRange at) const {
  Value number = memref::LoadOp::create(math.builder, math.location, from, at);
  return arith::IndexCastOp::create(math.builder, math.location, math.builder.getIndexType(),
                                    number);
}

/// The block of that number: sequences have theirs one after the other. One of no sequence has no
/// rows.
TokenBlock PagedAttentionLowering::blockOf(const IndexMath &math, Value number, Value head) const {
  OpBuilder &builder = math.builder;
  Location location = math.location;
  Value zero = math.constant(0), one = math.constant(1), none = math.constant(-1);
  Value count = math.size(kernel, sequences);
  auto compare = [](const IndexMath &in, arith::CmpIPredicate predicate, Value a,
                    Value b) -> Value {
    return arith::CmpIOp::create(in.builder, in.location, predicate, a, b);
  };
  scf::ForOp search = scf::ForOp::create(
      builder, location, zero, count, one, ValueRange{number, none, zero},
      [&](OpBuilder &b, Location at, Value sequence, ValueRange state) {
        IndexMath in(b, at);
        Value first = loadIndex(in, starts, sequence);
        Value next = loadIndex(in, starts, in.add(sequence, one));
        Value tokensOf = in.max(zero, in.sub(next, first));
        Value blocks =
            in.div(in.add(tokensOf, in.constant(mostTokens - 1)), in.constant(mostTokens));
        Value isOpen = compare(in, arith::CmpIPredicate::slt, state[1], zero);
        Value isHere = arith::AndIOp::create(b, at, isOpen, in.isLess(state[0], blocks));
        Value rest = arith::SelectOp::create(b, at, isHere, state[0], in.sub(state[0], blocks));
        scf::YieldOp::create(
            b, at,
            ValueRange{rest, arith::SelectOp::create(b, at, isHere, sequence, state[1]),
                       arith::SelectOp::create(b, at, isHere, state[0], state[2])});
      });
  Value isNone = compare(math, arith::CmpIPredicate::slt, search.getResult(1), zero);
  Value sequence = math.max(zero, search.getResult(1));
  Value first = loadIndex(math, starts, sequence);
  Value next = loadIndex(math, starts, math.add(sequence, one));
  Value length = loadIndex(math, lengths, sequence);
  Value most = math.mul(math.size(kernel, table), keys.positions());
  auto isAtMost = [&](Value a, Value b) { return compare(math, arith::CmpIPredicate::sle, a, b); };
  Value isRight = isNone;
  Value fits = isAtMost(zero, first);
  for (Value condition : {isAtMost(next, math.size(kernel, tokens)), isAtMost(length, most),
                          isAtMost(math.sub(next, first), length)}) {
    fits = arith::AndIOp::create(builder, location, fits, condition);
  }
  isRight = arith::OrIOp::create(builder, location, isNone, fits);
  Value skipped = math.mul(search.getResult(2), math.constant(mostTokens));
  TokenBlock block;
  block.sequence = sequence;
  block.keyHead = head;
  block.first = math.add(first, skipped);
  Value count1 = math.min(math.sub(next, block.first), math.constant(mostTokens));
  Value isUsed = arith::AndIOp::create(
      builder, location, fits,
      arith::XOrIOp::create(
          builder, location, isNone,
          arith::ConstantOp::create(builder, location, builder.getBoolAttr(true))));
  Value held = arith::SelectOp::create(builder, location, isUsed, count1, zero);
  block.tokens = require(builder, location, held, isRight, tn::Failure::index);
  block.rows = math.mul(block.tokens, sharing);
  block.position = math.add(math.sub(length, math.sub(next, first)), skipped);
  return block;
}

/// The page of a sequence in which a position lies.
Value PagedAttentionLowering::pageOf(const IndexMath &math, const TokenBlock &block,
                                     Value key) const {
  Value at = math.div(key, math.constant(keys.positions()));
  Value page = loadIndex(math, pages, ValueRange{block.sequence, at});
  Value most = math.size(kernel, keys.dims[0]), zero = math.constant(0);
  Value isRight =
      arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::ult, page, most);
  Value held = math.max(zero, math.min(page, math.sub(most, math.constant(1))));
  return require(math.builder, math.location, held, isRight, tn::Failure::index);
}

/// The numbers of codes that lie in the same order; dim `positions` counts the scales.
void PagedAttentionLowering::decodeRows(const IndexMath &math, const PagedCache &cache, Value codes,
                                        Value scales, Value to, unsigned positions) {
  AffineMap identity = math.builder.getMultiDimIdentityMap(2);
  AffineMap byPosition = AffineMap::get(2, 0, math.builder.getAffineDimExpr(positions));
  SmallVector<utils::IteratorType> loops(2, utils::IteratorType::parallel);
  linalg::GenericOp::create(math.builder, math.location, ValueRange{codes, scales}, ValueRange{to},
                            ArrayRef<AffineMap>{identity, byPosition, identity}, loops,
                            [&](OpBuilder &body, Location location, ValueRange args) {
                              Value number = cache.decode(body, location, args[0]);
                              Value scaled = arith::MulFOp::create(body, location, number, args[1]);
                              linalg::YieldOp::create(body, location, scaled);
                            });
}

/// Of the 32 keys from a multiple of 32 on, the panel for the product.
Value PagedAttentionLowering::panelOfKeys(const IndexMath &math, const TokenBlock &block,
                                          Value key) const {
  Value page = keys.start(math, kernel, pageOf(math, block, key), block.keyHead);
  Value inPage = math.rem(key, math.constant(keys.positions()));
  Value start = math.add(page, math.mul(inPage, keys.width()));
  if (!isWidened) {
    return math.pointer(keys.buffer, math.div(start, math.constant(word)));
  }
  Value from =
      memrefAt(math.builder, math.location, math.elementPointer(keys.buffer, start), keys.element(),
               {math.builder.getIndexAttr(keys.width()), math.builder.getIndexAttr(kPanel)});
  if (keys.holdsCodes()) {
    decodeRows(math, keys, from, keys.scales(math, page, inPage, kPanel), keyPanel, 1);
    return math.pointer(keyPanel, math.constant(0));
  }
  copyElements(math, from, keyPanel, math.builder.getMultiDimIdentityMap(2));
  return math.pointer(keyPanel, math.constant(0));
}

void PagedAttentionLowering::forPanels(const IndexMath &math, const SeenKeys &seen,
                                       Body body) const {
  cpu::forEach(math, seen.first, seen.next, kPanel, body);
}

void PagedAttentionLowering::computeScores(const IndexMath &math, const TokenBlock &block,
                                           const SeenKeys &seen) {
  Value strip = math.constant(blockKeys + kPanel), depth = math.constant(keys.width() / word);
  Value a = math.pointer(rowsOfQueries, math.constant(0));
  forPanels(math, seen, [&](const IndexMath &in, Value key) {
    callProduct(in, kernel.function(),
                {a, depth, panelOfKeys(in, block, key), in.constant(kPanel),
                 in.pointer(scores, in.sub(key, seen.block)), strip, depth, block.rows, Value(),
                 type});
  });
}

/// Values of positions that are widened, do not fill panels, or end within a word, as rows of whole
/// panels; what lies behind the last position is zero. The pointer to them.
Value PagedAttentionLowering::copyValues(const IndexMath &math, Value page, Value inPage,
                                         Value count) const {
  OpBuilder &b = math.builder;
  Value zero = math.constant(0);
  int64_t width = values.width(), stored = values.perWord();
  Value start = math.add(page, math.mul(inPage, width));
  if (values.holdsCodes()) {
    Value columns = math.constant(width);
    Value from = memrefAt(b, math.location, math.elementPointer(values.buffer, start),
                          values.element(), {count, b.getIndexAttr(width)});
    Value scales = math.view(values.scales(math, page, inPage, kPanel), {zero}, {count});
    decodeRows(math, values, from, scales, math.view(valueRows, {zero, zero}, {count, columns}), 0);
    return math.pointer(valueRows, zero);
  }
  if (word == stored) {
    Value words = math.div(math.add(count, math.constant(word - 1)), math.constant(word));
    Value from = memrefAt(b, math.location, math.elementPointer(values.buffer, start),
                          values.element(), {words, b.getIndexAttr(width * word)});
    copyElements(math, from,
                 math.view(valueRows, {zero, zero}, {words, math.constant(width * word)}),
                 b.getMultiDimIdentityMap(2));
    if (word > 1) {
      Value isOdd = arith::CmpIOp::create(b, math.location, arith::CmpIPredicate::ne,
                                          math.rem(count, math.constant(word)), zero);
      when(math, isOdd, [&](const IndexMath &in) {
        Value last = in.sub(words, in.constant(1));
        cpu::forEach(in, zero, in.constant(width), 1, [&](const IndexMath &each, Value column) {
          Value nothing = arith::ConstantOp::create(each.builder, each.location,
                                                    each.builder.getZeroAttr(values.element()));
          Value at = each.add(each.mul(column, word), each.constant(1));
          memref::StoreOp::create(each.builder, each.location, nothing, valueRows,
                                  ValueRange{last, at});
        });
      });
    }
    return math.pointer(valueRows, zero);
  }
  // Words of two, of which the products take one by one.
  Value from =
      memrefAt(b, math.location, math.elementPointer(values.buffer, start), values.element(),
               {b.getIndexAttr(kPanel / stored), b.getIndexAttr(width), b.getIndexAttr(stored)});
  cpu::forEach(math, zero, count, 1, [&](const IndexMath &in, Value position) {
    Value row = in.div(position, in.constant(stored)), half = in.rem(position, in.constant(stored));
    cpu::forEach(in, zero, in.constant(width), 1, [&](const IndexMath &each, Value column) {
      Value x =
          memref::LoadOp::create(each.builder, each.location, from, ValueRange{row, column, half});
      memref::StoreOp::create(each.builder, each.location, widen(each.builder, each.location, x),
                              valueRows, ValueRange{position, column});
    });
  });
  return math.pointer(valueRows, zero);
}

void PagedAttentionLowering::addValues(const IndexMath &math, const TokenBlock &block,
                                       const SeenKeys &seen) {
  int64_t width = values.width(), whole = llvm::alignTo(width, kPanel);
  Value yes = math.isLess(math.constant(0), math.constant(1));
  Value strip = math.constant((blockKeys + kPanel) / word), stride = math.constant(whole);
  bool isCopied = isWidened || width != whole;
  forPanels(math, seen, [&](const IndexMath &in, Value key) {
    OpBuilder &b = in.builder;
    Value page = values.start(in, kernel, pageOf(in, block, key), block.keyHead);
    Value inPage = in.rem(key, in.constant(values.positions()));
    Value start = in.add(page, in.mul(inPage, width));
    Value count = in.min(in.constant(kPanel), in.sub(seen.next, key));
    Value words = in.div(in.add(count, in.constant(word - 1)), in.constant(word));
    Value from;
    if (isCopied) {
      from = copyValues(in, page, inPage, count);
    } else {
      from = in.pointer(values.buffer, in.div(start, in.constant(word)));
      if (word > 1) {
        Value isOdd = arith::CmpIOp::create(b, in.location, arith::CmpIPredicate::ne,
                                            in.rem(count, in.constant(word)), in.constant(0));
        Value place = from;
        from = scf::IfOp::create(
                   b, in.location, isOdd,
                   [&](OpBuilder &then, Location at) {
                     scf::YieldOp::create(then, at,
                                          copyValues(IndexMath(then, at), page, inPage, count));
                   },
                   [&](OpBuilder &otherwise, Location at) {
                     scf::YieldOp::create(otherwise, at, place);
                   })
                   .getResult(0);
      }
    }
    Value a = in.pointer(exponentials, in.div(in.sub(key, seen.block), in.constant(word)));
    for (int64_t column = 0; column < whole; column += kPanel) {
      callProduct(in, kernel.function(),
                  {a, strip, in.offset(from, in.constant(column)), stride,
                   in.pointer(sums, in.constant(column)), stride, words, block.rows, yes, type});
    }
  });
}

/// A vector of scores as softmax takes them: minus infinity for the columns below `hidden` and from
/// `active` on.
Value PagedAttentionLowering::scoresOf(const IndexMath &math, Value row, Value column, Value hidden,
                                       Value active) {
  OpBuilder &b = math.builder;
  Location at = math.location;
  auto all = [&](double value) { return broadcast(math, number(math, value)); };
  Value x = vector::LoadOp::create(b, at, vector, scores, ValueRange{row, column});
  if (softcap > 0) {
    x = arith::MulFOp::create(b, at, x, all(scoreFactor / softcap));
    x = arith::MulFOp::create(b, at, math::TanhOp::create(b, at, x), all(softcap));
  } else if (scoreFactor != 1) {
    x = arith::MulFOp::create(b, at, x, all(scoreFactor));
  }
  if (hidden) {
    Value before = lanesOf(math, math.max(math.constant(0), math.sub(hidden, column)));
    x = arith::SelectOp::create(b, at, before, all(kLeast), x);
  }
  if (active) {
    x = arith::SelectOp::create(b, at, lanesOf(math, active), x, all(kLeast));
  }
  if (softcap > 0 || scoreFactor != 1 || hidden || active) {
    vector::StoreOp::create(b, at, x, scores, ValueRange{row, column});
  }
  return x;
}

/// The exponentials of a row's scores, zeros for keys that it does not see.
void PagedAttentionLowering::softmaxRow(const IndexMath &math, const TokenBlock &block,
                                        const SeenKeys &seen, Value row) {
  Value zero = math.constant(0), columns = math.sub(seen.next, seen.block);
  Value position = math.add(block.position, math.div(row, math.constant(sharing)));
  Value own = math.sub(math.add(position, math.constant(1)), seen.block);
  Value active = math.min(columns, math.max(zero, own));
  // Columns that no row of the block sees have no scores.
  Value start = math.sub(seen.first, seen.block);
  Value hidden = window > 0 ? math.max(zero, math.sub(own, math.constant(window))) : Value();
  Value count = math.max(zero, math.sub(active, start));
  auto element = [&](const IndexMath &in, Value column, Value some) {
    return scoresOf(in, row, in.add(start, column), hidden, some);
  };
  Value before = memref::LoadOp::create(math.builder, math.location, largest, row);
  Value most = larger(math, reduceLargest(math, largestOf(math, count, element)), before);
  Value end = wholeLanes(math, count);
  Value sum = sumOfExponentials(math, row, start, math.add(start, end), most);
  addToRow(math, row, before, most, sum);
  clearExponentials(math, row, math.add(start, end), columns);
}

/// The rows [first, first + sharing) of a token as a memref of two dims.
Value PagedAttentionLowering::rowsOfTokens(const IndexMath &math, Value buffer,
                                           const TokenBlock &block, Value token, Value head,
                                           int64_t columns) const {
  Value heads = math.mul(math.size(kernel, keys.heads()), sharing);
  Value first = math.add(math.mul(math.add(block.first, token), heads), math.mul(head, sharing));
  return math.view(math.asRows(buffer), {first, math.constant(0)},
                   {math.constant(sharing), math.constant(columns)});
}

void PagedAttentionLowering::takeQueries(const IndexMath &math, const TokenBlock &block) {
  forEach(math, block.tokens, [&](const IndexMath &in, Value token) {
    int64_t depth = keys.width();
    Value from = rowsOfTokens(in, q, block, token, block.keyHead, depth);
    Value to = in.view(rowsOfQueries, {in.mul(token, sharing), in.constant(0)},
                       {in.constant(sharing), in.constant(depth)});
    scaleQueries(in, from, to);
  });
}

/// Divided by the rows' sums, none of which is zero: a token sees itself.
void PagedAttentionLowering::writeResult(const IndexMath &math, const TokenBlock &block) {
  forEach(math, block.rows, [&](const IndexMath &in, Value row) {
    Value sum = memref::LoadOp::create(in.builder, in.location, total, row);
    Value inverse = arith::DivFOp::create(in.builder, in.location, number(in, 1), sum);
    memref::StoreOp::create(in.builder, in.location, inverse, total, row);
  });
  forEach(math, block.tokens, [&](const IndexMath &in, Value token) {
    int64_t width = values.width();
    Value to = rowsOfTokens(in, result, block, token, block.keyHead, width);
    writeSums(in, in.mul(token, sharing), in.constant(sharing), in.constant(width), to);
  });
}

/// Zeros for the tokens of no sequence.
void PagedAttentionLowering::clearRest(const IndexMath &math, Value head) const {
  Value first = math.max(math.constant(0), loadIndex(math, starts, math.size(kernel, sequences)));
  TokenBlock none;
  none.first = math.constant(0);
  cpu::forEach(math, first, math.size(kernel, tokens), 1, [&](const IndexMath &in, Value token) {
    clear(in, rowsOfTokens(in, result, none, token, head, values.width()));
  });
}

void PagedAttentionLowering::attend(const IndexMath &math, const TokenBlock &block) {
  takeQueries(math, block);
  forEach(math, block.rows, [&](const IndexMath &in, Value row) { startRow(in, row); });
  Value zero = math.constant(0);
  Value end = math.add(block.position, block.tokens);
  Value least = zero;
  if (window > 0) {
    least = math.max(zero, math.sub(block.position, math.constant(window - 1)));
    least = math.mul(math.div(least, math.constant(kPanel)), kPanel);
  }
  Value first = math.mul(math.div(least, math.constant(blockKeys)), blockKeys);
  cpu::forEach(math, first, end, blockKeys, [&](const IndexMath &in, Value start) {
    SeenKeys seen{start, in.max(start, least), in.min(end, in.add(start, in.constant(blockKeys)))};
    computeScores(in, block, seen);
    forEach(in, block.rows,
            [&](const IndexMath &each, Value row) { softmaxRow(each, block, seen, row); });
    addValues(in, block, seen);
  });
  writeResult(math, block);
}

/// Sequences of few tokens have a block each, and those of many one for each `mostTokens`.
AffineExpr PagedAttentionLowering::lower() {
  IndexMath outside(kernel.builder, kernel.location);
  allocateScratch(outside);
  AffineExpr blocks = sequences + tokens.floorDiv(mostTokens);
  cpu::forEach(outside, kernel.begin, kernel.end, 1, [&](const IndexMath &math, Value point) {
    Value count = math.size(kernel, blocks), zero = math.constant(0), two = math.constant(2);
    // Heads in turn: the products fetch what lies behind a panel, which is that of the next head.
    Value heads = math.size(kernel, keys.heads());
    Value head = math.rem(point, heads), number = math.div(point, heads);
    // Early and late rows in turn, so that threads with one half of the grid each have equal work.
    Value half = math.div(number, two);
    Value isOdd = arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::ne,
                                        math.rem(number, two), zero);
    Value fromEnd = math.sub(math.sub(count, math.constant(1)), half);
    number = arith::SelectOp::create(math.builder, math.location, isOdd, fromEnd, half);
    Value isFirst =
        arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::eq, number, zero);
    when(math, isFirst, [&](const IndexMath &in) { clearRest(in, head); });
    TokenBlock block = blockOf(math, number, head);
    when(math, math.isLess(zero, block.tokens), [&](const IndexMath &in) { attend(in, block); });
  });
  return keys.heads() * blocks;
}

FamilyMatch matchPaged(Region &region) {
  tn::PagedAttentionOp op = onlyOp<tn::PagedAttentionOp>(region.source);
  if (!op) {
    return FamilyMatch::refuse("no attention over pages");
  }
  const char *why = refusePages(op.getKeys().getType());
  why = why ? why : refusePages(op.getValues().getType());
  return why ? FamilyMatch::refuse(why) : FamilyMatch::take(op);
}

std::string pagedOrder(Region &, const tn::PagedAttentionOp &, const dispatch::KernelChoice &) {
  return "blocks of keys from position 0 on";
}

FailureOr<AffineExpr> lowerPaged(KernelBuilder &kernel, Region &region,
                                 const tn::PagedAttentionOp &op, int64_t queries) {
  if (failed(checkBuffers(op))) {
    return failure();
  }
  return PagedAttentionLowering(kernel, op, region.level(), queries).lower();
}

} // namespace

constexpr KernelFamily kAttentionPaged = {
    .name = "attention_paged",
    .what = "attention over pages, which two micro-kernel products read where they lie",
    .strategies = {dispatch::kAttention},
    .needs = {"paged_attention"},
    .needsElements = true,
    .match = matchPaged,
    .parameter = "queries",
    .candidates = {64, 128, 32, 16},
    .emit = emitKernel<lowerPaged>,
    .order = on<pagedOrder>};

} // namespace tenon::codegen::cpu
