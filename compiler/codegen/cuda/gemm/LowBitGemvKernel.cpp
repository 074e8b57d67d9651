// From words to fragments: f16 holds an integer of up to 10 bits in the low bits of a number
// between 1,024 and 2,047, bf16 one of up to 7 bits between 128 and 255, so that a mask and a
// subtraction make two numbers at once. Words come straight into registers, or, where they lie on
// borders of 16 bytes and every warp has whole steps of them, by asynchronous copies of 16 bytes
// into shared memory, which look up a quarter of the lines that loads of 4 bytes do. One file: both
// ways share all of the arithmetic. Relies on LLVM for moving halves of words by one instruction.
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/gemm/EpilogueStore.h"
#include "compiler/codegen/cuda/gemm/LowBitGemv.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// Numbers of a lane's part of a panel, columns of a tile, and accumulators of a lane
/// for 8 rows.
constexpr int64_t kPart = 8, kColumns = 16, kSums = 4;
/// Of 1, as f16 and bf16 twice.
constexpr int64_t kOnesHalf = 0x3C003C00, kOnesBFloat = 0x3F803F80;

Value shiftRight(const ThreadBuilder &t, Value word, int64_t bits) {
  return bits == 0 ? word
                   : t.builder.createOrFold<arith::ShRUIOp>(t.location, word, t.like(word, bits));
}
Value shiftLeft(const ThreadBuilder &t, Value word, int64_t bits) {
  return t.builder.createOrFold<arith::ShLIOp>(t.location, word, t.like(word, bits));
}
Value bitOr(const ThreadBuilder &t, Value a, Value b) {
  return t.builder.createOrFold<arith::OrIOp>(t.location, a, b);
}

class LowBitGemv {
public:
  LowBitGemv(RegionBuilder &region, const LowBitProblem &problem, const LowBitLayout &layout)
      : kernel(region, layout.warps * kWarp), emitter(kernel), p(problem), layout(layout) {}

  bool emit();

private:
  /// Of a lane: the words of two columns for each panel of a block, and the header of both.
  struct Block {
    Values words;              ///< [panel][column][word]
    Value scales[2], zeros[2]; ///< f32; zeros only if blocks have them
  };

  int64_t wordsOfPart() const { return kPart * p.layout.bits / 32; }
  int64_t panelsOfBlock() const { return p.layout.block / kLowBitPanel; }
  int64_t rowGroups() const { return (p.rows + kMmaColumns - 1) / kMmaColumns; }
  int64_t blocksOfWarp() const { return llvm::divideCeilSigned(p.layout.blocks(), layout.warps); }
  int64_t steps() const { return llvm::divideCeilSigned(blocksOfWarp(), layout.blocks); }
  int64_t sumPitch() const { return kColumns + 4; }

  // Through shared memory: each warp has a ring of stages of its own, of the words of a step.
  static constexpr int64_t kMostStages = 3;
  bool isStaged() const {
    int64_t blocks = p.layout.blocks(), ofStep = layout.blocks * layout.warps;
    return blocks % ofStep == 0 && chunkWords() % 4 == 0 && p.layout.rowWords() % 4 == 0;
  }
  int64_t chunkWords() const { return layout.blocks * p.layout.blockWords(); } ///< of a column
  /// An odd number of 16 bytes, so that the words of 8 columns lie in different banks.
  int64_t chunkPitch() const { return chunkWords() / 4 % 2 ? chunkWords() : chunkWords() + 4; }
  int64_t stages() const { return std::min(steps(), kMostStages); }
  int64_t sumBytes() const { return 4 * layout.warps * rowGroups() * kMmaColumns * sumPitch(); }
  int64_t sharedBytes() const {
    return sumBytes() + (isStaged() ? 4 * layout.warps * stages() * kColumns * chunkPitch() : 0);
  }

