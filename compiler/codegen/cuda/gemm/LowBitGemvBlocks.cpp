// From words to fragments and sums: f16 holds an integer of up to 10 bits in the low bits of a
// number between 1,024 and 2,047, bf16 one of up to 7 bits between 128 and 255, so that a mask and
// a subtraction make two numbers at once. Relies on LLVM for moving halves of words by one
// instruction.
#include "compiler/codegen/cuda/gemm/LowBitGemvKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

namespace {

/// Of 1, as f16 and bf16 twice.
constexpr int64_t kOnesHalf = 0x3C003C00, kOnesBFloat = 0x3F803F80;

Value shiftRight(const ThreadBuilder &t, Value word, int64_t bits) {
  return bits == 0 ? word
                   : t.builder.createOrFold<arith::ShRUIOp>(t.location, word,
                                                            t.constantOfType(word, bits));
}
Value shiftLeft(const ThreadBuilder &t, Value word, int64_t bits) {
  return t.builder.createOrFold<arith::ShLIOp>(t.location, word, t.constantOfType(word, bits));
}
Value bitOr(const ThreadBuilder &t, Value a, Value b) {
  return t.builder.createOrFold<arith::OrIOp>(t.location, a, b);
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

/// Four words of two 16-bit floats each for 8 numbers: of 4 bits number i and i + 4, of 8 bits two
/// neighbours. Less the common zero point where blocks have none of their own.
Values LowBitGemv::pairsOf(const ThreadBuilder &t, ArrayRef<Value> words) const {
  bool isBrain = p.element.isBF16(), isNibbles = p.layout.bits == 4;
  int64_t zero = p.layout.hasZeroPoints ? 0 : p.layout.commonZeroPoint();
  // bf16 has no room for 8 bits beside the leading one: these go by way of f16, which is exact.
  bool isHalf = !isBrain || !isNibbles;
  Type element = isHalf ? Type(t.builder.getF16Type()) : p.element;
  int64_t base = isHalf ? 1024 : 128, high = isHalf ? 0x64006400 : 0x43004300;
  Type pair = t.vectorType(2, element);
  Value offset = arith::ConstantOp::create(
      t.builder, t.location,
      DenseElementsAttr::get(cast<VectorType>(pair), cast<Attribute>(t.builder.getFloatAttr(
                                                         element, double(base + zero)))));
  Values result;
  for (int64_t i = 0; i < 4; ++i) {
    Value bits;
    if (isNibbles) {
      bits = t.bitAnd(shiftRight(t, words[0], 4 * i), t.i32(0x000F000F));
    } else {
      Value two = shiftRight(t, words[i / 2], i % 2 * 16);
      bits = bitOr(t, t.bitAnd(two, t.i32(0xFF)), shiftLeft(t, t.bitAnd(two, t.i32(0xFF00)), 8));
    }
    Value numbers = t.bitcast(pair, bitOr(t, bits, t.i32(high)));
    numbers = arith::SubFOp::create(t.builder, t.location, numbers, offset);
    if (element != p.element) {
      result.push_back(
          t.packPair(p.element, t.toF32(t.extract(numbers, 0)), t.toF32(t.extract(numbers, 1))));
    } else {
      result.push_back(t.bitcast(t.i32Type(), numbers));
    }
  }
  return result;
}

/// A row's 8 numbers paired as those of 4 bits are.
static Values pairedByHalves(const ThreadBuilder &t, ArrayRef<Value> words) {
  Values paired;
  for (int64_t i = 0; i < 2; ++i) {
    Value low = words[i], high = words[i + 2];
    paired.push_back(bitOr(t, t.bitAnd(low, t.i32(0xFFFF)), shiftLeft(t, high, 16)));
    paired.push_back(bitOr(t, shiftRight(t, low, 16), t.bitAnd(high, t.i32(0xFFFF0000))));
  }
  return paired;
}

RowNorm::Order LowBitGemv::order() const { return p.layout.bits == 4 ? pairedByHalves : nullptr; }

/// A lane's activations of a panel, paired as its numbers are: so they lie in shared memory.
Values LowBitGemv::activations(const ThreadBuilder &t, Value depth, int64_t rowGroup) const {
  // What is computed of the last row once more is not stored.
  Value row = t.min(t.add(group, rowGroup * kMmaColumns), t.sub(rowCount, t.i32(1)));
  int64_t pitch = holdsRows() ? normedPitchOf(p.layout.depth) : p.layout.depth;
  Value from = t.offset(holdsRows() ? rowPointer : inputPointer, p.element,
                        t.add(t.mul(row, pitch), t.add(depth, t.mul(quad, kPart))));
  Value loaded = t.load(t.vectorType(4, t.i32Type()), from, 16);
  Values words;
  for (int64_t i = 0; i < 4; ++i) {
    words.push_back(t.extract(loaded, i));
  }
  return holdsRows() || !order() ? words : order()(t, words);
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
    for (int64_t panel = 0; panel < panelsOfBlock(); ++panel) {
      Values b = activations(t, t.add(depth, panel * kLowBitPanel), rowGroup);
      const Values &low = left[panel * 2], &high = left[panel * 2 + 1];
      for (int64_t k = 0; k < 4; k += 2) {
        sums = multiply(t, p.element, {low[k], high[k], low[k + 1], high[k + 1]}, {b[k], b[k + 1]},
                        sums);
        if (p.layout.hasZeroPoints) {
          totals = multiply(t, p.element, {one, one, one, one}, {b[k], b[k + 1]}, totals);
        }
      }
    }
    for (int64_t i = 0; i < kSums; ++i) {
      Value sum = sums[i], &accumulator = accumulators[rowGroup * kSums + i];
      if (p.layout.hasZeroPoints) {
        sum = t.fma(t.negF(numbers.zeros[i / 2]), totals[i], sum);
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
