// From words to fragments and sums: f16 holds an integer of up to 10 bits in the low bits of a
// number between 1,024 and 2,047, bf16 one of up to 7 bits between 128 and 255, so that one
// instruction makes two numbers at once. What they are too large by is taken from them, or from
// what a block sums to. Relies on LLVM for moving halves of words by one instruction.
#include "compiler/codegen/cuda/gemm/LowBitGemvKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

namespace {

/// Of 1, as f16 and bf16 twice.
constexpr int64_t kOnesHalf = 0x3C003C00, kOnesBFloat = 0x3F803F80;
/// Of -256, as bf16 twice: with the last bit of its exponent the other way -128.
constexpr int64_t kHighHolder = int32_t(0xC380C380);

Value shiftRight(const ThreadBuilder &t, Value word, int64_t bits) {
  return bits == 0 ? word
                   : t.builder.createOrFold<arith::ShRUIOp>(t.location, word,
                                                            t.constantOfType(word, bits));
}

} // namespace

/// Of a block of a column: its header, and this lane's words of each panel.
void LowBitGemv::readBlock(const ThreadBuilder &t, Value column, Values &words) const {
  int64_t header = p.layout.headerWords();
  for (int64_t i = 0; i < header; ++i) {
    words.push_back(t.load(t.f32Type(), t.offset(column, t.f32Type(), i), 4));
  }
  Value from =
      t.offset(t.offset(column, t.i32Type(), header), t.i32Type(), t.mul(quad, wordsOfPart()));
  for (int64_t panel = 0; panel < panelsOfBlock(); ++panel) {
    for (int64_t i = 0; i < wordsOfPart(); ++i) {
      int64_t at = panel * 4 * wordsOfPart() + i;
      words.push_back(t.load(t.i32Type(), t.offset(from, t.i32Type(), at), 4));
    }
  }
}

LowBitGemv::Block LowBitGemv::unflatten(ValueRange values, int64_t number) const {
  int64_t header = p.layout.headerWords(), words = panelsOfBlock() * wordsOfPart();
  Block block;
  ValueRange own = values.slice(number * 2 * (header + words), 2 * (header + words));
  for (int64_t column : {0, 1}) {
    ValueRange part = own.slice(column * (header + words), header + words);
    block.scales[column] = part[0];
    block.zeros[column] = header > 1 ? part[1] : Value();
  }
  for (int64_t panel = 0; panel < panelsOfBlock(); ++panel) {
    for (int64_t column : {0, 1}) {
      llvm::append_range(
          block.words,
          own.slice(column * (header + words) + header + panel * wordsOfPart(), wordsOfPart()));
    }
  }
  return block;
}

namespace {

/// The bits of a float twice, as f16 or bf16, that holds small integers in the low bits of its
/// fraction, and what it is.
struct Holder {
  int64_t bits, value;
};

Holder holderOf(Type element) {
  return element.isBF16() ? Holder{0x43004300, 128} : Holder{0x64006400, 1024};
}

/// `(words & mask) ^ bits`, as floats, by one instruction: of the operations as such ptxas makes
/// two, since each has a constant.
Value pairOf(const ThreadBuilder &t, Type element, Value words, int64_t mask, int64_t bits) {
  Value pair = LLVM::InlineAsmOp::create(
                   t.builder, t.location, t.i32Type(), {words, t.i32(mask), t.i32(bits)},
                   "lop3.b32 $0, $1, $2, $3, 0x6a;", "=r,r,r,r", /*has_side_effects=*/false,
                   /*is_align_stack=*/false, LLVM::TailCallKind::None, nullptr, nullptr)
                   .getRes();
  return t.bitcast(t.vectorType(2, element), pair);
}

Value pairOfConstant(const ThreadBuilder &t, Type element, double value) {
  VectorType pair = cast<VectorType>(t.vectorType(2, element));
  return arith::ConstantOp::create(
      t.builder, t.location,
      DenseElementsAttr::get(pair, cast<Attribute>(t.builder.getFloatAttr(element, value))));
}

} // namespace

int64_t LowBitGemv::excess() const {
  if (isWideBrain()) {
    return -128;
  }
  return holdsTotals() ? holderOf(p.element).value
                       : (p.layout.hasZeroPoints ? 0 : -p.layout.commonZeroPoint());
}