  void place();
  Value columnOf(const ThreadBuilder &t, Value inTile) const;
  Value stageAt(const ThreadBuilder &t, Value step) const;
  void copyStep(const ThreadBuilder &t, Value step) const;
  Values addStaged(const ThreadBuilder &t, ValueRange accumulators) const;
  Values addFetched(const ThreadBuilder &t);
  void readBlock(const ThreadBuilder &t, Value column, Values &words) const;
  Value blockOf(const ThreadBuilder &t, Value step, int64_t number) const;
  Values fetch(const ThreadBuilder &t, Value step) const;
  Block unflatten(ValueRange values, int64_t number) const;
  Values pairsOf(const ThreadBuilder &t, ArrayRef<Value> words) const;
  Values activations(const ThreadBuilder &t, Value depth, int64_t rowGroup) const;
  void addBlock(const ThreadBuilder &t, Value block, const Block &numbers,
                MutableArrayRef<Value> accumulators) const;
  Values addStep(const ThreadBuilder &t, Value step, ValueRange fetched,
                 ValueRange accumulators) const;
  void finish(ValueRange accumulators);

  KernelFrame kernel;
  ElementEmitter emitter;
  const LowBitProblem &p;
  LowBitLayout layout;
  GemmTensors tensors;
  Value thread, warp, group, quad, rowCount, firstColumn;
  Value inputPointer, weightPointer, columnPointers[2], shared;
};

void LowBitGemv::place() {
  ThreadBuilder t = kernel.code();
  thread = t.thread();
  warp = t.div(thread, kWarp);
  group = t.div(t.lane(), 4);
  quad = t.rem(t.lane(), 4);
  rowCount = kernel.size32(p.rowCount);
  firstColumn = t.mul(t.block(), p.tileColumns());
  inputPointer = kernel.orderedPointer(p.input);
  weightPointer = kernel.orderedPointer(p.weights);
  for (int64_t half : {0, 1}) {
    Value column = columnOf(t, t.add(group, half * 8));
    columnPointers[half] =
        t.offset(weightPointer, t.i32Type(), t.mul(t.wide(column), p.layout.rowWords()));
  }
  shared = kernel.dynamicShared();
}

/// The column of a tile's row; of two parts each has half of them. What is computed of the last
/// column once more is not stored.
Value LowBitGemv::columnOf(const ThreadBuilder &t, Value inTile) const {
  Value column = t.add(firstColumn, p.parts == 1 ? inTile : t.rem(inTile, p.tileColumns()));
  if (p.partColumns() % p.tileColumns() != 0) {
    column = t.min(column, t.i32(p.partColumns() - 1));
  }
  return p.parts == 1 ? column
                      : t.add(column, t.mul(t.div(inTile, p.tileColumns()), p.partColumns()));
}

Value LowBitGemv::stageAt(const ThreadBuilder &t, Value step) const {
  Value number = t.add(t.mul(warp, stages()), t.rem(step, stages()));
  return t.offset(t.offset(shared, t.f32Type(), sumBytes() / 4), t.i32Type(),
                  t.mul(number, kColumns * chunkPitch()));
}

/// A step's words of all columns to their stage, 16 bytes a copy.
void LowBitGemv::copyStep(const ThreadBuilder &t, Value step) const {
  int64_t copies = chunkWords() / 4, all = kColumns * copies;
  Value stage = stageAt(t, step);
  Value first = t.mul(blockOf(t, step, 0), p.layout.blockWords());
  for (int64_t i = 0; i < all; i += kWarp) {
    Value index = t.add(t.lane(), i);
    auto copy = [&](const ThreadBuilder &c) {
      Value inTile = c.div(index, copies), word = c.mul(c.rem(index, copies), 4);
      Value from = c.mul(c.wide(columnOf(c, inTile)), p.layout.rowWords());
      from = c.add(from, c.wide(c.add(first, word)));
      copyAsync(c, c.offset(stage, c.i32Type(), c.add(c.mul(inTile, chunkPitch()), word)),
                c.offset(weightPointer, c.i32Type(), from), Value());
    };
    if (i + kWarp <= all) {
      copy(t);
    } else {
      t.when(t.isLess(index, t.i32(all)), copy);
    }
  }
}

