// Builds the micro-kernels of low-bit weights: for each block a loop over its words, in which a
// number of each column becomes a float by two shifts and a conversion. Sums of a block are scaled
// once. Relies on the backend keeping iter_args in registers.
#include "compiler/codegen/cpu/gemm/LowBitKernels.h"

#include "compiler/codegen/cpu/gemm/MicroKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

constexpr int64_t kWordBits = 32;
/// Words of a panel asked for ahead: a stream of one core that has to cross pages in time.
constexpr int64_t kFetchedWords = 24;

std::string symbolOf(StringRef verb, const tn::BlockRows &layout) {
  return llvm::formatv("tenon_product_{0}_s{1}{2}", verb, layout.bits,
                       layout.hasZeroPoints ? "_zero" : "");
}

class LowBitBuilder {
public:
  LowBitBuilder(ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout)
      : builder(module.getBodyRegion()), loc(builder.getUnknownLoc()), level(level), layout(layout),
        pointer(LLVM::LLVMPointerType::get(builder.getContext())), i32(builder.getI32Type()),
        f32(builder.getF32Type()), lanes(floatLanes(level)), words(VectorType::get(lanes, i32)),
        floats(VectorType::get(lanes, f32)) {}

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
    Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(floats));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < kPanel; column += lanes) {
        LLVM::StoreOp::create(builder, loc, zero, cAddress(row, column), 4);
      }
    }
    Value a = entry->getArgument(0);
    forEachBlock(entry->getArgument(2), entry->getArgument(5), entry->getArgument(6),
                 [&](Value block, Value first, Value count) {
                   for (int64_t column = 0; column < kPanel; column += vectors * lanes) {
                     multiplyBlock(offset(a, first), block, count, column);
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

  Value constant(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  }
  Value mul(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  /// `elements` of 32 bits behind a pointer.
  Value offset(Value base, Value elements) {
    return LLVM::GEPOp::create(builder, loc, pointer, i32, base, ArrayRef<LLVM::GEPArg>{elements});
  }
  Value load(Type type, Value address) {
    return LLVM::LoadOp::create(builder, loc, type, address, /*alignment=*/4);
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

  Value splat(Value scalar) { return vector::BroadcastOp::create(builder, loc, words, scalar); }

  /// Number `index` of each word as a float, less its zero point.
  Value numbers(Value wordsRead, Value index, Value zero) {
    Value bits = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(layout.bits));
    Value spare =
        arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(kWordBits - layout.bits));
    Value above = arith::SubIOp::create(builder, loc, spare, mul(index, bits));
    Value high = arith::ShLIOp::create(builder, loc, wordsRead, splat(above));
    Value number = arith::ShRSIOp::create(builder, loc, high, splat(spare));
    Value real = arith::SIToFPOp::create(builder, loc, floats, number);
    return zero ? Value(arith::SubFOp::create(builder, loc, real, zero)) : real;
  }
  Value numberIndex(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  }

  Value scaleOf(Value block, int64_t column) {
    return load(floats, wordAddress(block, constant(0), column));
  }
  Value zeroOf(Value block, int64_t column) {
    return layout.hasZeroPoints ? load(floats, wordAddress(block, constant(1), column)) : Value();
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
    auto store = [&](Value wordsRead, Value index, Value at) {
      Value number = arith::MulFOp::create(builder, loc, numbers(wordsRead, index, zero), scale);
      Value place = add(mul(at, constant(kPanel)), constant(column));
      LLVM::StoreOp::create(builder, loc, number, offset(to, place), 4);
    };
    auto wordsAt = [&](Value word) {
      return load(words, wordAddress(block, add(word, constant(layout.headerWords())), column));
    };
    forEachWord(
        count, {},
        [&](Value word, Value first, ValueRange) {
          Value wordsRead = wordsAt(word);
          for (int64_t i = 0; i < layout.elementsOfWord(); ++i) {
            store(wordsRead, numberIndex(i), add(first, constant(i)));
          }
          return SmallVector<Value>();
        },
        [&](Value word, Value at, Value index, ValueRange) {
          store(wordsAt(word), index, at);
          return SmallVector<Value>();
        });
  }

  void multiplyBlock(Value a, Value block, Value count, int64_t column) {
    SmallVector<Value> zeros, sums(rows * vectors);
    for (int64_t v = 0; v < vectors; ++v) {
      zeros.push_back(zeroOf(block, column + v * lanes));
    }
    Value nothing = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(floats));
    llvm::fill(sums, nothing);
    auto wordsAt = [&](Value word) {
      SmallVector<Value> read;
      Value from = add(word, constant(layout.headerWords()));
      for (int64_t v = 0; v < vectors; ++v) {
        read.push_back(load(words, wordAddress(block, from, column + v * lanes)));
      }
      return read;
    };
    auto multiply = [&](ArrayRef<Value> read, Value index, Value at, ArrayRef<Value> state) {
      SmallVector<Value> factors, next;
      for (int64_t v = 0; v < vectors; ++v) {
        factors.push_back(numbers(read[v], index, zeros[v]));
      }
      for (int64_t row = 0; row < rows; ++row) {
        Value address = offset(offset(a, mul(lda, constant(row))), at);
        Value element = vector::BroadcastOp::create(builder, loc, floats, load(f32, address));
        for (int64_t v = 0; v < vectors; ++v) {
          next.push_back(
              vector::FMAOp::create(builder, loc, element, factors[v], state[row * vectors + v]));
        }
      }
      return next;
    };
    sums = forEachWord(
        count, sums,
        [&](Value word, Value first, ValueRange args) {
          SmallVector<Value> read = wordsAt(word), state(args);
          fetchAhead(block, word, column);
          for (int64_t i = 0; i < layout.elementsOfWord(); ++i) {
            state = multiply(read, numberIndex(i), add(first, constant(i)), state);
          }
          return state;
        },
        [&](Value word, Value at, Value index, ValueRange args) {
          return multiply(wordsAt(word), index, at, SmallVector<Value>(args));
        });
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t v = 0; v < vectors; ++v) {
        Value address = cAddress(row, column + v * lanes);
        Value sum =
            vector::FMAOp::create(builder, loc, sums[row * vectors + v],
                                  scaleOf(block, column + v * lanes), load(floats, address));
        LLVM::StoreOp::create(builder, loc, sum, address, 4);
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

  OpBuilder builder;
  Location loc;
  engine::CpuLevel level;
  tn::BlockRows layout;
  Type pointer, i32, f32;
  int64_t lanes;
  VectorType words, floats;
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

std::vector<std::string> lowBitSymbols() {
  std::vector<std::string> names;
  for (const tn::BlockRows &kind : kinds()) {
    names.push_back(decodeSymbol(kind));
    names.push_back(lowBitSymbol(kind));
  }
  return names;
}

void buildLowBitKernel(ModuleOp module, engine::CpuLevel level, StringRef name) {
  for (const tn::BlockRows &kind : kinds()) {
    LowBitBuilder builder(module, level, kind);
    if (name == decodeSymbol(kind)) {
      builder.buildDecode();
    } else if (name == lowBitSymbol(kind)) {
      for (int64_t rows = 1; rows <= kLowBitRows; ++rows) {
        builder.buildProduct(rows);
      }
      builder.buildAnyRows();
    }
  }
}

} // namespace tenon::codegen::cpu