/// Four words of two 16-bit floats each for 8 numbers: of 4 bits number i and i + 4, of 8 bits i
/// and i + 2, each more by the excess.
Values LowBitGemv::pairsOf(const ThreadBuilder &t, ArrayRef<Value> words) const {
  bool isNibbles = p.layout.bits == 4;
  Values result;
  for (int64_t i = 0; i < 4; ++i) {
    Value shifted =
        isNibbles ? shiftRight(t, words[0], 4 * i) : shiftRight(t, words[i / 2], i % 2 * 8);
    Value numbers;
    if (isWideBrain()) {
      // bf16 has no room for 8 bits beside the leading one: 128 and 7 of them, and -256 or -128 by
      // the highest.
      numbers =
          arith::AddFOp::create(t.builder, t.location,
                                pairOf(t, p.element, shifted, 0x007F007F, holderOf(p.element).bits),
                                pairOf(t, p.element, shifted, 0x00800080, kHighHolder));
    } else {
      numbers = pairOf(t, p.element, shifted, isNibbles ? 0x000F000F : 0x00FF00FF,
                       holderOf(p.element).bits);
      int64_t more = holderOf(p.element).value - excess();
      if (more != 0) {
        numbers = arith::SubFOp::create(t.builder, t.location, numbers,
                                        pairOfConstant(t, p.element, double(more)));
      }
    }
    result.push_back(t.bitcast(t.i32Type(), numbers));
  }
  return result;
}

/// The low halves of two words, and their high halves.
static Values halvesOf(const ThreadBuilder &t, Value low, Value high) {
  Type pair = t.vectorType(2, t.builder.getI16Type());
  Value a = t.bitcast(pair, low), b = t.bitcast(pair, high);
  Values result;
  for (int64_t half : {0, 1}) {
    result.push_back(t.bitcast(t.i32Type(), t.pack({t.extract(a, half), t.extract(b, half)})));
  }
  return result;
}

/// A row's 8 numbers paired as those of 4 bits are.
static Values pairedByHalves(const ThreadBuilder &t, ArrayRef<Value> words) {
  Values paired = halvesOf(t, words[0], words[2]);
  llvm::append_range(paired, halvesOf(t, words[1], words[3]));
  return paired;
}
/// As those of 8 bits are.
static Values pairedByQuarters(const ThreadBuilder &t, ArrayRef<Value> words) {
  Values paired = halvesOf(t, words[0], words[1]);
  llvm::append_range(paired, halvesOf(t, words[2], words[3]));
  return paired;
}

RowNorm::Order LowBitGemv::order() const {
  return p.layout.bits == 4 ? pairedByHalves : pairedByQuarters;
}

/// Adds up the block of a row that a lane has eight neighbours of, in the order of the row, with
/// its neighbours; one lane stores the total.
void LowBitGemv::addUp(const ThreadBuilder &t, Value row, Value place, ArrayRef<Value> words,
                       Value isThere) const {
  Value total = t.f32(0);
  for (Value word : words) {
    Value pair = t.bitcast(t.vectorType(2, p.element), word);
    total = t.addF(total, t.addF(t.toF32(t.extract(pair, 0)), t.toF32(t.extract(pair, 1))));
  }
  for (int64_t mask = 1; mask < p.layout.block / kPart; mask *= 2) {
    total = t.addF(total, t.shuffleXor(total, mask));
  }
  if (!p.layout.hasZeroPoints) {
    total = t.mulF(total, t.f32(-double(excess() + p.layout.commonZeroPoint())));
  }
  Value isStored = t.isEqual(t.rem(place, p.layout.block), t.i32(0));
  t.when(isThere ? t.bitAnd(isStored, isThere) : isStored, [&](const ThreadBuilder &c) {
    Value at = c.add(c.mul(row, p.layout.blocks()), c.div(place, p.layout.block));
    c.store(total, c.offset(totalPointer, c.f32Type(), at), 4);
  });
}

/// What `addUp` left of a block, of a lane's two rows.
Values LowBitGemv::totalsOf(const ThreadBuilder &t, Value block, int64_t rowGroup) const {
  Values totals;
  for (int64_t i : {0, 1}) {
    if (p.isOneRow() && i > 0) {
      totals.push_back(totals.front());
      continue;
    }
    Value row = t.add(t.mul(quad, 2), rowGroup * kMmaColumns + i);
    row = p.isOneRow() ? t.i32(0) : t.min(row, t.sub(rowCount, t.i32(1)));
    Value at = t.add(t.mul(row, p.layout.blocks()), block);
    totals.push_back(t.load(t.f32Type(), t.offset(totalPointer, t.f32Type(), at), 4));
  }
  return totals;
}