Values LowBitGemv::addStaged(const ThreadBuilder &t, ValueRange accumulators) const {
  return t.loop(t.i32(0), t.i32(steps()), t.i32(1), accumulators,
                [&](const ThreadBuilder &c, Value step, ValueRange before) {
                  waitForCopies(c, stages() - 1);
                  c.warpBarrier();
                  Value stage = stageAt(c, step);
                  Values words;
                  for (int64_t number = 0; number < layout.blocks; ++number) {
                    for (int64_t half : {0, 1}) {
                      Value column = c.mul(c.add(group, half * 8), chunkPitch());
                      Value at = c.add(column, number * p.layout.blockWords());
                      readBlock(c, c.offset(stage, c.i32Type(), at), words);
                    }
                  }
                  Values sums = addStep(c, step, words, before);
                  c.warpBarrier();
                  Value next = c.add(step, stages());
                  c.when(c.isLess(next, c.i32(steps())),
                         [&](const ThreadBuilder &d) { copyStep(d, next); });
                  commitCopies(c);
                  return sums;
                });
}

/// Block `number` of a step: each warp has blocks that follow each other.
Value LowBitGemv::blockOf(const ThreadBuilder &t, Value step, int64_t number) const {
  Value inWarp = t.add(t.mul(step, layout.blocks), number);
  return t.add(t.mul(warp, blocksOfWarp()), inWarp);
}

/// Whether the warp's block is one of its own and of the column.
static Value isOwn(const ThreadBuilder &t, Value block, Value warp, int64_t blocksOfWarp,
                   int64_t blocks) {
  Value end = t.min(t.mul(t.add(warp, 1), blocksOfWarp), t.i32(blocks));
  return t.isLess(block, end);
}

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

