// Builds the micro-kernel that multiplies rounded rows by weights of 4 or 8 bits as integers: for
// each block a sum of i32 in registers, which its two scales take into the sum of floats. A row's
// sums go block by block however many rows there are, so that it does not depend on them. Relies on
// the backend keeping iter_args in registers.
#include "compiler/codegen/cpu/gemm/DotStep.h"
#include "compiler/codegen/cpu/gemm/LowBitEmitter.h"
#include "compiler/codegen/cpu/gemm/TileProduct.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Words of a block in one iteration: a block of 32 numbers of 4 bits.
constexpr int64_t kUnrolled = 4;
/// Rows at a time.
constexpr int64_t kRows = 6;
/// Words of a panel asked for ahead, as of the kernels of floats.
constexpr int64_t kAhead = 24;

class IntegerBuilder : public LowBitEmitter {
public:
  IntegerBuilder(ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout)
      : LowBitEmitter(module, level, layout), dot(builder, loc, level, ProductType::U8S8) {}

  /// The function of a number of rows.
  void buildRows(int64_t rowCount) {
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = func::FuncOp::create(
        builder, loc, nameOf(rowCount),
        builder.getFunctionType({pointer, i64, pointer, pointer, i64, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    ValueRange arguments = entry->getArguments();
    rows = rowCount;
    vectors = vectorsOfPart();
    lda = arguments[1];
    Value nothing = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(floats));
    for (int64_t column = 0; column < kPanel; column += vectors * lanes) {
      SmallVector<Value> sums(rows * vectors, nothing);
      sums = sumBlocks(arguments[0], offset(arguments[2], constant(column)), arguments[5],
                       arguments[6], sums, /*fetches=*/column == 0);
      for (int64_t i = 0; i < rows * vectors; ++i) {
        Value row = offset(arguments[3], mul(arguments[4], constant(i / vectors)));
        LLVM::StoreOp::create(builder, loc, sums[i],
                              offset(row, constant(column + i % vectors * lanes)), 4);
      }
    }
    func::ReturnOp::create(builder, loc);
  }

  /// The function of any number of rows, kRows at a time.
  void buildAnyRows(StringRef name) {
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = func::FuncOp::create(
        builder, loc, name,
        builder.getFunctionType({pointer, i64, pointer, pointer, i64, i64, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    ValueRange arguments = entry->getArguments();
    scf::ForOp::create(builder, loc, constant(0), arguments[7], constant(kRows), ValueRange(),
                       [&](OpBuilder &, Location, Value first, ValueRange) {
                         Value rest = arith::SubIOp::create(builder, loc, arguments[7], first);
                         Value count = arith::MinSIOp::create(builder, loc, rest, constant(kRows));
                         SmallVector<Value> operands(arguments.drop_back());
                         operands[0] = offset(operands[0], mul(first, arguments[1]));
                         operands[3] = offset(operands[3], mul(first, arguments[4]));
                         callRows(count, operands);
                         scf::YieldOp::create(builder, loc);
                       });
    func::ReturnOp::create(builder, loc);
  }

private:
  std::string nameOf(int64_t rowCount) const {
    return integerSymbol(layout) + "_" + std::to_string(rowCount);
  }

  void callRows(Value count, ArrayRef<Value> operands) {
    Value index = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), count);
    SmallVector<int64_t> cases = llvm::to_vector(llvm::seq<int64_t>(1, kRows + 1));
    scf::IndexSwitchOp chosen =
        scf::IndexSwitchOp::create(builder, loc, TypeRange(), index, cases, cases.size());
    OpBuilder::InsertionGuard guard(builder);
    for (auto [number, region] : llvm::zip(cases, chosen.getCaseRegions())) {
      builder.createBlock(&region);
      func::CallOp::create(builder, loc, nameOf(number), TypeRange(), operands);
      scf::YieldOp::create(builder, loc);
    }
    builder.createBlock(&chosen.getDefaultRegion());
    scf::YieldOp::create(builder, loc);
  }

  /// Vectors of columns whose sums, of floats and of integers, and words stay in registers.
  int64_t vectorsOfPart() const {
    constexpr int64_t kOthers = 3;
    int64_t registers = lanes < 16 ? 16 : 32, count = kPanel / lanes;
    while (count > 1 && (2 * rows + 2) * count + kOthers > registers) {
      count /= 2;
    }
    return count;
  }

  Value wordOfRow(Value a, int64_t row, Value at) {
    Value address = offset(offset(a, mul(lda, constant(row))), at);
    return vector::BroadcastOp::create(builder, loc, words, load(i32, address));
  }
  Value panelWord(Value b, Value word, int64_t vector) {
    return offset(b, add(mul(word, constant(kPanel)), constant(vector * lanes)));
  }

  /// Over the blocks of the depth.
  SmallVector<Value> sumBlocks(Value a, Value b, Value depth, Value size, ArrayRef<Value> sums,
                               bool fetches) {
    Value each = constant(layout.elementsOfWord());
    Value wordsOfB =
        add(arith::DivUIOp::create(builder, loc, size, each), constant(layout.headerWords()));
    Value wordsOfA = add(arith::DivUIOp::create(builder, loc, size, constant(4)),
                         constant(RoundedRows::kHeader));
    SmallVector<Value> state = {a, b};
    llvm::append_range(state, sums);
    scf::ForOp loop = scf::ForOp::create(
        builder, loc, constant(0), depth, size, state,
        [&](OpBuilder &, Location, Value first, ValueRange args) {
          Value rest = arith::SubIOp::create(builder, loc, depth, first);
          Value count = arith::MinSIOp::create(builder, loc, rest, size);
          Value number = arith::CeilDivUIOp::create(builder, loc, count, each);
          SmallVector<Value> next = {offset(args[0], wordsOfA),
                                     offset(args[1], mul(wordsOfB, constant(kPanel)))};
          SmallVector<Value> integers = multiplyBlock(args[0], args[1], number, fetches);
          llvm::append_range(next, scaleBlock(args[0], args[1], integers, args.drop_front(2)));
          scf::YieldOp::create(builder, loc, next);
        });
    return SmallVector<Value>(loop.getResults().drop_front(2));
  }

  /// The sums of integers over `count` words of a block.
  SmallVector<Value> multiplyBlock(Value a, Value b, Value count, bool fetches) {
    SmallVector<Value> sums;
    for (int64_t row = 0; row < rows; ++row) {
      Value first = layout.hasZeroPoints ? everyWord(0) : wordOfRow(a, row, constant(1));
      sums.append(vectors, first);
    }
    Value rest = arith::RemUIOp::create(builder, loc, count, constant(kUnrolled));
    Value whole = arith::SubIOp::create(builder, loc, count, rest);
    auto loop = [&](Value from, Value to, int64_t step, ValueRange state) {
      return scf::ForOp::create(builder, loc, from, to, constant(step), state,
                                [&](OpBuilder &, Location, Value word, ValueRange args) {
                                  SmallVector<Value> next(args);
                                  for (int64_t i = 0; i < step; ++i) {
                                    multiplyWord(a, b, add(word, constant(i)), next, fetches);
                                  }
                                  scf::YieldOp::create(builder, loc, next);
                                })
          .getResults();
    };
    return SmallVector<Value>(loop(whole, count, 1, loop(constant(0), whole, kUnrolled, sums)));
  }

  void multiplyWord(Value a, Value b, Value word, SmallVector<Value> &sums, bool fetches) {
    Value inPanel = add(word, constant(layout.headerWords()));
    if (fetches) {
      fetchAhead(b, inPanel);
    }
    // The even and the odd numbers of 4 bits, or all of 8 bits.
    int64_t parts = layout.bits == 4 ? 2 : 1;
    SmallVector<SmallVector<DotStep::Factor>> numbers(parts);
    for (int64_t vector = 0; vector < vectors; ++vector) {
      Value read = load(words, panelWord(b, inPanel, vector));
      if (parts == 1) {
        numbers[0].push_back(dot.ofA(read));
        continue;
      }
      for (int32_t part = 0; part < parts; ++part) {
        numbers[part].push_back(dot.ofA(bytesOf(read, part)));
      }
    }
    Value first = add(mul(word, constant(parts)), constant(RoundedRows::kHeader));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t part = 0; part < parts; ++part) {
        DotStep::Factor element = dot.ofB(wordOfRow(a, row, add(first, constant(part))));
        for (int64_t vector = 0; vector < vectors; ++vector) {
          Value &sum = sums[row * vectors + vector];
          sum = dot.multiplyAdd(numbers[part][vector], element, sum);
        }
      }
    }
  }

  /// The sums of floats with those of a block.
  SmallVector<Value> scaleBlock(Value a, Value b, ArrayRef<Value> integers, ValueRange sums) {
    SmallVector<Header> headers;
    for (int64_t vector = 0; vector < vectors; ++vector) {
      headers.push_back(headerOf(offset(b, constant(vector * lanes))));
    }
    SmallVector<Value> next;
    for (int64_t i = 0; i < rows * vectors; ++i) {
      Value row = offset(a, mul(lda, constant(i / vectors)));
      next.push_back(addScaled(integers[i], row, headers[i % vectors], sums[i]));
    }
    return next;
  }

  /// The lines of a word further on, which may lie behind the panel, as a prefetch may.
  void fetchAhead(Value b, Value word) {
    constexpr int64_t kLine = 16;
    Value ahead = add(word, constant(kAhead));
    for (int64_t line = 0; line < kPanel; line += kLine) {
      Value address = offset(b, add(mul(ahead, constant(kPanel)), constant(line)));
      LLVM::Prefetch::create(builder, loc, address, /*rw=*/0, /*hint=*/3, /*cache=*/1);
    }
  }

  DotStep dot;
  int64_t rows = 0, vectors = 0;
  Value lda;
};

} // namespace

void buildIntegerProduct(ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout) {
  IntegerBuilder builder(module, level, layout);
  for (int64_t rows = 1; rows <= kRows; ++rows) {
    builder.buildRows(rows);
  }
  std::string name = integerSymbol(layout);
  if (!multipliesOnTiles(level, ProductType::U8S8)) {
    builder.buildAnyRows(name);
    return;
  }
  std::string fewRows = name + "_few";
  builder.buildAnyRows(fewRows);
  buildRoundedTiles(module, level, layout, fewRows);
}

} // namespace tenon::codegen::cpu