/// A lane's activations of a panel, paired as its numbers are: so they lie in shared memory.
Values LowBitGemv::activations(const ThreadBuilder &t, Value depth, int64_t rowGroup) const {
  // What is computed of the last row once more is not stored.
  Value row = p.isOneRow() ? t.i32(0)
                           : t.min(t.add(group, rowGroup * kMmaColumns), t.sub(rowCount, t.i32(1)));
  int64_t pitch = holdsRows() ? normedPitchOf(p.layout.depth) : p.layout.depth;
  Value from = t.offset(holdsRows() ? rowPointer : inputPointer, p.element,
                        t.add(t.mul(row, pitch), t.add(depth, t.mul(quad, kPart))));
  Value loaded = t.load(t.vectorType(4, t.i32Type()), from, 16);
  Values words;
  for (int64_t i = 0; i < 4; ++i) {
    words.push_back(t.extract(loaded, i));
  }
  return holdsRows() ? words : order()(t, words);
}

/// Whether the warp's block is one of its own and of the column.
static Value isOwn(const ThreadBuilder &t, Value block, Value warp, int64_t blocksOfWarp,
                   int64_t blocks) {
  Value end = t.min(t.mul(t.add(warp, 1), blocksOfWarp), t.i32(blocks));
  return t.isLess(block, end);
}

void LowBitGemv::addBlock(const ThreadBuilder &t, Value block, const Block &numbers,
                          MutableArrayRef<Value> accumulators) const {
  // In stages all blocks are the warp's own.
  Value last = isStaged() ? block : t.min(block, t.i32(p.layout.blocks() - 1));
  Value depth = t.mul(last, p.layout.block);
  int64_t ofColumn = wordsOfPart();
  SmallVector<Values> left;
  for (int64_t i = 0; i < panelsOfBlock() * 2; ++i) {
    left.push_back(pairsOf(t, ArrayRef(numbers.words).slice(i * ofColumn, ofColumn)));
  }
  Value one = t.i32(p.element.isBF16() ? kOnesBFloat : kOnesHalf);
  Value own = isStaged() ? Value() : isOwn(t, block, warp, blocksOfWarp(), p.layout.blocks());
  for (int64_t rowGroup = 0; rowGroup < rowGroups(); ++rowGroup) {
    Values sums(kSums, t.f32(0)), totals(kSums, t.f32(0)); // of numbers, and of activations
    bool addsTotals = p.layout.hasZeroPoints && !holdsTotals();
    for (int64_t panel = 0; panel < panelsOfBlock(); ++panel) {
      Values b = activations(t, t.add(depth, panel * kLowBitPanel), rowGroup);
      const Values &low = left[panel * 2], &high = left[panel * 2 + 1];
      for (int64_t k = 0; k < 4; k += 2) {
        sums = multiply(t, p.element, {low[k], high[k], low[k + 1], high[k + 1]}, {b[k], b[k + 1]},
                        sums);
        if (addsTotals) {
          totals = multiply(t, p.element, {one, one, one, one}, {b[k], b[k + 1]}, totals);
        }
      }
    }
    if (holdsTotals()) {
      Values both = totalsOf(t, last, rowGroup);
      totals = {both[0], both[1], both[0], both[1]};
    }
    for (int64_t i = 0; i < kSums; i += p.isOneRow() ? 2 : 1) {
      Value sum = sums[i], &accumulator = accumulators[rowGroup * kSums + i];
      if (p.layout.hasZeroPoints) {
        Value zero = numbers.zeros[i / 2];
        zero = excess() == 0 ? zero : t.addF(zero, t.f32(double(excess())));
        sum = t.fma(t.negF(zero), totals[i], sum);
      } else if (holdsTotals()) {
        sum = t.addF(sum, totals[i]);
      }
      Value scale = numbers.scales[i / 2];
      if (own) {
        // What is not the warp's own may be infinite.
        scale = t.select(own, scale, t.f32(0));
        sum = t.select(own, sum, t.f32(0));
      }
      accumulator = t.fma(scale, sum, accumulator);
    }
  }
}

Values LowBitGemv::addStep(const ThreadBuilder &t, Value step, ValueRange fetched,
                           ValueRange accumulators) const {
  Values result(accumulators);
  for (int64_t number = 0; number < layout.blocks; ++number) {
    addBlock(t, blockOf(t, step, number), unflatten(fetched, number), result);
  }
  return result;
}

} // namespace tenon::codegen::cuda