Values LowBitGemv::fetch(const ThreadBuilder &t, Value step) const {
  Values result;
  for (int64_t number = 0; number < layout.blocks; ++number) {
    Value block = t.min(blockOf(t, step, number), t.i32(p.layout.blocks() - 1));
    Value word = t.mul(block, p.layout.blockWords());
    for (Value column : columnPointers) {
      readBlock(t, t.offset(column, t.i32Type(), word), result);
    }
  }
  return result;
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

/// A lane's activations of a panel, paired as its numbers are.
Values LowBitGemv::activations(const ThreadBuilder &t, Value depth, int64_t rowGroup) const {
  // What is computed of the last row once more is not stored.
  Value row = t.min(t.add(group, rowGroup * kMmaColumns), t.sub(rowCount, t.i32(1)));
  Value from = t.offset(inputPointer, p.element,
                        t.add(t.mul(row, p.layout.depth), t.add(depth, t.mul(quad, kPart))));
  Value loaded = t.load(t.vectorType(4, t.i32Type()), from, 16);
  Values words;
  for (int64_t i = 0; i < 4; ++i) {
    words.push_back(t.extract(loaded, i));
  }
  if (p.layout.bits == 8) {
    return words;
  }
  Values paired;
  for (int64_t i = 0; i < 2; ++i) {
    Value low = words[i], high = words[i + 2];
    paired.push_back(bitOr(t, t.bitAnd(low, t.i32(0xFFFF)), shiftLeft(t, high, 16)));
    paired.push_back(bitOr(t, shiftRight(t, low, 16), t.bitAnd(high, t.i32(0xFFFF0000))));
  }
  return paired;
}

void LowBitGemv::addBlock(const ThreadBuilder &t, Value block, const Block &numbers,
                          MutableArrayRef<Value> accumulators) const {
  Value depth = t.mul(t.min(block, t.i32(p.layout.blocks() - 1)), p.layout.block);
  int64_t ofColumn = wordsOfPart();
  SmallVector<Values> left;
  for (int64_t i = 0; i < panelsOfBlock() * 2; ++i) {
    left.push_back(pairsOf(t, ArrayRef(numbers.words).slice(i * ofColumn, ofColumn)));
  }
  Value one = t.i32(p.element.isBF16() ? kOnesBFloat : kOnesHalf);
  Value own = isOwn(t, block, warp, blocksOfWarp(), p.layout.blocks());
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
      Value scale = t.select(own, numbers.scales[i / 2], t.f32(0));
      // What is not the warp's own may be infinite.
      sum = t.select(own, sum, t.f32(0));
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

/// [warp][row][column] in shared memory, then one element of the tile a thread.
void LowBitGemv::finish(ValueRange accumulators) {
  ThreadBuilder t = kernel.code();
  int64_t ofWarp = rowGroups() * kMmaColumns * sumPitch();
  Value base = t.offset(shared, t.f32Type(), t.add(t.mul(warp, ofWarp), group));
  for (auto [i, sum] : llvm::enumerate(accumulators)) {
    int64_t inGroup = int64_t(i) % kSums, rowGroup = int64_t(i) / kSums;
    Value row = t.add(t.mul(quad, 2), rowGroup * kMmaColumns + inGroup % 2);
    Value to = t.offset(base, t.f32Type(), t.mul(row, sumPitch()));
    t.store(sum, t.offset(to, t.f32Type(), inGroup / 2 * 8), 4);
  }
  t.barrier();
  int64_t columns = p.tileColumns();
  for (int64_t first = 0; first < rowGroups() * kMmaColumns * columns;
       first += layout.warps * kWarp) {
    Value index = t.add(thread, first);
    Value row = t.div(index, columns), tileColumn = t.rem(index, columns);
    Value column = t.add(firstColumn, tileColumn);
    Value isStored = t.bitAnd(t.isLess(row, rowCount), t.isLess(column, t.i32(p.partColumns())));
    emitter.when(isStored, [&] {
      ResultStrip strip;
      strip.parts = p.parts;
      strip.partColumns = p.partColumns();
      for (int64_t part = 0; part < p.parts; ++part) {
        Value total;
        for (int64_t i = 0; i < layout.warps; ++i) {
          Value from =
              t.add(t.add(t.mul(row, sumPitch()), tileColumn), i * ofWarp + part * columns);
          Value sum = t.load(t.f32Type(), t.offset(shared, t.f32Type(), from), 4);
          total = total ? t.addF(total, sum) : sum;
        }
        strip.accumulators.push_back(total);
      }
      IndexMath &math = kernel.math;
      Index rowIndex = math.fromWord(row), columnIndex = math.fromWord(column);
      strip.place = math.delinearize(rowIndex, kernel.sizes(p.rowDims));
      strip.place.push_back(columnIndex);
      strip.linear =
          math.add(math.multiply(rowIndex, Index::constant(p.partColumns())), columnIndex);
      storeThroughEpilogue(emitter, tensors, strip);
    });
  }
}

bool LowBitGemv::emit() {
  std::optional<GemmTensors> found = productTensors(kernel.region);
  if (!found) {
    return false;
  }
  tensors = *found;
  place();
  ThreadBuilder t = kernel.code();
  // Weights are there before any kernel runs: they are on their way while the predecessor still
  // works.
  if (isStaged()) {
    for (int64_t step = 0; step < stages(); ++step) {
      copyStep(t, t.i32(step));
      commitCopies(t);
    }
    kernel.waitHere();
    finish(addStaged(t, Values(rowGroups() * kSums, t.f32(0))));
  } else {
    finish(addFetched(t));
  }
  kernel.finish(getAffineConstantExpr(p.tiles(), kernel.builder.getContext()), sharedBytes());
  return !emitter.hasFailed();
}

/// The next step's words are loaded while those of this one are multiplied.
Values LowBitGemv::addFetched(const ThreadBuilder &t) {
  Values carried = fetch(t, t.i32(0));
  kernel.waitHere();
  size_t count = carried.size();
  carried.append(rowGroups() * kSums, t.f32(0));
  auto body = [&](const ThreadBuilder &c, Value step, ValueRange values) {
    Values next = fetch(c, c.add(step, 1));
    next.append(addStep(c, step, values.take_front(count), values.drop_front(count)));
    return next;
  };
  Values last = t.loop(t.i32(0), t.i32(steps() - 1), t.i32(1), carried, body);
  return addStep(t, t.i32(steps() - 1), ArrayRef<Value>(last).take_front(count),
                 ArrayRef<Value>(last).drop_front(count));
}

} // namespace

bool emitLowBitGemv(RegionBuilder &region, const LowBitProblem &problem,
                    const LowBitLayout &layout) {
  return LowBitGemv(region, problem, layout).emit();
}

} // namespace tenon::codegen::cuda
