// Builds the micro-kernels of low-bit weights: for each block a loop over its words. Where few rows
// multiply, a number becomes a float where it stands in its word, by a mask and a conversion: what
// it is shifted by was taken off the rows, and zero points off the sums of a block, which are
// scaled once. Relies on the backend keeping iter_args in registers.
#include "compiler/codegen/cpu/gemm/LowBitKernels.h"

#include "compiler/codegen/cpu/gemm/LowBitEmitter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

constexpr int64_t kWordBits = 32;
/// Words of a panel asked for ahead: a stream of one core that has to cross pages in time.
constexpr int64_t kFetchedWords = 24;

class LowBitBuilder : public LowBitEmitter {
public:
  using LowBitEmitter::LowBitEmitter;

  void buildDecode() {
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function =
        func::FuncOp::create(builder, loc, decodeSymbol(layout),
                             builder.getFunctionType({pointer, pointer, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    Value to = entry->getArgument(1);
    forEachBlock(entry->getArgument(0), entry->getArgument(2), entry->getArgument(3),
                 [&](Value block, Value first, Value count) {
                   Value target = offset(to, mul(first, constant(kPanel)));
                   for (int64_t column = 0; column < kPanel; column += lanes) {
                     decodeBlock(block, target, count, column);
                   }
                 });
    func::ReturnOp::create(builder, loc);
  }

  void buildDecodeWords() {
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function =
        func::FuncOp::create(builder, loc, decodeWordsSymbol(layout),
                             builder.getFunctionType({pointer, pointer, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    ValueRange arguments = entry->getArguments();
    forEachBlock(arguments[0], arguments[2], arguments[3],
                 [&](Value block, Value first, Value count) {
                   Value target = offset(arguments[1], mul(first, constant(kPanel / 2)));
                   for (int64_t column = 0; column < kPanel; column += lanes) {
                     decodeWords(block, target, count, column);
                   }
                 });
    func::ReturnOp::create(builder, loc);
  }

  void buildProduct(int64_t rowCount) {
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = func::FuncOp::create(
        builder, loc, productName(rowCount),
        builder.getFunctionType({pointer, i64, pointer, pointer, i64, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    rows = rowCount;
    vectors = vectorsOfPart();
    lda = entry->getArgument(1);
    c = entry->getArgument(3);
    ldc = entry->getArgument(4);
    Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(floats));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < kPanel; column += lanes) {
        LLVM::StoreOp::create(builder, loc, zero, cAddress(row, column), 4);
      }
    }
    Value a = entry->getArgument(0), depth = entry->getArgument(5), size = entry->getArgument(6);
    Value sums = offset(a, sumsOf(depth));
    forEachBlock(entry->getArgument(2), depth, size, [&](Value block, Value first, Value count) {
      Value sum = offset(sums, arith::DivUIOp::create(builder, loc, first, size));
      for (int64_t column = 0; column < kPanel; column += vectors * lanes) {
        multiplyBlock(offset(a, first), sum, block, count, column);
      }
    });
    func::ReturnOp::create(builder, loc);
  }

  /// The function of 1 to kLowBitRows rows.
  void buildAnyRows() {
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = func::FuncOp::create(
        builder, loc, lowBitSymbol(layout),
        builder.getFunctionType({pointer, i64, pointer, pointer, i64, i64, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    SmallVector<Value> arguments(entry->getArguments().drop_back());
    Value index = arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                             entry->getArguments().back());
    SmallVector<int64_t> cases = llvm::to_vector(llvm::seq<int64_t>(1, kLowBitRows + 1));
    scf::IndexSwitchOp chosen =
        scf::IndexSwitchOp::create(builder, loc, TypeRange(), index, cases, cases.size());
    for (auto [number, region] : llvm::zip(cases, chosen.getCaseRegions())) {
      OpBuilder::InsertionGuard inCase(builder);
      builder.createBlock(&region);
      func::CallOp::create(builder, loc, productName(number), TypeRange(), arguments);
      scf::YieldOp::create(builder, loc);
    }
    {
      OpBuilder::InsertionGuard inDefault(builder);
      builder.createBlock(&chosen.getDefaultRegion());
      scf::YieldOp::create(builder, loc);
    }
    func::ReturnOp::create(builder, loc);
  }

private:
  std::string productName(int64_t rowCount) const {
    return lowBitSymbol(layout) + "_" + std::to_string(rowCount);
  }

  /// Vectors of columns whose sums, words and numbers stay in registers.
  int64_t vectorsOfPart() const {
    constexpr int64_t kOthers = 3;
    bool isX86 = engine::rowOf(level).architecture == engine::Architecture::X86_64;
    int64_t registers = isX86 && lanes < 16 ? 16 : 32;
    int64_t count = kPanel / lanes;
    while (count > 1 && (rows + 1) * count + kOthers > registers) {
      count /= 2;
    }
    return count;
  }

  Value cAddress(int64_t row, int64_t column) {
    return offset(offset(c, mul(ldc, constant(row))), constant(column));
  }
  /// Word `word` of a block, from column `column` of the panel on.
  Value wordAddress(Value block, Value word, int64_t column) {
    return offset(block, add(mul(word, constant(kPanel)), constant(column)));
  }

  /// body(block, first, count): its words, and the range of its numbers in the depth.
  void forEachBlock(Value b, Value depth, Value block,
                    llvm::function_ref<void(Value, Value, Value)> body) {
    Value wordsOfBlock =
        add(arith::DivUIOp::create(builder, loc, block, constant(layout.elementsOfWord())),
            constant(layout.headerWords()));
    Value step = mul(wordsOfBlock, constant(kPanel));
    scf::ForOp::create(builder, loc, constant(0), depth, block, ValueRange{b},
                       [&](OpBuilder &, Location, Value first, ValueRange state) {
                         Value rest = arith::SubIOp::create(builder, loc, depth, first);
                         body(state[0], first, arith::MinSIOp::create(builder, loc, rest, block));
                         scf::YieldOp::create(builder, loc, offset(state[0], step));
                       });
  }

  Value word(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  }
  Value splat(Value scalar) { return vector::BroadcastOp::create(builder, loc, words, scalar); }
  Value shiftRight(Value value, Value bits) {
    return arith::ShRUIOp::create(builder, loc, value, splat(bits));
  }
  Value mask(Value value, Value bits) {
    return arith::AndIOp::create(builder, loc, value, splat(bits));
  }
  int64_t all() const { return (int64_t(1) << layout.bits) - 1; }
  Value real(Value integers) { return arith::SIToFPOp::create(builder, loc, floats, integers); }

  /// Number `index` of each word.
  Value number(Value read, Value index) {
    Value bits = arith::MulIOp::create(builder, loc, index, word(layout.bits));
    return real(mask(shiftRight(read, bits), word(all())));
  }
  /// The same times what it is shifted by, but the last, which would lie in the bit of the sign.
  Value shiftedNumber(Value read, Value index) {
    Value bits = arith::MulIOp::create(builder, loc, index, word(layout.bits));
    return real(mask(read, arith::ShLIOp::create(builder, loc, word(all()), bits)));
  }
  Value lastNumber(Value read) { return real(shiftRight(read, word(kWordBits - layout.bits))); }
  Value scaleOf(Value block, int64_t column) {
    return load(floats, wordAddress(block, constant(0), column));
  }
  Value zeroOf(Value block, int64_t column) {
    if (layout.hasZeroPoints) {
      return load(floats, wordAddress(block, constant(1), column));
    }
    return arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(floats, static_cast<float>(layout.commonZeroPoint())));
  }

  /// A loop over the whole words of `count` numbers, and one over those of a last word that is not
  /// full. body(word, first number in it, how many or 0 for all, state) gives the next state.
  SmallVector<Value>
  forEachWord(Value count, ValueRange state,
              llvm::function_ref<SmallVector<Value>(Value, Value, ValueRange)> whole,
              llvm::function_ref<SmallVector<Value>(Value, Value, Value, ValueRange)> single) {
    Value each = constant(layout.elementsOfWord());
    Value full = arith::DivUIOp::create(builder, loc, count, each);
    scf::ForOp loop =
        scf::ForOp::create(builder, loc, constant(0), full, constant(1), state,
                           [&](OpBuilder &, Location, Value word, ValueRange args) {
                             scf::YieldOp::create(builder, loc, whole(word, mul(word, each), args));
                           });
    Value begin = mul(full, each);
    scf::ForOp rest =
        scf::ForOp::create(builder, loc, begin, count, constant(1), loop.getResults(),
                           [&](OpBuilder &, Location, Value at, ValueRange args) {
                             Value index = arith::TruncIOp::create(
                                 builder, loc, i32, arith::SubIOp::create(builder, loc, at, begin));
                             scf::YieldOp::create(builder, loc, single(full, at, index, args));
                           });
    return SmallVector<Value>(rest.getResults());
  }

  void decodeBlock(Value block, Value to, Value count, int64_t column) {
    Value scale = scaleOf(block, column), zero = zeroOf(block, column);
    auto store = [&](Value read, Value index, Value at) {
      Value level = arith::SubFOp::create(builder, loc, number(read, index), zero);
      Value place = add(mul(at, constant(kPanel)), constant(column));
      LLVM::StoreOp::create(builder, loc, arith::MulFOp::create(builder, loc, level, scale),
                            offset(to, place), 4);
    };
    auto wordsAt = [&](Value index) {
      return load(words, wordAddress(block, add(index, constant(layout.headerWords())), column));
    };
    forEachWord(
        count, {},
        [&](Value at, Value first, ValueRange) {
          Value read = wordsAt(at);
          for (int64_t i = 0; i < layout.elementsOfWord(); ++i) {
            store(read, word(i), add(first, constant(i)));
          }
          return SmallVector<Value>();
        },
        [&](Value last, Value at, Value index, ValueRange) {
          store(wordsAt(last), index, at);
          return SmallVector<Value>();
        });
  }

  /// The numbers of each word by pairs.
  void decodeWords(Value block, Value to, Value count, int64_t column) {
    Value scale = scaleOf(block, column), zero = zeroOf(block, column);
    int64_t each = layout.elementsOfWord();
    auto bits = [&](Value read, int64_t index) -> Value {
      Value level = arith::SubFOp::create(builder, loc, number(read, word(index)), zero);
      Value wide = arith::MulFOp::create(builder, loc, level, scale);
      Value narrow = arith::TruncFOp::create(builder, loc,
                                             VectorType::get(lanes, builder.getBF16Type()), wide);
      Value halves = vector::BitCastOp::create(
          builder, loc, VectorType::get(lanes, builder.getI16Type()), narrow);
      return arith::ExtUIOp::create(builder, loc, words, halves);
    };
    Value number = arith::CeilDivUIOp::create(builder, loc, count, constant(each));
    forRange(constant(0), number, constant(1), {}, [&](Value at, ValueRange) {
      Value from = add(at, constant(layout.headerWords()));
      Value read = load(words, wordAddress(block, from, column));
      for (int64_t i = 0; i < each; i += 2) {
        Value upper = arith::ShLIOp::create(builder, loc, bits(read, i + 1), everyWord(16));
        Value both = arith::OrIOp::create(builder, loc, bits(read, i), upper);
        Value place = add(mul(at, constant(each / 2)), constant(i / 2));
        LLVM::StoreOp::create(builder, loc, both, wordAddress(to, place, column), 4);
      }
      return SmallVector<Value>();
    });
  }

  /// `a` is the block's first element of row 0, `sum` the sum of the block's elements of row 0.
  void multiplyBlock(Value a, Value sum, Value block, Value count, int64_t column) {
    Value nothing = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(floats));
    SmallVector<Value> sums(rows * vectors, nothing);
    auto wordsAt = [&](Value index) {
      SmallVector<Value> read;
      Value from = add(index, constant(layout.headerWords()));
      for (int64_t v = 0; v < vectors; ++v) {
        read.push_back(load(words, wordAddress(block, from, column + v * lanes)));
      }
      return read;
    };
    auto multiply = [&](ArrayRef<Value> numbers, Value at, ArrayRef<Value> state) {
      SmallVector<Value> next;
      for (int64_t row = 0; row < rows; ++row) {
        Value element = everyLane(offset(a, mul(lda, constant(row))), at);
        for (int64_t v = 0; v < vectors; ++v) {
          next.push_back(
              vector::FMAOp::create(builder, loc, element, numbers[v], state[row * vectors + v]));
        }
      }
      return next;
    };
    int64_t last = layout.elementsOfWord() - 1;
    sums = forEachWord(
        count, sums,
        [&](Value at, Value first, ValueRange args) {
          SmallVector<Value> read = wordsAt(at), state(args);
          fetchAhead(block, at, column);
          for (int64_t i = 0; i <= last; ++i) {
            SmallVector<Value> numbers = llvm::map_to_vector(read, [&](Value each) {
              return i == last ? lastNumber(each) : shiftedNumber(each, word(i));
            });
            state = multiply(numbers, add(first, constant(i)), state);
          }
          return state;
        },
        [&](Value lastWord, Value at, Value index, ValueRange args) {
          SmallVector<Value> numbers = llvm::map_to_vector(
              wordsAt(lastWord), [&](Value each) { return shiftedNumber(each, index); });
          return multiply(numbers, at, SmallVector<Value>(args));
        });
    for (int64_t row = 0; row < rows; ++row) {
      Value ofRow = everyLane(offset(sum, mul(lda, constant(row))), constant(0));
      Value negative = arith::NegFOp::create(builder, loc, ofRow);
      for (int64_t v = 0; v < vectors; ++v) {
        int64_t from = column + v * lanes;
        Value levels = vector::FMAOp::create(builder, loc, negative, zeroOf(block, from),
                                             sums[row * vectors + v]);
        Value address = cAddress(row, from);
        Value result = vector::FMAOp::create(builder, loc, levels, scaleOf(block, from),
                                             load(floats, address));
        LLVM::StoreOp::create(builder, loc, result, address, 4);
      }
    }
  }

  /// The lines of a word further on, which may lie behind the panel, as a prefetch may.
  void fetchAhead(Value block, Value word, int64_t column) {
    constexpr int64_t kLine = 16;
    if (column != 0) {
      return;
    }
    Value ahead = add(word, constant(kFetchedWords));
    for (int64_t line = 0; line < kPanel; line += kLine) {
      LLVM::Prefetch::create(builder, loc, wordAddress(block, ahead, line), /*rw=*/0, /*hint=*/3,
                             /*cache=*/1);
    }
  }

  int64_t rows = 0, vectors = 0;
  Value lda, c, ldc;
};

} // namespace

void buildDecode(ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout) {
  LowBitBuilder(module, level, layout).buildDecode();
}

void buildDecodeWords(ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout) {
  LowBitBuilder(module, level, layout).buildDecodeWords();
}

void buildLowBitProduct(ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout) {
  LowBitBuilder builder(module, level, layout);
  for (int64_t rows = 1; rows <= kLowBitRows; ++rows) {
    builder.buildProduct(rows);
  }
  builder.buildAnyRows();
}

} // namespace tenon::codegen::cpu
