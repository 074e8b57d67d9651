// Builds the micro-kernels of low-bit weights: for each block a loop over its words. Where few rows
// multiply, a number becomes a weight in registers, and meets the rows in the order in which the
// product kernel of f32 would add it up: a row has the same bits beside few and beside many. Relies
// on the backend keeping iter_args in registers.
//
// One file: both kernels take weights out of words by the same instructions, so that they are
// equal.
#include "compiler/codegen/cpu/gemm/LowBitKernels.h"

#include "compiler/codegen/cpu/gemm/LowBitEmitter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Words of a panel asked for ahead: a stream of one core that has to cross pages in time.
constexpr int64_t kFetchedWords = 24;

std::string symbolOf(StringRef verb, const tn::BlockRows &layout) {
  return llvm::formatv("tenon_product_{0}_u{1}{2}", verb, layout.bits,
                       layout.hasZeroPoints ? "_zero" : "");
}

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
    forEachChain(entry->getArgument(2), entry->getArgument(5), entry->getArgument(6),
                 [&](const Chain &chain) {
                   Value a = offset(entry->getArgument(0), chain.first);
                   for (int64_t column = 0; column < kPanel; column += vectors * lanes) {
                     multiplyChain(a, chain, column);
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
    // Besides the sums: words, scales and scaled zero points of a vector of columns, and others.
    constexpr int64_t kOfVector = 3, kOthers = 3;
    bool isX86 = engine::rowOf(level).architecture == engine::Architecture::X86_64;
    int64_t registers = isX86 && lanes < 16 ? 16 : 32;
    int64_t count = kPanel / lanes;
    while (count > 1 && (rows + kOfVector) * count + kOthers > registers) {
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

  /// Numbers of the depth that are added up before the result gets their sum.
  struct Chain {
    Value first, count;
    Value block;        ///< in which it begins
    Value firstWord;    ///< of that block's numbers
    Value unit;         ///< numbers of one block in a chain
    Value wordsOfBlock; ///< to the next block in it; 0 where one block has all of the chain
  };

  /// The chains of kLowBitChain numbers, or of as many as whole blocks have, in their order.
  void forEachChain(Value b, Value depth, Value block,
                    llvm::function_ref<void(const Chain &)> body) {
    Value longest = constant(kLowBitChain), zero = constant(0);
    Value isShort = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ule, block, longest);
    Value blocks = arith::SelectOp::create(
        builder, loc, isShort, arith::DivUIOp::create(builder, loc, longest, block), constant(1));
    Value part = mul(blocks, block);
    Value wordsOfBlock =
        mul(add(arith::DivUIOp::create(builder, loc, block, constant(layout.elementsOfWord())),
                constant(layout.headerWords())),
            constant(kPanel));
    Value unit = arith::MinUIOp::create(builder, loc, block, longest);
    Value step = arith::SelectOp::create(builder, loc, isShort, wordsOfBlock, zero);
    Value stepOfPart = mul(wordsOfBlock, blocks);
    scf::ForOp::create(builder, loc, zero, depth, part, ValueRange{b},
                       [&](OpBuilder &, Location, Value first, ValueRange state) {
                         Value end = arith::MinUIOp::create(builder, loc, depth, add(first, part));
                         scf::ForOp::create(
                             builder, loc, first, end, longest, ValueRange(),
                             [&](OpBuilder &, Location, Value at, ValueRange) {
                               Value rest = arith::SubIOp::create(builder, loc, end, at);
                               Value count = arith::MinUIOp::create(builder, loc, rest, longest);
                               Value word = arith::DivUIOp::create(
                                   builder, loc, arith::SubIOp::create(builder, loc, at, first),
                                   constant(layout.elementsOfWord()));
                               body({at, count, state[0], word, unit, step});
                               scf::YieldOp::create(builder, loc);
                             });
                         scf::YieldOp::create(builder, loc, offset(state[0], stepOfPart));
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
  /// The same of a constant index.
  Value number(Value read, int64_t index) {
    Value shifted = index == 0 ? read : shiftRight(read, word(index * layout.bits));
    return real(isLast(index) ? shifted : mask(shifted, word(all())));
  }
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

  /// Whether numbers stay where they stand in their words, times what they are shifted by, which is
  /// a power of two and taken off the scales: fewer instructions a number, and more a block.
  bool shiftsScales() const { return rows <= 2; }
  bool isLast(int64_t index) const { return index == layout.elementsOfWord() - 1; }
  /// The last number would lie in the bit of the sign, and is shifted.
  Value numberInPlace(Value read, int64_t index) {
    return isLast(index) ? number(read, index)
                         : real(mask(read, word(all() << (index * layout.bits))));
  }

  /// What a number stands for is number * scale + offset, rounded once.
  struct Weights {
    Value scale, offset;
  };
  Weights weightsOf(Value block, int64_t column) {
    Value scale = scaleOf(block, column);
    Value shift = arith::MulFOp::create(builder, loc, zeroOf(block, column), scale);
    return {scale, arith::NegFOp::create(builder, loc, shift)};
  }
  /// The same for each number of a word where it stands.
  SmallVector<Weights> weightsInPlace(const Weights &by) {
    SmallVector<Weights> all;
    for (int64_t i = 0; shiftsScales() && i < layout.elementsOfWord(); ++i) {
      float factor = std::ldexp(1.0F, static_cast<int>(-i * layout.bits));
      Value factors =
          arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(floats, factor));
      bool isOwn = i == 0 || isLast(i);
      all.push_back(
          {isOwn ? by.scale : arith::MulFOp::create(builder, loc, by.scale, factors), by.offset});
    }
    return all;
  }
  Value weight(Value number, const Weights &by) {
    return vector::FMAOp::create(builder, loc, number, by.scale, by.offset);
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
    Weights by = weightsOf(block, column);
    auto store = [&](Value read, Value index, Value at) {
      Value place = add(mul(at, constant(kPanel)), constant(column));
      LLVM::StoreOp::create(builder, loc, weight(number(read, index), by), offset(to, place), 4);
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

  /// The sums of a chain, in registers; `a` is its first element of row 0.
  void multiplyChain(Value a, const Chain &chain, int64_t column) {
    Value nothing = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(floats));
    SmallVector<Value> state(rows * vectors, nothing);
    state.push_back(chain.block);
    scf::ForOp loop =
        scf::ForOp::create(builder, loc, constant(0), chain.count, chain.unit, state,
                           [&](OpBuilder &, Location, Value first, ValueRange args) {
                             Value rest = arith::SubIOp::create(builder, loc, chain.count, first);
                             Value count = arith::MinUIOp::create(builder, loc, rest, chain.unit);
                             SmallVector<Value> next =
                                 multiplyBlock(offset(a, first), args.back(), chain.firstWord,
                                               count, args.drop_back(), column);
                             next.push_back(offset(args.back(), chain.wordsOfBlock));
                             scf::YieldOp::create(builder, loc, next);
                           });
    Value isFirst =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, chain.first, constant(0));
    scf::IfOp::create(
        builder, loc, isFirst,
        [&](OpBuilder &, Location) {
          storeSums(loop.getResults(), column, /*accumulates=*/false);
          scf::YieldOp::create(builder, loc);
        },
        [&](OpBuilder &, Location) {
          storeSums(loop.getResults(), column, /*accumulates=*/true);
          scf::YieldOp::create(builder, loc);
        });
  }

  void storeSums(ValueRange sums, int64_t column, bool accumulates) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t v = 0; v < vectors; ++v) {
        Value address = cAddress(row, column + v * lanes), sum = sums[row * vectors + v];
        sum = accumulates ? arith::AddFOp::create(builder, loc, load(floats, address), sum) : sum;
        LLVM::StoreOp::create(builder, loc, sum, address, 4);
      }
    }
  }

  /// `count` numbers of a block from a word on; `a` is the first's element of row 0.
  SmallVector<Value> multiplyBlock(Value a, Value block, Value firstWord, Value count,
                                   ValueRange sums, int64_t column) {
    SmallVector<Weights> by;
    for (int64_t v = 0; v < vectors; ++v) {
      by.push_back(weightsOf(block, column + v * lanes));
    }
    auto wordsAt = [&](Value index) {
      SmallVector<Value> read;
      for (int64_t v = 0; v < vectors; ++v) {
        read.push_back(load(words, wordAddress(block, index, column + v * lanes)));
      }
      return read;
    };
    auto multiply = [&](ArrayRef<Value> weights, Value at, ArrayRef<Value> state) {
      SmallVector<Value> next;
      for (int64_t row = 0; row < rows; ++row) {
        Value element = everyLane(offset(a, mul(lda, constant(row))), at);
        for (int64_t v = 0; v < vectors; ++v) {
          next.push_back(
              vector::FMAOp::create(builder, loc, element, weights[v], state[row * vectors + v]));
        }
      }
      return next;
    };
    SmallVector<SmallVector<Weights>> inPlace;
    for (const Weights &each : by) {
      inPlace.push_back(weightsInPlace(each));
    }
    Value begin = add(firstWord, constant(layout.headerWords()));
    return forEachWord(
        count, sums,
        [&](Value at, Value first, ValueRange args) {
          Value index = add(begin, at);
          SmallVector<Value> read = wordsAt(index), state(args);
          fetchAhead(block, index, column);
          for (int64_t i = 0; i < layout.elementsOfWord(); ++i) {
            SmallVector<Value> weights;
            for (int64_t v = 0; v < vectors; ++v) {
              weights.push_back(shiftsScales() ? weight(numberInPlace(read[v], i), inPlace[v][i])
                                               : weight(number(read[v], i), by[v]));
            }
            state = multiply(weights, add(first, constant(i)), state);
          }
          return state;
        },
        [&](Value lastWord, Value at, Value index, ValueRange args) {
          SmallVector<Value> read = wordsAt(add(begin, lastWord)), weights;
          for (int64_t v = 0; v < vectors; ++v) {
            weights.push_back(weight(number(read[v], index), by[v]));
          }
          return multiply(weights, at, SmallVector<Value>(args));
        });
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

/// All kinds of panels that differ in code.
std::vector<tn::BlockRows> kinds() {
  std::vector<tn::BlockRows> all;
  for (int64_t bits : {4, 8}) {
    for (bool hasZeroPoints : {false, true}) {
      all.push_back({.bits = bits, .hasZeroPoints = hasZeroPoints});
    }
  }
  return all;
}

} // namespace

std::string decodeSymbol(const tn::BlockRows &layout) { return symbolOf("decode", layout); }

std::string lowBitSymbol(const tn::BlockRows &layout) { return symbolOf("low_bits", layout); }

std::string roundSymbol(const tn::BlockRows &layout) { return symbolOf("round_rows", layout); }

std::string integerSymbol(const tn::BlockRows &layout) { return symbolOf("rounded", layout); }

std::vector<std::string> lowBitSymbols() {
  std::vector<std::string> names;
  for (const tn::BlockRows &kind : kinds()) {
    names.push_back(decodeSymbol(kind));
    names.push_back(lowBitSymbol(kind));
    names.push_back(roundSymbol(kind));
    names.push_back(integerSymbol(kind));
  }
  return names;
}

OwningOpRef<ModuleOp> buildProductKernels(MLIRContext *context, engine::CpuLevel level,
                                          StringRef name) {
  for (const tn::BlockRows &kind : kinds()) {
    const std::string own[] = {decodeSymbol(kind), lowBitSymbol(kind), roundSymbol(kind),
                               integerSymbol(kind)};
    if (!llvm::is_contained(own, name)) {
      continue;
    }
    context->loadDialect<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect, scf::SCFDialect,
                         vector::VectorDialect>();
    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
    LowBitBuilder builder(*module, level, kind);
    if (name == decodeSymbol(kind)) {
      builder.buildDecode();
    } else if (name == roundSymbol(kind)) {
      buildRoundRows(*module, level, kind);
    } else if (name == integerSymbol(kind)) {
      buildIntegerProduct(*module, level, kind);
    } else {
      for (int64_t rows = 1; rows <= kLowBitRows; ++rows) {
        builder.buildProduct(rows);
      }
      builder.buildAnyRows();
    }
    return module;
  }
  return buildGemmKernels(context, level, name);
}

} // namespace tenon::codegen::cpu
